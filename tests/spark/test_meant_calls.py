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


CALLS = {
    "pairs": lambda: C.count_distinct("a", "b"),
    "triples": lambda: C.count_distinct("a", "b", "at"),
    "rows": lambda: C.count("a", "b"),
}


def test_calls_of_several_columns(spark):
    """Spark counts what has no null, and tells times apart by the microsecond."""
    rows = [("x, y", "z"), ("x", "y, z"), ("x", "y, z"), ("x", None), (None, None), ("x", '"')]
    df = spark.createDataFrame(rows, "a string, b string").withColumn("u", F.lit(1))
    df = df.unionByName(df).withColumn("at", F.timestamp_micros(F.monotonically_increasing_id() % 2))
    df, made = df.withColumn("ts", F.lit("2024-05-01").cast("timestamp")), {}
    for name, call in CALLS.items():
        with pytest.raises(InvalidType) as refused:
            call()
        (text,) = re.findall(r"Write `(.*)`\.", str(refused.value))
        made[name] = eval(text, {"F": F, "C": C})
    wanted = df.agg(F.count_distinct("a", "b"), F.count_distinct("a", "b", "at"), F.expr("count(a, b)")).collect()
    assert windows(df).aggregate(**made).select(*made).collect() == wanted


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
