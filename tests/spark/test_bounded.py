"""Bounded DataFrames against Spark's batch `groupBy(keys, window)`."""

import datetime as dt
import itertools
import random
import resource
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import SPARK
from pyspark.sql import functions as F
from pyspark.sql import types as T
from streams import (
    ARROW,
    EXACT,
    FLOATS,
    HOUR,
    OURS,
    SCHEMA,
    SECOND,
    START,
    brute,
    by_spark,
    exact_differences,
    float_differences,
    record,
    same,
    spark_window,
    starts,
    table,
    worlds,
)

import combinators as C
from combinators.catalogue import CATALOGUE, sample_kinds, samples
from slicing import Aggregate, Hopping, InvalidValue, group_by, hopping, on_close, tumbling
from slicing.aggregates.fields import arrow_type

UTC = dt.UTC


@dataclass(frozen=True)
class Shape:
    """A window, and how far to move the records; in microseconds."""

    window: Hopping
    move: int = 0
    tree: str = "auto"


BEFORE_1970 = -START - HOUR
SHAPES = {
    "tumbling around 1970": Shape(tumbling("1 minute"), BEFORE_1970),
    "hour by minute, negative offset": Shape(hopping("1 hour", "1 minute", offset="-10 seconds")),
    "not a multiple, before 1970": Shape(hopping("10 minutes", "3 minutes", offset="100 seconds"), 2 * BEFORE_1970),
    "few slices, shifted": Shape(hopping("7 minutes", "5 minutes", offset="2 minutes"), BEFORE_1970),
    "three layers": Shape(hopping("100 minutes", "2 minutes"), tree="three_layer"),
    "recomputed": Shape(hopping("20 minutes", "1 minute"), tree="recompute"),
    "finer than a millisecond": Shape(
        hopping("1500 microseconds", "400 microseconds", offset="-7 microseconds"), BEFORE_1970
    ),
}


def moved(tables, by):
    """One table of all files, all times later by `by` microseconds; equal times keep an equal `f`."""
    whole = pa.concat_tables(tables).to_pylist()
    times = pa.concat_tables(tables)["ts"].cast(pa.int64()).to_pylist()
    return table([{**row, "ts": None if time is None else time + by} for row, time in zip(whole, times, strict=True)])


def by_place(found, *keys):
    """Rows by keys and start of the window."""
    rows = {}
    for row, begin in zip(found.to_pylist(), starts(found), strict=True):
        place = (*(repr(row[key]) for key in keys), begin)
        assert place not in rows, "a window goes out once"
        rows[place] = row
    return rows


@pytest.mark.one_in(3)
@pytest.mark.versions
@pytest.mark.parametrize("name", SHAPES, ids=lambda name: name.replace(", ", "-").replace(" ", "_"))
def test_all_windows_equal_those_of_spark(spark, name):
    shape = SHAPES[name]
    frame = spark.createDataFrame(moved(worlds(name, files=6), shape.move), SCHEMA).repartition(3)
    windowed = group_by(frame, "world").window(shape.window, time="ts").assemble(shape.tree)
    found = windowed.aggregate(**OURS)
    expected = frame.groupBy("world", spark_window(shape.window)).agg(*by_spark())
    assert found.schema["window"].dataType == expected.schema["window"].dataType
    assert [found.schema[n].dataType for n in OURS] == [expected.schema[n].dataType for n in OURS]
    ours, theirs = by_place(found.toArrow(), "world"), by_place(expected.toArrow(), "world")
    assert exact_differences(ours, theirs)[:5] == []
    assert float_differences(ours, theirs)[:5] == []
    assert len(theirs) > 300


def test_records_in_gaps_belong_to_no_window(spark):
    """Spark has no windows with gaps; by brute force, as on streams."""
    window = hopping("60 seconds", "100 seconds", offset="-30 seconds", gaps=True)
    tables = worlds("gaps", files=6, edge=10 * SECOND)
    frame = spark.createDataFrame(pa.concat_tables(tables), SCHEMA)
    found = group_by(frame, "world").window(window, time="ts").aggregate(records=C.count(), total=C.sum("n"))
    forever = table([record(1, START + 10**9 * SECOND)])
    expected = brute([pa.concat_tables(tables), forever], window)
    wanted = {
        (repr(world), begin): row for (_, world, begin), row in expected.rows.items() if begin < START + 10**8 * SECOND
    }
    assert exact_differences(by_place(found.toArrow(), "world"), wanted, ["records", "total"])[:5] == []
    assert len(wanted) > 200


