"""Intervals of days to seconds: the results and types are those of Spark, bounded and on a stream."""

import datetime as dt
import random

import pytest
from pyspark.sql import functions as F
from streams import SECOND, START, record, run, source, table, write

import combinators as C
from slicing import group_by, keep_last, tumbling
from slicing.errors import InvalidType

OURS = {
    "total": C.sum("gap"),
    "average": C.mean("gap"),
    "least": C.min("gap"),
    "most": C.max("gap"),
    "middle": C.median("gap", limit=100),
    "positive": C.sum("gap", where="long"),
}
SPARKS = {
    "total": "sum(gap)",
    "average": "avg(gap)",
    "least": "min(gap)",
    "most": "max(gap)",
    "middle": "median(gap)",
    "positive": "sum(gap) FILTER (WHERE long)",
}


def by_spark(frame, key):
    windows = frame.groupBy(key, F.window("ts", "3 minutes").alias("window"))
    return windows.agg(*(F.expr(text).alias(name) for name, text in SPARKS.items()))


def rows():
    rng = random.Random(3)
    start = dt.datetime(1969, 12, 31, 23, 50)
    for at in range(200):
        gap = None if rng.random() < 0.1 else dt.timedelta(microseconds=rng.randrange(-(10**13), 10**13))
        yield rng.choice("ab"), start + dt.timedelta(seconds=at * 7), gap, rng.random() < 0.5


def with_gaps(frame):
    return frame.selectExpr("*", "timestamp_micros(n) - timestamp_micros(0) AS gap", "n > 0 AS long")


def sorted_rows(frame):
    return sorted(frame.select("k", "window", *OURS).collect(), key=lambda row: (row.k, row.window.start))


def test_results_and_types_are_those_of_spark(spark):
    frame = spark.createDataFrame(list(rows()), "k string, ts timestamp, gap interval day to second, long boolean")
    found = group_by(frame, "k").window(tumbling("3 minutes"), time="ts").aggregate(**OURS)
    wanted = by_spark(frame, "k")
    assert [found.schema[name].dataType for name in OURS] == [wanted.schema[name].dataType for name in OURS]
    assert sorted_rows(found) == sorted_rows(wanted)
    kept = group_by(frame, "k").window(tumbling("3 minutes"), time="ts").evict(keep_last(1000)).aggregate(**OURS)
    assert sorted_rows(kept) == sorted_rows(wanted)


def test_a_stream_with_late_rows_goes_on_after_a_restart(spark, tmp_path):
    rng = random.Random(5)
    records = [record(rng.randrange(2), START + at * 7 * SECOND, rng.randrange(-(10**13), 10**13)) for at in range(120)]
    late = record(0, START, 7)
    write([table(records[:60]), table(records[60:80]), table([late])], tmp_path / "files")
    frame = with_gaps(source(spark, tmp_path / "files", "5 seconds"))
    windowed = group_by(frame, "world").window(tumbling("3 minutes"), time="ts").late("records")
    rows = windowed.aggregate(**OURS).withColumn("late_gap", F.col("late.record.gap")).drop("late")
    (first,) = run(rows, checkpoint=tmp_path / "checkpoint")
    write([table(records[80:]), table([record(0, START + 10**10)])], tmp_path / "files", first=3)
    (second,) = run(rows, checkpoint=tmp_path / "checkpoint")
    found = [row for output in (first, second) for part in output.tables.values() for row in part.to_pylist()]
    whole = with_gaps(spark.createDataFrame(table(records)))
    wanted = by_spark(whole, "world").toArrow().to_pylist()

    def place(row):
        return row["world"], row["window"]["start"]

    closed = [{name: row[name] for name in ("world", "window", *OURS)} for row in found if row["window"]]
    assert sorted(closed, key=place) == sorted(wanted, key=place)
    assert [row["late_gap"] for row in found if row["late_gap"]] == [dt.timedelta(microseconds=7)]


@pytest.mark.parametrize("kind", ["interval year to month", "interval month"])
def test_what_is_no_interval_of_days_to_seconds_is_refused(spark, kind):
    frame = spark.range(1).selectExpr("id", "current_timestamp() AS ts", f"CAST(INTERVAL '1' MONTH AS {kind}) AS gap")
    with pytest.raises(InvalidType, match=r"`gap` has type interval .*Take its months"):
        group_by(frame, "id").window(tumbling("1 hour"), time="ts").aggregate(total=C.sum("gap"))
    days = spark.range(1).selectExpr("INTERVAL '1' DAY AS gap", "current_timestamp() AS ts")
    with pytest.raises(InvalidType, match="key column `gap` has type interval day"):
        group_by(days, "gap").window(tumbling("1 hour"), time="ts").aggregate(n=C.count())
    with pytest.raises(InvalidType, match=r"`last\(gap\)` takes"):
        group_by(days).window(tumbling("1 hour"), time="ts").aggregate(n=C.last("gap"))
