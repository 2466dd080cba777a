"""Assemble chosen windows of chosen keys from the slices that exist: sparse keys cost their slices, not R.

A window of a key is a run of the key's rows. Its partial depends only on these rows, not on their position in the
window: windows over the same slices have the same result to the last bit. Rows of a single slice group are combined
from the oldest on. Rows of several slice groups are combined as rest of the first group, whole groups between, start of
the last group, also from the oldest on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.aggregates.sorting import argsorted
from slicing.assembly.ranges.range_aggregates import before, without_combines
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, show_place
from slicing.content.folding import by_key
from slicing.content.pairs import Pairs
from slicing.windows.families.family import RUNNING, Family


@dataclass(frozen=True)
class _Runs:
    """Rows sorted by (key, slice). Run i is rows `low[i]` up to but not including `high[i]`, and is not empty."""

    low: Array
    high: Array
    segment: Array  # of each row: the number of its (key, slice group)
    starts: Array  # first row of each segment
    place: Callable[[int], str]  # the key and the slice of a row, for error messages


def lookup(shape: Shape, block: Block, keys: Array, windows: Array) -> Windows:
    """Return window `windows[i]` of the key with code `keys[i]`, for every i, from a folded block.

    Empty windows hold `init()`. Combines per window: none for additive aggregates, else at most 2 sqrt(n). Preparation
    costs 2 combines per row of the block.
    """
    return lookup_sorted(shape, by_key(shape, block), keys, windows)


def lookup_sorted(shape: Shape, block: Block, keys: Array, windows: Array) -> Windows:
    """Return the same as `lookup`, from rows that are sorted by key and slice."""
    family = shape.family
    pairs = Pairs.over(block.index, len(block.names))
    at, edges = pairs.pack(block.keys, block.index), (family.first_slice(windows), family.end_slice(windows))
    low, high = (np.searchsorted(at, pairs.pack(keys, edge)) for edge in edges)
    total = before(block.records)
    records = total[high] - total[low]
    held = np.flatnonzero(records)
    groups = _groups(family, block.index)
    heads = (np.diff(block.keys, prepend=-1) != 0) | (np.diff(groups, prepend=groups[:1]) != 0)

    def place(row: int) -> str:
        return show_place(family, block.names, block.keys[row], block.index[row])

    runs = _Runs(low[held], high[held], np.cumsum(heads) - 1, np.flatnonzero(heads), place)
    partials = []
    for kernel, columns in zip(shape.kernels, block.partials, strict=True):
        cells = kernel.spread(len(windows))
        if len(held):
            for cell, column in zip(cells, _run_partials(kernel, columns, runs), strict=True):
                cell[held] = column
        partials.append(cells)
    return Windows(windows, keys, block.names, records, partials, block.dictionaries)


def _groups(family: Family, slices: Array) -> Array:
    """Return the number by which rows are grouped for the scans: the slice group, or the common start of windows."""
    if family.assembled == RUNNING:
        return family.first_slice(family.first_window(slices))
    return slices // family.slices_per_group


def _run_partials(kernel: Kernel, columns: Partials, runs: _Runs) -> Partials:
    found = without_combines(kernel, columns, runs.low, runs.high)
    return _joined(kernel, columns, runs) if found is None else found


def _joined(kernel: Kernel, columns: Partials, runs: _Runs) -> Partials:
    first, last = runs.segment[runs.low], runs.segment[runs.high - 1]
    ends = np.append(runs.starts[1:], len(runs.segment))
    rest = running(kernel, columns, runs.segment, runs.starts, runs.place, backwards=True)
    start = running(kernel, columns, runs.segment, runs.starts, runs.place)
    whole = runs.low == runs.starts[first]
    within, across = np.flatnonzero((first == last) & ~whole), np.flatnonzero(first < last)
    out = [column[runs.low] for column in rest]
    from_start = np.flatnonzero((first == last) & whole)
    for target, column, scanned in zip(out, columns, start, strict=True):
        target[within] = column[runs.low[within]]
        target[from_start] = scanned[runs.high[from_start] - 1]
    totals = [column[ends - 1] for column in start]
    with locating(runs.place):
        kernel.extend(out, within, columns, runs.low[within] + 1, runs.high[within])
    with locating(lambda i: runs.place(int(runs.starts[i]))):
        kernel.extend(out, across, totals, first[across] + 1, last[across])
    with locating(runs.place):
        kernel.extend(out, across, start, runs.high[across] - 1, runs.high[across])
    return out


def running(
    kernel: Kernel,
    columns: Partials,
    segment: Array,
    starts: Array,
    place: Callable[[int], str],
    backwards: bool = False,
) -> Partials:
    """Return the running combination within every segment, always in the order of time.

    `segment` has the number of the segment of each row, `starts` the first row of each segment. `place` names a row in
    error messages.
    """
    out = [column.copy() for column in columns]
    count = len(segment)
    position = np.arange(count) - starts[segment]
    if backwards:
        position = np.append(starts[1:], count)[segment] - 1 - np.arange(count)
    rows = argsorted(position)
    for low, high in pairwise(np.cumsum(np.bincount(position)).tolist()):
        here = rows[low:high]
        neighbour = [column[here + 1 if backwards else here - 1] for column in out]
        own = [column[here] for column in columns]
        with locating(lambda index, at=here: place(int(at[index]))):  # type: ignore[misc]
            joined = kernel.combine(own, neighbour) if backwards else kernel.combine(neighbour, own)
        for column, new in zip(out, joined, strict=True):
            column[here] = new
    return out
