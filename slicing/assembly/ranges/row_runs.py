"""Assemble windows with different numbers of slices from the rows of a block: a window is a run of its key's rows.

Slices without records take no memory. The cost of a key is its rows and windows, however fine the slices are::

    rows of a key     0    2              7 8           slices with records
    windows           [0 .. 3)  [2 .. 9)  [8 .. 12)     as ranges of slices
    by first row      0    1              .  2          the windows whose first record is in this row
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.point_lookups import lookup_sorted
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.folding import by_key
from slicing.content.sizes import ASSEMBLY_BYTES, at_once, even_runs, memory, runs
from slicing.windows.families.family import Family

Lookups = Callable[[Array, Array], Windows]
"""Returns window `windows[i]` of the key with code `keys[i]`, for every i."""
Prepare = Callable[[Shape, Block, Array, Array], Lookups]
"""Returns lookups of the windows of a block that is sorted by key and slice: `counts[i]` from `lows[i]` on of row i."""


def from_rows(shape: Shape, block: Block, _lows: Array, _counts: Array) -> Lookups:
    """Return lookups that combine each window from its rows."""
    return partial(lookup_sorted, shape, block)


def assemble_ranges(
    shape: Shape, block: Block, first: int | None = None, end: int | None = None, prepare: Prepare = from_rows
) -> Iterator[Windows]:
    """Yield the windows `first` up to but not including `end` (default: all) that hold a record of a folded block.

    Each part takes about ASSEMBLY_BYTES and is sorted by key and window. Combines per window: none for additive
    aggregates, else at most 2 sqrt(n). Windows that share their start cost one combine per row instead.
    """
    family = shape.family
    if not len(block):
        return
    low, high = int(family.first_window(block.index[:1])[0]), int(family.last_window(block.index[-1:])[0]) + 1
    first, end = (low if first is None else max(low, first)), (high if end is None else min(high, end))
    if first >= end:
        return
    block = by_key(shape, block.between(family.first_slice(first), family.end_slice(end - 1)))
    yield from assemble_rows(shape, block, *_new_windows(family, block, first, end), prepare)


def assemble_rows(
    shape: Shape, block: Block, lows: Array, counts: Array, prepare: Prepare = from_rows
) -> Iterator[Windows]:
    """Yield windows in parts: for each row i, `counts[i]` windows of the row's key, from `lows[i]` on.

    The block must be sorted by key and slice. Each part takes about ASSEMBLY_BYTES.
    """
    width = 16 + 4 * (memory(shape, block) - block.names.nbytes) / max(1, len(block))
    per_key = np.bincount(block.keys, weights=counts, minlength=len(block.names))
    edges = np.searchsorted(block.keys, np.arange(len(block.names) + 1))
    for some in runs(per_key * width, ASSEMBLY_BYTES):
        rows = slice(*edges[list(some)])
        if not counts[rows].any():
            continue
        lookups = prepare(shape, block.take(rows), lows[rows], counts[rows])
        yield from _windows(lookups, block.keys[rows], lows[rows], counts[rows], at_once(ASSEMBLY_BYTES, width))


def _new_windows(family: Family, block: Block, first: int, end: int) -> tuple[Array, Array]:
    """Return for each row the first window that holds no earlier row of the key, and the number of such windows.

    Both are `int64[n]`; the rows must be sorted by key. A row that counts no records begins no window.
    """
    marks = np.flatnonzero(block.records > 0)
    slices, keys = block.index[marks], block.keys[marks]
    begin, until = family.first_window(slices), family.last_window(slices) + 1
    same = keys[1:] == keys[:-1]
    begin[1:][same] = np.maximum(begin[1:][same], until[:-1][same])
    lows, counts = np.zeros(len(block), np.int64), np.zeros(len(block), np.int64)
    lows[marks] = np.clip(begin, first, end)
    counts[marks] = np.maximum(np.clip(until, first, end) - lows[marks], 0)
    return lows, counts


def _windows(lookups: Lookups, keys: Array, lows: Array, counts: Array, limit: int) -> Iterator[Windows]:
    """Yield the windows of some keys, at most `limit` at a time."""
    rows = np.flatnonzero(counts)
    lows, counts, keys = lows[rows], counts[rows], keys[rows]
    before = np.cumsum(counts) - counts
    total = int(counts.sum())
    for some in even_runs(0, total, limit):
        at = np.arange(*some)
        row = np.searchsorted(before, at, side="right") - 1
        yield lookups(keys[row], lows[row] + at - before[row])
