"""Columns as bytes, with integers as narrow as their values, so that less is compressed, shuffled and stored.

Every integer column is written as its least value and the differences to it, in 1, 2 or 4 bytes each, or in none where
all values are equal (frame of reference; Goldstein, Ramakrishnan and Shaft, 1998). Other columns, and those with nulls,
are written as they are. The widths stand before the columns; the types are the reader's, as the state's fingerprint
has them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ROWS = struct.Struct("<q")
_COLUMN = struct.Struct("<Bq")
_AS_IT_IS = 255
_NARROW: dict[int, tuple[pa.DataType, int]] = {
    1: (pa.uint8(), 1 << 8),
    2: (pa.uint16(), 1 << 16),
    4: (pa.uint32(), 1 << 32),
}


def pack(columns: Sequence[pa.Array]) -> bytes:
    """Columns of equal length, of which there is at least one."""
    plan = [_ROWS.pack(len(columns[0]))]
    kept = []
    for column in columns:
        width, least = _width(column)
        plan.append(_COLUMN.pack(width, least))
        if width == _AS_IT_IS:
            kept.append(column)
        elif width:
            kept.append(pa.array(np.asarray(column) - least).cast(_NARROW[width][0]))
    batch = pa.RecordBatch.from_arrays(kept, [str(i) for i in range(len(kept))])
    return b"".join((*plan, batch.serialize()))


def unpack(data: pa.Buffer, schema: pa.Schema) -> list[pa.Array]:
    """The inverse of `pack`; `schema` has the types of the columns."""
    (rows,) = _ROWS.unpack_from(data)
    plan = [_COLUMN.unpack_from(data, _ROWS.size + i * _COLUMN.size) for i in range(len(schema))]
    types = [
        type_ if width == _AS_IT_IS else _NARROW[width][0]
        for (width, _), type_ in zip(plan, schema.types, strict=True)
        if width
    ]
    kept = pa.schema([(str(i), type_) for i, type_ in enumerate(types)])
    batch = pa.ipc.read_record_batch(data.slice(_ROWS.size + len(schema) * _COLUMN.size), kept)
    columns = iter(batch.columns)
    return [_wide(columns, width, least, rows, type_) for (width, least), type_ in zip(plan, schema.types, strict=True)]


def _width(column: pa.Array) -> tuple[int, int]:
    """Bytes for each value's difference to the least, and the least."""
    if not pa.types.is_integer(column.type) or not len(column) or column.null_count:
        return _AS_IT_IS, 0
    least, most = (value.as_py() for value in pc.min_max(column).values())
    if least == most:
        return 0, least
    for width, (_, end) in _NARROW.items():
        if most - least < end and 8 * width < column.type.bit_width:
            return width, least
    return _AS_IT_IS, 0


def _wide(columns: Iterator[pa.Array], width: int, least: int, rows: int, type_: pa.DataType) -> pa.Array:
    if width == _AS_IT_IS:
        return next(columns)
    dtype = np.dtype(type_.to_pandas_dtype())
    if width == 0:
        return pa.array(np.full(rows, least, dtype))
    values = np.asarray(next(columns)).astype(dtype)
    values += dtype.type(least)
    return pa.array(values)
