"""Results and result types of the catalogue against the Spark functions that it names, in batch and without windows."""

import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from folding import fold
from pyspark.sql import functions

import combinators
from combinators.catalogue import CATALOGUE, MORE, sample_kinds, samples
from slicing.aggregates.fields import arrow_type

KINDS = sample_kinds(CATALOGUE[0])
POWERS = ("skewness", "kurtosis", "covar_samp", "covar_pop", "corr", "regr_slope", "regr_intercept", "regr_r2")
"""Those of powers and products of distances, which values of very different size leave no digits of."""
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
    others = [None if time % 5 == 3 else time * 0.75 - 2 for time in times]
    head = [names, pa.array(times, pa.int64()), pa.array(others, pa.float64())]
    return pa.table([*head, *arrays], names=["name", "time", "other", *map(column, KINDS)])


def column(kind):
    return "c" + str(KINDS.index(kind))


def by_spark(entry, kind):
    arguments = [column(kind), "time"] if entry.by_time else [column(kind), "other"][: 1 + len(entry.others)]
    return getattr(functions, entry.reference)(*arguments).alias(column(kind))


@pytest.fixture(scope="module")
def data(spark):
    schema = ", ".join(["name string", "time bigint", "other double", *(f"{column(kind)} {kind}" for kind in KINDS)])
    frame = spark.createDataFrame(table(), schema).cache()
    yield frame
    frame.unpersist()


def agree(x, y, rel_tol=1e-12):
    if isinstance(x, float) and isinstance(y, float):
        return x == y or (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=rel_tol)
    return (x, type(x)) == (y, type(y))


def second(entry):
    """The columns after the first, and their kinds."""
    return {"time": "bigint"} if entry.by_time else dict(zip(["other"], entry.others, strict=False))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("entry", [e for e in CATALOGUE if e.name not in POWERS], ids=lambda entry: entry.name)
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
        for name, members in records.items():
            values = [(r[column(kind)], *(r[other] for other in second(entry))) for r in members]
            found_kind, found = fold(entry.of("x", "y"), (kind, *second(entry).values()), values)
            wanted = rows[name][column(kind)]
            assert found_kind == types[column(kind)]
            if not agree(found, wanted):
                differences.append((kind, name, found, wanted))
    assert not differences


def test_powers_and_products_of_distances_are_those_of_spark(spark):
    choice = random.Random(3)
    ordinary = [
        (
            group,
            None if choice.random() < 0.1 else choice.gauss(5, 2),
            None if choice.random() < 0.1 else choice.random(),
        )
        for group in range(12)
        for _ in range(group)
    ]
    still = [(20, 2.0, 3.0), (20, 2.0, 4.0), (21, 2.0, 3.0), (21, 4.0, 3.0), (22, 1.0, None), (22, None, 1.0)]
    odd = [(30, math.nan, 1.0), (30, 2.0, 3.0), (31, 1.0, math.inf), (31, 2.0, 3.0), (32, math.nan, 1.0)]
    entries = [entry for entry in CATALOGUE if entry.name in POWERS]
    records = [*ordinary, *still, *odd]
    columns = [getattr(functions, e.reference)(*("x", "y")[: 1 + len(e.others)]).alias(e.name) for e in entries]
    frame = spark.createDataFrame(records, "n int, x double, y double").groupBy("n").agg(*columns)
    differences = []
    for row in frame.collect():
        members = [(x, y) for group, x, y in records if group == row.n]
        for entry in entries:
            width = 1 + len(entry.others)
            _, found = fold(entry.of("x", "y"), ("double",) * width, [member[:width] for member in members])
            wanted = row[entry.name]
            if not agree(found, wanted, rel_tol=1e-9):
                differences.append((row.n, entry.name, found, wanted))
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


@pytest.mark.slow
def test_every_name_of_spark_for_the_same_function_is_there(spark):
    """Spark says itself which class is behind a name; the names that need no argument more are ours too."""
    names = [row.function for row in spark.sql("show system functions").collect() if row.function.isidentifier()]
    classes = {name: spark.sql(f"describe function {name}").collect()[1].function_desc for name in names}
    missing = {}
    for entry in (*CATALOGUE, *MORE):
        if entry.reference in classes and entry.name not in ("first", "last", "delta"):
            same = {name for name in names if classes[name] == classes[entry.reference]}
            missing[entry.name] = same - set(entry.names)
    assert missing["bool_or"] == set(), classes["bool_or"]
    assert {name: found for name, found in missing.items() if found} == {}