@pytest.mark.slow
def test_a_week_by_the_minute(spark):
    """R = 10,080: a record is in so many windows. Spark's `window` plans a projection for each of them and does not get
    through, so its side has the starts of a record's windows from `sequence` instead.
    """
    choice = random.Random(10_080)
    times = [START + choice.randrange(0, 10**9) * 1000 for _ in range(30)]
    frame = spark.createDataFrame(
        table([record(i % 2, time, n=i, x=i / 7, s=str(i)) for i, time in enumerate(times)]), SCHEMA
    )
    window = hopping("7 days", "1 minute")
    chosen = ("records", "total", "most", "s_most", "m_total", "f_first", *FLOATS, "known", "x_least")
    found = group_by(frame, "world").window(window, time="ts").aggregate(**{name: OURS[name] for name in chosen})
    newest = F.date_trunc("minute", "ts")
    begin = F.explode(F.sequence(newest - F.expr("interval 10079 minutes"), newest, F.expr("interval 1 minute")))
    spread = frame.withColumn("start", begin)
    window_of = F.struct("start", (F.col("start") + F.expr("interval 7 days")).alias("end")).alias("window")
    expected = spread.groupBy("world", window_of).agg(*by_spark())
    ours, theirs = by_place(found.toArrow(), "world"), by_place(expected.toArrow(), "world")
    assert exact_differences(ours, theirs, [name for name in chosen if name in EXACT])[:5] == []
    assert float_differences(ours, theirs)[:5] == []
    assert len(theirs) > 20_000


# --- keys -----------------------------------------------------------------------------------------------------------

KINDS = tuple(kind for kind in sample_kinds(CATALOGUE[0]))
WINDOW = hopping("10 seconds", "4 seconds")


def compare_keys(frame, *keys, window=WINDOW):
    """Count and sum of `n` by these keys, ours and Spark's; the keys compare to the last bit."""
    found = group_by(frame, *keys).window(window, time="ts").aggregate(records=C.count(), total=C.sum("n"))
    expected = frame.groupBy(*keys, spark_window(window)).agg(F.count("*").alias("records"), F.sum("n").alias("total"))
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in expected.schema]
    ours, theirs = by_place(found.toArrow(), *keys), by_place(expected.toArrow(), *keys)
    assert exact_differences(ours, theirs, ["records", "total"])[:5] == []
    return theirs


def test_every_atomic_type_is_a_key(spark):
    """One key column per type; a record has a value in one of them, null in the others, or null in all."""
    values = [(kind, value) for kind in KINDS for value in (*samples(kind), samples(kind)[0])]
    rows = len(values) + 2
    columns = [
        pa.array([value if kind == of else None for of, value in values] + [None, None], arrow_type(kind))
        for kind in KINDS
    ]
    times = pa.array([number % 23 * SECOND for number in range(rows)], pa.timestamp("us", "UTC"))
    names = [f"k{i}" for i in range(len(KINDS))]
    data = pa.table([times, pa.array(range(rows)), *columns], names=["ts", "n", *names])
    schema = ", ".join(
        ["ts timestamp", "n bigint", *(f"{name} {kind}" for name, kind in zip(names, KINDS, strict=True))]
    )
    frame = spark.createDataFrame(data, schema).repartition(2)
    found = compare_keys(frame, *names)
    assert len({place[:-1] for place in found}) > 60


def test_zeros_of_both_signs_are_one_key_and_all_nans_too(spark):
    frame = spark.sql(
        "select timestamp_seconds(id) as ts, id as n, k, cast(k as float) as f from range(8) join "
        "(select explode(array(0.0D, -0.0D, double('NaN'), -double('NaN'), double('Infinity'), null)) as k)"
    )
    found = compare_keys(frame, "k", "f")
    assert {place[:2] for place in found} == {("0.0", "0.0"), ("nan", "nan"), ("inf", "inf"), ("None", "None")}


@pytest.mark.versions
def test_structs_are_keys(spark):
    """A null struct and a struct of nulls are two keys, at every depth."""
    inner = [None, {"c": None, "d": None}, {"c": float("nan"), "d": None}, {"c": -0.0, "d": dt.date(1969, 1, 1)}]
    inner += [{"c": 0.0, "d": dt.date(1969, 1, 1)}]
    outer = [None, *({"a": a, "b": b} for a, b in itertools.product([None, "", "x"], inner))]
    rows = [(dt.datetime.fromtimestamp(i % 29, UTC), i, key, i % 2 == 0) for i, key in enumerate(outer * 3)]
    schema = "ts timestamp, n bigint, `the key` struct<a: string, b: struct<c: double, d: date>>, even boolean"
    frame = spark.createDataFrame(rows, schema)
    found = compare_keys(frame, "the key", "even")
    assert len({place[0] for place in found}) == 13


