"""The queries of Nexmark have DuckDB's rows, ours and Spark's, on bounded input and on a stream."""

from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

pytest.importorskip("duckdb", reason="the packages of the group `bench` are not installed")

from benchmarks.nexmark.generator import BID
from benchmarks.nexmark.queries.q5 import Q5
from benchmarks.nexmark.queries.q7 import Q7
from benchmarks.nexmark.queries.q8 import Q8
from benchmarks.nexmark.queries.q11 import Q11
from benchmarks.nexmark.queries.q12 import Q12
from benchmarks.nexmark.queries.q15 import Q15
from benchmarks.nexmark.queries.q16 import Q16
from benchmarks.nexmark.queries.q17 import Q17
from benchmarks.nexmark.workload import events
from benchmarks.public import check, judge, stream
from benchmarks.public.line import Line
from benchmarks.running import session, written
from benchmarks.running.side import Settings
from benchmarks.workloads.rows import difference
from slicing import on_update

pytestmark = pytest.mark.usefixtures("benchmarks_in_session")
FEW = events("few", 4_000, 5, rate=1_000)
OF_TIME = {
    "q5": (Q5, "4 seconds", "2 seconds"),
    "q7": (Q7, "4 seconds", "4 seconds"),
    "q8": (Q8, "4 seconds", "4 seconds"),
    "q11": (Q11, "2 seconds", "2 seconds"),
}
UPDATED = {each.name: (each, "8 seconds", "8 seconds") for each in (Q15, Q16, Q17)}
SIDES = pytest.mark.parametrize("side", ["ours", "spark"])


@pytest.mark.one_in(7)
@SIDES
@pytest.mark.parametrize("name", [*OF_TIME, *UPDATED])
def test_bounded_rows_are_duckdbs(name, side):
    query, *window = (OF_TIME | UPDATED)[name]
    with (
        written.of_bounded(getattr(query, side), FEW, *window) as rows,
        judge.rows(query, FEW, *window) as truth,
    ):
        assert difference(rows, truth) is None


def test_bids_that_are_a_gap_apart_are_one_session_for_all(spark):
    times = pa.array([0, 10_000_000, 20_001_000, 25_000_000], pa.timestamp("us", "UTC"))
    bid = pa.table({"ts": times, "bidder": [1, 1, 1, 1]})  # DuckDB finds it by this name
    import duckdb  # imported here, because it may be missing

    with duckdb.connect() as connection:
        truth = connection.sql(Q11.sql(10_000_000, 10_000_000)).fetchall()
    events = spark.createDataFrame(bid).selectExpr("ts", f"{BID} AS event_type", "struct(bidder) AS bid")
    for query in (Q11.ours, Q11.spark):
        rows = query(events, "10 seconds", "10 seconds")
        rows = rows.selectExpr("bidder", "unix_micros(window.start)", "unix_micros(window.end)", "bids")
        assert sorted(map(tuple, rows.collect())) == sorted(truth)
    assert [row[3] for row in sorted(truth)] == [2, 2]


@pytest.mark.slow
@SIDES
@pytest.mark.parametrize("name", OF_TIME)
def test_windows_of_a_stream_are_duckdbs(name, side):
    query, *window = OF_TIME[name]
    with (
        written.of_stream(getattr(query, side), FEW, *window) as rows,
        judge.rows(query, FEW, *window) as truth,
    ):
        assert difference(rows, written.closed(truth, FEW)) is None


@pytest.mark.slow
@SIDES
@pytest.mark.parametrize("name", UPDATED)
def test_last_updates_of_a_stream_are_duckdbs(name, side):
    query, *window = UPDATED[name]
    with (
        written.of_stream(getattr(query, side), FEW, *window, mode="update") as rows,
        judge.rows(query, FEW, *window) as truth,
    ):
        assert difference(check.last(rows, query), truth) is None


@pytest.mark.slow
@pytest.mark.parametrize("query", [partial(Q12.ours, trigger=on_update()), Q12.spark], ids=["ours", "spark"])
def test_bids_of_all_windows_of_the_clock_are_duckdbs(query):
    # With micro-batches without data, a stream by the clock does not end.
    with (
        session.configured(Settings(), {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}),
        written.of_stream(query, FEW, "1 second", "1 second", mode="update", delay="") as rows,
        judge.rows(Q12, FEW, "1 second", "1 second") as truth,
    ):
        windows = rows.groupBy("bidder", "window").agg(F.max("bids").alias("bids"))
        both = (each.groupBy("bidder").agg(F.sum(each.columns[-1]).alias("bids")) for each in (windows, truth))
        assert difference(*both) is None


@pytest.mark.slow
def test_a_side_is_measured_and_checked():
    line = Line("Nexmark", "few", Q7, FEW, "4 seconds", batches=FEW.batches)
    found = stream.run(line.side("ours"))
    assert (found.records, found.batches, found.rows) == (4_000, 1, 1)
    assert found.seconds > 0
    assert found.processor > 0
    assert found.peak_mib > 50
    assert check.differences(line) is None
