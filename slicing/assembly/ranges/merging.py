"""Rows that overlap or touch become one: how sessions are made, whatever their rows are made of.

::

    rows of a key    [0      30)       [50   70)
                          [20     40)            [70 80)
    become           [0           40)  [50             80)

The rows are sorted by key and start; a row begins a session of its own if it starts after all before it have ended. One
pass of cumulative maxima over all keys: n log(n) for n rows, however many sessions there are.
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
    """The rows by key and start, those that are equal in their order.

    Times are mostly in order already, and of narrow codes numpy makes a radix sort.
    """
    rows = np.argsort(starts, kind="stable")
    return rows[by_code(keys[rows])]


def by_code(keys: Array) -> Array:
    """The rows by key, those of a key in their order."""
    return np.argsort(keys.astype(np.min_scalar_type(int(keys.max(initial=0)))), kind="stable")


def chains(keys: Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    """The rows by key and start, and where in that order each session begins."""
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
    """The number of the session of each row, by what `chains` gives."""
    numbers = np.zeros(len(rows), dtype=np.int64)
    numbers[rows] = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(rows))))
    return numbers


def merged(shape: Shape, block: Block) -> Block:
    """The sessions that rows make, by key and start; rows are combined by start, equal ones in their order."""
    return reduced(shape, block, *chains(block.keys, block.index, ends_of(block)))


def located(inner: Block, outer: Block) -> Array:
    """For each row of a block, the session that holds it whole, -1 if none of them does; sessions by key and start."""
    if not len(outer) or not len(inner):
        return np.full(len(inner), -1)
    codes, names = encode_keys(pa.concat_tables([outer.names, inner.names]))
    ours, theirs = codes[: len(outer.names)][outer.keys], codes[len(outer.names) :][inner.keys]
    pairs = Pairs.over(np.concatenate([outer.index, inner.index]), len(names))
    found = np.searchsorted(pairs.pack(ours, outer.index), pairs.pack(theirs, inner.index), "right") - 1
    at = np.maximum(found, 0)
    holds = (found >= 0) & (ours[at] == theirs) & (ends_of(inner) <= ends_of(outer)[at])
    return np.where(holds, at, -1)


def by_start(block: Block) -> Block:
    """The rows in the order in which blocks are stored."""
    return block.take(np.argsort(block.index, kind="stable"))
