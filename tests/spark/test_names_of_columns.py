"""Names in backquotes wherever a column is named, and names that differ in case only."""

import re

import pytest
from pyspark.sql import functions as F

import combinators as C
from slicing import (
    assigned_by,
    counting,
    early,
    group_by,
    on_update,
    plausible,
    session,
    sliding,
    tumbling,
    within_delta,
)
from slicing.errors import InvalidValue

DAY = tumbling("1 day")


@pytest.fixture(scope="module")
def df(spark):
    return spark.sql(
        "select 1 as `user.id`, timestamp'2024-05-01 00:00:00' as `event.time`, 5 as `x``y`, true as `is.paid`, "
        "named_struct('c.d', 2, 'e', 3) as `a.b`, interval '1' minute as `the.gap`"
    )


def at(windowed, **results):
    """The one row, without `window`."""
    (row,) = windowed.aggregate(**(results or {"n": C.count()})).collect()
    return {name: value for name, value in row.asDict().items() if name != "window"}


def test_names_in_backquotes(df):
    by_user = group_by(df, "`user.id`")
    daily = by_user.window(DAY, time="`event.time`")
    found = at(
        daily, x=C.sum("`x``y`"), path=C.max("`a.b`.`c.d`"), mixed=C.max("`a.b`.e"), paid=C.count(where="`is.paid`")
    )
    assert found == {"user.id": 1, "x": 5, "path": 2, "mixed": 3, "paid": 1}
    assert at(group_by(df, "`a.b`.`c.d`").window(DAY, time="`event.time`")) == {"c.d": 2, "n": 1}
    assert at(daily.evict(within_delta("`x``y`", 1)), x=C.sum("x`y")) == {"user.id": 1, "x": 5}
    assert daily.process(count, returns="n long", columns="`x``y`").collect()[0].n == 5
    assert at(by_user.window(session(gap_column="`the.gap`"), time="`event.time`"))["n"] == 1
    assigned = assigned_by(lambda time, x: [(time, time + x)], columns="`x``y`")
    assert at(by_user.window(assigned, time="`event.time`")) == {"user.id": 1, "n": 1}
    assert plausible(df, "`event.time`", "1 day").columns == df.columns
    for windows in (counting(1, order_by="`x``y`"), sliding("1 hour")):
        assert at(by_user.window(windows, time="`event.time`"))["n"] == 1
    spine = df.select("`user.id`", F.col("`event.time`").alias("at.last"))
    features = by_user.features_at(spine, "1 day", time="`event.time`", spine_time="`at.last`", inclusive=True)
    assert features.aggregate(x=C.sum("`x``y`")).collect()[0].x == 5


def count(key, window, records, context):
    return [(sum(records["x`y"].to_pylist()),)]


def test_names_in_backquotes_of_triggers_and_declared_columns(spark, df):
    live = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "event.time")
    live = live.withColumn("is.paid", F.lit(True)).withColumn("x`y", F.lit(1.5))
    with pytest.raises(InvalidValue, match="a stream needs a watermark") as refused:
        group_by(live, "value").window(DAY, time="`event.time`").aggregate(n=C.count())
    (call,) = re.findall(r"(withWatermark\(.*?\))`", str(refused.value).replace("``", "` `"))
    live = eval(f"live.{call}", {"live": live})
    windowed = group_by(live, "value").window(DAY, time="`event.time`")
    for trigger in (early(when="`is.paid`"), early(delta=("`x``y`", 1.0))):
        assert windowed.emit(trigger).aggregate(n=C.count()).columns[:3] == ["value", "window", "n"]
    declared = "`user.id` int, `event.time` timestamp, `a.b` struct<`c.d`:int>"
    made = group_by("`user.id`").window(DAY, time="`event.time`").define(n=C.max("`a.b`.`c.d`"))
    assert made.on(df).dataframe().columns == ["user.id", "window", "n"]
    assert made.declare(declared, streaming=True, watermark="1 minute", partitions=2).explain() is None


@pytest.mark.parametrize("name", ["`user.i`", "`user`.id", "`user.id`.x", "user.id`", "``", ""])
def test_what_is_in_backquotes_and_no_column_is_refused(df, name):
    with pytest.raises(InvalidValue, match=r"does not exist|cannot be computed"):
        group_by(df, name).window(DAY, time="`event.time`").aggregate(n=C.count())


@pytest.fixture
def case_sensitive(spark):
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield spark
    spark.conf.unset("spark.sql.caseSensitive")


def cased(key, window, results, context):
    yield results["A"], results["a"]


def test_results_that_differ_in_case(case_sensitive, tmp_path):
    rows = case_sensitive.sql("select 1 as U, 2 as u, timestamp'2024-05-01 00:00:00' as ts, 7 as x, 8 as X")
    windowed = group_by(rows, "U", "u").window(DAY, time="ts")
    results = {"A": C.sum("x"), "a": C.sum("X"), "Window": C.struct(b=C.max("x"), B=C.max("X"))}
    assert at(windowed, **results) == {"U": 1, "u": 2, "A": 7, "a": 8, "Window": (7, 8)}
    defined = group_by("U").window(DAY, time="ts").define(A=C.sum("x"), a=C.sum("X"))
    assert defined.on(rows).dataframe().columns == ["U", "window", "A", "a"]
    results = {"A": C.sum("x"), "a": C.sum("X")}
    made = windowed.aggregate(**results, then=cased, returns="p long, P long")
    assert made.select("p", "P").collect() == [(7, 8)]
    spine = rows.select("U", "u", "ts")
    made = group_by(rows, "U", "u").features_at(spine, "1 day", time="ts", inclusive=True)
    assert made.aggregate(A=C.sum("x"), a=C.sum("X")).select("A", "a").collect() == [(7, 8)]
    rows.write.parquet(str(tmp_path / "in"))
    live = case_sensitive.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    live = group_by(live.withWatermark("ts", "1 minute"), "U", "u").window(DAY, time="ts").emit(on_update())
    query = live.aggregate(**results).writeStream.format("memory").queryName("cased").outputMode("append")
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert case_sensitive.table("cased").select("U", "u", "A", "a").collect() == [(1, 2, 7, 8)]
    for taken in ("u", "window"):
        with pytest.raises(InvalidValue, match=f"result name `{taken}` collides"):
            windowed.aggregate(**{taken: C.count()})


def test_results_that_differ_in_case_collide_elsewhere(spark, df):
    windowed = group_by(df, "`user.id`").window(DAY, time="`event.time`")
    with pytest.raises(InvalidValue, match=r"result name `[Aa]` collides"):
        windowed.aggregate(A=C.count(), a=C.count())
    with pytest.raises(InvalidValue, match="result name `Window` collides"):
        windowed.aggregate(Window=C.count())
