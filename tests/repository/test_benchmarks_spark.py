"""Benchmarks on Spark: rows are compared rightly, and streams in turns are what streams alone are."""

import math
from dataclasses import replace

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from benchmarks.baselines import old_commit_job
from benchmarks.baselines.by_hand_arrays import ByHandArrays
from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkExploded, SparkWindow
from benchmarks.running import session, streams, turns, written
from benchmarks.running.side import Settings, Side
from benchmarks.workloads import workload as workloads
from benchmarks.workloads.rows import difference
from slicing.cli.session import BATCH_BYTES

ROWS = [(1, 0, 2, 10, 0.1), (1, 60, 1, 5, 0.3), (2, 0, 3, 7, 1e6)]


@pytest.fixture(scope="module")
def frame(spark):
    def make(rows):
        flat = spark.createDataFrame(rows, "key bigint, start bigint, records bigint, total bigint, total_d double")
        return flat.selectExpr(
            "key",
            "struct(timestamp_seconds(start) as start, timestamp_seconds(start + 60) as end) as window",
            "records",
            "total",
            "total_d",
        )

    return make


def changed(row, column, value):
    rows = [list(each) for each in ROWS]
    rows[row][column] = value
    return [tuple(each) for each in rows]


def test_rows_in_another_order_and_floats_within_the_bound_are_equal(frame):
    near = changed(2, 4, 1e6 * (1 + 9e-13))
    assert difference(frame(ROWS), frame(near[::-1])) is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("other", "why"),
    [
        (ROWS[:2], "3 rows, not 2"),
        ([*ROWS[:2], ROWS[1]], "hashes"),
        (changed(0, 0, 7), "hashes"),
        (changed(0, 1, 120), "hashes"),
        (changed(0, 2, 3), "hashes"),
        (changed(0, 3, 11), "hashes"),
        (changed(2, 4, 1e6 * (1 + 2e-12)), "1 rows have other floats"),
        (changed(2, 4, None), "1 rows have other floats"),
        (changed(2, 4, math.nan), "1 rows have other floats"),
        (changed(2, 4, math.inf), "1 rows have other floats"),
    ],
)
def test_a_wrong_row_is_a_difference(frame, other, why):
    assert why in difference(frame(ROWS), frame(other))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_float_that_is_no_number_equals_itself_only(frame, value):
    odd = changed(2, 4, value)
    assert difference(frame(odd), frame(odd)) is None
    assert "1 rows have other floats" in difference(frame(odd), frame(ROWS))


def test_no_rows_prove_nothing(frame):
    assert difference(frame([]), frame([])) == "no rows at all"


TINY = workloads.Workload("tiny", 200, 3, 600, 5)
WINDOW = (TINY, "5 minutes", "1 minute")


def test_rows_by_explode_are_those_of_window(benchmarks_in_session):
    with (
        written.of_bounded(SparkExploded("d"), *WINDOW) as ours,
        written.of_bounded(SparkWindow("d"), *WINDOW) as theirs,
    ):
        assert difference(ours, theirs) is None


@pytest.mark.parametrize("windows", [("5 minutes", "1 minute"), ("1 minute", "1 minute")])
def test_windows_by_hand_are_ours(benchmarks_in_session, windows):
    with written.of_stream(Ours(), TINY, *windows) as ours, written.of_stream(ByHandArrays(), TINY, *windows) as theirs:
        assert difference(ours, theirs) is None


@pytest.mark.slow
def test_what_a_stream_has_closed_are_the_bounded_rows_that_its_watermark_passed(benchmarks_in_session):
    with (
        written.of_stream(SparkWindow(), *WINDOW) as stream,
        written.of_bounded(SparkWindow(), *WINDOW) as bounded,
    ):
        assert difference(stream, written.closed(bounded, TINY)) is None
        assert "rows, not" in difference(stream, bounded)


