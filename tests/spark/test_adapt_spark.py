"""Queries that change on real checkpoints, also where the first micro-batch after the change is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from rooms import python_path
from streams import SECOND, START, record, run, source, table, write

import combinators as C
from slicing import group_by, hopping, tumbling

HALF, MINUTE = hopping("30 seconds", "10 seconds"), tumbling("1 minute")
RECORDS = [record(i % 3, START + i * SECOND, n=i) for i in range(200)]
"""One a second; the file of the first 60 is there before the change."""


def old(spark, files):
    """The query that wrote the checkpoint."""
    return group_by(source(spark, files), "world").window(HALF, time="ts").define(n=C.count())


def new(spark, files, adapt="allow"):
    """More windows and a further result."""
    windowed = group_by(source(spark, files), "world").window(half=HALF, minute=MINUTE, time="ts", long=True)
    return windowed.adapt(adapt).define(n=C.count(), total=C.sum("n"))


@pytest.fixture(scope="module")
def begun(spark, tmp_path_factory):
    """A checkpoint of the old query over the first file, and a second file that nobody has read."""
    root = tmp_path_factory.mktemp("begun")
    write([table(RECORDS[:60])], root / "files")
    run(old(spark, root / "files").dataframe(), checkpoint=root / "checkpoint")
    write([table(RECORDS[60:])], root / "files", first=1)
    return root


def copy(root, target):
    subprocess.run(["cp", "-r", str(root / "checkpoint"), str(target)], check=True)
    return target


def found(output):
    """Rows as key, start and length of the window in seconds since the start, and results."""
    rows = []
    for row in (row for each in output.tables.values() for row in each.to_pylist()):
        start, end = (int(row["window"][each].timestamp()) - START // SECOND for each in ("start", "end"))
        rows.append((row["world"], start, end - start, row["n"], row.get("total")))
    return sorted(rows, key=repr)


def wanted(first, lengths, known):
    """What the records tell of windows that close in the rest of the stream, when it ends at second 199."""
    rows = []
    for length, advance, begin in lengths:
        for start in range(begin, 200, advance):
            if first < start + length <= 199:
                for key in range(3):
                    n = [i for i in range(max(0, start), start + length) if i % 3 == key]
                    rows.append((key, start, length, len(n), sum(n) if known is not None and start >= known else None))
    return sorted(rows, key=repr)


def test_a_live_change_goes_on_as_the_records_tell(spark, begun, tmp_path):
    """The watermark is at second 59: the window from 30 on is the oldest that is open, and 59 the newest second."""
    place = copy(begun, tmp_path / "checkpoint")
    changes = new(spark, begun / "files").changes(str(place))
    assert [(change.what, change.allowed) for change in changes] == [("windows added", True), ("result added", True)]
    assert "tumbling('1 minute')" in repr(changes)
    with pytest.raises(StreamingQueryException, match=r'Or go on with it by `.adapt\("allow"\)`'):
        run(new(spark, begun / "files", "refuse").dataframe(), checkpoint=copy(begun, tmp_path / "refused"))
    (output,) = run(new(spark, begun / "files").dataframe(), checkpoint=place)
    assert found(output) == wanted(59, [(30, 10, -20), (60, 60, 60)], known=60)
    assert not new(spark, begun / "files", "refuse").changes(str(place))


def test_a_kill_in_the_first_micro_batch_after_a_change_leaves_the_old_state(spark, begun, tmp_path):
    """Its tasks have stored what they had to when the process dies, and Spark has not committed the micro-batch."""
    place = copy(begun, tmp_path / "checkpoint")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": python_path(),
        "TZ": "UTC",
    }
    log = tmp_path / "log"
    with log.open("w") as lines:
        command = [sys.executable, __file__, str(begun / "files"), str(place), str(tmp_path / "session")]
        job = subprocess.run(
            command, env=environment, stdout=lines, stderr=lines, start_new_session=True, timeout=240, check=False
        )
    assert job.returncode == -signal.SIGKILL, log.read_text()[-3000:]
    assert "killed after" in log.read_text()
    other = tmp_path / "other"
    subprocess.run(["cp", "-r", str(place), str(other)], check=True)
    assert [change.what for change in new(spark, begun / "files").changes(str(place))] == [
        "windows added",
        "result added",
    ]
    (output,) = run(old(spark, begun / "files").dataframe(), checkpoint=place)
    assert found(output) == wanted(59, [(30, 10, -20)], known=None)
    (output,) = run(new(spark, begun / "files").dataframe(), checkpoint=other)
    assert found(output) == wanted(59, [(30, 10, -20), (60, 60, 60)], known=60)


def main(files, place, session):
    """Go on with the new query, and die when its first micro-batch has been computed."""
    from conftest import _start

    (session / "tmp").mkdir(parents=True)
    spark = _start(session)

    def sink(batch, number):
        print(f"killed after {len(batch.collect())} rows of micro-batch {number}", flush=True)
        os.killpg(0, signal.SIGKILL)

    writer = new(spark, files).dataframe().writeStream.foreachBatch(sink).option("checkpointLocation", str(place))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