def test_no_key(spark):
    frame = spark.range(1000).select(F.timestamp_millis(F.col("id") * 77 - 40_000).alias("ts"), F.col("id").alias("n"))
    assert len(compare_keys(frame)) > 15


def test_a_decimal_and_a_string_together_are_keys(spark):
    frame = spark.range(3000).select(
        F.timestamp_millis(F.col("id") * 77).alias("ts"),
        F.col("id").alias("n"),
        (F.col("id") % 7).cast("decimal(38,10)").alias("price"),
        F.when(F.col("id") % 5 > 0, F.concat(F.lit("é"), F.col("id") % 5)).alias("odd `name`.x"),
    )
    found = group_by(frame, "price", "odd `name`.x").window(WINDOW, time="ts").aggregate(n=C.count())
    expected = frame.groupBy("price", "`odd ``name``.x`", spark_window(WINDOW)).agg(F.count("*").alias("n"))
    keys = ("price", "odd `name`.x")
    ours, theirs = by_place(found.toArrow(), *keys), by_place(expected.toArrow(), *keys)
    assert exact_differences(ours, theirs, ["n"])[:5] == []
    assert len({place[:2] for place in theirs}) == 35


# --- values ---------------------------------------------------------------------------------------------------------

SUMMED = ("tinyint", "smallint", "int", "float", "decimal(10,2)")
POWERS, POWERS_OF = ("tinyint",), ("skewness", "kurtosis", "corr", "regr_slope", "regr_intercept", "regr_r2")
"""Values of one size, for quotients of powers and products of distances, which others leave no digits of."""
CORRELATES, ANSI = (4, 3), "spark.sql.ansi.enabled"
"""Before this version `corr` of values that are all alike divides by zero, which is an error if Spark goes by ANSI."""
ORDERED = ("count", "min", "max", "first", "last", "min_by", "max_by", "count_if", "bool_and", "bool_or")


@pytest.mark.slow
@pytest.mark.versions
def test_every_combinator_on_every_type(spark):
    """Ordered ones on all samples of a type, sums on those whose sum cannot overflow; times are unique."""
    choice, rows = random.Random(7), 400
    columns = {
        kind: pa.array(
            [
                choice.choice(
                    [
                        v
                        for v in (*samples(kind), None)
                        if kind not in SUMMED or (v == v and v not in (float("inf"), float("-inf")))
                    ]
                )
                for _ in range(rows)
            ],
            arrow_type(kind),
        )
        for kind in KINDS
    }
    names = {kind: f"v{i}" for i, kind in enumerate(KINDS)}
    times = pa.array(choice.sample(range(-60 * SECOND, 60 * SECOND), rows), pa.timestamp("us", "UTC"))
    groups = pa.array([choice.choice([None, 1, 2]) for _ in range(rows)], pa.int64())
    others = pa.array([choice.choice([None, choice.gauss(0, 1)]) for _ in range(rows)], pa.float64())
    data = pa.table([groups, times, others, *columns.values()], names=["k", "ts", "y", *names.values()])
    schema = ", ".join(["k bigint", "ts timestamp", "y double", *(f"{name} {kind}" for kind, name in names.items())])
    frame = spark.createDataFrame(data, schema).repartition(2)
    ours, theirs = {}, []
    for entry in CATALOGUE:
        few = POWERS if entry.name in POWERS_OF else SUMMED
        for kind in [kind for kind in sample_kinds(entry) if entry.name in ORDERED or kind in few]:
            name, arguments = f"{entry.name} {kind}", [names[kind], "y"][: 1 + len(entry.others)]
            ours[name] = entry.of(*arguments)
            theirs.append(getattr(F, entry.reference)(*arguments, *(["ts"] if entry.by_time else [])).alias(name))
    found = group_by(frame, "k").window(hopping("30 seconds", "4 seconds"), time="ts").aggregate(**ours)
    a = by_place(found.toArrow(), "k")
    if SPARK < CORRELATES:
        spark.conf.set(ANSI, "false")
    try:
        expected = frame.groupBy("k", F.window("ts", "30 seconds", "4 seconds")).agg(*theirs)
        assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in expected.schema]
        b = by_place(expected.toArrow(), "k")
    finally:
        spark.conf.unset(ANSI)
    assert a.keys() == b.keys()
    assert len(a) > 90
    assert {entry.name for entry in CATALOGUE} == {name.split()[0] for name in ours}
    differences = [
        (place, name, a[place][name], b[place][name])
        for place in a
        for name in ours
        if not agree(a[place][name], b[place][name], name.split()[0] not in ORDERED)
    ]
    assert differences[:5] == []


