"""Bounded windows equal those of Polars, pandas and DuckDB, on random records with times that are repeated."""

import random
from datetime import UTC, datetime, timedelta

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import combinators as C
from slicing import group_by, hopping, on_close, sliding, tumbling

BERLIN = "Europe/Berlin"
RESULTS = {"n": C.count(), "total": C.sum("v"), "least": C.min("v"), "most": C.max("v")}
AS_POLARS = [
    pl.len().alias("n"),
    pl.col("v").sum().alias("total"),
    pl.col("v").min().alias("least"),
    pl.col("v").max().alias("most"),
]


@pytest.fixture(scope="module")
def records():
    """200 records of 3 keys over 5 weeks about a change of the clock in Berlin, in the order of their times."""
    choice = random.Random(8)
    begin = datetime(2026, 3, 10, tzinfo=UTC)
    quarters = sorted(choice.randrange(35 * 96) for _ in range(150))
    times = sorted([*quarters, *choice.sample(quarters, 50)])
    return pa.table(
        {
            "k": pa.array([choice.choice("abc") for _ in times]),
            "ts": pa.array([begin + timedelta(minutes=15 * each) for each in times], pa.timestamp("us", "UTC")),
            "v": pa.array([choice.randrange(-50, 50) for _ in times]),
            "n": pa.array(range(len(times))),
        }
    )


@pytest.fixture
def grouped(spark, records):
    return group_by(spark.createDataFrame(records), "k")


def in_utc(rows, *columns):
    """The rows as a sorted list of tuples, times in UTC."""
    found = [tuple(row[name] for name in columns) for row in rows]
    return sorted(tuple(v.astimezone(UTC) if isinstance(v, datetime) else v for v in row) for row in found)


def rolled(records, period, closed):
    """Polars' windows of each record, in the order of the records; nulls where there is none."""
    frame = pl.from_arrow(records)
    answers = frame.rolling("ts", period=period, closed=closed, group_by="k").agg(*AS_POLARS)
    beside = pl.concat(
        [frame.sort("k", maintain_order=True).select("n").rename({"n": "row"}), answers], how="horizontal"
    )
    held = {row["row"]: tuple(row[name] if row["n"] else None for name in RESULTS) for row in beside.to_dicts()}
    return [held[number] for number in range(len(frame))]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("closed", ["left", "right", "both", "none"])
def test_features_are_rolling_windows_of_polars(grouped, spark, records, closed):
    lengths = {"day": "1 day", "week": "7 days"}
    spine = spark.createDataFrame(records.rename_columns(["k", "ts", "w", "row"]))
    asked = (
        grouped.features_at(spine, **lengths, time="ts", closed=closed).aggregate(**RESULTS).orderBy("row").collect()
    )
    for name, period in (("day", "1d"), ("week", "7d")):
        found = [tuple(row[f"{each}_{name}"] for each in RESULTS) for row in asked]
        assert found == rolled(records, period, closed)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("closed", ["left", "right", "both", "none"])
def test_sliding_windows_are_rolling_windows_of_polars(grouped, records, closed):
    window = sliding("1 day", right=False, closed=closed)
    rows = grouped.window(window, time="ts").aggregate(**RESULTS).selectExpr("k", "window.end AS e", *RESULTS).collect()
    times, keys = (records[name].to_pylist() for name in ("ts", "k"))
    expected = {(k, t): each for k, t, each in zip(keys, times, rolled(records, "1d", closed), strict=True)}
    ends = {key: sorted({t for k, t in expected if k == key}) for key in "abc"}
    found = {
        key: [tuple(row[name] for name in RESULTS) for row in sorted(rows, key=lambda row: row["e"]) if row["k"] == key]
        for key in "abc"
    }
    assert found == {key: [expected[key, t] for t in those] for key, those in ends.items()}


@pytest.mark.parametrize("closed", ["left", "right"])
def test_hopping_windows_are_dynamic_groups_of_polars(grouped, records, closed):
    """Polars leaves out the windows of a key that begin before its first record."""
    rows = grouped.window(hopping("1 hour", "20 minutes", closed=closed), time="ts").aggregate(**RESULTS)
    found = in_utc(rows.selectExpr("k", "window.start AS start", *RESULTS).collect(), "k", "start", *RESULTS)
    groups = pl.from_arrow(records).group_by_dynamic("ts", every="20m", period="1h", closed=closed, group_by="k")
    expected = in_utc(groups.agg(*AS_POLARS).to_dicts(), "k", "ts", *RESULTS)
    first = {key: min(start for k, start, *_ in expected if k == key) for key in "abc"}
    assert [row for row in found if row[1] >= first[row[0]]] == expected


def test_days_from_six_are_dynamic_groups_of_polars(grouped, records):
    """Polars has a fault in the first window after a change of the clock, so the records of a key begin before it."""
    rows = grouped.window(tumbling("1 day", zone=BERLIN, offset="6 hours"), time="ts").aggregate(**RESULTS)
    found = rows.selectExpr("k", "window.start AS start", *RESULTS).collect()
    frame = pl.from_arrow(records).with_columns(pl.col("ts").dt.convert_time_zone(BERLIN))
    groups = frame.group_by_dynamic("ts", every="1d", offset="6h", group_by="k")
    assert in_utc(found, "k", "start", *RESULTS) == in_utc(groups.agg(*AS_POLARS).to_dicts(), "k", "ts", *RESULTS)


def test_months_back_are_rolling_windows_of_polars(grouped, spark, records):
    spine = spark.createDataFrame(records.rename_columns(["k", "ts", "w", "row"]))
    asked = grouped.features_at(spine, "1 month", zone="UTC", time="ts", closed="right").aggregate(**RESULTS)
    assert [tuple(row[name] for name in RESULTS) for row in asked.orderBy("row").collect()] == rolled(
        records, "1mo", "right"
    )


def test_windows_without_records_are_bins_of_pandas(grouped, records):
    empty = grouped.window(tumbling("1 day"), time="ts").emit(on_close(empty="30 days")).aggregate(n=C.count())
    found = {
        (row["k"], row["start"].astimezone(UTC)): row["n"]
        for row in empty.selectExpr("k", "window.start", "n").collect()
    }
    bins = records.to_pandas().set_index("ts").groupby("k").resample("1D")["v"].size()
    last = {key: max(start for k, start in bins.index if k == key) for key in "abc"}
    assert {pair: n for pair, n in found.items() if pair[1] <= last[pair[0]]} == dict(bins)


def test_largest_values_are_those_of_duckdb(grouped, records):
    """`n` is different in each record, so the order by it has no ties."""
    window = grouped.window(tumbling("1 week", zone="UTC"), time="ts")
    rows = window.aggregate(
        most=C.largest("v", 3), least=C.smallest("v", 3), last=C.max_by("v", "n", 4), first=C.min_by("v", "n", 4)
    )
    found = rows.selectExpr("k", "window.start AS start", "most", "least", "last", "first").collect()
    asked = duckdb.sql(
        """SELECT k, date_trunc('week', ts AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS start, max(v, 3) AS most,
        min(v, 3) AS least, arg_max(v, n, 4) AS last, arg_min(v, n, 4) AS first FROM records GROUP BY ALL"""
    )
    names = ("k", "start", "most", "least", "last", "first")
    assert in_utc(found, *names) == in_utc([dict(zip(names, row, strict=True)) for row in asked.fetchall()], *names)
