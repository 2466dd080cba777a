"""The made up flow of traffic has the shape of OSPBench's, and the window stage DuckDB's rows, ours and Spark's."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("duckdb", reason="the packages of the group `bench` are not installed")

from benchmarks.ospbench.window_stage import SAME, WINDOW_STAGE
from benchmarks.ospbench.workload import LANES, lanes
from benchmarks.public import check, judge
from benchmarks.public.line import Line
from benchmarks.running import written
from benchmarks.workloads import workload as workloads
from benchmarks.workloads.rows import difference

ROADS = lanes("few roads", 40, 10.0, 100.0, 8)
LINE = Line("OSPBench", "few", WINDOW_STAGE, ROADS, "5 minutes", "1 minute", delay="50 milliseconds")


def test_all_lanes_of_a_point_report_at_once_and_what_is_of_the_point_stays(monkeypatch, tmp_path):
    monkeypatch.setattr(workloads, "FOLDER", tmp_path)
    records = pa.concat_tables(map(pq.read_table, ROADS.files()))
    assert len(records) == ROADS.total == 8 * 40 * 10 * LANES
    reports = records.group_by(["measurementId", "ts"]).aggregate([("internalId", "count_distinct")])
    assert set(reports["internalId_count_distinct"].to_pylist()) == {LANES}
    assert len(reports) * LANES == len(records)
    points = records.group_by(["measurementId"]).aggregate([(name, "count_distinct") for name in SAME])
    assert len(points) == 40
    assert {count for name in SAME for count in points[f"{name}_count_distinct"].to_pylist()} == {1}
    delays = pc.subtract(records["publishTimestamp"], records["ts"]).cast(pa.int64())
    assert pc.min(delays).as_py() >= 0
    assert pc.max(delays).as_py() < 1_000_000


def test_bounded_rows_are_duckdbs(benchmarks_in_session):
    with judge.rows(WINDOW_STAGE, ROADS, *LINE.window) as truth:
        for query in (WINDOW_STAGE.ours, WINDOW_STAGE.spark):
            with written.of_bounded(query, ROADS, *LINE.window) as rows:
                assert difference(rows, truth) is None


@pytest.mark.slow
def test_both_streams_have_duckdbs_rows(benchmarks_in_session):
    assert check.differences(LINE) is None
