"""Pack columns into bytes that compress well, and bytes into text, to reduce the data that are shuffled and stored.

An integer column is written as its least value and the differences from it, in 1, 2, 4 or 8 bytes each, or in no bytes
if all values are equal (frame of reference; Goldstein, Ramakrishnan and Shaft, 1998). For these and for floats, first
the first bytes of all values are written, then all second bytes, and so on (Parquet's BYTE_STREAM_SPLIT). High bytes
are alike and low bytes are not, so separating them helps the compressor. Other columns, and columns with nulls, are
written in Arrow's format. The widths are written before the columns. The types are not written: the reader knows them
from the fingerprint of the state.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_ROWS = struct.Struct("<q")
_COLUMN = struct.Struct("<Bq")
_AS_IT_IS = 255


def pack(columns: Sequence[pa.Array]) -> bytes:
    """Return columns of equal length as bytes. There must be at least one column."""
    plan, planes, kept = [_ROWS.pack(len(columns[0]))], [], []
    for column in columns:
        width, least = _width(column)
        plan.append(_COLUMN.pack(width, least))
        if width == _AS_IT_IS:
            kept.append(column)
        elif width:
            values = np.asarray(column)
            # A difference may need one bit more than the type has. It wraps around here, and back when it is read.
            numbers = values if pa.types.is_floating(column.type) else (values - values.dtype.type(least))
            planes.append(_split(numbers, width))
    if kept:
        names = [str(i) for i in range(len(kept))]
        planes.append(pa.RecordBatch.from_arrays(kept, names).serialize())
    return b"".join((*plan, *planes))


def unpack(data: pa.Buffer, schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of packed bytes: the inverse of `pack`. `schema` has the types of the columns."""
    (rows,) = _ROWS.unpack_from(data)
    plan = [_COLUMN.unpack_from(data, _ROWS.size + i * _COLUMN.size) for i in range(len(schema))]
    at = _ROWS.size + len(schema) * _COLUMN.size
    found: list[pa.Array] = []
    for (width, least), type_ in zip(plan, schema.types, strict=True):
        if width == _AS_IT_IS:
            found.append(None)
            continue
        found.append(_joined(data, at, rows, width, least, np.dtype(type_.to_pandas_dtype())))
        at += rows * width
    kept = [i for i, (width, _) in enumerate(plan) if width == _AS_IT_IS]
    if kept:
        batch = pa.ipc.read_record_batch(data.slice(at), pa.schema([(str(i), schema.types[i]) for i in kept]))
        for i, column in zip(kept, batch.columns, strict=True):
            found[i] = column
    return found


def unpack_first(data: pa.Buffer, count: int, of: int) -> list[NDArray[Any]]:
    """Return the first `count` of `of` packed columns, without reading the others. They must be int64 without nulls."""
    (rows,) = _ROWS.unpack_from(data)
    at, found = _ROWS.size + of * _COLUMN.size, []
    for number in range(count):
        width, least = _COLUMN.unpack_from(data, _ROWS.size + number * _COLUMN.size)
        found.append(np.asarray(_joined(data, at, rows, width, least, np.dtype(np.int64))))
        at += rows * width
    return found


def _width(column: pa.Array) -> tuple[int, int]:
    """Return the bytes per value, and the least value, which is subtracted from each."""
    type_ = column.type
    if column.null_count or not (pa.types.is_integer(type_) or type_ in (pa.float32(), pa.float64())):
        return _AS_IT_IS, 0
    if pa.types.is_floating(type_) or not len(column):
        return type_.bit_width // 8, 0
    least, most = (value.as_py() for value in pc.min_max(column).values())
    return next(width for width in (0, 1, 2, 4, 8) if most - least < 1 << 8 * width), least


def _split(numbers: NDArray[Any], width: int) -> bytes:
    """Return the first bytes of all numbers, then the second ones, and so on; bytes beyond `width` are left out."""
    narrow = numbers if numbers.itemsize == width else numbers.astype(f"<u{width}")
    return np.ascontiguousarray(narrow).view(np.uint8).reshape(len(narrow), width).T.tobytes()


def _joined(data: pa.Buffer, at: int, rows: int, width: int, least: int, dtype: np.dtype[Any]) -> pa.Array:
    if width == 0:
        return pa.array(np.full(rows, least, dtype))
    planes = np.frombuffer(data, np.uint8, rows * width, at).reshape(width, rows)
    narrow = np.ascontiguousarray(planes.T).reshape(-1).view(f"<u{width}")
    values = narrow.view(dtype) if width == dtype.itemsize else narrow.astype(dtype)
    if least:
        values = values + dtype.type(least)
    return pa.array(values)


_HALVES = ((0x000000000FFFFFFF, 4), (0x00003FFF00003FFF, 2), (0x007F007F007F007F, 1))
"""The steps that spread 56 bits over 8 bytes: the upper half moves up, then that of each half, then of each quarter."""


def to_text(data: bytes) -> str:
    """Return bytes as ASCII text with 7 bits per character: one seventh longer than the bytes, base64 is one third."""
    missing = -len(data) % 7
    each = np.zeros(((len(data) + missing) // 7, 8), np.uint8)
    each[:, :7] = np.frombuffer(data + bytes(missing), np.uint8).reshape(-1, 7)
    words = each.view("<u8").reshape(-1)
    for lower, shift in _HALVES:
        low = words & np.uint64(lower)
        words ^= low
        words <<= np.uint64(shift)
        words |= low
    return chr(missing) + words.tobytes().decode("ascii")


def from_text(text: str) -> bytes:
    """Return the bytes of a text: the inverse of `to_text`. Raises ValueError if the text has an impossible length."""
    words = np.frombuffer(text[1:].encode("ascii"), "<u8").copy()
    for lower, shift in reversed(_HALVES):
        low = words & np.uint64(lower)
        words ^= low
        words >>= np.uint64(shift)
        words |= low
    data = words.view(np.uint8).reshape(-1, 8)[:, :7].tobytes()
    return data[: len(data) - ord(text[0])]


_SEAL = "#"
"""The first character of a text with a checksum. No text of a format before 7 begins with it."""
_SUM = slice(1, 9)


def sealed(text: str) -> str:
    """Return ASCII text with its checksum, a crc32, in front."""
    return f"{_SEAL}{zlib.crc32(text.encode('ascii')):08x}{text}"


def is_sealed(text: str) -> bool:
    """Whether a text has a checksum.

    A text whose first character is damaged is not mistaken for one without a checksum: `to_text` gives 8 k + 1
    characters, and the checksum with its mark adds 9.
    """
    return text.startswith(_SEAL)


def unsealed(text: str) -> str:
    """Return a text without its checksum: the inverse of `sealed`. Raises ValueError if the text has changed."""
    content = text[_SUM.stop :]
    if f"{zlib.crc32(content.encode('ascii')):08x}" != text[_SUM]:
        raise ValueError(f"its checksum is not {text[_SUM]!r}, as it says")
    return content
