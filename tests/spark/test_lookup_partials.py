"""The partials in a checkpoint are looked up, and the query continues from them with another number of buckets.

The truth is the query that went on in its own checkpoint, and all windows by brute force::

    files        0  1  2  3  4 | 5  6  7  8
    old          ------------- + ------------     .buckets(8)
    new          looked up     | ------------     .buckets(3), from the offset on where the old one stopped
"""

import random
from dataclasses import dataclass

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from streams import (
    MINUTE,
    SECOND,
    START,
    Output,
    Running,
    brute,
    micros,
    record,
    run,
    source,
    starts,
    table,
    times_of,
    write,
)

import combinators as C
from slicing import Definition, InvalidValue, describe, group_by, hopping, on_close, tumbling

pytestmark = pytest.mark.slow

WINDOW, DELAY, GRACE, RETAIN = hopping("10 minutes", "1 minute"), MINUTE, 3 * MINUTE, 14 * MINUTE
RESULTS = {"held": C.count(), "total": C.sum("n"), "mean": C.mean("n"), "most": C.max("s"), "first": C.first("n")}
SEEN, ALL, KEYS = 5, 9, 4
CLOSING = on_close()


def file_of(number):
    """The records of 2 minutes, up to 20 minutes late: in time, in the grace, or too late."""
    rng, now = random.Random(f"partials {number}"), START + 2 * number * MINUTE
    late = [rng.choice([0, 30 * SECOND, 2 * MINUTE, 5 * MINUTE, 20 * MINUTE]) for _ in range(16)]
    times = [now - rng.randrange(each + SECOND) for each in late]
    some = [record(rng.randrange(KEYS) or None, at, n=rng.randrange(100), s=rng.choice("abc")) for at in times]
    # Of the first file this one is in the first slice that is retained when the query stops.
    return table([record(1, now), record(2, now - 6 * MINUTE - 30 * SECOND), *some])


FILES = [file_of(number) for number in range(ALL)]


def defined(spark, directory, buckets, window=WINDOW, emission=CLOSING):
    """The same results by a struct and a plain key, whose slices are retained."""
    stream = source(spark, directory, f"{DELAY // SECOND} seconds")
    stream = stream.withColumn("pair", F.struct((F.col("world") % 2 == 1).alias("odd"), "world"))
    windowed = group_by(stream, "pair", "world").window(window, time="ts").grace("3 minutes").retain("14 minutes")
    return windowed.emit(emission).buckets(buckets).define(**RESULTS)


@dataclass
class Story:
    """A query that was stopped, the slices that it left, and two that go on: in its checkpoint, and in a new one."""

    root: str
    before: Output
    found: DataFrame
    old: Definition
    new: Definition
    went_on: Output
    started: Output


