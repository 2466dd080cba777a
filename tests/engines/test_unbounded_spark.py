"""Windows that never close, and windows by the clock, on real streams that are stopped and started again.

The truth is a fold of the records by hand, at the times of the triggers, which the checkpoint has.
"""

import time
from collections import defaultdict

import pytest
from pyspark.sql import functions as F
from streams import MINUTE, NO_DATA, START, Running, micros, record, table, write

import combinators as C
from slicing import early, group_by, on_close, on_update, processing_time, tumbling, unbounded

pytestmark = pytest.mark.versions
FILES = [table([record((i * file) % 5, START + i * MINUTE, n=i - file) for i in range(12)]) for file in range(1, 7)]
SCHEMA = "world bigint, ts timestamp, n bigint"
TTL = 2000
CLOCKED = tumbling("1 second")


def stream(spark, folder):
    """The files, one a micro-batch, without a watermark."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return group_by(reader.parquet(str(folder)), "world")


def aggregated(windowed):
    return windowed.aggregate(records=C.count(), total=C.sum("n"), most=C.max("n"), mean=C.mean("n"))


def fold(values):
    return [len(values), sum(values), max(values), sum(values) / len(values)]


def in_two_parts(spark, folder, **windowed):
    """Queries by name over half of the files, and after a while over the rest; they end, as the setting lets them."""
    (folder / "files").mkdir()
    given = stream(spark, folder / "files")
    spark.conf.set(NO_DATA, "false")
    try:
        write(FILES[:3], folder / "files")
        made = {
            name: Running(aggregated(windows(given)), folder / name, {"availableNow": True})
            for name, windows in windowed.items()
        }
        for each in made.values():
            each.finish()
        time.sleep(TTL / 1000 + 0.5)
        write(FILES[3:], folder / "files", 3)
        for each in made.values():
            each.start()
        for each in made.values():
            each.finish()
    finally:
        spark.conf.unset(NO_DATA)
    return made


@pytest.fixture(scope="module")
def kept(spark, tmp_path_factory):
    """Queries that forget nothing."""
    return in_two_parts(
        spark,
        tmp_path_factory.mktemp("kept"),
        update=lambda given: given.window(unbounded()).emit(on_update()),
        early=lambda given: given.window(unbounded()).emit(early(records=7)),
    )


@pytest.fixture(scope="module")
def clocked(spark, tmp_path_factory):
    """Queries that go by the clock."""
    return in_two_parts(
        spark,
        tmp_path_factory.mktemp("clocked"),
        ttl=lambda given: given.window(unbounded(ttl=f"{TTL} milliseconds")).emit(on_update()),
        updated=lambda given: given.window(CLOCKED, time=processing_time()).emit(on_update()),
        closed=lambda given: given.window(CLOCKED, processing_time()).emit(on_close()),
    )


def came(run):
    """(micro-batch, records as (key, n), clock in milliseconds)."""
    read = 0
    for batch, until, _, now in run.micro_batches():
        yield batch, [(row["world"], row["n"]) for file in FILES[read:until] for row in file.to_pylist()], now
        read = until


def rows_of(run):
    """(micro-batch, key, start of the window or None) -> results."""
    found = {}
    for batch, each in run.output.tables.items():
        for row in each.to_pylist():
            start = row["window"] and micros(row["window"]["start"])
            assert (batch, row["world"], start) not in found, "a window goes out once in a micro-batch"
            found[batch, row["world"], start] = [row[name] for name in ("records", "total", "most", "mean")]
    return found


@pytest.mark.slow
def test_queries_that_go_by_the_clock_end_without_micro_batches_without_data(clocked):
    assert not any(each.query.isActive for each in clocked.values())
    assert all([until for *_, until, _, _ in each.micro_batches()][-1] == len(FILES) for each in clocked.values())


@pytest.mark.slow
def test_updates_are_folds_of_all_that_came_for_a_key(kept):
    held, wanted = defaultdict(list), {}
    for batch, records, _ in came(kept["update"]):
        for key, n in records:
            held[key].append(n)
        wanted |= {(batch, key, None): fold(held[key]) for key in {key for key, _ in records}}
    assert rows_of(kept["update"]) == wanted
    assert len(wanted) > 15


@pytest.mark.slow
def test_early_ones_are_of_keys_with_so_many_more_records(kept):
    held, since, wanted = defaultdict(list), defaultdict(int), {}
    for batch, records, _ in came(kept["early"]):
        for key, n in records:
            held[key].append(n)
            since[key] += 1
        for key in [key for key, count in since.items() if count >= 7]:
            del since[key]
            wanted[batch, key, None] = fold(held[key])
    assert rows_of(kept["early"]) == wanted
    assert len(wanted) > 5


def test_a_key_that_was_idle_for_longer_begins_anew(clocked):
    held, last, wanted, begun = defaultdict(list), {}, {}, 0
    for batch, records, now in came(clocked["ttl"]):
        for key in {key for key, _ in records}:
            if now - last.get(key, now) > TTL:
                del held[key]
                begun += 1
            last[key] = now
        for key, n in records:
            held[key].append(n)
        wanted |= {(batch, key, None): fold(held[key]) for key in {key for key, _ in records}}
    assert rows_of(clocked["ttl"]) == wanted
    assert begun >= 3


def test_windows_by_the_clock_hold_what_came_at_the_triggers(clocked):
    held, wanted = defaultdict(list), {}
    for batch, records, now in came(clocked["updated"]):
        start = now // 1000 * 1_000_000
        for key, n in records:
            held[key, start].append(n)
        wanted |= {(batch, key, start): fold(held[key, start]) for key in {key for key, _ in records}}
    assert rows_of(clocked["updated"]) == wanted


def test_windows_by_the_clock_close_when_it_has_passed_them(clocked):
    held, wanted = defaultdict(list), {}
    for batch, records, now in came(clocked["closed"]):
        for key, n in records:
            held[key, now // 1000 * 1_000_000].append(n)
        for key, start in [(key, start) for key, start in held if start + 1_000_000 <= now * 1000]:
            wanted[batch, key, start] = fold(held.pop((key, start)))
    assert rows_of(clocked["closed"]) == wanted
    assert len(wanted) > 3


def test_a_column_of_null_windows_is_what_spark_makes_without_windows(spark, tmp_path):
    """Bounded input has one row for each key, those of `groupBy(keys)`."""
    write(FILES, tmp_path)
    frame = spark.read.parquet(str(tmp_path))
    found = {row["world"]: row for row in aggregated(group_by(frame, "world").window(unbounded())).collect()}
    theirs = frame.groupBy("world").agg(F.count("*"), F.sum("n"), F.max("n"), F.avg("n")).collect()
    assert {key: tuple(row[2:]) for key, row in found.items()} == {row[0]: tuple(row[1:]) for row in theirs}
    assert {row["window"] for row in found.values()} == {None}