def test_a_stream_has_the_limit_of_batches_that_its_settings_say(benchmarks_in_session, spark):
    before = spark.conf.get(BATCH_BYTES)
    with session.configured(Settings(batch_bytes="1MB"), {"spark.sql.slicing.test": "x"}):
        assert spark.conf.get(BATCH_BYTES) == "1MB"
        assert spark.conf.get("spark.sql.slicing.test") == "x"
    assert spark.conf.get(BATCH_BYTES) == before
    assert spark.conf.get("spark.sql.slicing.test", None) is None


@pytest.mark.long
def test_streams_in_turns_count_the_micro_batches_of_streams_alone(benchmarks_in_session):
    history = workloads.Workload("tiny before", 100, 3, 600, 2)
    workload = replace(TINY, name="tiny with history", history=history)
    ours, theirs = Ours(), SparkWindow()
    short = Settings(unsteady=1, steady=3, warm_up=0.0)
    window = (workload, "5 minutes", "1 minute")
    both = turns.run(Side(ours, *window, short), Side(theirs, *window, replace(short, steady=2)))
    alone = [streams.run.__wrapped__(Side(query, *window, short)) for query in (ours, theirs)]
    assert [rows for _, rows in both[0].each] == [rows for _, rows in alone[0].each]
    assert [rows for _, rows in both[1].each] == [rows for _, rows in alone[1].each][:2]
    assert [run.records for run in both] == [200, 200]
    assert all(rows > 0 for run in both for _, rows in run.each)
    assert both[0].checkpoint_bytes > 0
    assert not list(workloads.FOLDER.glob("tmp*")), "what they wait for is removed"


@pytest.mark.slow
def test_micro_batches_take_turns_and_one_that_takes_too_long_is_stopped(benchmarks_in_session, monkeypatch):
    taken, real = [], turns._Fed.next

    def noted(stream):
        taken.append((type(stream.side.query).__name__, len(stream.progress)))
        real(stream)
        taken.append("done" if len(stream.progress) > taken[-1][1] else stream.running.isActive)

    monkeypatch.setattr(turns._Fed, "next", noted)
    short = Settings(unsteady=1, steady=1, warm_up=0.0)
    quick, slow = (Side(Ours(), *WINDOW, short), Side(SparkWindow(), *WINDOW, replace(short, limit=0.0)))
    ours, theirs = turns.run(slow, quick)[::-1]
    assert taken == [("SparkWindow", 0), False, ("Ours", 0), "done", ("SparkWindow", 0), False, ("Ours", 1), "done"]
    assert theirs.stopped
    assert not ours.stopped


def test_a_stream_that_fails_in_its_turn_says_why(benchmarks_in_session):
    def fails(frame, size, advance):
        return frame.selectExpr("assert_true(v < 0, 'as it was told to')")

    with pytest.raises(StreamingQueryException, match="as it was told to"):
        turns.run(Side(fails, *WINDOW, Settings(steady=3, warm_up=0.0)))


@pytest.mark.long
def test_a_stream_of_another_tree_is_the_same_stream(benchmarks_in_session, spark):
    """Its rows and their hashes, those of the windows that the last micro-batch closes included."""
    files = {"path": str(TINY.path()), "files": TINY.parts, "schema": TINY.schema}
    window = {"delay": "5 seconds", "size": WINDOW[1], "advance": WINDOW[2], "last": 3}
    found = old_commit_job.stream(spark, **files, **window, hashed=True)
    with written.of_stream(Ours(), *WINDOW) as ours:
        hashes = F.sum(F.xxhash64("key", "window", "records", "total").cast("decimal(38,0)")).cast("string")
        assert (found["rows"], found["hashes"]) == tuple(ours.agg(F.count("*"), hashes).first())
    assert found["seconds"] > 0
    assert all(found["partials"])
    assert old_commit_job.stream(spark, **files, **window)["rows"] == 0, "they are not counted when they are timed"
