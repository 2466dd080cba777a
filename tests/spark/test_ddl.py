"""Schemas as text mean what they mean to Spark."""

import random

import pytest
from pyspark.sql import types as T

from slicing.errors import InvalidValue
from slicing.spark.ddl import struct_of

TEXTS = [
    "user string, ts timestamp, amount double",
    "a: byte, b: decimal(  16 , 8   ) ",
    "A BIGINT NOT NULL COMMENT 'its own', b Int",
    "`a ``b` struct<x: int, `y.z`: array<map<string, bigint>>>, c ARRAY < STRUCT < d : DATE NOT NULL > >",
    "a decimal, b decimal(5), c dec(7,2), d numeric(38,38)",
    "a interval day to second, b interval year to month, c interval hour, d interval month, e interval",
    "a interval day to minute, b interval minute to second",
    "a timestamp_ntz, b timestamp_ltz, c variant, d binary, e boolean, f real, g float, h short, i tinyint, j long",
    "a string collate UNICODE_CI, b string",
    "bucket int, partition int, part int, block binary, no_time bigint, no_window bigint",
    "type string, comment string, not_null int",
    "a struct<b int, c string>",
    "a string comment 'x\\'y, z bigint'",
    "",
    "a map<struct<a:int,b:int>,array<array<double>>>",
]
PARTS = [
    "bigint",
    "string",
    "decimal(12,2)",
    "timestamp",
    "timestamp_ntz",
    "interval day to hour",
    "binary",
    "smallint",
]


def generated(seed):
    rng = random.Random(seed)

    def kind(depth):
        form = rng.choice(["array", "map", "struct"] + ["plain"] * (1 + 3 * depth))
        if form == "array":
            return f"array<{kind(depth + 1)}>"
        if form == "map":
            return f"map<{rng.choice(PARTS)},{kind(depth + 1)}>"
        if form == "struct":
            return f"struct<{fields(depth + 1, ':')}>"
        return rng.choice(PARTS)

    def fields(depth, separator):
        return ", ".join(f"`f {i}`{separator}{kind(depth)}" for i in range(rng.randint(1, 4)))

    return fields(0, " ")


@pytest.mark.parametrize("text", [*TEXTS, *map(generated, range(40))])
def test_it_reads_as_spark_does(spark, text):
    if text:
        assert struct_of(text) == T.StructType.fromDDL(text)
        assert struct_of(text).simpleString() == T.StructType.fromDDL(text).simpleString()
    else:
        assert struct_of(text) == T.StructType()


def test_varchar_is_read_as_string():
    assert struct_of("a varchar(5), b char(3)") == struct_of("a string, b string")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user", "expected a type, not the end"),
        ("user strin", "`strin` is no type of Spark"),
        ("user string ts timestamp", "expected `,`, not `ts`"),
        ("user string,", "expected the name of a column, not the end"),
        ("a array<int", "expected `>`, not the end"),
        ("a decimal(x)", "expected a number, not `x`"),
        ("a interval day to month", "no interval day to month"),
        ("a map<int>", "expected `,`, not `>`"),
    ],
)
def test_what_cannot_be_read_is_refused(text, message):
    with pytest.raises(InvalidValue, match=message):
        struct_of(text)