@pytest.fixture(scope="module")
def story(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("partials")
    write(FILES[:SEEN], root / "all")
    (root / "later").mkdir()
    old, new = defined(spark, root / "all", 8), defined(spark, root / "later", 3)
    (before,) = run(old.dataframe(), checkpoint=root / "old")
    # The new definition has other buckets, and reads the old checkpoint all the same.
    found = new.lookup_partials(str(root / "old"))
    for directory in ("all", "later"):
        write(FILES[SEEN:], root / directory, first=SEEN)
    frames = {"old": old.dataframe(), "new": new.warm(partials=found).dataframe()}
    running = [Running(frame, root / name, {"availableNow": True}) for name, frame in frames.items()]
    return Story(str(root), before, found, old, new, *(each.finish() for each in running))


def rows_of(frame):
    return sorted(map(repr, frame.collect()))


def texts_of(output):
    return sorted(repr(row) for batch in output.tables.values() for row in batch.to_pylist())


def by_place(*outputs):
    """(key, start) -> the number and the sum of records."""
    found = {}
    for batch in (batch for output in outputs for batch in output.tables.values()):
        for row, start in zip(batch.to_pylist(), starts(batch), strict=True):
            assert (row["world"], start) not in found, "a window is emitted once"
            found[row["world"], start] = {"records": row["held"], "total": row["total"]}
    return found


def test_the_rows_are_those_of_the_query_that_went_on(spark, story):
    """A restart is a micro-batch without records, after which the watermark decides about late ones."""
    assert [len(describe(spark, f"{story.root}/{name}").buckets) for name in ("old", "new")] == [8, 3]
    assert texts_of(story.started) == texts_of(story.went_on)
    truth = brute([*FILES[:SEEN], table([]), *FILES[SEEN:]], WINDOW, delay=DELAY, grace=GRACE)
    assert by_place(story.before, story.started) == {place[1:]: row for place, row in truth.rows.items()}
    assert len(by_place(story.started)) > 30
    for name in ("late", "late_for_some"):
        ours, theirs = (sum(each.counters(name).values()) for each in (story.started, story.went_on))
        assert ours == theirs > 0
    assert sum(story.started.counters("before_warm").values()) == 0
    until = micros(story.found.first()["as_of"]["until"])
    assert sum(time < until for file in FILES[SEEN:] for time in times_of(file)) > 3, "some records are older"


def test_a_table_of_looked_up_partials_says_what_it_is_of(spark, story):
    found, written = story.found, story.old.partials()
    names = [*written.columns, "as_of"]
    assert found.columns == names
    assert [field.dataType for field in found.drop("as_of").schema] == [field.dataType for field in written.schema]
    (as_of,) = {row["as_of"] for row in found.collect() if row["as_of"]["known_from"]}
    assert micros(as_of["until"]) == micros(as_of["watermark"]) - GRACE
    known = micros(as_of["watermark"]) - RETAIN
    assert known - 10 * MINUTE < micros(as_of["known_from"]) <= known
    slices = [micros(row["slice"]["start"]) for row in found.collect()]
    assert min(slices) >= micros(as_of["known_from"])
    assert max(slices) >= micros(as_of["watermark"]), "slices that are open"
    assert sum(story.started.counters("loaded").values()) == found.agg(F.sum("records")).first()[0]
    checkpoint, batch = f"{story.root}/old", as_of["micro_batch"]
    few = story.old.lookup_partials(checkpoint, keys=[((True, 1), 1)], batch=batch)
    assert rows_of(few) == rows_of(found.where("world = 1"))
    assert few.count() > 5
    earlier = story.old.lookup_partials(checkpoint, batch=batch - 2)
    assert {row["as_of"]["micro_batch"] for row in earlier.collect()} == {batch - 2}


def test_windows_from_looked_up_partials_are_whole(story):
    """Windows are left out if the table lacks one of their slices, as by a lookup."""
    batch, checkpoint = story.found.first()["as_of"]["micro_batch"], f"{story.root}/old"
    for window in (WINDOW, tumbling("3 minutes")):
        made = story.old.lookup(checkpoint, batch=batch, windows=window).drop("as_of", "closed")
        other = defined(story.found.sparkSession, f"{story.root}/all", 8, window)
        assert rows_of(other.from_partials(story.found)) == rows_of(made)
        assert made.count() > 10
        rows = other.windowed.define(**RESULTS, then=held_of, returns="held bigint").from_partials(story.found)
        assert rows_of(rows) == rows_of(made.select("pair", "world", "window", "held"))


def held_of(key, window, results, context):
    """It is called with no window that lacks records, whose results would be None."""
    assert results["held"] > 0
    return [(results["held"],)]


def test_retained_slices_are_whole_in_the_new_checkpoint(story):
    """The new checkpoint has windows that had closed if the table has their slices, and claims no others."""
    short, known = hopping("3 minutes", "1 minute"), story.found.agg(F.max("as_of.known_from")).first()[0]
    first = story.new.lookup(f"{story.root}/new", batch=0, windows=short).collect()
    assert min(row["window"]["start"] for row in first) >= known
    assert any(row["window"]["end"] <= story.found.first()["as_of"]["until"] for row in first)
    window = tumbling("3 minutes")
    old, new = (
        definition.lookup(f"{story.root}/{name}", windows=window).drop("as_of", "closed")
        for name, definition in (("old", story.old), ("new", story.new))
    )
    assert rows_of(new) == rows_of(old)


def test_windows_with_a_tail_go_on_from_merged_slices(spark, tmp_path):
    """Slices are merged up to the end of the first window that is open::

    windows      [====== 10 minutes ======)     begin every 5 minutes
    slices       |    5    |    5    | | | |
    """

    def long(directory, buckets):
        window = hopping("10 minutes", "1 minute", tail="5 minutes")
        stream = source(spark, tmp_path / directory, "1 minute")
        return group_by(stream, "world").window(window, time="ts").buckets(buckets).define(**RESULTS)

    for name, files in (("second", FILES[3:SEEN]), ("all", FILES[:3])):
        write(files, tmp_path / name)
    run(long("all", 2).dataframe(), checkpoint=tmp_path / "old")
    found = long("second", 1).lookup_partials(str(tmp_path / "old"))
    lengths = {micros(row["slice"]["end"]) - micros(row["slice"]["start"]) for row in found.collect()}
    assert {MINUTE, 5 * MINUTE} <= lengths
    write(FILES[3:SEEN], tmp_path / "all", first=3)
    (went_on,) = run(long("all", 2).dataframe(), checkpoint=tmp_path / "old")
    (started,) = run(long("second", 1).warm(partials=found).dataframe())
    assert texts_of(started) == texts_of(went_on)
    assert len(texts_of(started)) > 10


def test_what_the_table_does_not_have_is_refused(spark, story):
    found, (until,) = story.found, {row["as_of"]["until"] for row in story.found.collect()}
    longer = defined(spark, f"{story.root}/later", 3, hopping("1 hour", "1 minute"))
    following = defined(spark, f"{story.root}/later", 3, emission=on_close(empty="1 hour"))
    earlier = story.old.lookup_partials(f"{story.root}/old", batch=2)
    at = micros(until) - 20 * MINUTE
    refused = {
        "from .* on: earlier ones were removed": lambda: longer.warm(partials=found),
        "need records from .* a shorter `empty`": lambda: following.warm(partials=found),
        "that are not longer than those": lambda: story.new.warm(partials=found, until=at),
        "only a table of `lookup_partials` that has slices": lambda: story.new.warm(partials=found.drop("as_of")),
        "has slices of 2 and": lambda: story.new.warm(partials=found.union(earlier)),
        "that has slices says so": lambda: story.new.warm(partials=found.limit(0)),
    }
    for words, call in refused.items():
        with pytest.raises(InvalidValue, match=words):
            call()
    assert story.new.warm(partials=found, until=micros(until) + MINUTE).history
