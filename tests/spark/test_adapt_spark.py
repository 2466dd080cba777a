"""Queries that change on real checkpoints, also where the first micro-batch after the change is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Barrier

import pytest
from pyspark.errors import StreamingQueryException
from rooms import python_path
from streams import SECOND, START, record, run, source, table, write

import combinators as C
from slicing import Aggregate, group_by, hopping, session, tumbling

pytestmark = pytest.mark.slow

HALF, THIRD, MINUTE = hopping("30 seconds", "10 seconds"), tumbling("20 seconds"), tumbling("1 minute")
RECORDS = [record(i % 3, START + i * SECOND, n=i) for i in range(200)]
"""One a second; the file of the first 60 is there before the change."""


def last(version):
    """The last value, by two functions of a user's."""
    made = Aggregate(lambda: -1, lambda acc, n: n, lambda a, b: max(a, b), version=version, laws=False)
    return made.on("n")


def old(spark, files):
    """The query that wrote the checkpoint."""
    windowed = group_by(source(spark, files), "world").window(half=HALF, third=THIRD, time="ts", long=True)
    return windowed.define(least=C.min("n"), n=C.count(), last=last("1"))


def new(spark, files, adapt="allow"):
    """Windows added and removed, results added and removed, another version, another order."""
    windowed = group_by(source(spark, files), "world").window(minute=MINUTE, half=HALF, time="ts", long=True)
    return windowed.adapt(adapt).define(last=last("2"), n=C.count(), total=C.sum("n"))


CHANGED = ["windows added", "windows removed", "result added", "result added", "result removed", "result removed"]


def sessions(spark, files, more):
    """Sessions, which gain a result and lose one."""
    windowed = group_by(source(spark, files), "world").window(session("2 seconds"), time="ts").adapt("allow")
    return windowed.define(n=C.count(), **({"total": C.sum("n")} if more else {"least": C.min("n")}))


LENGTHS = {"half": 30, "minute": 60, "two": 120}


def beside(spark, files, more):
    """Windows side by side, that gain the longest of them."""
    named = {
        name: hopping(f"{length} seconds", "10 seconds") for name, length in LENGTHS.items() if more or length < 90
    }
    return group_by(source(spark, files), "world").window(**named, time="ts").adapt("allow").define(n=C.count())


@pytest.fixture(scope="module")
def begun(spark, tmp_path_factory):
    """Checkpoints of the old queries over the first file, and a second file that nobody has read."""
    root = tmp_path_factory.mktemp("begun")
    write([table(RECORDS[:60])], root / "files")
    run(old(spark, root / "files").dataframe(), checkpoint=root / "checkpoint")
    run(sessions(spark, root / "files", more=False).dataframe(), checkpoint=root / "sessions")
    run(beside(spark, root / "files", more=False).dataframe(), checkpoint=root / "beside")
    write([table(RECORDS[60:])], root / "files", first=1)
    return root


def copy(root, target, name="checkpoint"):
    subprocess.run(["cp", "-r", str(root / name), str(target)], check=True)
    return target


