"""Packed columns and texts come back as they were, in the bytes that their values need."""

import random
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from slicing.content.packing import from_text, pack, to_text, unpack

LEAST, MOST = -(2**63), 2**63 - 1
COLUMNS = {
    "one value": pa.array([7, 7, 7]),
    "the least of all": pa.array([LEAST, LEAST, LEAST + 255]),
    "the most of all": pa.array([MOST - 65_535, MOST, MOST]),
    "least and most": pa.array([LEAST, 0, MOST]),
    "a byte is enough": pa.array([-100, 0, 155]),
    "a byte is not enough": pa.array([-100, 0, 156]),
    "two bytes are enough": pa.array([10**15, 10**15 + 65_535, 10**15]),
    "two bytes are not enough": pa.array([0, 65_536, 1]),
    "four bytes are enough": pa.array([-1, 2**32 - 2, 0]),
    "four bytes are not enough": pa.array([-1, 2**32 - 1, 0]),
    "int": pa.array([-(2**31), 2**31 - 1, 0], pa.int32()),
    "smallint": pa.array([-(2**15), 2**15 - 1, 0], pa.int16()),
    "tinyint": pa.array([-128, 127, 0], pa.int8()),
    "nulls": pa.array([1, None, 3]),
    "only nulls": pa.array([None, None, None], pa.int64()),
    "double": pa.array([0.0, -0.0, float("inf")]),
    "float": pa.array([1e-45, -0.0, float("-inf")], pa.float32()),
    "half": pa.array(np.array([1, 2, 3], np.float16)),
    "unsigned": pa.array([0, 2**64 - 1, 1], pa.uint64()),
    "text": pa.array(["a", None, ""]),
    "binary": pa.array([b"a", b"", b"\0"]),
    "date": pa.array([date(1969, 1, 1), None, date(2024, 2, 29)]),
    "decimal": pa.array([Decimal("1.25"), Decimal("-1.25"), None], pa.decimal128(38, 2)),
    "boolean": pa.array([True, False, None]),
}


def back(columns):
    schema = pa.schema([(str(i), column.type) for i, column in enumerate(columns)])
    return unpack(pa.py_buffer(pack(columns)), schema)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_comes_back(name):
    (column,) = back([COLUMNS[name]])
    assert column.equals(COLUMNS[name])
    assert column.type == COLUMNS[name].type


def test_all_columns_come_back_together():
    assert all(map(pa.Array.equals, back(list(COLUMNS.values())), COLUMNS.values()))


def test_no_rows():
    assert [column.to_pylist() for column in back([pa.array([], pa.int64()), pa.array([], pa.string())])] == [[], []]


def test_a_slice_of_a_column():
    (column,) = back([pa.array(range(100)).slice(40, 20)])
    assert column.to_pylist() == list(range(40, 60))


@pytest.mark.parametrize("seed", range(20))
def test_random_integers(seed):
    choice = random.Random(seed)
    columns = []
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        info = np.iinfo(dtype)
        low = choice.randint(int(info.min), int(info.max))
        high = choice.choice([low, min(low + 2 ** choice.randint(0, 63), int(info.max))])
        columns.append(pa.array([choice.randint(low, high) for _ in range(50)], pa.from_numpy_dtype(dtype)))
    assert all(map(pa.Array.equals, back(columns), columns))


@pytest.mark.parametrize(("span", "width"), [(0, 0), (1, 1), (255, 1), (256, 2), (65_536, 4), (2**32, 8)])
def test_integers_take_the_bytes_that_they_need(span, width):
    column = pa.array([10**12, 10**12 + span] * 5000)
    assert len(pack([column])) - len(pack([pa.array([0, 0])])) == pytest.approx(10_000 * width, abs=300)


@pytest.mark.parametrize("length", [*range(30), 1000])
def test_text_is_ascii_and_comes_back(length):
    data = random.Random(length).randbytes(length)
    text = to_text(data)
    assert text.isascii()
    assert len(text) == 1 + 8 * -(-length // 7)
    assert from_text(text) == data


@pytest.mark.parametrize("data", [b"\0" * 14, b"\xff" * 14, bytes(range(256))])
def test_text_of_all_bits(data):
    assert from_text(to_text(data)) == data


def test_bytes_are_split_by_their_place():
    column = pa.array([0x0102, 0x0304, 0x0201, 0])
    assert pack([column]).endswith(bytes([0x02, 0x04, 0x01, 0, 0x01, 0x03, 0x02, 0]))
