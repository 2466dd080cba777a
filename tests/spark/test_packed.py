"""Rows come out of packed lists as they went in: of all kinds, by both ways to the JVM, on every version of Spark."""

import decimal
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from slicing.aggregates.fields import arrow_type
from slicing.spark.ddl import struct_of
from slicing.spark.packing import frame_of, unpacked
from slicing.stages import flat
from slicing.stages.flat import Flat
from slicing.stages.packed import COUNT, LENGTH, LIST_BYTES, ROWS, Packed

pytestmark = pytest.mark.versions

BIG = 2**62 + 1  # not a float
KINDS = {
    "bigint": [BIG, None, -BIG, 0],
    "int": [1, None, -(2**31)],
    "tinyint": [None, 127],
    "boolean": [True, None, False],
    "double": [0.1, None, float("inf"), -0.0],
    "float": [None, 1.5],
    "string": ["", None, "a,b", "\u00e4" * 40],
    "binary": [b"", None, b"\x00\xff"],
    "decimal(38,3)": [decimal.Decimal("1.125"), None, decimal.Decimal("-" + "9" * 35)],
    "array<bigint>": [[BIG, None], None, []],
    "array<string>": [["", None], None, ["a"]],
    "struct<x:bigint,y:array<double>>": [{"x": BIG, "y": [1.0, None]}, None, {"x": None, "y": None}],
    "array<struct<x:bigint,y:string>>": [[{"x": BIG, "y": None}, None], None, []],
}
PACKED = Packed(Flat(("bigint", "string"), tuple(KINDS), None, True, True, True, False, False, False))


def rows(count):
    """A flat table; every column is another multiple of its values, so that rows differ."""
    columns = {"k0": [BIG + at for at in range(count)], "k1": [None if at % 3 else f"k{at}" for at in range(count)]}
    columns |= {flat.START: list(range(count)), flat.STOP: [None if at % 7 == 0 else BIG for at in range(count)]}
    columns |= {f"r{at}": [each[n % len(each)] for n in range(count)] for at, each in enumerate(KINDS.values())}
    table = pa.table({field.name: pa.array(columns[field.name], arrow_type(field.kind)) for field in PACKED.inside})
    for name, value, kind in ((flat.FAMILY, 3, "int"), (flat.KIND, 2, "tinyint"), (flat.REVISION, BIG, "bigint")):
        table = table.append_column(name, pa.repeat(pa.scalar(value, arrow_type(kind)), count))
    return table


def seen(table):
    """Rows to compare; bytes come back as another type of bytes."""
    names = [field.name for field in PACKED.flat.fields if field.name != flat.CAUSE]
    return Counter(repr(plain(row)) for row in table.select(names).to_pylist())


def plain(value):
    if isinstance(value, dict):
        return {name: plain(each) for name, each in sorted(value.items())}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return bytes(value) if isinstance(value, bytearray) else value


class Yields(StatefulProcessor):
    """Puts out what it is given, and a count, for each key."""

    def __init__(self, tables):
        self.tables = tables

    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        list(rows)
        yield from (frame_of(PACKED.rows(table)) for table in self.tables)
        yield frame_of(PACKED.counts({"late": 5, "results": 0}))

    def close(self):
        pass


def test_rows_of_a_stateful_operator_come_out_as_they_went_in(spark, tmp_path):
    tables = [rows(count) for count in (1, LENGTH, 2 * LENGTH + 3, 0)]
    tables[1] = tables[1].drop_columns(["r0", flat.REVISION])  # null where a table has no such column
    spark.range(1).write.parquet(f"{tmp_path}/in")
    stream = spark.readStream.schema("id bigint").parquet(f"{tmp_path}/in")
    out = stream.groupBy("id").transformWithStateInPandas(
        Yields(tables), struct_of(PACKED.schema), outputMode="Append", timeMode="None"
    )
    counted = out.observe("counts", F.sum(F.when(F.col(flat.CAUSE) == 0, F.col(COUNT))).alias("late"))
    found = unpacked(counted.where(F.col(flat.CAUSE).isNull()), PACKED)
    query = (
        found.writeStream.format("parquet")
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
        .start(f"{tmp_path}/out")
    )
    query.processAllAvailable()
    (late,) = {
        progress["observedMetrics"]["counts"]["late"] for progress in query.recentProgress if progress["numInputRows"]
    }
    query.stop()
    tables[1] = pa.table(
        {
            field.name: tables[1][field.name]
            if field.name in tables[1].column_names
            else pa.nulls(LENGTH, arrow_type(field.kind))
            for field in PACKED.flat.fields
        }
    )
    assert seen(spark.read.parquet(f"{tmp_path}/out").toArrow()) == sum(map(seen, tables), Counter())
    assert late == 5


@pytest.mark.parametrize("compiled", ["true", "false"])
def test_rows_of_bounded_input_come_out_as_they_went_in(spark, compiled):
    tables = [rows(count) for count in (LENGTH - 1, LENGTH + 1)]

    def put_out(batches):
        list(batches)
        for table in tables:
            yield from PACKED.rows(table).to_batches()

    before = spark.conf.get("spark.sql.codegen.wholeStage")
    spark.conf.set("spark.sql.codegen.wholeStage", compiled)
    try:
        frame = spark.range(0, 1, 1, 1).mapInArrow(put_out, struct_of(PACKED.schema))
        assert seen(unpacked(frame, PACKED).toArrow()) == sum(map(seen, tables), Counter())
    finally:
        spark.conf.set("spark.sql.codegen.wholeStage", before)


def test_lists_are_short_and_those_of_long_values_shorter():
    wide = Packed(Flat(("string",), (), None, *[False] * 6))
    names = pa.table({"k0": pa.array(["x" * 10_000] * 1000), flat.START: pa.array(range(1000))})
    lists = wide.rows(names)[ROWS].combine_chunks()
    lengths = np.diff(lists.offsets.to_numpy())
    assert lengths.sum() == 1000
    assert 1 < lengths.max() <= LIST_BYTES / 10_000
    assert lists.flatten().field("k0").equals(names["k0"].combine_chunks())
    narrow = Packed(Flat(("bigint",), (), None, *[False] * 6))
    short = narrow.rows(pa.table({"k0": pa.array(range(1000)), flat.START: pa.array(range(1000))}))
    assert [*map(len, short[ROWS].to_pylist())] == [LENGTH] * 3 + [1000 - 3 * LENGTH]
    assert len(PACKED.rows(rows(0))) == 0
