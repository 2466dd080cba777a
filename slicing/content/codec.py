"""Encode blocks as bytes, for the shuffle, and as text, for the state store."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.kernel import locating
from slicing.content.block import Block, Shape, place
from slicing.content.packing import from_text, pack, to_text, unpack, unpack_first

MOST_BYTES = 1 << 31
"""A limit above the size of any block, so that a length from damaged bytes cannot allocate too much memory."""
_CODEC = pa.Codec("zstd", compression_level=1)
_HEAD = struct.Struct("<qq")


def encode(shape: Shape, block: Block) -> bytes:
    """Return the block as bytes: two lengths, then, compressed, the packed columns of keys and of rows.

    Codes of keys are not stored. Instead, each (slice, key) pair has a number, in the order of slices and keys, and the
    differences between the numbers of consecutive rows are stored. They are small if rows are sorted, but rows need not
    be sorted.
    """
    used = np.zeros(len(block.names), dtype=bool)
    used[block.keys] = True
    codes, width = np.cumsum(used)[block.keys] - 1, int(np.count_nonzero(used))
    keys = pack([column.combine_chunks() for column in block.names.filter(pa.array(used)).columns])
    steps = np.diff(_since_first(block.index) * width + codes, prepend=0)
    columns = [pa.array(block.index), pa.array(steps), pa.array(block.records)]
    with locating(lambda row: place(shape, block.names, block.keys[row], block.index[row])):
        triples = zip(shape.kernels, block.partials, block.dictionaries, strict=True)
        fields = [kernel.to_arrow(partials, dictionary) for kernel, partials, dictionary in triples]
    columns += [fields[number][field] for number, field in shape.slots]
    body = keys + pack(columns)
    return _HEAD.pack(len(keys), len(body)) + bytes(_CODEC.compress(body, asbytes=True))


def decode(shape: Shape, data: bytes) -> Block:
    """Return the block of bytes: the inverse of `encode`."""
    columns, rows = decode_columns(shape, data, shape.row_schema)
    found = dict(zip(shape.slots, columns, strict=True))
    found |= {slot: found[source] for slot, source in shape.same.items()}
    partials, dictionaries = [], []
    for number, kernel in enumerate(shape.kernels):
        values, dictionary = kernel.from_arrow([found[number, field] for field in range(len(kernel.fields))])
        partials.append(values)
        dictionaries.append(dictionary)
    return replace(rows, partials=partials, dictionaries=dictionaries)


def decode_columns(shape: Shape, data: bytes, schema: pa.Schema) -> tuple[list[pa.Array], Block]:
    """Return the fields of an encoded block as columns, and the block without partials.

    `schema` is the row schema of the shape that encoded the block; `shape` needs to have the same keys only.
    """
    size, body = _body(data)
    names = pa.table(unpack(body.slice(0, size), shape.key_schema), schema=shape.key_schema)
    rows = unpack(body.slice(size), schema)
    slices, steps, records = (np.array(column, dtype=np.int64) for column in rows[:3])
    keys = np.cumsum(steps) - _since_first(slices) * len(names)
    return list(rows[3:]), Block(slices, keys, names, records, [], [])


def _body(data: bytes) -> tuple[int, pa.Buffer]:
    """Return the number of bytes of the keys, and the packed columns. Raises ValueError for impossible lengths."""
    size, length = _HEAD.unpack_from(data)
    if not 0 <= size <= length < MOST_BYTES:
        raise ValueError(f"no block has {size:,} bytes of keys in {length:,}")
    return size, _CODEC.decompress(pa.py_buffer(data).slice(_HEAD.size), length)


def keys_in_text(schema: pa.Schema, text: str) -> pa.Table:
    """Return the distinct keys of a block in text form. Needs only the Arrow schema of keys, not that of rows."""
    size, body = _body(from_text(text))
    return pa.table(unpack(body.slice(0, size), schema), schema=schema)


def rows_in_text(schema: pa.Schema, text: str, columns: int) -> tuple[pa.Table, Array, Array, Array]:
    """Return the distinct keys of a block in text form, and of each row the code of its key, its slice and its records.

    The last three are `int64[n]`. `columns` is the number of columns of the rows; their types need not be known.
    """
    size, body = _body(from_text(text))
    names = pa.table(unpack(body.slice(0, size), schema), schema=schema)
    slices, steps, records = unpack_first(body.slice(size), 3, columns)
    keys = np.cumsum(steps) - _since_first(slices) * len(names)
    return names, keys, slices, records


def _since_first(slices: Array) -> Array:
    return slices - slices[0] if len(slices) else slices


def encode_text(shape: Shape, block: Block) -> str:
    """Return the block as text. Spark moves text between Python and the state store faster than binary values."""
    return to_text(encode(shape, block))


def decode_text(shape: Shape, text: str) -> Block:
    """Return the block of a text: the inverse of `encode_text`."""
    return decode(shape, from_text(text))
