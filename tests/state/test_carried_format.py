"""How whole records are stored: what stands here is in checkpoints, and stays."""

import pyarrow as pa
import pytest
from oracle import hopping

import combinators as C
from slicing.aggregates.aggregate import EVENT_TIME
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernels import kernel
from slicing.aggregates.ordered_bytes import decoded, encoded
from slicing.content.block import Shape
from slicing.state.format.fingerprint import fingerprint_of

KIND = "struct<n:bigint,s:string>"
RESULTS = [
    (
        C.last("x"),
        (KIND, "bigint"),
        "combinators.max_by",
        ["time bigint", "level tinyint", "value struct<n:bigint,s:string>"],
    ),
    (
        C.min_by("x", "y"),
        ("map<string,array<date>>", "decimal(10,2)"),
        "combinators.min_by",
        ["by decimal(10,2)", "level tinyint", "value map<string,array<date>>"],
    ),
    (C.max_by("x", "y"), ("int", "string"), "combinators.max_by", ["by string", "level tinyint", "value int"]),
    (C.collect_list("x"), (KIND, "bigint"), "timed struct<n:bigint,s:string> 1", ["timed binary"]),
    (C.last_n("x", 3, ignore_nulls=True), ("array<int>", "bigint"), "last_n 3 array<int> 1", ["timed binary"]),
    (C.last_n("x", 3), ("array<int>", "bigint"), "last_n 3 array<int> or null by bigint 1", ["timed binary"]),
    (
        C.last("x", by="y"),
        ("int", "bigint", "string"),
        "combinators.max_by",
        ["time bigint", "given boolean", "by string", "level tinyint", "value int"],
    ),
    (
        C.first("x", ignore_nulls=True),
        ("int", "bigint"),
        "combinators.min_by of values",
        ["time bigint", "level tinyint", "value int"],
    ),
    (C.max_by("x", "y", 3), ("string", "double"), "max_by 3 string or null by double 1", ["timed binary"]),
    (C.largest("x", 3, with_="y"), ("int", "string"), "largest 3 struct<x:int,y:string> by int 1", ["timed binary"]),
]
BYTES = {
    "bigint": (5, "028000000000000005"),
    "double": (-0.5, "02401fffffffffffff"),
    "decimal(10,2)": (None, "01"),
    "string": ("a\0", "026100ff0001"),
    "date": (None, "01"),
    KIND: ({"n": 1, "s": "z"}, "0202800000000000000102" + "7a0001"),
    "array<int>": ([1, None], "020280000000000000010100"),
    "map<string,int>": ([("k", 7)], "0202" + "026b0001" + "028000000000000007" + "00"),
}


@pytest.mark.parametrize(("bound", "kinds", "version", "partial"), RESULTS, ids=lambda each: str(each)[:20])
def test_results_in_a_header(bound, kinds, version, partial):
    shape = Shape(hopping(5), (Field("k", "bigint"),), (kernel("r", bound.resolve(kinds)),))
    columns = [None if column == EVENT_TIME else column for column in bound.columns]
    (result,) = fingerprint_of(shape, ["partials"], [columns], "1 over 1").header([0]).results
    assert (result.version, result.partial) == (version, partial)


@pytest.mark.parametrize("kind", BYTES)
def test_bytes_of_values(kind):
    value, stored = BYTES[kind]
    array = pa.array([value], arrow_type(kind))
    assert encoded(array).to_pylist() == [bytes.fromhex(stored)]
    assert decoded(pa.array([bytes.fromhex(stored)], pa.large_binary()), array.type) == array


def test_a_table_of_whole_records():
    """One record: the number of rows, then time, length and count, then the bytes of the value."""
    each = kernel("r", C.collect_list("x").resolve((KIND, "bigint")))
    values, _ = each.values([pa.array([{"n": 1, "s": "z"}], arrow_type(KIND)), pa.array([77], pa.int64())])
    (stored,) = each.to_arrow(each.fold(values, pa.array([0]).to_numpy(), 1), None)
    numbers = b"".join(number.to_bytes(8, "little") for number in (1, 77, 14, 1))
    assert stored.to_pylist() == [numbers + bytes.fromhex(BYTES[KIND][1])]
