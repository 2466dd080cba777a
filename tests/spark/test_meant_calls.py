"""Calls that messages write, made with Spark and compared with Spark's own."""

import operator
import re

import pytest
from pyspark.sql import functions as F

import combinators as C
from slicing import group_by, tumbling
from slicing.errors import InvalidType, NoSuchMethod


def windows(df):
    return group_by(df, "u").window(tumbling("1 day"), time="ts")


KNOWN = "filter (where ok)"
CALLS = {
    "pairs": (lambda: C.count_distinct("a", "b"), "count(distinct a, b)"),
    "triples": (lambda: C.count_distinct("a", "b", "at"), "count(distinct a, b, at)"),
    "zeros": (lambda: C.count_distinct("z", "a"), "count(distinct z, a)"),
    "five": (lambda: C.count_distinct("a", "b", "at", "z", "m"), "count(distinct a, b, at, z, m)"),
    "chosen": (lambda: C.count_distinct("a", "b", limit=10, where="ok"), f"count(distinct a, b) {KNOWN}"),
    "computed": (lambda: C.count_distinct(F.upper("a"), "b", 10), "count(distinct upper(a), b)"),
    "about": (lambda: C.approx_count_distinct("a", "b"), "count(distinct a, b)"),
    "about_more": (lambda: C.approx_count_distinct("a", "b", "z", rsd=0.01), "count(distinct a, b, z)"),
    "rows": (lambda: C.count("a", "b"), "count(a, b)"),
    "chosen_rows": (lambda: C.count("a", "b", where=F.col("ok")), f"count(a, b) {KNOWN}"),
    "last": (lambda: C.last("b", False), "max_by(b, ts)"),
    "first": (lambda: C.first("b", ignorenulls=True), "min_by(b, ts) filter (where b is not null)"),
    "last_chosen": (
        lambda: C.last("b", ignorenulls=True, where="ok"),
        "max_by(b, ts) filter (where ok and b is not null)",
    ),
    "last_of": (lambda: C.last("b", True, where=F.col("ok")), "max_by(b, ts) filter (where ok and b is not null)"),
}
"""Calls as they are guessed, each with what it is in Spark."""


def written(call):
    with pytest.raises(InvalidType) as refused:
        call()
    (text,) = re.findall(r"Write `(.*?)`", str(refused.value))
    return text


def test_calls_of_several_columns(spark):
    """Spark counts what has no null, tells times apart by the microsecond, and takes both zeros as one."""
    rows = [("x, y", "z"), ("x", "y, z"), ("x", "y, z"), ("x", None), (None, None), ("x", '"'), ("y", None)]
    df = spark.createDataFrame(rows, "a string, b string").coalesce(1)
    df = df.unionByName(df).coalesce(1).withColumn("n", F.monotonically_increasing_id())
    df = df.selectExpr(
        "*",
        "1 as u",
        "timestamp_micros(n % 2) as at",
        "array(0D, -0D, double('nan'), 1D)[n % 4] as z",
        "if(n % 2 = 0, map(1, 2, 3, 4), map(3, 4, 1, 2)) as m",
        "if(n = 12, null, n < 12) as ok",
        "timestamp'2024-05-01' + make_interval(0, 0, 0, 0, 0, 0, n) as ts",
    )
    made = {name: eval(written(call), {"F": F, "C": C}) for name, (call, _) in CALLS.items()}
    wanted = df.agg(*(F.expr(sql).alias(name) for name, (_, sql) in CALLS.items())).collect()
    assert windows(df).aggregate(**made).select(*made).collect() == wanted


def test_keys_by_name(spark):
    df = spark.range(1).selectExpr("id as u")
    for call in (lambda: group_by(df, key="u"), lambda: group_by(df=df, keys="u"), lambda: group_by(df, by=["u"])):
        found = eval(written(call), {"group_by": group_by, "df": df})
        assert found == group_by(df, "u")


def test_sparks_names_of_aggregates(spark):
    rows = spark.createDataFrame([(2**62, 3), (2**62, 5), (6, 2)], "x long, y long")
    df = rows.selectExpr("*", "1 as u", "timestamp'2024-05-01' as ts")
    columns = {"try_sum": "x", "try_avg": "x", "product": "y", "bit_and": "y", "bit_or": "y", "bit_xor": "x"}
    made = {}
    for name, column in columns.items():
        with pytest.raises(NoSuchMethod) as refused:
            getattr(C, name)
        (text,) = re.findall(r"`(C\..*)`", str(refused.value))
        made[name] = eval(text.replace('"x"', repr(column)), {"C": C, "operator": operator})
    (row,) = windows(df).aggregate(**made).select(*made).collect()
    assert (row.try_sum, row["product"], row.bit_and, row.bit_or, row.bit_xor) == (None, 30, 0, 7, 6)
