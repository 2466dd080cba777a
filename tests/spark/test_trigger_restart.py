"""1,000 firings of a user's trigger with state across SIGKILLs: none is lost, and none is in the sink twice.

The query runs in a process group of its own, which kills itself before, between or after the writes of micro-batches.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow

FILES, KEYS, EACH, NTH = 10, 240, 2, 4
START = 1_700_006_400


def records_of(number):
    """The keys of a file: each key has two records, every fifth key a third one."""
    return [key for key in range(KEYS) for _ in range(EACH + (key % 5 == 0))]


def expected():
    """By micro-batch the keys that fire, with the records that they hold then."""
    held, seen = Counter(), Counter()
    for number in range(FILES):
        came = Counter(records_of(number))
        held += came
        seen += came
        yield number, {key: held[key] for key, n in seen.items() if n >= NTH}
        seen = Counter({key: n % NTH for key, n in seen.items()})


def main(root, when):
    """Run the query until all files are done; kill this process `when` it has done so much of its micro-batches."""
    from conftest import _start
    from own_triggers import EveryNth

    import combinators as C
    from slicing import group_by, tumbling

    (root / "session" / "tmp").mkdir(parents=True, exist_ok=True)
    spark = _start(root / "session")
    steps = 0

    def step():
        nonlocal steps
        steps += 1
        if steps == when:
            os.killpg(0, signal.SIGKILL)

    def sink(batch, number):
        step()
        rows = [row.asDict() for row in batch.select("key", "records", "emission").collect()]
        place = root / "sink" / f"{number:04d}.json"
        place.with_suffix(".new").write_text(json.dumps(rows))
        step()
        place.with_suffix(".new").rename(place)
        step()

    (root / "sink").mkdir(exist_ok=True)
    stream = spark.readStream.schema("key bigint, ts timestamp").option("maxFilesPerTrigger", 1)
    stream = stream.parquet(str(root / "files")).withWatermark("ts", "1 hour")
    windows = group_by(stream, "key").window(tumbling("1 hour"), time="ts").emit(EveryNth(NTH))
    writer = windows.aggregate(records=C.count()).writeStream.foreachBatch(sink)
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def test_a_thousand_firings_are_in_the_sink_once_each(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for number in range(FILES):
        keys = records_of(number)
        times = pa.array([START * 1_000_000] * len(keys), pa.timestamp("us", "UTC"))
        place = files / f"f{number:04d}.parquet"
        pq.write_table(pa.table({"key": pa.array(keys, pa.int64()), "ts": times}), place)
        os.utime(place, (1e9 + number, 1e9 + number))
    from rooms import python_path

    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment |= {"PYTHONPATH": python_path(), "TZ": "UTC"}
    codes = []
    for when in (5, 6, 7, 0):  # in the second and the third micro-batch of each process, before, in and after a write
        command = [sys.executable, __file__, str(tmp_path), str(when)]
        codes.append(subprocess.run(command, env=environment, start_new_session=True, timeout=300).returncode)
    assert codes == [-signal.SIGKILL] * 3 + [0]
    found = {int(place.stem): json.loads(place.read_text()) for place in (tmp_path / "sink").glob("*.json")}
    fired = 0
    for number, wanted in expected():
        rows = found.pop(number, [])
        assert len(rows) == len(wanted)
        assert {row["key"]: row["records"] for row in rows} == wanted
        assert {row["emission"] for row in rows} <= {"early"}
        fired += len(rows)
    assert fired > 1000
    assert not any(found.values())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
