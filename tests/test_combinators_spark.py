"""Results and result types of the catalogue against the Spark functions that it names, in batch and without windows."""

import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from folding import fold
from pyspark.sql import functions

import combinators
from combinators.catalogue import CATALOGUE, sample_kinds, samples
from slicing.kinds import arrow_type

KINDS = sample_kinds(CATALOGUE[0])
TIGHT = ("bigint", "decimal(38,18)")
"""Kinds in which Spark overflows on the way, though the sum of all samples fits."""


def groups(kind):
    """Values by the name of their group: many, those without NaN and infinities, one, one at the edge, nulls only."""
    values = samples(kind)[:-2] if kind in TIGHT else samples(kind)
    finite = [value for value in values if not isinstance(value, float) or math.isfinite(value)]
    return {
        "all": [*values, None, values[0]],
        "finite": [finite[0], None, *finite],
        "one": [None, values[1]],
        "edge": [values[-1]],
        "null": [None, None],
    }


def table():
    """One column per kind and a time; each group as long as its longest column, the others filled up with nulls."""
    columns = {kind: groups(kind) for kind in KINDS}
    names, times, cells = [], [], {kind: [] for kind in KINDS}
    for name in columns[KINDS[0]]:
        length = max(len(columns[kind][name]) for kind in KINDS)
        names += [name] * length
        times += random.Random(length).sample(range(length), length)
        for kind in KINDS:
            values = columns[kind][name]
            cells[kind] += values + [None] * (length - len(values))
    arrays = [pa.array(cells[kind], arrow_type(kind)) for kind in KINDS]
    return pa.table([names, pa.array(times, pa.int64()), *arrays], names=["name", "time", *map(column, KINDS)])


def column(kind):
    return "c" + str(KINDS.index(kind))


def by_spark(entry, kind):
    arguments = [column(kind), "time"] if entry.by_time else [column(kind)]
    return getattr(functions, entry.reference)(*arguments).alias(column(kind))


@pytest.fixture(scope="module")
def data(spark):
    schema = ", ".join(["name string", "time bigint", *(f"{column(kind)} {kind}" for kind in KINDS)])
    frame = spark.createDataFrame(table(), schema).cache()
    yield frame
    frame.unpersist()


def agree(x, y):
    if isinstance(x, float) and isinstance(y, float):
        return x == y or (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=1e-12)
    return (x, type(x)) == (y, type(y))


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_results_and_types_are_those_of_spark(data, entry):
    kinds = sample_kinds(entry)
    frame = data.groupBy("name").agg(*[by_spark(entry, kind) for kind in kinds])
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    rows = {row["name"]: row for row in frame.toArrow().to_pylist()}
    records = {row["name"]: [] for row in rows.values()}
    for record in table().to_pylist():
        records[record["name"]].append(record)
    differences = []
    for kind in kinds:
        bound_kinds = (kind, "bigint") if entry.by_time else (kind,)
        for name, members in records.items():
            values = [(r[column(kind)], r["time"]) if entry.by_time else (r[column(kind)],) for r in members]
            found_kind, found = fold(entry.function("x"), bound_kinds, values)
            wanted = rows[name][column(kind)]
            assert found_kind == types[column(kind)]
            if not agree(found, wanted):
                differences.append((kind, name, found, wanted))
    assert not differences


@pytest.mark.parametrize("kind", ["decimal(10,2)", "decimal(38,4)", "decimal(38,36)", "decimal(38,38)", "decimal(5,0)"])
def test_means_of_decimals_are_rounded_as_by_spark(spark, kind):
    scale = int(kind.rstrip(")").split(",")[1])
    choice = random.Random(scale)
    records = [
        (group, Decimal(choice.randint(-999, 999)).scaleb(-scale)) for group in range(2, 40) for _ in range(group)
    ]
    frame = spark.createDataFrame(records, f"n int, x {kind}").groupBy("n").agg(functions.avg("x").alias("mean"))
    found = {
        n: fold(combinators.mean("x"), (kind,), [(x,) for group, x in records if group == n]) for n in range(2, 40)
    }
    assert frame.schema["mean"].dataType.simpleString() == found[2][0]
    assert {row.n: row.mean for row in frame.collect()} == {n: mean for n, (_, mean) in found.items()}
