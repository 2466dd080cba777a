"""Windows that differ in slices, from the rows of a block: every window with a record, as a run of its key's rows.

Nothing is laid out by slices that are not there, so what keys cost is their rows and their windows, however fine the
slices are::

    rows of a key     0    2              7 8           slices with records
    windows           [0 .. 3)  [2 .. 9)  [8 .. 12)     as ranges of slices
    row by row        0    1              .  2          the windows that a row is the first record of
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.point_lookups import picked
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.folding import by_key
from slicing.content.sizes import PORTION_BYTES, at_once, even_runs, memory, runs
from slicing.windows.families.family import Family


def assemble_ranges(shape: Shape, block: Block, first: int | None = None, end: int | None = None) -> Iterator[Windows]:
    """The windows `first` up to but not including `end` (all, if left out) that hold a record of a folded block.

    Yields portions of about PORTION_BYTES, each sorted by key and window. Combines per window: none for additive
    aggregates, none but one for each row where windows begin alike, else at most 2 sqrt(n).
    """
    family = shape.family
    if not len(block):
        return
    low, high = int(family.first_window(block.index[:1])[0]), int(family.last_window(block.index[-1:])[0]) + 1
    first, end = (low if first is None else max(low, first)), (high if end is None else min(high, end))
    if first >= end:
        return
    block = by_key(shape, block.between(family.first_slice(first), family.end_slice(end - 1)))
    yield from assemble_rows(shape, block, *_new_windows(family, block, first, end))


def assemble_rows(shape: Shape, block: Block, lows: Array, counts: Array) -> Iterator[Windows]:
    """For each row of a block by key and slice `counts` windows of its key, from `lows` on; likewise in parts."""
    width = 16 + 4 * (memory(shape, block) - block.names.nbytes) / max(1, len(block))
    per_key = np.bincount(block.keys, weights=counts, minlength=len(block.names))
    edges = np.searchsorted(block.keys, np.arange(len(block.names) + 1))
    for some in runs(per_key * width, PORTION_BYTES):
        rows = slice(*edges[list(some)])
        yield from _windows(shape, block.take(rows), lows[rows], counts[rows], at_once(PORTION_BYTES, width))


def _new_windows(family: Family, block: Block, first: int, end: int) -> tuple[Array, Array]:
    """For each row of a block sorted by key the first window that no earlier row of the key is in, and how many.

    A row that counts no records makes no window.
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


def _windows(shape: Shape, block: Block, lows: Array, counts: Array, limit: int) -> Iterator[Windows]:
    """Yield the windows of some keys, a number at a time; a larger part is of one key."""
    rows = np.flatnonzero(counts)
    lows, counts, keys = lows[rows], counts[rows], block.keys[rows]
    before = np.cumsum(counts) - counts
    total = int(counts.sum())
    for some in even_runs(0, total, limit):
        at = np.arange(*some)
        row = np.searchsorted(before, at, side="right") - 1
        yield picked(shape, block, keys[row], lows[row] + at - before[row])
