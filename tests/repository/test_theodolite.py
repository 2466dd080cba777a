"""Theodolite's measurements have their shape, and its use cases DuckDB's rows, ours and Spark's."""

from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("duckdb", reason="the packages of the group `bench` are not installed")

from benchmarks.public import check, judge
from benchmarks.public.line import Line
from benchmarks.running import written
from benchmarks.theodolite.uc2 import UC2
from benchmarks.theodolite.uc3 import UC3, UPDATED
from benchmarks.theodolite.workload import by_hour, measurements
from benchmarks.workloads import workload as workloads
from benchmarks.workloads.rows import difference

DAYS = measurements("few days", 40, 7_200.0, 86_400.0, 8)
LINES = {
    "uc2": Line("Theodolite", "few", UC2, DAYS, "1 day"),
    "uc3": Line("Theodolite", "few by hour", UC3, DAYS, "3 days", "1 day"),
    "updated": Line("Theodolite", "few by hour, updated", UPDATED, DAYS, "3 days", "1 day"),
}


def test_each_sensor_reports_once_in_its_time(monkeypatch, tmp_path):
    monkeypatch.setattr(workloads, "FOLDER", tmp_path)
    records = pa.concat_tables(map(pq.read_table, DAYS.files())).sort_by("ts")
    times, names = records["ts"].cast(pa.int64()).to_numpy(), records["identifier"].to_pylist()
    assert len(records) == DAYS.total == 8 * 40 * 12
    assert (times == workloads.START + np.arange(DAYS.total) * 180_000_000).all()
    assert names == names[:40] * (8 * 12)
    assert len(set(names[:40])) == 40
    assert len(set(records["valueInW"].to_pylist())) == DAYS.total


def test_a_key_is_a_sensor_and_its_hour_of_day(monkeypatch, tmp_path):
    monkeypatch.setattr(workloads, "FOLDER", tmp_path)
    texts, numbers = (pa.concat_tables(map(pq.read_table, of.files())) for of in (DAYS, by_hour(DAYS)))
    hours = [time.astimezone(ZoneInfo("Europe/Paris")).hour for time in texts["ts"].to_pylist()]
    sensors = [int(name.removeprefix("sensor_")) for name in texts["identifier"].to_pylist()]
    assert numbers["ts"] == texts["ts"]
    assert numbers["key"].to_pylist() == [24 * sensor + hour for sensor, hour in zip(sensors, hours, strict=True)]
    assert numbers["v"].to_pylist() == [int(watts) for watts in texts["valueInW"].to_pylist()]


def test_bounded_rows_are_duckdbs(benchmarks_in_session):
    window = LINES["uc3"].window
    with judge.rows(UC3, DAYS, *window) as truth:
        for query in (UC3.ours, UC3.spark):
            with written.of_bounded(query, DAYS, *window) as rows:
                assert difference(rows, truth) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_both_streams_of_a_line_have_duckdbs_rows(name, benchmarks_in_session):
    assert check.differences(LINES[name]) is None
