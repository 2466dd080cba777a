"""Values of any type as bytes that are ordered as the values are, and back.

::

    null                             01
    a value                          02, and after it
      string, binary                   its bytes with 00 FF for each 00, then 00 01
      decimal                          16 bytes, big endian, the sign inverted
      struct                           its fields
      array, map                       its elements, or its entries as structs, then 00
      other                            8 bytes as for a decimal; a float in the order of its values, NaN the largest

Null is thus smaller than all values. Structs are ordered by their first field, then by the second; arrays by their
first element, and an array before one that continues it, as in Spark. Spark does not order maps: here they are ordered
as the arrays of their entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.aggregates.arrow import to_numpy

OF_NULL = b"\x01"
"""The bytes of a null of any type."""
_VALUE, _END = b"\x02", b"\x00"
_ZERO, _ESCAPED, _CLOSED = b"\x00", b"\x00\xff", b"\x00\x01"
_BYTES = pa.large_binary()
_MOST = np.int64(2**63 - 1)


def ordered_bits(values: Array) -> Array:
    """Return doubles as int64 in the same order, with NaN as the largest."""
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return bits ^ ((bits >> 63) & _MOST)


def floats(numbers: Array) -> Array:
    """Return the doubles of numbers made by `ordered_bits`."""
    doubles: Array = np.ascontiguousarray(numbers ^ ((numbers >> 63) & _MOST)).view(np.float64)
    return doubles


def encoded(array: pa.Array, equal: bool = False) -> pa.Array:
    """Return the bytes of values, as large_binary without nulls.

    With `equal`, -0.0 has the bytes of 0.0, and the entries of a map are in the order of their bytes.
    """
    found = _joined(_scalar(_VALUE), _content(array, equal))
    return pc.if_else(array.is_valid(), found, _scalar(OF_NULL)) if array.null_count else found


def decoded(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the values of this type of bytes made by `encoded`."""
    ends = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, 8 * array.offset)
    data = array.buffers()[2]
    return _Reader(np.frombuffer(data if data is not None else b"", np.uint8)).read(type_, ends[:-1].copy())[0]


def _scalar(item: bytes) -> pa.Scalar[Any]:
    return pa.scalar(item, _BYTES)


def _joined(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _scalar(b""))


def _content(array: pa.Array, equal: bool) -> pa.Array:
    """Return the bytes of values without those that tell a value from null; any bytes, or null, for null."""
    type_ = array.type
    if pa.types.is_struct(type_):
        return _joined(*(encoded(each, equal) for each in array.flatten()))
    if pa.types.is_map(type_) or pa.types.is_list(type_):
        as_list = array.cast(pa.list_(_item_of(type_)))
        lengths, items = np.asarray(pc.list_value_length(as_list).fill_null(0)), encoded(as_list.flatten(), equal)
        if equal and pa.types.is_map(type_):
            cells = pa.table({"at": np.repeat(np.arange(len(lengths)), lengths), "item": items})
            items = items.take(pc.sort_indices(cells, [("at", "ascending"), ("item", "ascending")]))
        lists = pa.LargeListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths, dtype=np.int64))), items)
        return _joined(pc.binary_join(lists, _scalar(b"")), _scalar(_END))
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        texts = pc.replace_substring(array.cast(_BYTES), pattern=_ZERO, replacement=_ESCAPED)
        return _joined(texts, _scalar(_CLOSED))
    return _fixed(_words(array) if pa.types.is_decimal(type_) else _numbers(array, equal).astype(">i8").view(np.uint8))


def _item_of(type_: pa.DataType) -> pa.DataType:
    """Return the type of the elements of an array, or of the entries of a map."""
    return pa.struct([type_.key_field, type_.item_field]) if pa.types.is_map(type_) else type_.value_type


def _numbers(array: pa.Array, equal: bool) -> Array:
    """Return values that are numbers in Arrow as int64 in the same order."""
    if pa.types.is_floating(array.type):
        doubles = to_numpy(array, np.dtype(np.float64))
        return ordered_bits(doubles + 0.0 if equal else doubles)
    return to_numpy(array, np.dtype(np.int64))


def _words(array: pa.Array) -> Array:
    """Return the bytes of decimals, highest first."""
    words = np.frombuffer(array.buffers()[1], np.uint8)[16 * array.offset : 16 * (array.offset + len(array))]
    return words.reshape(-1, 16)[:, ::-1]


