"""Streams against Spark's own `groupBy(keys, window)`: the same rows, in the same micro-batch.

Coverage comes from keys: one stream carries fifty worlds as fifty values of the key, each with its own disorder, late
records, edges, duplicates, nulls, NaN and gaps, all under one watermark.
"""

from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from streams import (
    MINUTE,
    OURS,
    SECOND,
    START,
    Brute,
    Live,
    Output,
    brute,
    by_spark,
    exact_differences,
    float_differences,
    record,
    run,
    source,
    spark_window,
    table,
    worlds,
    write,
)

import combinators as C
from slicing import Aggregate, Hopping, group_by, hopping, tumbling
from slicing.stages.labels import labels_of


@dataclass(frozen=True)
class Shape:
    """A window, a delay of the watermark, and what else differs from case to case; times in microseconds."""

    window: Hopping
    delay: int = 0
    grace: int = 0
    tree: str = "auto"
    edge: int = MINUTE


SHAPES = {
    "tumbling, no delay": Shape(tumbling("1 minute")),
    "hour by minute": Shape(hopping("1 hour", "1 minute"), delay=90 * SECOND),
    "not a multiple, negative offset": Shape(
        hopping("10 minutes", "3 minutes", offset="-50 seconds"), edge=10 * SECOND
    ),
    "grace against more delay, three layers": Shape(
        hopping("20 minutes", "1 minute"), MINUTE, 2 * MINUTE + SECOND // 2, "three_layer"
    ),
}
VERSIONS = ("hour by minute",)
"""What every version of Spark is tested with."""
LONG_SHAPES = [
    *SHAPES.values(),
    Shape(hopping("7 minutes", "5 minutes", offset="2 minutes"), delay=10 * MINUTE),  # few slices, shifted
    Shape(hopping("2 hours", "7 minutes", offset="3 minutes"), 5 * MINUTE, MINUTE),
]


@dataclass
class Run:
    """One shape, what we and Spark put out, and what brute force says of the same files."""

    ours: Output
    spark: Output
    brute: Brute


def compare(spark, directory, shape, seed, **size):
    tables = worlds(seed, edge=shape.edge, **size)
    write(tables, directory)
    grouped = group_by(source(spark, directory, f"{shape.delay} microseconds"), "world")
    ours = grouped.window(shape.window, time="ts").grace(f"{shape.grace} microseconds").assemble(shape.tree)
    theirs = source(spark, directory, f"{shape.delay + shape.grace} microseconds")
    theirs = theirs.groupBy("world", spark_window(shape.window)).agg(*by_spark())
    outputs = run(ours.aggregate(**OURS), theirs)
    return Run(*outputs, brute(tables, shape.window, shape.delay, shape.grace))


def check(run_, at_least=300):
    ours, theirs = run_.ours.rows("world"), run_.spark.rows("world")
    assert exact_differences(ours, theirs)[:5] == []
    assert float_differences(ours, theirs)[:5] == []
    assert len(theirs) >= at_least, "the worlds are rich enough to say something"
    assert run_.brute.counters == {name: run_.ours.counters(name) for name in run_.brute.counters}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.versions if name in VERSIONS else pytest.mark.long) for name in SHAPES
    ],
    ids=lambda name: name.replace(", ", "-").replace(" ", "_"),
)
def case(request, spark, tmp_path_factory):
    return compare(spark, tmp_path_factory.mktemp("files"), SHAPES[request.param], seed=request.param, files=7)


def test_the_same_rows_go_out_in_the_same_micro_batch(case):
    ours, theirs = case.ours.rows("world"), case.spark.rows("world")
    assert exact_differences(ours, theirs)[:5] == []
    assert len(theirs) > 300, "the worlds are rich enough to say something"
    assert len({batch for batch, *_ in theirs}) >= 5


def test_floats_are_within_the_bounds_of_the_contract(case):
    assert float_differences(case.ours.rows("world"), case.spark.rows("world"))[:5] == []


def test_refused_records_are_counted_as_brute_force_counts_them(case):
    for name, expected in case.brute.counters.items():
        assert case.ours.counters(name) == expected, name
    assert all(case.brute.counters[name] for name in ("late", "no_time"))


