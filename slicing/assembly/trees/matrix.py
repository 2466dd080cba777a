"""Assemble all windows of a range of slices at once: matrices in, results out; no state, no Spark.

Bounded input is assembled here; so is a stream whose watermark jumps over a whole window. Windows that close one after
another are assembled from caches (`slicing.assembly.trees.cache`). Both combine the partial of a window in the same
order, so floats agree to the last bit.

Partials are laid out in *cells*: a row of one per slice, key after key. A *stretch* is a run of slices of one key in
which no gap is as long as a window. There are no cells between stretches, so there are about as many cells as result
rows, however sparse the keys are. Three trees are computed over cells, every window of every key in a few calls: a
running total (for exact addition and subtraction), the aligned three-layer tree, and recomputing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.aggregates.sorting import argsorted
from slicing.assembly.choice import FEW_SLICES, is_additive, outer_group_length
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, show_place
from slicing.content.folding import by_key
from slicing.content.sizes import ASSEMBLY_BYTES, at_once, even_runs, memory
from slicing.windows.families.family import Regular, regular

WIDE = 1 << 10
"""From this size of a cell on, in bytes, assembling some cells twice is better than holding many at once."""


def assemble_cells(
    shape: Shape, trees: Sequence[str], block: Block, first: int | None = None, end: int | None = None
) -> Iterator[Windows]:
    """Yield the windows `first` up to but not including `end` (default: all) that hold a record of a folded block.

    Each part has cells of at most about ASSEMBLY_BYTES and is sorted by key and window, or by window and key if windows
    have one slice. Cost in combines per window: none for additive aggregates and for windows of one slice, about 4 for
    the three-layer tree, n - 1 for recompute.
    """
    family = regular(shape.family)
    if not len(block):
        return
    low, high = int(family.first_window(block.index[0])), int(family.last_window(block.index[-1])) + 1
    first, end = (low if first is None else max(low, first)), (high if end is None else min(high, end))
    block = block.between(family.first_slice(first), family.end_slice(end - 1))
    if first >= end or not len(block):
        return
    if family.per_window == 1:
        for rows in even_runs(0, len(block), at_once(ASSEMBLY_BYTES, memory(shape, block) / len(block))):
            yield _slices_as_windows(family, block.take(slice(*rows)))
        return
    block = by_key(shape, block)
    aligned = not all(map(_running, shape.kernels, trees, block.partials))
    # A cell holds a partial as large as one of the rows; so do both scans and the windows.
    width = 16 + 4 * (memory(shape, block) - block.names.nbytes - 24 * len(block)) / len(block)
    limit = at_once(ASSEMBLY_BYTES, width)
    for some, cells in stretch_runs(block, layout(block, family, aligned, first, end), limit):
        if cells.count <= limit:
            yield _assemble_cells(shape, trees, some, cells, first, end)
            continue
        step = max(limit, (4 if width < WIDE else 1) * family.per_window)
        start = max(first, int(family.first_window(some.index[0])))
        stop = min(end, int(family.last_window(some.index[-1])) + 1)
        for low, high in even_runs(start, stop, step):
            part = some.between(family.first_slice(low), family.end_slice(high - 1))
            if len(part):
                yield _assemble_cells(shape, trees, part, layout(part, family, aligned, low, high), low, high)


def _slices_as_windows(family: Regular, block: Block) -> Windows:
    """Return the windows of one slice: copies of the rows that have records, without slices between the windows."""
    is_window = (block.records > 0) & ((block.index - family.shift) % family.per_advance == 0)
    rows = block.take(np.flatnonzero(is_window))
    windows = (rows.index - family.shift) // family.per_advance
    return Windows(windows, rows.keys, rows.names, rows.records, rows.partials, rows.dictionaries)


def _running(kernel: Kernel, tree: str, columns: Partials) -> bool:
    return tree == "two_layer" and is_additive(kernel) and kernel.sums_fit(columns)


def _assemble_cells(shape: Shape, trees: Sequence[str], block: Block, cells: Cells, first: int, end: int) -> Windows:
    at, windows, keys = cells.ends(first, end)
    spans = Spans.of(cells, at)
    records = spans.total(block.records)
    if not records.all():
        live = np.flatnonzero(records)
        at, windows, keys, spans, records = at[live], windows[live], keys[live], spans.take(live), records[live]
    partials = [
        _totals(columns, spans, block.records, records)
        if _running(kernel, tree, columns)
        else _kernel_windows(kernel, tree, columns, cells, spans, at)
        for kernel, tree, columns in zip(shape.kernels, trees, block.partials, strict=True)
    ]
    return Windows(windows, keys, block.names, records, partials, block.dictionaries)


def _totals(columns: Partials, spans: Spans, counted: Array, records: Array) -> Partials:
    """Return running totals. A column equal to the record counts, as of a count or a sum of ones, uses `records`."""
    # A copy of the column's own type: code that changes it in place must not change the counts.
    return [records.astype(c.dtype) if np.array_equal(c, counted) else spans.total(c) for c in columns]


def _kernel_windows(kernel: Kernel, tree: str, columns: Partials, cells: Cells, spans: Spans, at: Array) -> Partials:
    n = cells.family.per_window
    if (runs := kernel.runs(columns, spans.first, spans.end)) is not None:
        return runs
    if tree == "two_layer":
        return two_layer(kernel, columns, cells, at)
    spread = kernel.spread(cells.count)
    for cell, column in zip(spread, columns, strict=True):
        cell[cells.position] = column
    if tree == "recompute" or n <= FEW_SLICES:
        with cells.placing(lambda row: at[row]):
            return recompute(kernel, spread, at, n)
    return three_layer(kernel, spread, cells, at)


# Cells.


@dataclass(frozen=True)
class Cells:
    """The cells of the rows of a block that is sorted by (key, slice), stretch after stretch."""

    family: Regular
    names: pa.Table  # the keys; a code is a row of it
    origins: Array  # first slice of each stretch
    offsets: Array  # first cell of each stretch, then the number of all cells
    keys: Array  # key of each stretch
    position: Array  # cell of each row
    lead: int  # number of cells of a stretch before the first cell in which a window may end

    @property
    def count(self) -> int:
        return int(self.offsets[-1])

    def stretch(self, cells: Array) -> Array:
        """Return the number of the stretch of each cell."""
        found: Array = np.searchsorted(self.offsets, cells, side="right") - 1
        return found

    def place(self, cell: int) -> str:
        """Return the text of the key and the slice of a cell, for error messages."""
        stretch = int(self.stretch(np.array(cell)))
        index = int(self.origins[stretch] + cell - self.offsets[stretch])
        return show_place(self.family, self.names, self.keys[stretch], index)

    def placing(self, cell_of: Callable[[int], int]) -> AbstractContextManager[None]:
        """Name the key and the slice of cell `cell_of(row)` in the error of a function about a row."""
        return locating(lambda row: self.place(int(cell_of(row))))

    def ends(self, low: int, high: int) -> tuple[Array, Array, Array]:
        """Return the cells in which windows `low` up to but not including `high` may end: cell, window, key of each."""
        family, lengths = self.family, np.diff(self.offsets)
        newest, end = (family.end_slice(window) - 1 for window in (low, high))
        last = self.origins + lengths  # clipped before the subtraction, which could exceed 64 bits
        skipped = np.clip(newest, self.origins + self.lead, last) - self.origins
        counts = np.clip(end, self.origins, last) - self.origins - skipped
        before = np.cumsum(counts) - counts
        at = np.arange(int(counts.sum())) + np.repeat(self.offsets[:-1] + skipped - before, counts)
        oldest = at + np.repeat(self.origins - self.offsets[:-1] - family.per_window + 1 - family.shift, counts)
        keys = np.repeat(self.keys, counts)
        if family.per_advance == 1:
            return at, oldest, keys
        starts = np.flatnonzero(oldest % family.per_advance == 0)
        return at[starts], oldest[starts] // family.per_advance, keys[starts]

    def between(self, first: int, end: int, rows: slice) -> Cells:
        """Return the cells of stretches `first` up to but not including `end`; `rows` are their rows."""
        at = self.offsets[first]
        offsets, position = self.offsets[first : end + 1] - at, self.position[rows] - at
        return replace(
            self, origins=self.origins[first:end], offsets=offsets, keys=self.keys[first:end], position=position
        )


def stretch_runs(block: Block, cells: Cells, limit: int) -> Iterator[tuple[Block, Cells]]:
    """Yield runs of whole stretches with at most `limit` cells; a stretch with more cells is a run of its own."""
    first = 0
    while first < len(cells.keys):
        full = int(np.searchsorted(cells.offsets, cells.offsets[first] + limit, side="right")) - 1
        end = max(first + 1, full)
        rows = slice(*np.searchsorted(cells.position, cells.offsets[[first, end]]))
        yield block.take(rows), cells.between(first, end, rows)
        first = end


def layout(block: Block, family: Regular, aligned: bool, first: int, end: int) -> Cells:
    """Return the cells of a block sorted by (key, slice). A stretch ends where no window reaches the key's next slice.

    A stretch has a cell for every slice from its origin to the end of the last window that holds a record. Its origin
    is the first slice with a record; the empty cells before it are the last cells of the previous stretch. For trees
    (`aligned`) the origin is the start of the slice group in which the first such window starts, and only the windows
    `first` up to but not including `end` have cells.
    """
    n, length = family.per_window, family.slices_per_group
    slices, keys = block.index, block.keys
    breaks = (np.diff(keys, prepend=-1) != 0) | (np.diff(slices, prepend=slices[0]).view(np.uint64) >= n)
    heads = np.flatnonzero(breaks)
    tails = np.append(heads[1:], len(slices)) - 1
    origins, newest = slices[heads], slices[tails]
    if aligned:
        origins = np.maximum(origins - n + 1, family.first_slice(first)) // length * length
        newest = np.minimum(newest, family.first_slice(end - 1))
    lengths = newest + n - origins
    if aligned:
        lengths = -(-lengths // length) * length
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    stretch = np.cumsum(breaks) - 1
    position, lead = offsets[stretch] + slices - origins[stretch], n - 1 if aligned else 0
    return Cells(family, block.names, origins, offsets, keys[heads], position, lead)


@dataclass(frozen=True)
class Spans:
    """The rows of windows, each a cell and the n - 1 cells before it: rows `first` up to but not including `end`.

    Rows have the order of the cells, so the rows of a window are consecutive.
    """

    first: Array
    end: Array

    @classmethod
    def of(cls, cells: Cells, at: Array) -> Spans:
        """Return the spans of the windows that end in cells `at`."""
        n = cells.family.per_window
        filled = np.zeros(cells.count + n, dtype=np.int32)
        filled[cells.position + n] = 1
        before = np.cumsum(filled, dtype=np.int32)
        return cls(before[at], before[at + n])

    def take(self, at: Array) -> Spans:
        """Return the spans at the positions `at`."""
        return Spans(self.first[at], self.end[at])

    def total(self, values: Array) -> Array:
        """Return the sum over each span, as a difference of two running totals; used only where it is exact."""
        running = np.zeros(len(values) + 1, dtype=values.dtype)
        np.cumsum(values, out=running[1:])
        total: Array = running[self.end]
        total -= running[self.first]
        return total


# Trees over cells.


def two_layer(kernel: Kernel, columns: Partials, cells: Cells, at: Array) -> Partials:
    """Return the partials of the windows that end in cells `at`, by running totals of all stretches at once.

    The totals move by `combine` and `invert` as in a stream, so an inexact `invert` has the same effect in both. At
    most 2 combines per window, in as many calls as the longest stretch has slices.
    """
    n, step = cells.family.per_window, cells.family.per_advance
    moving, out = _Totals(kernel, columns, cells), kernel.spread(len(at))
    stretch = cells.stretch(at)
    reads = _by_place(cells, at, stretch)
    for place in range(max(reads, default=-1) + 1):
        moving.enter(place)
        if (place - n + 1) % step:
            continue
        if (windows := reads.get(place)) is not None:
            for target, total in zip(out, moving.totals, strict=True):
                target[windows] = total[stretch[windows]]
        for leaving in range(place - n + 1, place - n + 1 + step):
            moving.leave(leaving)
    return out


class _Totals:
    """The total of each stretch while slices enter and leave; `place` is the position of a slice in its stretch.

    Rows are copied exactly into an empty total, as in `slicing.assembly.trees.nodes`.
    """

    def __init__(self, kernel: Kernel, columns: Partials, cells: Cells):
        self.kernel, self.columns, self.cells = kernel, columns, cells
        self.totals = kernel.spread(len(cells.origins))
        self.held = np.zeros(len(cells.origins), dtype=np.int64)
        self.stretch = cells.stretch(cells.position)
        self.rows = _by_place(cells, cells.position, self.stretch)

    def enter(self, place: int) -> None:
        """Combine the rows of a slice into the totals, as the newer part."""
        rows = self.rows.get(place)
        if rows is None:
            return
        into = self.stretch[rows]
        met = self.held[into] > 0
        for total, column in zip(self.totals, self.columns, strict=True):
            total[into[~met]] = column[rows[~met]]
        self.held[into] += 1
        self._replace(self.kernel.combine, into[met], rows[met])

    def leave(self, place: int) -> None:
        """Remove the rows of a slice, the oldest part, from the totals by `invert`."""
        rows = self.rows.get(place)
        if rows is None:
            return
        out_of = self.stretch[rows]
        self.held[out_of] -= 1
        rest = self.held[out_of] > 0
        self._replace(self.kernel.invert, out_of[rest], rows[rest])

    def _replace(self, function: Callable[[Partials, Partials], Partials], where: Array, rows: Array) -> None:
        if not len(rows):
            return
        with self.cells.placing(lambda row: self.cells.position[rows[row]]):
            made = function([total[where] for total in self.totals], [column[rows] for column in self.columns])
        for total, new in zip(self.totals, made, strict=True):
            total[where] = new


def _by_place(cells: Cells, of: Array, stretch: Array) -> dict[int, Array]:
    """Return the positions in `of` of the cells at each place of their stretch.

    A place counts slices from the start of the advance in which the stretch begins.
    """
    place = of - cells.offsets[stretch] + (cells.origins[stretch] - cells.family.shift) % cells.family.per_advance
    counts = np.bincount(place)
    rows = argsorted(place)
    filled = np.flatnonzero(counts)
    return dict(zip(filled.tolist(), np.split(rows, np.cumsum(counts[filled])[:-1]), strict=len(filled) > 0))


def recompute(kernel: Kernel, cells: Partials, at: Array, n: int) -> Partials:
    """Return the partials of the windows that end in cells `at`, each combined slice by slice: n - 1 combines."""
    total = [column[at - n + 1] for column in cells]
    for step in range(n - 2, -1, -1):
        total = kernel.combine(total, [column[at - step] for column in cells])
    return total


def three_layer(kernel: Kernel, cells: Partials, cells_of: Cells, at: Array) -> Partials:
    """Return the partials of the windows that end in cells `at`, by the three-layer tree.

    A window is (rest of its oldest slice group + whole groups between) + start of its newest slice group. An outer
    group is a run of slice groups. The cost is two scans over the slices of all slice groups at once, two over the
    slice groups of all outer groups at once, and two combines per window. Slice groups and outer groups are aligned to
    the absolute slice index. The scheme is van Herk's and Gil and Werman's for sliding minima (1992, 1993), applied
    twice.
    """
    n, length = cells_of.family.per_window, cells_of.family.slices_per_group
    grid = [np.ascontiguousarray(column.reshape(-1, length).T) for column in cells]
    with cells_of.placing(lambda row: row * length):
        suffix = _scan(kernel, grid, backwards=True)
        prefix = _scan(kernel, grid, backwards=False)
    between = _Between(kernel, cells_of, [column[-1] for column in prefix])
    first = at - n + 1
    middle = between.of(first // length, at // length)
    with cells_of.placing(lambda row: at[row]):
        total = kernel.combine([column.T.ravel()[first] for column in suffix], middle)
        return kernel.combine(total, [column.T.ravel()[at] for column in prefix])


def _scan(kernel: Kernel, grid: Partials, backwards: bool) -> Partials:
    """Return the running combination along the first axis, always in the order of time."""
    out = [column.copy() for column in grid]
    length = len(grid[0])
    for step in range(1, length):
        i = length - 1 - step if backwards else step
        neighbour = [column[i + 1 if backwards else i - 1] for column in out]
        here = [column[i] for column in grid]
        joined = kernel.combine(here, neighbour) if backwards else kernel.combine(neighbour, here)
        for column, new in zip(out, joined, strict=True):
            column[i] = new
    return out


class _Between:
    """The whole groups between a window's oldest and newest one: the rest of an outer group, the start of the next."""

    def __init__(self, kernel: Kernel, cells: Cells, totals: Partials):
        self.kernel, self.outer, self.cells = kernel, outer_group_length(cells.family), cells
        self.length = length = cells.family.slices_per_group
        first = cells.offsets[:-1] // length
        stretch = np.repeat(np.arange(len(first)), np.diff(cells.offsets) // length)
        self.absolute = cells.origins[stretch] // length + np.arange(len(stretch)) - first[stretch]
        same = stretch[1:] == stretch[:-1]
        offset = self.absolute % self.outer
        self.start, self.rest = [c.copy() for c in totals], [c.copy() for c in totals]
        for step in range(1, self.outer):
            here = 1 + np.flatnonzero(same & (offset[1:] == step))
            self._join(self.start, here, here - 1, here)
            here = np.flatnonzero(same & (offset[:-1] == self.outer - 1 - step))
            self._join(self.rest, here, here, here + 1)

    def _join(self, columns: Partials, target: Array, a: Array, b: Array) -> None:
        with self.cells.placing(lambda row: target[row] * self.length):
            joined = self.kernel.combine([c[a] for c in columns], [c[b] for c in columns])
        for column, new in zip(columns, joined, strict=True):
            column[target] = new

    def of(self, old: Array, new: Array) -> Partials:
        """Return slice groups `old + 1` to `new - 1`, combined, per pair; `new` has two possible values per `old`."""
        nearest = self.outer + 1
        variant = 2 * old + (new - old - nearest)
        wanted = np.zeros(2 * len(self.absolute), dtype=bool)
        wanted[variant] = True
        pairs = np.flatnonzero(wanted)
        first, last = pairs // 2 + 1, pairs // 2 + nearest + pairs % 2 - 1
        total = [column[first] for column in self.rest]
        crosses = np.flatnonzero(self.absolute[last] // self.outer > self.absolute[first] // self.outer)
        with self.cells.placing(lambda row: first[crosses[row]] * self.length):
            joined = self.kernel.combine([c[crosses] for c in total], [c[last[crosses]] for c in self.start])
        for column, item in zip(total, joined, strict=True):
            column[crosses] = item
        where = np.cumsum(wanted)[variant] - 1
        return [column[where] for column in total]
