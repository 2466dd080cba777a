"""The packed partial: the partials of all results of one slice and key as bytes, in numbered formats that never change.

::

    format  level  start     fixed fields                                           varying fields
    u1      u1     i8        numbers; for others a flag of validity, or a length    text, binaries, nested values

All numbers are little endian and without padding. Format 1:

- boolean, integers, floats: the value. binary(n): its n bytes.
- date: u1 1, or 0 for null; i4 days. Timestamps: u1, i8 microseconds. Decimals: u1, 16 bytes of the unscaled value.
- string (UTF-8), binary, arrays, maps and structs (as `aggregates.ordered_bytes`): i4 length, -1 for null. Their bytes
  follow the fixed fields, in the order of the fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.arrow import to_numpy
from slicing.aggregates.fields import arrow_type, decimal_of, is_nested, numpy_type, width_of
from slicing.aggregates.ordered_bytes import decoded, encoded

FORMAT = 1
"""The number of the format that is written."""
_HEAD = [("format", "u1"), ("level", "u1"), ("start", "<i8")]
_DAYS, _MICROSECONDS, _DECIMAL, _LENGTH = "<i4", "<i8", "V16", "<i4"
_NULL = -1


@dataclass(frozen=True)
class Packing:
    """The layout of packed partials; `kinds` are those of all fields, result by result."""

    kinds: tuple[str, ...]

    @cached_property
    def row(self) -> np.dtype[Any]:
        """The numpy type of the head and the fixed fields."""
        return np.dtype([*_HEAD, *(part for at, kind in enumerate(self.kinds) for part in _fixed(at, kind))])

    @cached_property
    def varying(self) -> tuple[int, ...]:
        """The positions of the fields whose bytes follow the fixed fields."""
        return tuple(at for at, kind in enumerate(self.kinds) if _varies(kind))

    def pack(self, level: int, starts: Array, columns: Sequence[pa.Array]) -> list[bytes]:
        """Return the packed partial of each slice of a level; `columns` has one Arrow array per field."""
        rows = np.zeros(len(starts), self.row)
        rows["format"], rows["level"], rows["start"] = FORMAT, level, starts
        texts = []
        for at, (kind, column) in enumerate(zip(self.kinds, columns, strict=True)):
            if _varies(kind):
                items = _bytes(column, kind)
                rows[f"f{at}"] = [_NULL if item is None else len(item) for item in items]
                texts.append([item or b"" for item in items])
            else:
                _fill(rows, at, kind, column)
        fixed = [row.tobytes() for row in rows]
        return [b"".join(parts) for parts in zip(fixed, *texts, strict=True)]

    def unpack(self, packed: Sequence[bytes]) -> Unpacked:
        """Return the columns of packed partials."""
        if not self.varying:
            return Unpacked(self, np.frombuffer(b"".join(packed), self.row), {})
        width = self.row.itemsize
        rows = np.frombuffer(b"".join([each[:width] for each in packed]), self.row)
        lengths = [rows[f"f{at}"].tolist() for at in self.varying]
        texts: dict[int, list[bytes | None]] = {at: [] for at in self.varying}
        for each, sizes in zip(packed, zip(*lengths, strict=True), strict=True):
            ends = accumulate((max(size, 0) for size in sizes), initial=width)
            low = next(ends)
            for (at, size), end in zip(zip(self.varying, sizes, strict=True), ends, strict=True):
                texts[at].append(None if size == _NULL else each[low:end])
                low = end
        return Unpacked(self, rows, texts)


@dataclass(frozen=True)
class Unpacked:
    """The columns of packed partials: head and fixed fields as one structured array, varying fields as bytes."""

    packing: Packing
    rows: np.ndarray[Any, Any]
    texts: dict[int, list[bytes | None]]

    @property
    def starts(self) -> Array:
        """The start of each slice."""
        starts: Array = self.rows["start"]
        return starts

    def numbers(self, at: int) -> Array:
        """Return a field that is a number or has a fixed width, as it is stored."""
        column: Array = self.rows[f"f{at}"]
        return column

    def column(self, at: int) -> pa.Array:
        """Return a field as an Arrow array."""
        kind = self.packing.kinds[at]
        if _varies(kind):
            return _of_bytes(self.texts[at], kind)
        numbers = np.ascontiguousarray(self.numbers(at))
        if not _has_flag(kind):
            return _of_numbers(numbers, kind)
        null = ~self.rows[f"v{at}"]
        if decimal_of(kind):
            return pa.Array.from_buffers(
                arrow_type(kind), len(numbers), [pa.array(~null).buffers()[1], pa.py_buffer(numbers.tobytes())]
            )
        return pa.array(numbers, mask=null).cast(arrow_type(kind))


def _varies(kind: str) -> bool:
    return kind in ("string", "binary") or is_nested(kind)


def _has_flag(kind: str) -> bool:
    return kind in ("date", "timestamp", "timestamp_ntz") or decimal_of(kind) is not None


def _fixed(at: int, kind: str) -> list[tuple[str, Any]]:
    if _varies(kind):
        return [(f"f{at}", _LENGTH)]
    if _has_flag(kind):
        stored = _DECIMAL if decimal_of(kind) else _DAYS if kind == "date" else _MICROSECONDS
        return [(f"v{at}", "?"), (f"f{at}", stored)]
    return [(f"f{at}", numpy_type(kind).newbyteorder("<"))]


def _fill(rows: np.ndarray[Any, Any], at: int, kind: str, column: pa.Array) -> None:
    if _has_flag(kind):
        rows[f"v{at}"] = np.asarray(column.is_valid())
    if decimal_of(kind):
        words = np.frombuffer(column.buffers()[1], "V16")
        rows[f"f{at}"] = words[column.offset : column.offset + len(column)]
    else:
        stored = rows.dtype[f"f{at}"]
        if width_of(kind):
            column = column.cast(arrow_type(kind))
        rows[f"f{at}"] = to_numpy(column, stored)


def _bytes(column: pa.Array, kind: str) -> list[bytes | None]:
    found = encoded(column) if is_nested(kind) else column.cast(pa.binary())
    items: list[bytes | None] = found.to_pylist()
    return [item if valid else None for item, valid in zip(items, column.is_valid().to_pylist(), strict=True)]


def _of_bytes(items: list[bytes | None], kind: str) -> pa.Array:
    if not is_nested(kind):
        return pa.array(items, pa.binary()).cast(arrow_type(kind))
    known = [encoded(pa.nulls(1, arrow_type(kind)))[0].as_py() if item is None else item for item in items]
    return decoded(pa.array(known, pa.large_binary()), arrow_type(kind))


def _of_numbers(numbers: Array, kind: str) -> pa.Array:
    if width_of(kind):
        return pa.FixedSizeBinaryArray.from_buffers(
            arrow_type(kind), len(numbers), [None, pa.py_buffer(numbers.tobytes())]
        )
    return pa.array(numbers)
