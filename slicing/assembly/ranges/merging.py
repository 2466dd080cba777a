"""Merge rows whose intervals overlap or touch: sessions are made this way, from records or from sub-sessions.

::

    rows of a key    [0      30)       [50   70)
                          [20     40)            [70 80)
    sessions         [0           40)  [50             80)

The rows are sorted by key and start. A row begins a new session if it starts after the end of all rows before it. One
pass of cumulative maxima over all keys costs n log(n) for n rows, independent of the number of sessions.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.block import Block, Shape, encode_keys
from slicing.content.folding import reduced
from slicing.content.intervals import ends_of
from slicing.content.pairs import Pairs


def sorted_rows(keys: Array, starts: Array) -> Array:
    """Return the row numbers sorted by key and start, `int64[n]`; equal rows keep their order.

    Two sorts are fast here: starts are mostly sorted already, and keys are sorted by radix.
    """
    rows = np.argsort(starts, kind="stable")
    return rows[by_code(keys[rows])]


def by_code(keys: Array) -> Array:
    """Return the row numbers sorted by key, `int64[n]`; rows of a key keep their order.

    Codes are sorted 16 bits at a time, the lowest ones first: numpy sorts integers of at most 16 bits by radix.
    """
    most = int(keys.max(initial=0))
    rows = np.argsort(keys.astype(np.min_scalar_type(min(most, 0xFFFF))), kind="stable")
    while most := most >> 16:
        keys = keys >> 16
        rows = rows[np.argsort(keys[rows].astype(np.uint16), kind="stable")]
    return rows


def chains(keys: Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    """Return the row numbers sorted by key and start, and the positions in that order where sessions begin."""
    rows = sorted_rows(keys, starts)
    if not len(rows):
        return rows, rows
    keys, starts = keys[rows], starts[rows]
    pairs = Pairs.over(ends, int(keys[-1]) + 1)
    _, reached = pairs.unpack(np.maximum.accumulate(pairs.pack(keys, ends[rows])))
    begins = np.ones(len(rows), dtype=bool)
    begins[1:] = (keys[1:] != keys[:-1]) | (starts[1:] > reached[:-1])
    return rows, np.flatnonzero(begins)


def numbered(rows: Array, heads: Array) -> Array:
    """Return the number of the session of each row, `int64[n]`; `rows` and `heads` are the result of `chains`."""
    numbers = np.zeros(len(rows), dtype=np.int64)
    numbers[rows] = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(rows))))
    return numbers


def merged(shape: Shape, block: Block) -> Block:
    """Return the sessions of the rows, sorted by key and start; rows are combined in the order of their starts."""
    return reduced(shape, block, *chains(block.keys, block.index, ends_of(block)))


def located(inner: Block, outer: Block) -> Array:
    """Return for each row of `inner` the number of the session in `outer` that contains it, or -1.

    `outer` must be sorted by key and start.
    """
    at = holding(inner, outer)
    return np.where(ends_of(inner) <= ends_of(outer)[at], at, -1) if len(outer) else at


def holding(rows: Block, outer: Block) -> Array:
    """Return for each row the number of the last session in `outer` that begins by then, of its key, or -1.

    `outer` must be sorted by key and start.
    """
    if not len(outer) or not len(rows):
        return np.full(len(rows), -1)
    codes, names = encode_keys(pa.concat_tables([outer.names, rows.names]))
    ours, theirs = codes[: len(outer.names)][outer.keys], codes[len(outer.names) :][rows.keys]
    pairs = Pairs.over(np.concatenate([outer.index, rows.index]), len(names))
    found = np.searchsorted(pairs.pack(ours, outer.index), pairs.pack(theirs, rows.index), "right") - 1
    return np.where((found >= 0) & (ours[found] == theirs), found, -1)


def by_start(block: Block) -> Block:
    """Return the rows in the order in which blocks are stored: by start."""
    return block.take(np.argsort(block.index, kind="stable"))
