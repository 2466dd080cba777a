"""Merge rows whose intervals overlap or touch: sessions are made this way, from records or from sub-sessions.

::

    rows of a key    [0      30)       [50   70)
                          [20     40)            [70 80)
    sessions         [0           40)  [50             80)

The rows are sorted by key and start. A row begins a new session if it starts after the end of all rows before it. One
pass of cumulative maxima over all keys costs n log(n) for n rows, independent of the number of sessions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.sorting import argsorted, sorted_rows
from slicing.content.block import Block, Shape, encode_keys
from slicing.content.folding import reduced
from slicing.content.intervals import ends_of
from slicing.content.pairs import Pairs
from slicing.windows.time.edges import BEFORE


def chains(keys: Array, starts: Array, ends: Array, longest: int | None = None) -> tuple[Array, Array]:
    """Return the row numbers sorted by key and start, and the positions in that order where sessions begin.

    A session also begins at a row that starts more than `longest` after the start of the session before it.
    """
    rows = sorted_rows(keys, starts)
    if not len(rows):
        return rows, rows
    keys, starts, ends = keys[rows], starts[rows], ends[rows]
    begins = np.ones(len(rows), dtype=bool)
    begins[1:] = (keys[1:] != keys[:-1]) | (starts[1:] > reached(keys, ends)[:-1])
    heads = np.flatnonzero(begins)
    return rows, heads if longest is None else _cut(starts, ends, heads, longest)


def _cut(starts: Array, ends: Array, heads: Array, longest: int) -> Array:
    """Return the positions where sessions begin, given those of sessions of any length: only long ones are read."""
    stops = np.append(heads[1:], len(starts))
    is_long = starts[stops - 1] - longest > starts[heads]
    found: list[int] = []
    for head, stop in zip(heads[is_long].tolist(), stops[is_long].tolist(), strict=True):
        found += (head + at for at in _heads(starts[head:stop].tolist(), ends[head:stop].tolist(), longest))
    return np.unique(np.concatenate([heads, np.array(found, dtype=np.int64)])) if found else heads


def _heads(starts: list[int], ends: list[int], longest: int) -> Iterator[int]:
    """Yield the positions where sessions begin that end by themselves, or `longest` after their start."""
    reaches = full = BEFORE
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if start > min(reaches, full):
            reaches, full = end, start + longest
            yield at
        elif end > reaches:
            reaches = end


def reached(keys: Array, ends: Array) -> Array:
    """Return the greatest end of the rows of each key up to each row, `int64[n]`; rows are sorted by key.

    These are `ends` themselves if they ascend, as with one gap for all records.
    """
    if np.all((ends[1:] >= ends[:-1]) | (keys[1:] != keys[:-1])):
        return ends
    pairs = Pairs.over(ends, int(keys.max(initial=0)) + 1)
    return pairs.unpack(np.maximum.accumulate(pairs.pack(keys, ends)))[1]


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
    return block.take(argsorted(block.index))