def _fixed(data: Array) -> pa.Array:
    """Return numbers of two's complement, highest byte first, with the sign inverted."""
    width = 16 if data.ndim == 2 else 8
    data = data.reshape(-1, width).copy()
    data[:, 0] ^= 0x80
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(data), [None, pa.py_buffer(data)]).cast(_BYTES)


class _Reader:
    """Values in bytes; `at` has the place of the next byte of each value."""

    def __init__(self, data: Array):
        self.data = data
        self.closed = np.flatnonzero((data[:-1] == _CLOSED[0]) & (data[1:] == _CLOSED[1]))

    def read(self, type_: pa.DataType, at: Array) -> tuple[pa.Array, Array]:
        """Return values, and the place after each of them."""
        there, at = self.data[at] == _VALUE[0], at + 1
        values, at[there] = self._values(type_, at[there])
        if there.all():
            return values, at
        return values.take(pa.array(np.where(there, np.cumsum(there) - 1, 0), mask=~there)), at

    def _values(self, type_: pa.DataType, at: Array) -> tuple[pa.Array, Array]:
        if pa.types.is_struct(type_):
            return self._structs(type_, at)
        if pa.types.is_map(type_) or pa.types.is_list(type_):
            return self._lists(type_, at)
        if pa.types.is_string(type_) or pa.types.is_binary(type_):
            return self._texts(type_, at)
        width = 16 if pa.types.is_decimal(type_) else 8
        data = self.data[at[:, np.newaxis] + np.arange(width)]
        data[:, 0] ^= 0x80
        return _plain(type_, data), at + width

    def _structs(self, type_: pa.DataType, at: Array) -> tuple[pa.Array, Array]:
        columns = []
        for field in type_:
            column, at = self.read(field.type, at)
            columns.append(column)
        return pa.StructArray.from_arrays(columns, fields=list(type_)), at

    def _lists(self, type_: pa.DataType, at: Array) -> tuple[pa.Array, Array]:
        """Return lists, which are read element by element: the first of all, the second of all that have one."""
        at, rows, item = at.copy(), np.arange(len(at)), _item_of(type_)
        columns, owners = [pa.array([], item)], [rows[:0]]
        while len(rows := rows[self.data[at[rows]] != _END[0]]):
            column, at[rows] = self.read(item, at[rows])
            columns.append(column)
            owners.append(rows)
        owner = np.concatenate(owners)
        items = pa.concat_arrays(columns).take(pa.array(np.argsort(owner, kind="stable")))
        ends = pa.array(np.append(0, np.cumsum(np.bincount(owner, minlength=len(at)))).astype(np.int32))
        if pa.types.is_map(type_):
            return pa.MapArray.from_arrays(ends, *items.flatten()).cast(type_), at + 1
        return pa.ListArray.from_arrays(ends, items), at + 1

    def _texts(self, type_: pa.DataType, at: Array) -> tuple[pa.Array, Array]:
        ends = self.closed[np.searchsorted(self.closed, at)] if len(at) else at
        edges = np.append(0, np.cumsum(ends - at))
        places = np.arange(edges[-1]) + np.repeat(at - edges[:-1], ends - at)
        buffers = [None, pa.py_buffer(edges.astype(np.int64)), pa.py_buffer(self.data[places])]
        texts = pa.Array.from_buffers(_BYTES, len(at), buffers)
        texts = pc.replace_substring(texts, pattern=_ESCAPED, replacement=_ZERO)
        text = texts.cast(pa.large_string()) if pa.types.is_string(type_) else texts
        return text.cast(type_), ends + len(_CLOSED)


def _plain(type_: pa.DataType, data: Array) -> pa.Array:
    """Return numbers of two's complement, highest byte first, as values of a type."""
    if pa.types.is_decimal(type_):
        return pa.Array.from_buffers(type_, len(data), [None, pa.py_buffer(np.ascontiguousarray(data[:, ::-1]))])
    numbers = data.view(">i8").ravel().astype(np.int64)
    if pa.types.is_floating(type_):
        return pa.array(floats(numbers)).cast(type_, safe=False)
    return pa.array(numbers.astype(np.int32) if pa.types.is_date32(type_) else numbers).cast(type_)
