"""A golden checkpoint: the directory of a real query, as Spark and the code of one commit left it, and its rows so far.

The query reads a file of records in each micro-batch; the checkpoint has seen `SEEN` of `FILES`. Spark notes the
address of every file and of the directory itself, and neither is there any more when the tests go on with a copy.

Run it with the code of the commit that is to write the checkpoint, format 7 being that of b9f7d09::

    git worktree add ../old b9f7d09
    cd ../old && PYTHONPATH=$PWD:$PWD/tests python ../slicing/tests/golden/checkpoint.py checkpoint7
    git worktree remove --force ../old

and with the version of Spark that is to write it, in an environment of `make test-versions`::

    PYTHONPATH=$PWD:$PWD/tests .venv-4.1/bin/python tests/golden/checkpoint.py spark41
"""

import io
import json
import os
import random
import sys
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path

import combinators as C
from slicing import Aggregate, group_by, hopping

HERE = Path(__file__).parent
START = 1_700_006_400
FILES, SEEN = 9, 5
SIZE, ADVANCE, DELAY = 60, 10, 20
"""In seconds; `DELAY` is that of the watermark, and longer than any record is late."""
SCHEMA = "world bigint, ts timestamp, n bigint, s string"


def records():
    """The records of each file, as (world, second, n, s): 40 seconds a file."""
    rng = random.Random(6)
    return [
        [(rng.choice([None, 1, 2]), START + number * 40 + rng.randrange(-15, 40), rng.randrange(-99, 99),
          rng.choice("abcdef") * rng.randrange(3)) for _ in range(25)]
        for number in range(FILES)
    ]  # fmt: skip


def write(directory, first, end):
    """Some of the files, to be read in their order."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, rows in list(enumerate(records()))[first:end]:
        path = directory / f"f{number}.json"
        lines = [json.dumps({"world": world, "ts": f"{_time(at)}", "n": n, "s": s}) for world, at, n, s in rows]
        path.write_text("\n".join(lines))
        os.utime(path, (1e9 + number, 1e9 + number))


def _time(second):
    from datetime import UTC, datetime

    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def query(spark, directory):
    """Two trees, of combinators and of functions of rows."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(directory))
    own = Aggregate(
        lambda: (0, 0),
        lambda acc, n: (acc[0] + n * n, acc[1] + 1),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda ab, a: (ab[0] - a[0], ab[1] - a[1]),
        lower=lambda acc: acc[0],
        returns="bigint",
    )
    return (
        group_by(stream.withWatermark("ts", f"{DELAY} seconds"), "world")
        .window(hopping(f"{SIZE} seconds", f"{ADVANCE} seconds"), time="ts")
        .aggregate(records=C.count(), total=C.sum("n"), most=C.max("s"), squares=own.on("n"))
    )


def ran(frame, checkpoint):
    """The rows of a query over all files there are: world, start of the window in seconds, results."""
    found = []

    def sink(rows, _batch):
        found.extend([row[0], int(row[1].start.timestamp()), *row[2:]] for row in rows.collect())

    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(300)
    if query.exception():
        raise query.exception()
    return found


def expected():
    """The rows of all windows that hold records, from the records."""
    held = defaultdict(list)
    for rows in records():
        for world, at, n, s in rows:
            last = at // ADVANCE * ADVANCE
            for start in range(last, last - SIZE, -ADVANCE):
                held[world, start].append((n, s))
    return {
        place: [len(held[place]), sum(n for n, _ in held[place]), max(s for _, s in held[place]),
                sum(n * n for n, _ in held[place])]
        for place in held
    }  # fmt: skip


def main(name):
    from conftest import _start

    root = Path(tempfile.mkdtemp())
    spark = _start(root)
    write(root / "files", 0, SEEN)
    (root / "rows.json").write_text(json.dumps(ran(query(spark, root / "files"), root / "checkpoint")))
    spark.stop()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for part in ("checkpoint", "rows.json"):
            archive.add(root / part, part, filter=_plain)
    (HERE / f"{name}.tar.xz").write_bytes(packed.getvalue())


def _plain(entry):
    """Without the user and the time at which it was written; and no checksums, which Spark does not need."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return None if entry.name.endswith(".crc") else entry


def moved(checkpoint):
    """Say to Spark where the schema of the state is, whose address it has written down."""
    for file in (checkpoint / "state" / "0" / "_metadata" / "v2").iterdir():
        text = file.read_text()
        old = text[text.index("file:") : text.index("/state/0/_stateSchema")]
        file.write_text(text.replace(old, checkpoint.as_uri().replace("file:///", "file:/")))


if __name__ == "__main__":
    main(sys.argv[1])