def found(output):
    """Rows as key, start and length of the window in seconds since the start, and results by name."""
    rows = []
    for row in (row for each in output.tables.values() for row in each.to_pylist()):
        window = row.pop("window")
        start, end = (int(window[each].timestamp()) - START // SECOND for each in ("start", "end"))
        row.pop("windows", None)
        rows.append((row.pop("world"), start, end - start, sorted(row.items())))
    return sorted(rows, key=repr)


MADE = {"n": len, "least": min, "total": sum, "last": max}


def wanted(lengths, names, known=None, since=()):
    """What the records tell of windows that close between the seconds 59 and 199; results in `since` are new."""
    rows = []
    for length, advance, begin in lengths:
        for start in range(begin, 200, advance):
            for key in range(3):
                n = [i for i in range(max(0, start), min(200, start + length)) if i % 3 == key]
                if n and 59 < start + length <= 199:
                    results = {each: MADE[each](n) if each not in since or start >= known else None for each in names}
                    rows.append((key, start, length, sorted(results.items())))
    return sorted(rows, key=repr)


def wanted_old():
    return wanted([(30, 10, -20), (20, 20, 0)], ["least", "n", "last"])


def wanted_new():
    """The watermark is at second 59: the window from 30 on is the oldest that is open, and 59 the newest second."""
    return wanted([(30, 10, -20), (60, 60, 60)], ["n", "total", "last"], known=60, since=("total", "last"))


def wanted_sessions(more):
    """Each record is a session; those of the seconds 58 and 59 are open."""
    rows = []
    for i in range(58, 198):
        changed = {"total": i if i >= 60 else None} if more else {"least": i}
        rows.append((i % 3, i, 2, sorted({"n": 1, **changed}.items())))
    return sorted(rows, key=repr)


def found_beside(output):
    """Rows as end of the windows in seconds since the start, key, and results."""
    rows = [row for each in output.tables.values() for row in each.to_pylist()]
    place = [(int(row.pop("window_end").timestamp()) - START // SECOND, row.pop("world")) for row in rows]
    return sorted((*at, row) for at, row in zip(place, rows, strict=True))


def wanted_beside(more):
    """Windows of two minutes that began before the stream have lost what may have been there."""
    names = [name for name in LENGTHS if more or LENGTHS[name] < 90]
    return [
        (end, key, {f"n_{each}": _held(end, key, LENGTHS[each]) for each in names})
        for end in range(60, 200, 10)
        for key in range(3)
    ]


def _held(end, key, length):
    """How many records of a key are in a window; null where it was added and is not whole."""
    if length == LENGTHS["two"] and end < length:
        return None
    return sum(i % 3 == key for i in range(max(0, end - length), end))


def test_a_live_change_goes_on_as_the_records_tell(spark, begun, tmp_path):
    place = copy(begun, tmp_path / "checkpoint")
    changes = new(spark, begun / "files").changes(str(place))
    assert [change.what for change in changes] == CHANGED
    assert changes.allowed
    assert "tumbling('1 minute')" in repr(changes)
    with pytest.raises(StreamingQueryException, match=r'Add `.adapt\("allow"\)` to continue'):
        run(new(spark, begun / "files", "refuse").dataframe(), checkpoint=copy(begun, tmp_path / "refused"))
    (output,) = run(new(spark, begun / "files").dataframe(), checkpoint=place)
    assert found(output) == wanted_new()
    assert not new(spark, begun / "files", "refuse").changes(str(place))


def test_a_kill_in_the_first_micro_batch_after_a_change_leaves_the_old_state(spark, begun, tmp_path):
    """Its tasks have stored what they had to when the process dies, and Spark has not committed the micro-batch."""
    place, other = copy(begun, tmp_path / "checkpoint"), copy(begun, tmp_path / "sessions", "sessions")
    third = copy(begun, tmp_path / "beside", "beside")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": python_path(),
        "TZ": "UTC",
    }
    log = tmp_path / "log"
    with log.open("w") as lines:
        command = [sys.executable, __file__, *map(str, (begun / "files", place, other, third, tmp_path / "session"))]
        job = subprocess.run(
            command, env=environment, stdout=lines, stderr=lines, start_new_session=True, timeout=240, check=False
        )
    assert job.returncode == -signal.SIGKILL, log.read_text()[-3000:]
    assert log.read_text().count("rows of micro-batch") == 3
    assert [change.what for change in new(spark, begun / "files").changes(str(place))] == CHANGED
    again, more = copy(tmp_path, tmp_path / "again"), copy(tmp_path, tmp_path / "more", "sessions")
    longer = copy(tmp_path, tmp_path / "longer", "beside")
    before, after, sessions_before, sessions_after, beside_before, beside_after = (
        run(old(spark, begun / "files").dataframe(), checkpoint=place)
        + run(new(spark, begun / "files").dataframe(), checkpoint=again)
        + run(sessions(spark, begun / "files", more=False).dataframe(), checkpoint=other)
        + run(sessions(spark, begun / "files", more=True).dataframe(), checkpoint=more)
        + run(beside(spark, begun / "files", more=False).dataframe(), checkpoint=third)
        + run(beside(spark, begun / "files", more=True).dataframe(), checkpoint=longer)
    )
    assert found(before) == wanted_old()
    assert found(after) == wanted_new()
    assert found(sessions_before) == wanted_sessions(more=False)
    assert found(sessions_after) == wanted_sessions(more=True)
    assert found_beside(beside_before) == wanted_beside(more=False)
    assert found_beside(beside_after) == wanted_beside(more=True)


def main(files, place, other, third, home):
    """Go on with the new queries, and die when all have computed their first micro-batch."""
    from conftest import _start

    (home / "tmp").mkdir(parents=True)
    spark, all_of_them = _start(home), Barrier(3)

    def sink(batch, number):
        print(f"{len(batch.collect())} rows of micro-batch {number}", flush=True)
        all_of_them.wait()
        os.killpg(0, signal.SIGKILL)

    going_on = (
        (new(spark, files), place),
        (sessions(spark, files, more=True), other),
        (beside(spark, files, True), third),
    )
    for definition, checkpoint in going_on:
        writer = definition.dataframe().writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
