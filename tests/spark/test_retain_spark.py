"""Slices that real checkpoints retain: for lookups of closed windows, and for windows that are added later."""

from collections import defaultdict
from datetime import timedelta

import pytest
from streams import EPOCH, SCHEMA, SECOND, START, record, run, source, table, write

import combinators as C
from slicing import by_edges, group_by, hopping, on_change, tumbling

HALF, MINUTE, TWO = hopping("30 seconds", "10 seconds"), tumbling("1 minute"), tumbling("2 minutes")
RECORDS = [(i % 3, i) for i in range(200)]
"""One a second, as key and second; the watermark is at the newest one."""


def retaining(spark, files, *windows, adapt="refuse"):
    windowed = group_by(source(spark, files), "world").window(*windows, time="ts").retain("100 seconds").adapt(adapt)
    return windowed.define(n=C.count(), total=C.sum("n"))


def put(files, first, end, number):
    write([table([record(key, START + at * SECOND, n=at) for key, at in RECORDS[first:end]])], files, first=number)


def truth(length, advance):
    """The rows of all windows by key and start in seconds: how many records they have, and their sum."""
    held = defaultdict(list)
    for key, at in RECORDS:
        for start in range(at // advance * advance, at - length, -advance):
            held[key, start].append(at)
    return {(key, start, length): (len(found), sum(found)) for (key, start), found in held.items()}


def found(rows):
    """The same of rows."""
    by_place = {}
    for row in rows:
        start, end = (int(row["window"][each].timestamp()) - START // SECOND for each in ("start", "end"))
        place = row["world"], start, end - start
        assert place not in by_place
        by_place[place] = row["n"], row["total"]
    return by_place


def emitted(output):
    return found(row for each in output.tables.values() for row in each.to_pylist())


def test_windows_that_have_closed_are_looked_up_after_a_restart(spark, tmp_path):
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    put(files, 0, 60, 0)
    run(retaining(spark, files, HALF).dataframe(), checkpoint=checkpoint)
    put(files, 60, 200, 1)
    definition = retaining(spark, files, HALF)
    run(definition.dataframe(), checkpoint=checkpoint)
    others = [(None, 30, 10), (MINUTE, 60, 60), (hopping("40 seconds", "20 seconds"), 40, 20)]
    for asked, length, advance in others:
        more = {} if asked is None else {"windows": asked}
        rows, wanted = found(definition.lookup(str(checkpoint), **more).collect()), truth(length, advance)
        assert all(wanted[place] == row for place, row in rows.items())
        assert {place for place in wanted if place[1] >= 100} <= rows.keys(), "the watermark is at second 199"
        assert min(start for _, start, _ in rows) >= 60, "what is older has been removed"


def test_windows_of_the_history_of_a_warm_start_are_looked_up_as_after_a_cold_replay(spark, tmp_path):
    """The history ends at second 150; the watermark is at second 199, so windows from second 90 on are whole."""
    files, until = tmp_path / "files", EPOCH + timedelta(microseconds=START + 150 * SECOND)
    put(files / "past", 0, 150, 0)
    put(files / "live", 150, 200, 1)
    past = spark.read.schema(SCHEMA).parquet(str(files / "past"))
    warm, cold = retaining(spark, files / "live", HALF).warm(past, until=until), retaining(spark, files / "*", HALF)
    rows = {}
    for name, definition in (("warm", warm), ("cold", cold)):
        run(definition.dataframe(), checkpoint=tmp_path / name)
        rows[name] = found(definition.lookup(str(tmp_path / name)).collect())
    assert rows["warm"] == rows["cold"]
    assert rows["warm"] == {place: row for place, row in truth(30, 10).items() if place[1] >= 90}


@pytest.mark.slow
@pytest.mark.parametrize(
    "option", [lambda of: of.retain("100 seconds"), lambda of: of.emit(on_change())], ids=["retain", "on change"]
)
def test_a_history_that_begins_before_all_windows_is_read(spark, tmp_path, option):
    """The windows are [100, 150) and [150, 200); slices are needed from before the first one, where none begins."""
    until = EPOCH + timedelta(microseconds=START + 140 * SECOND)
    put(tmp_path / "past", 0, 140, 0)
    put(tmp_path / "live", 140, 200, 1)
    windows = by_edges(*([START + (at + after) * SECOND for at in (100, 150)] for after in (0, 50)))
    of = option(group_by(source(spark, tmp_path / "live"), "world").window(windows, time="ts"))
    past = spark.read.schema(SCHEMA).parquet(str(tmp_path / "past"))
    definition = of.define(n=C.count(), total=C.sum("n")).warm(past, until=until)
    run(definition.dataframe(), checkpoint=tmp_path / "checkpoint")
    rows = found(definition.lookup(str(tmp_path / "checkpoint")).collect())
    assert rows == {place: row for place, row in truth(50, 50).items() if place[1] >= 100}


@pytest.mark.slow
def test_a_window_that_is_added_is_whole_as_far_as_slices_are_retained(spark, tmp_path):
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    put(files, 0, 60, 0)
    (before,) = run(retaining(spark, files, HALF).dataframe(), checkpoint=checkpoint)
    put(files, 60, 200, 1)
    (after,) = run(retaining(spark, files, HALF, TWO, adapt="allow").dataframe(), checkpoint=checkpoint)
    rows, wanted = emitted(before) | emitted(after), truth(30, 10) | truth(120, 120)
    assert emitted(before)
    assert rows == {place: row for place, row in wanted.items() if place[1] + place[2] <= 199}
    assert rows[0, 0, 120] == (40, sum(range(0, 120, 3))), "it began long before the change"
