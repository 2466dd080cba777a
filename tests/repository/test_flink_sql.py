"""Flink SQL has DuckDB's rows for the queries of the public benchmarks, on both state backends, and is measured."""

import shutil

import pytest

pytest.importorskip("duckdb", reason="the packages of the group `bench` are not installed")

from benchmarks.flink_sql.flink import PROJECT
from benchmarks.nexmark.queries.q5 import Q5
from benchmarks.nexmark.queries.q7 import Q7
from benchmarks.nexmark.queries.q11 import Q11
from benchmarks.nexmark.workload import events
from benchmarks.public import check, judge
from benchmarks.public.line import HASHMAP, ROCKSDB, Line
from benchmarks.public.sides import SIDES
from benchmarks.theodolite.uc3 import UC3
from benchmarks.theodolite.workload import measurements
from benchmarks.workloads.rows import difference
from servers import maven
from servers.process import Unavailable

FEW = events("few", 4_000, 5, rate=1_000)
DAYS = measurements("few days", 40, 7_200.0, 86_400.0, 8)
LINES = {
    "q5": Line("Nexmark", "few", Q5, FEW, "4 seconds", "2 seconds", batches=5, delay="4 seconds"),
    "q7": Line("Nexmark", "few", Q7, FEW, "4 seconds", batches=5, delay="4 seconds"),
    "q11": Line("Nexmark", "few", Q11, FEW, "2 seconds", batches=5, delay="4 seconds"),
    "uc3": Line("Theodolite", "few", UC3, DAYS, "3 days", "1 day", batches=5),
}


@pytest.fixture(scope="module")
def flink():
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    try:
        maven.classpath(PROJECT)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_rows_are_duckdbs(name, flink, benchmarks_in_session):
    line = LINES[name]
    with (
        judge.rows(line.query, line.workload, *line.window) as truth,
        SIDES[ROCKSDB].rows(line, line.workload) as rows,
    ):
        assert difference(rows, truth) is None


@pytest.mark.slow
def test_a_line_against_flink_is_checked_and_measured(flink, benchmarks_in_session):
    (line,) = LINES["q7"].others({HASHMAP: 0.7})
    assert check.differences(line) is None
    found = SIDES[HASHMAP].run(line)
    assert (found.records, found.batches, found.store) == (4_000, 1, "hashmap")
    assert found.seconds > 0
    assert found.peak_mib > 50