def agree(x, y, inexact):
    if inexact and isinstance(x, float) and isinstance(y, float) and x == x and y == y:
        return abs(x - y) <= 1e-10 * max(1.0, abs(y))
    return same(x, y)


# --- the window column ----------------------------------------------------------------------------------------------


@pytest.mark.versions
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_windows_have_the_type_of_the_time_column_in_any_time_zone(zone, kind):
    """Around the night of 2024-03-10, in which New York has no 02:30."""
    frame = zone.range(600).select(
        F.expr(f"cast(timestamp_ntz'2024-03-09 12:00:00' + id * interval '7:01' minute to second as {kind})").alias(
            "ts"
        ),
        F.col("id").alias("n"),
        F.expr(f"cast(timestamp_ntz'1969-12-31 23:00:00' + (id % 3) * interval '1' hour as {kind})").alias("k"),
    )
    assert frame.schema["ts"].dataType == (T.TimestampType() if kind == "timestamp" else T.TimestampNTZType())
    window = hopping("3 hours", "50 minutes", offset="5 minutes")
    found = (
        group_by(frame, "k")
        .window(window, time="ts")
        .aggregate(records=C.count(), total=C.sum("n"), newest=C.max("ts"), first=C.first("ts"))
    )
    expected = frame.groupBy("k", spark_window(window)).agg(
        F.count("*").alias("records"),
        F.sum("n").alias("total"),
        F.max("ts").alias("newest"),
        F.min_by("ts", "ts").alias("first"),
    )
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in expected.schema]
    ours, theirs = by_place(found.toArrow(), "k"), by_place(expected.toArrow(), "k")
    assert [row["window"] for _, row in sorted(ours.items())] == [row["window"] for _, row in sorted(theirs.items())]
    assert exact_differences(ours, theirs, ["records", "total", "newest", "first"])[:5] == []


@pytest.mark.versions
def test_sparks_own_functions_take_the_window_for_theirs(spark):
    """`F.window_time` and `F.window` over `window`, as over Spark's."""
    frame = spark.range(500).select(F.timestamp_millis(F.col("id") * 1234).alias("ts"), F.col("id").alias("n"))
    ours = group_by(frame).window(tumbling("20 seconds"), time="ts").aggregate(n=C.sum("n"))
    theirs = frame.groupBy(F.window("ts", "20 seconds")).agg(F.sum("n").alias("n"))
    further = [
        each.groupBy(F.window("window", "1 minute", "30 seconds")).agg(
            F.sum("n").alias("n"), F.count("*").alias("count")
        )
        for each in (ours, theirs)
    ]
    assert sorted(further[0].collect()) == sorted(further[1].collect())
    timed = [each.select("n", F.window_time("window").alias("at")) for each in (ours, theirs)]
    assert timed[0].schema["at"].dataType == timed[1].schema["at"].dataType
    assert sorted(timed[0].collect()) == sorted(timed[1].collect())
    assert ours.schema["window"].dataType == theirs.schema["window"].dataType


def test_nothing_in_nothing_out(spark):
    frame = spark.createDataFrame(ARROW.empty_table(), SCHEMA)
    found = group_by(frame, "world").window(WINDOW, time="ts").aggregate(**OURS)
    assert found.collect() == []
    without_time = spark.createDataFrame(table([record(1, None), record(None, None)]), SCHEMA)
    assert group_by(without_time, "world").window(WINDOW, time="ts").aggregate(**OURS).collect() == []