def test_brute_force_agrees_with_spark(case):
    """What other tests rely on where Spark has no answer."""
    assert exact_differences(case.brute.rows, case.spark.rows("world"), ["records", "total"])[:5] == []


@pytest.mark.long
@pytest.mark.parametrize("shape", LONG_SHAPES, ids=lambda shape: str(shape.window))
@pytest.mark.parametrize("seed", range(10))
def test_the_same_rows_for_many_seeds(spark, tmp_path, shape, seed):
    check(compare(spark, tmp_path, shape, seed, count=200), at_least=800)


@pytest.mark.slow
def test_records_in_gaps_between_windows_are_counted_and_belong_to_no_row(spark, tmp_path):
    """Spark has no windows with gaps; brute force has::

    advance 100 s  |---------|---------|---------|
    size 60 s      [=====)   [=====)   [=====)
    """
    window = hopping("60 seconds", "100 seconds", offset="-30 seconds", gaps=True)
    tables = worlds("gaps", edge=10 * SECOND)
    write(tables, tmp_path)
    frame = group_by(source(spark, tmp_path, "30 seconds"), "world").window(window, time="ts")
    (output,) = run(frame.aggregate(records=C.count(), total=C.sum("n")))
    expected = brute(tables, window, delay=30 * SECOND)
    assert exact_differences(output.rows("world"), expected.rows, ["records", "total"])[:5] == []
    assert len(expected.rows) > 200
    for name, counts in expected.counters.items():
        assert output.counters(name) == counts, name
    assert expected.counters["no_window"]
    # A slice is advance-sized or in a gap here, so no record is late for some of its windows only.
    assert not expected.counters["late_for_some"]


# --- one edge at a time ---------------------------------------------------------------------------------------------

WINDOW = hopping("10 seconds", "5 seconds")
DELAY = 2 * SECOND
BUCKETS = 16


