"""Packed partials: every kind comes back, and the bytes of format 1 never change."""

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from serving.stored import manifest

import combinators as C
from slicing import group_by, hopping
from slicing.aggregates.fields import arrow_type
from slicing.serving import Manifest, Packing, Progress

# A kind, and values of it: of these the first is frozen below.
VALUES = {
    "boolean": [True, False],
    "tinyint": [-1, 127],
    "smallint": [258, -32768],
    "int": [-2, 2**31 - 1],
    "bigint": [2**40 + 1, -(2**63)],
    "float": [0.5, -0.0],
    "double": [-1.5, float("inf")],
    "binary(3)": [b"abc", b"\0\1\2"],
    "date": [dt.date(1969, 12, 31), None],
    "timestamp": [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), None],
    "timestamp_ntz": [dt.datetime(1970, 1, 1, 0, 0, 2), None],
    "decimal(12,2)": [Decimal("-1.25"), None],
    "string": ["é", None, ""],
    "binary": [b"\xff", None, b""],
    "array<bigint>": [[1, None], None, []],
    "struct<a:string,b:double>": [{"a": "x", "b": None}, None, {"a": None, "b": 1.0}],
}
FROZEN = (
    "0101001866c6d1020000"
    "01ff0201feffffff01000000000100000000003f000000000000f8bf616263"
    "01ffffffff0140420f00000000000180841e00000000000183ffffffffffffffffffffffffffffff"
    "02000000010000000c00000006000000c3a9ff020280000000000000010100020278000101"
)


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_kind_come_back(kind):
    values = VALUES[kind]
    packing = Packing(("bigint", kind, "string"))
    columns = [pa.array(each, arrow_type(of)) for each, of in zip(_columns(values), packing.kinds, strict=True)]
    found = packing.unpack(packing.pack(1, np.arange(len(values)), columns))
    assert [found.column(at).to_pylist() for at in range(3)] == _columns(values)
    assert kind not in ("float", "double") or str(found.column(1).to_pylist()) == str(values)  # the sign of zero too
    assert found.starts.tolist() == list(range(len(values)))


def _columns(values):
    return [list(range(len(values))), values, ["t" * at for at in range(len(values))]]


def test_columns_may_be_slices_of_longer_ones():
    packing = Packing(tuple(VALUES))
    columns = [pa.array(each * 3, arrow_type(kind))[len(each) : len(each) + 2] for kind, each in VALUES.items()]
    found = packing.unpack(packing.pack(0, np.arange(2), columns))
    assert [found.column(at).to_pylist() for at in range(len(VALUES))] == [each[:2] for each in VALUES.values()]


def test_the_bytes_of_format_1_are_frozen():
    packing = Packing(tuple(VALUES))
    columns = [pa.array(each[:1], arrow_type(kind)) for kind, each in VALUES.items()]
    (packed,) = packing.pack(1, np.array([3_100_000_000_000]), columns)
    assert packed.hex() == FROZEN


MANIFEST = """
{"digest": "c465f0a9f611debe", "format": 1, "keys": [["user", "string"]],
 "levels": [["cut", [["every", 60000000, 0]]], ["every", 3600000000, 0]],
 "results": [{"columns": [], "kinds": [], "partial": ["n bigint"], "path": "n", "plain": true,
              "version": "combinators.count"},
             {"columns": ["'x'"], "kinds": ["double"], "partial": ["total double", "n bigint"], "path": "x",
              "plain": false, "version": "combinators.sum"}],
 "windows": "hopping('10 minutes', advance='1 minute'), hopping('3 hours', advance='1 minute', tail='1 hour')"}
"""
PROGRESS = """
{"batch": 7, "epoch": 2, "epochs": {"a": 1, "b": 2}, "gone": [1, 2], "known_from": null, "watermark": 3, "written": 5}
"""


def test_stored_manifests_and_progresses_stay_readable():
    windows = hopping("10 minutes", "1 minute"), hopping("3 hours", "1 minute", tail="1 hour")
    card = group_by("user").window(*windows, time="ts").define(n=C.count(), x=C.sum("x"))
    assert Manifest.read(MANIFEST).digest == manifest(card).digest == "c465f0a9f611debe"
    assert json.loads(manifest(card).text()) == json.loads(MANIFEST)
    progress = Progress(2, 7, 5, (1, 2), 3, None, {"a": 1, "b": 2})
    assert Progress.read(PROGRESS) == progress
    assert json.loads(progress.text()) == json.loads(PROGRESS)