@pytest.mark.versions
def test_the_four_functions_row_by_row(spark):
    """The example of the contract: a mean by hand, with `invert`, without it, and folded without `combine`."""
    frame = spark.createDataFrame(pa.concat_tables(worlds("rows", files=3)), SCHEMA)
    windowed = group_by(frame, "world").window(hopping("10 minutes", "2 minutes"), time="ts")
    functions = (
        lambda: (0, 0),
        lambda acc, n: (acc[0] + 1, acc[1] + n % 1000),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda a, b: (a[0] - b[0], a[1] - b[1]),
    )
    expected = frame.groupBy("world", F.window("ts", "10 minutes", "2 minutes")).agg(
        F.struct(F.count("n").alias("n"), F.coalesce(F.sum(F.pmod("n", F.lit(1000))), F.lit(0)).alias("total")).alias(
            "v"
        )
    )
    theirs = by_place(expected.toArrow(), "world")
    for count in (4, 3, 2):
        found = windowed.aggregate(*functions[:count], value="n", partial="n long, total long", name="v")
        assert exact_differences(by_place(found.toArrow(), "world"), theirs, ["v"])[:5] == []
    assert len(theirs) > 300
    assert max(row["v"]["n"] for row in theirs.values()) > 10


# --- cost -----------------------------------------------------------------------------------------------------------

SLICES = 60_000
SERIES = 16


def most_memory(total):
    """In place of a result: the most memory that this process ever had, in KiB.

    Of few rows it is nothing: when the query is built, the same ones must give the same twice.
    """
    return np.full(total.shape, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if total.size > 1000 else 0)


def shuffled(spark):
    """Bytes that all stages so far have written for a shuffle, from Spark's metrics of them."""
    context = spark.sparkContext
    none = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, none, None)
    return sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))


@pytest.mark.slow
@pytest.mark.parametrize("column", [pytest.param("n", marks=pytest.mark.long), "x"], ids=["long", "double"])
def test_shuffle_and_memory_do_not_grow_with_the_window(spark, fresh_workers, column):
    """A record per minute and key; windows of an hour and of a week then give as many rows, within a sixth."""
    frame = spark.range(SLICES * SERIES, numPartitions=2).select(
        (F.col("id") % SERIES).alias("k"),
        F.timestamp_seconds(F.floor(F.col("id") / SERIES) * 60).alias("ts"),
        (F.col("id") % 1009).alias("n"),
        (F.col("id") % 1009).cast("double").alias("x"),
    )
    peak = Aggregate(lambda: 0, lambda acc: acc, np.add, np.subtract, most_memory, returns="long", columns=True)
    found = {}
    for size in ("1 hour", "1 week"):
        before = shuffled(spark)
        windowed = group_by(frame, "k").window(hopping(size, "1 minute"), time="ts")
        rows = windowed.aggregate(total=C.sum(column), peak=peak.on())
        count, memory = rows.agg(F.count("*"), F.max("peak")).first()
        found[size] = (count, shuffled(spark) - before, memory)
    hour, week = found["1 hour"], found["1 week"]
    assert hour[0] == SERIES * (SLICES + 59)
    assert week[0] == SERIES * (SLICES + 10_079)
    for one, other in zip(hour[1:], week[1:], strict=True):
        assert other <= 1.2 * one


def test_hours_without_records_are_those_of_pandas(spark):
    """`resample` has each hour from the first to the last of a key, with sums of 0; ours go on for as long as asked."""
    times = {"a": [0, 10, 190, 200], "b": [70, 500]}
    rows = [
        (key, dt.datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(minutes=at), at) for key in times for at in times[key]
    ]
    events = spark.createDataFrame(rows, "key string, ts timestamp, n long")
    windowed = group_by(events, "key").window(tumbling("1 hour"), time="ts").emit(on_close(empty="1 day"))
    found = (
        windowed.aggregate(rows=C.count(), total=C.sum("n")).select("key", "window.start", "rows", "total").toPandas()
    )
    for key, some in pd.DataFrame(rows, columns=["key", "ts", "n"]).groupby("key"):
        own = found[found["key"] == key].sort_values("start").reset_index(drop=True)
        hours = some.set_index("ts")["n"].resample("1h")
        assert own["rows"].tolist() == hours.count().tolist() + [0] * 24
        assert own["total"].fillna(0).tolist() == hours.sum().tolist() + [0] * 24
        assert own["total"].isna().tolist() == (own["rows"] == 0).tolist()


def test_windows_without_records_need_results_of_slices(spark):
    events = spark.createDataFrame([], "key string, ts timestamp, n long")
    windowed = group_by(events, "key").window(tumbling("1 hour"), time="ts").emit(on_close(empty="1 day"))
    alone = Aggregate(lambda: 0, lambda n, _: n + 1, partial="n bigint", eager=True)
    with pytest.raises(InvalidValue, match="Give each aggregate a `combine`, or leave `empty` out"):
        windowed.aggregate(rows=alone.on("n"))