@dataclass
class Story:
    """The micro-batches of each chapter, and the outputs of all queries that ran along."""

    chapters: dict
    ours: Output
    restarted: Output
    spark: Output

    def rows(self, chapter):
        """(place in the chapter, key, start in seconds) -> records, of what went out in a chapter."""
        batches = self.chapters[chapter]
        return {
            (batches.index(batch), key, (begin - START) // SECOND): row["records"]
            for (batch, key, begin), row in self.ours.rows("world").items()
            if batch in batches
        }

    def counted(self, chapter, name):
        """A counter of each micro-batch of a chapter."""
        return [self.ours.counters(name).get(batch, 0) for batch in self.chapters[chapter]]


def at(key, *seconds):
    return [record(key, START + round(second * SECOND)) for second in seconds]


def lonely_keys(count):
    """Keys that are alone in their buckets."""
    keys = range(1000)
    labels = labels_of(pa.table({"k0": pa.array(keys, pa.int64())}), tuple(range(BUCKETS))).tolist()
    return list(dict(zip(labels, keys, strict=True)).values())[:count]


@pytest.fixture(scope="module")
def keys():
    found = lonely_keys(6)
    assert len(found) == 6
    return found


@pytest.fixture(scope="module", params=[pytest.param("story", marks=pytest.mark.slow)])
def story(spark, tmp_path_factory, keys):
    """One stream in chapters, each later than the one before by a thousand seconds; files of a chapter come at once."""
    a, b, c, d, e, f = keys
    live = Live(spark, tmp_path_factory.mktemp("story"), f"{DELAY} microseconds")
    grouped = group_by(live.source(), "world").window(WINDOW, time="ts")
    outputs = [
        live.add(grouped.buckets(BUCKETS).aggregate(records=C.count(), total=C.sum("n"), most=C.max("n"))),
        live.add(grouped.buckets(BUCKETS).aggregate(records=C.count(), total=C.sum("n"), most=C.max("n")), True),
        live.add(reference(live.source())),
    ]
    chapters = {
        "a millisecond before the end": live.step(table(at(a, 1)), table(at(b, 11.999))),
        "exactly on the end": live.step(table(at(b, 12))),
        "late for what closed there": live.step(table(at(a, 9.999, 4.999))),
        "a jump": live.step(table(at(a, 20, 27, 33, 41, 46)), table(at(b, 1000))),
        "before no data": live.step(table(at(a, 1001) + at(b, 1020))),
        "after no data": live.step(table(at(a, 1002, 1014))),
        "without a pause": live.step(table(at(b, 1040)), table(at(a, 1021)), table(at(a, 1021))),
        "others go on": live.step(table(at(b, 2000)), table(at(b, 2030))),
        "back after a while": live.step(table(at(a, 2024, 2017, 2009) + at(b, 2031))),
        "new to the state": live.step(table(at(c, 2015, 2030)), table(at(d, 2000)), table(at(b, 2060))),
        "filled and gone": live.step(table(at(b, 3000)), table(at(e, 2985, 2999) + at(f, 2980)), table(at(b, 3001))),
        "the end": live.step(table(at(b, 5000))),
    }
    live.stop()
    return Story(chapters, *outputs)


def reference(frame):
    return frame.groupBy("world", spark_window(WINDOW)).agg(
        F.count("*").alias("records"), F.sum("n").alias("total"), F.max("n").alias("most")
    )


def test_a_window_goes_out_when_the_watermark_is_exactly_on_its_end(story, keys):
    """The delay is 2 s::

                     0         5         10        15
    [-5, 5)  [0, 10) |----a----|---------|---------|
    watermark 9.999                     ^
    watermark 10                         ^
    """
    a = keys[0]
    assert story.rows("a millisecond before the end") == {(2, a, -5): 1}
    assert story.rows("exactly on the end") == {(1, a, 0): 1}
    # 9.999 is late for [0, 10) alone, 4.999 for [-5, 5) and [0, 10).
    assert story.counted("late for what closed there", "late_for_some") == [1]
    assert story.counted("late for what closed there", "late") == [1]
    assert story.rows("late for what closed there") == {}
    assert story.rows("a jump")[1, a, 5] == 1


def test_a_jump_over_many_windows_puts_them_all_out_at_once(story, keys):
    """The watermark stands at 10, is 44 in the second micro-batch and 998 in the third."""
    a, b = keys[:2]
    went = {(1, a, 5): 1, (1, b, 5): 2, (1, b, 10): 2, (1, a, 15): 1, (1, a, 20): 2, (1, a, 25): 2, (1, a, 30): 1}
    went |= {(2, a, 35): 1, (2, a, 40): 2, (2, a, 45): 1}
    assert story.rows("a jump") == went


def test_a_micro_batch_without_data_moves_the_watermark_and_makes_the_next_record_late(story, keys):
    """1002 is late only by the watermark 1018 that the micro-batch without data brought; 1014 for [1005, 1015) only."""
    a, b = keys[:2]
    assert len(story.chapters["before no data"]) == 2
    assert story.counted("after no data", "late") == [1]
    assert story.counted("after no data", "late_for_some") == [1]
    assert story.rows("before no data") == {(1, key, begin): 1 for key in (a, b) for begin in (995, 1000)}
    assert story.rows("without a pause")[1, a, 1010] == 1


def test_records_of_the_micro_batch_after_a_jump_are_judged_by_the_watermark_before_it(story, keys):
    """1021 comes in the micro-batch whose watermark is 1038 already: it is taken there and refused one later."""
    a = keys[0]
    assert story.counted("without a pause", "late") == [0, 0, 1]
    assert story.rows("without a pause")[1, a, 1020] == 1


def test_a_bucket_without_data_since_the_batch_before_last_knows_the_watermark(story, keys):
    """The bucket of a had no data while the watermark went to 1998 and 2028: 2009, 2017 are late, 2024 in part."""
    a = keys[0]
    assert story.counted("back after a while", "late") == [2, 0]
    assert story.counted("back after a while", "late_for_some") == [1, 0]
    assert {place: n for place, n in story.rows("new to the state").items() if place[1] == a} == {(3, a, 2020): 1}


def test_a_bucket_touched_first_after_the_watermark_moved_knows_it(story, keys):
    """c, d and their buckets are new when the watermark is at 2029: 2015 is late, 2030 counts twice, 2000 is late."""
    c, d = keys[2:4]
    assert story.counted("new to the state", "late") == [1, 1, 0, 0]
    went = {place: n for place, n in story.rows("new to the state").items() if place[1] in (c, d)}
    assert went == {(3, c, 2025): 1, (3, c, 2030): 1}


def test_a_window_is_filled_and_goes_out_in_one_micro_batch(story, keys):
    """The watermark before is 2058, that of the micro-batch itself 2998: what it takes goes out at once."""
    e, f = keys[4:]
    gone = story.rows("filled and gone")
    assert gone[1, e, 2980] == 1
    assert gone[1, e, 2985] == 1
    assert (1, e, 2990) not in gone
    assert gone[1, f, 2975] == gone[1, f, 2980] == 1
    assert story.counted("filled and gone", "late") == [0, 0, 0, 0]


def test_all_chapters_equal_spark(story):
    assert exact_differences(story.ours.rows("world"), story.spark.rows("world"), ["records", "total", "most"]) == []
    assert len(story.spark.rows("world")) > 30


def test_a_restart_between_any_two_chapters_changes_nothing(story):
    ours, restarted = story.ours.rows("world"), story.restarted.rows("world")
    assert exact_differences(restarted, ours, ["records", "total", "most"]) == []
    for name in ("late", "late_for_some"):
        assert story.restarted.counters(name) == story.ours.counters(name)


@pytest.mark.slow
def test_the_end_of_a_window_is_found_by_its_metadata_downstream(spark, tmp_path):
    """`F.window_time` and a further window over ours, in one append query: Spark takes our `window` for its own."""
    write([table(at(1, 1, 2, 3)), table(at(1, 61)), table(at(1, 200)), table(at(1, 400))], tmp_path)
    frame = group_by(source(spark, tmp_path), "world").window(tumbling("5 seconds"), time="ts").aggregate(n=C.count())
    timed = frame.select("n", F.window_time("window").alias("at"), "window")
    (output,) = run(timed)
    ends = {row["at"].timestamp() for each in output.tables.values() for row in each.to_pylist()}
    assert {round((end + 1e-6) * SECOND - START) // SECOND for end in ends} == {5, 65, 205}


# --- the eager strategy ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_eager_strategy_equals_spark_and_needs_no_combine(spark, tmp_path):
    shape = Shape(hopping("10 minutes", "3 minutes"), delay=90 * SECOND, tree="eager")
    check(compare(spark, tmp_path / "worlds", shape, seed="eager", files=6, count=25), at_least=100)
    longest = Aggregate(lambda: "", lambda acc, s: max(acc, s, key=lambda text: (len(text), text))).on("s")
    windowed = group_by(source(spark, tmp_path / "worlds"), "world").window(shape.window, time="ts")
    theirs = source(spark, tmp_path / "worlds").groupBy("world", spark_window(shape.window))
    spark_longest = F.max_by("s", F.struct(F.length("s"), "s")).alias("longest")
    ours, spark_rows = run(
        windowed.aggregate(longest=longest), theirs.agg(F.coalesce(spark_longest, F.lit("")).alias("longest"))
    )
    assert exact_differences(ours.rows("world"), spark_rows.rows("world"), ["longest"])[:5] == []
    assert len(spark_rows.rows("world")) > 100


@pytest.mark.slow
@pytest.mark.parametrize(("tree", "per_record"), [("eager", 12), ("auto", 1)])
def test_the_engine_counts_partials_read_and_written_per_record_and_key(spark, tmp_path, tree, per_record):
    """Every micro-batch brings one record of each key for the same slice, R = 12: eager reads and writes 12 each."""
    keys, batches = 20, 6
    write([table([record(k, START + n, n=n) for k in range(keys)]) for n in range(batches)], tmp_path)
    windowed = group_by(source(spark, tmp_path), "world").window(hopping("1 hour", "5 minutes"), time="ts")
    (output,) = run(windowed.assemble(tree).aggregate(total=C.sum("n")))
    read, written = output.counters("partials_read"), output.counters("partials_written")
    quiet = range(2, 4)  # the pages are there, and small ones are not merged yet
    assert {written[batch] / keys for batch in quiet} == {per_record}
    assert {read.get(batch, 0) / keys for batch in quiet} == {per_record if tree == "eager" else 0}
