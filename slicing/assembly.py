"""Assembly: from slices to windows, all windows of a range at once. Matrices in, results out; no state, no Spark.

Bounded input is assembled here, and so is a stream whose watermark jumps over a whole window. Windows that close one
after another are assembled from caches by `slicing.trees`, with the same tree: every window's partial is combined in
the same order in both, so that floats agree to the last bit.

Partials are laid out in *cells*: one per slice, key after key, each key's stretches of slices with gaps of a window or
more left out. Cells therefore number about as many as result rows, however sparse the keys are. Three kernels work on
cells: a running total (aggregates that add and subtract exactly), the aligned three-layer tree, and recomputing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.blocks import Block, Shape, memory, order, show_key, show_place
from slicing.durations import show_instant
from slicing.families import Family, Regular, regular
from slicing.kernel import Array, Kernel, Partials, locating

PORTION_BYTES = 64 << 20
WIDE = 1 << 10
"""From so many bytes of a cell on it is better to assemble more cells twice than to have many at once."""
FEW_SLICES = 4
"""Up to this many slices per window recomputing is never slower than a tree."""

TREES = ("two_layer", "three_layer", "recompute")
EAGER = "eager"
EAGER_RATIO = 100
"""With more windows than this for a record, eager has to be asked for."""


def choose(kernel: Kernel, slicing: Family) -> str:
    """The tree of an aggregate: recompute for few slices, two-layer with an exact `invert`, else three-layer.

    Windows that differ in slices have one way, whatever the aggregate, which the family knows. Without `combine`, or if
    the aggregate says so, there is no tree: it is eager.
    """
    if kernel.aggregate.combine is None or kernel.aggregate.eager:
        return EAGER
    if slicing.assembled:
        return slicing.assembled
    if slicing.longest <= FEW_SLICES:
        return "recompute"
    return "two_layer" if kernel.aggregate.invert is not None else "three_layer"


@dataclass(frozen=True)
class Windows:
    """Assembled windows: row i is window `windows[i]` of key `names[keys[i]]`, holding `records[i]` records.

    `kind` says why they go out, one of `emission.KINDS`; `old` has the same windows with what this replaces.
    """

    windows: Array
    keys: Array
    names: pa.Table
    records: Array
    partials: list[Partials]
    dictionaries: list[pa.Array | None]
    kind: str = "final"
    old: Windows | None = None

    def __len__(self) -> int:
        return len(self.windows)

    def take(self, rows: Array) -> Windows:
        """Some of the windows."""
        return replace(
            self,
            windows=self.windows[rows],
            keys=self.keys[rows],
            records=self.records[rows],
            partials=[[column[rows] for column in columns] for columns in self.partials],
            old=self.old and self.old.take(rows),
        )


def as_block(windows: Windows) -> Block:
    """Windows as a block, with their numbers in the place of slices."""
    return Block(windows.windows, windows.keys, windows.names, windows.records, windows.partials, windows.dictionaries)


def show_window(shape: Shape, windows: Windows, row: int) -> str:
    """A key and a window as messages show them."""
    start, end = (edge(int(windows.windows[row])) for edge in (shape.slicing.window_start, shape.slicing.window_end))
    return f"{show_key(windows.names, windows.keys[row])} in window [{show_instant(start)}, {show_instant(end)})"


def is_additive(kernel: Kernel) -> bool:
    """Whether partials are added and subtracted field by field, so that a running total can be one cumulative sum."""
    combine, invert = kernel.combine_ufuncs, kernel.invert_ufuncs
    return (
        combine is not None
        and invert is not None
        and all(ufunc is np.add for ufunc in combine)
        and all(ufunc is np.subtract for ufunc in invert)
    )


@dataclass(frozen=True)
class _Cells:
    """Where the rows of a block, sorted by (key, slice), lie among the cells of their stretches."""

    slicing: Regular
    names: pa.Table  # the keys by their codes
    origins: Array  # first slice of each stretch
    offsets: Array  # first cell of each stretch, and the number of all cells
    keys: Array  # key of each stretch
    position: Array  # cell of each row
    lead: int  # cells of a stretch before the first one in which a window may end

    @property
    def count(self) -> int:
        return int(self.offsets[-1])

    def stretch(self, cells: Array) -> Array:
        """The stretch of each of some cells."""
        found: Array = np.searchsorted(self.offsets, cells, side="right") - 1
        return found

    def place(self, cell: int) -> str:
        """The key and the slice of a cell, for messages."""
        stretch = int(self.stretch(np.array(cell)))
        index = int(self.origins[stretch] + cell - self.offsets[stretch])
        return show_place(self.slicing, self.names, self.keys[stretch], index)

    def ends(self, low: int, high: int) -> tuple[Array, Array, Array]:
        """The cells in which windows `low` up to but not including `high` may end: cell, window and key of each."""
        slicing, lengths = self.slicing, np.diff(self.offsets)
        newest, end = (slicing.end_slice(window) - 1 for window in (low, high))
        last = self.origins + lengths  # clipped before the difference, which may have more than 64 bits
        skipped = np.clip(newest, self.origins + self.lead, last) - self.origins
        counts = np.clip(end, self.origins, last) - self.origins - skipped
        before = np.cumsum(counts) - counts
        at = np.arange(int(counts.sum())) + np.repeat(self.offsets[:-1] + skipped - before, counts)
        oldest = at + np.repeat(self.origins - self.offsets[:-1] - slicing.per_window + 1 - slicing.shift, counts)
        keys = np.repeat(self.keys, counts)
        if slicing.per_advance == 1:
            return at, oldest, keys
        starts = np.flatnonzero(oldest % slicing.per_advance == 0)
        return at[starts], oldest[starts] // slicing.per_advance, keys[starts]

    def between(self, first: int, end: int, rows: slice) -> _Cells:
        """Those of stretches `first` up to but not including `end`, which have the rows `rows`."""
        at = self.offsets[first]
        offsets, position = self.offsets[first : end + 1] - at, self.position[rows] - at
        return replace(
            self, origins=self.origins[first:end], offsets=offsets, keys=self.keys[first:end], position=position
        )


def assemble_cells(
    shape: Shape, trees: Sequence[str], block: Block, first: int | None = None, end: int | None = None
) -> Iterator[Windows]:
    """The windows `first` up to but not including `end` (all, if left out) that hold a record of a folded block.

    Yields portions whose cells take at most about PORTION_BYTES, each sorted by key and window. Cost in combines per
    window: none for additive aggregates, about 4 for the three-layer tree, n - 1 for recompute.
    """
    slicing = regular(shape.slicing)
    if not len(block):
        return
    low, high = int(slicing.first_window(block.slices[0])), int(slicing.last_window(block.slices[-1])) + 1
    first, end = (low if first is None else max(low, first)), (high if end is None else min(high, end))
    block = block.between(slicing.first_slice(first), slicing.end_slice(end - 1))
    if first >= end or not len(block):
        return
    rows, _ = order(block.keys, block.slices)
    block = block.take(rows)
    aligned = slicing.per_window > 1 and not all(map(_running, shape.kernels, trees, block.partials))
    # A cell, and in either scan and in the windows, a partial like those of the rows.
    width = 16 + 4 * (memory(shape, block) - block.names.nbytes - 24 * len(block)) / len(block)
    limit = max(1, int(PORTION_BYTES / width))
    for portion, cells in _portions(block, _layout(block, slicing, aligned, first, end), limit):
        if cells.count <= limit:
            yield _assemble_cells(shape, trees, portion, cells, first, end)
            continue
        step = max(limit, (4 if width < WIDE else 1) * slicing.per_window)
        start = max(first, int(slicing.first_window(portion.slices[0])))
        stop = min(end, int(slicing.last_window(portion.slices[-1])) + 1)
        for low in range(start, stop, step):
            high = min(low + step, stop)
            part = portion.between(slicing.first_slice(low), slicing.end_slice(high - 1))
            if len(part):
                yield _assemble_cells(shape, trees, part, _layout(part, slicing, aligned, low, high), low, high)


def _running(kernel: Kernel, tree: str, columns: Partials) -> bool:
    return tree == "two_layer" and is_additive(kernel) and kernel.sums_fit(columns)


def _portions(block: Block, cells: _Cells, limit: int) -> Iterator[tuple[Block, _Cells]]:
    """Runs of whole stretches with at most `limit` cells (or one stretch, if it has more)."""
    first = 0
    while first < len(cells.keys):
        full = int(np.searchsorted(cells.offsets, cells.offsets[first] + limit, side="right")) - 1
        end = max(first + 1, full)
        rows = slice(*np.searchsorted(cells.position, cells.offsets[[first, end]]))
        yield block.take(rows), cells.between(first, end, rows)
        first = end


def _layout(block: Block, slicing: Regular, aligned: bool, first: int, end: int) -> _Cells:
    """Cells of a block sorted by (key, slice). A stretch ends where no window reaches the key's next slice.

    A stretch has a cell for every slice from its origin to the end of the last window that holds a record. The origin
    is the first slice with a record; the empty cells at the end are then those before it of the next stretch. For trees
    it is the start of the stripe in which the first such window starts, and only the windows `first` up to but not
    including `end` have cells.
    """
    n, stripe = slicing.per_window, slicing.stripe
    slices, keys = block.slices, block.keys
    breaks = (np.diff(keys, prepend=-1) != 0) | (np.diff(slices, prepend=slices[0]).view(np.uint64) >= n)
    heads = np.flatnonzero(breaks)
    tails = np.append(heads[1:], len(slices)) - 1
    origins, newest = slices[heads], slices[tails]
    if aligned:
        origins = np.maximum(origins - n + 1, slicing.first_slice(first)) // stripe * stripe
        newest = np.minimum(newest, slicing.first_slice(end - 1))
    lengths = newest + n - origins
    if aligned:
        lengths = -(-lengths // stripe) * stripe
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    stretch = np.cumsum(breaks) - 1
    position, lead = offsets[stretch] + slices - origins[stretch], n - 1 if aligned else 0
    return _Cells(slicing, block.names, origins, offsets, keys[heads], position, lead)


def _assemble_cells(shape: Shape, trees: Sequence[str], block: Block, cells: _Cells, first: int, end: int) -> Windows:
    at, windows, keys = cells.ends(first, end)
    spans = _Spans.of(cells, at)
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


@dataclass(frozen=True)
class _Spans:
    """The rows of a window, a window being a cell and the n - 1 before it: rows `first` up to but not including `end`.

    Rows are sorted as cells are, so those of a window follow one another.
    """

    first: Array
    end: Array

    @classmethod
    def of(cls, cells: _Cells, at: Array) -> _Spans:
        """The spans of the windows that end in some cells."""
        n = cells.slicing.per_window
        filled = np.zeros(cells.count + n, dtype=np.int32)
        filled[cells.position + n] = 1
        before = np.cumsum(filled, dtype=np.int32)
        return cls(before[at], before[at + n])

    def take(self, at: Array) -> _Spans:
        """Some of the spans."""
        return _Spans(self.first[at], self.end[at])

    def total(self, values: Array) -> Array:
        """The sum over each span, as a difference of two running totals, which is exact where this is used."""
        running = np.zeros(len(values) + 1, dtype=values.dtype)
        np.cumsum(values, out=running[1:])
        total: Array = running[self.end]
        total -= running[self.first]
        return total


def _totals(columns: Partials, spans: _Spans, counted: Array, records: Array) -> Partials:
    """Running totals; what counts every record, as a count and a sum without nulls do, is known from `records`."""
    # A copy, of the column's own type: what changes it in place must not change the counts.
    return [records.astype(c.dtype) if np.array_equal(c, counted) else spans.total(c) for c in columns]


def _kernel_windows(kernel: Kernel, tree: str, columns: Partials, cells: _Cells, spans: _Spans, at: Array) -> Partials:
    n = cells.slicing.per_window
    if n == 1:
        # A window is a slice: cells with records are the rows themselves.
        return [column[spans.first] for column in columns]
    if tree == "two_layer":
        return _two_layer(kernel, columns, cells, at)
    spread = kernel.spread(cells.count)
    for cell, column in zip(spread, columns, strict=True):
        cell[cells.position] = column
    if tree == "recompute" or n <= FEW_SLICES:
        with locating(lambda index: cells.place(int(at[index]))):
            return _recompute(kernel, spread, at, n)
    return _three_layer(kernel, spread, cells, at)


def _two_layer(kernel: Kernel, columns: Partials, cells: _Cells, at: Array) -> Partials:
    """Running totals of all stretches at once, moved as a stream moves its own: what `invert` does shows here too.

    At most 2 combines per window, in as many calls as the longest stretch has slices.
    """
    n, step = cells.slicing.per_window, cells.slicing.per_advance
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
    """The total of each stretch while slices enter and leave: row i of the block is in slice `place` of its stretch.

    A total of no rows is that of the next one, exactly, as in `slicing.nodes`.
    """

    def __init__(self, kernel: Kernel, columns: Partials, cells: _Cells):
        self.kernel, self.columns, self.cells = kernel, columns, cells
        self.totals = kernel.spread(len(cells.origins))
        self.held = np.zeros(len(cells.origins), dtype=np.int64)
        self.stretch = cells.stretch(cells.position)
        self.rows = _by_place(cells, cells.position, self.stretch)

    def enter(self, place: int) -> None:
        """Combine the rows of a slice to the totals, as the newer part."""
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
        """Invert the rows of a slice, the oldest part, out of the totals."""
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
        with locating(lambda index: self.cells.place(int(self.cells.position[rows[index]]))):
            made = function([total[where] for total in self.totals], [column[rows] for column in self.columns])
        for total, new in zip(self.totals, made, strict=True):
            total[where] = new


def _by_place(cells: _Cells, of: Array, stretch: Array) -> dict[int, Array]:
    """Which of some cells, of these stretches, are where in them: slices after the start of an advance."""
    place = of - cells.offsets[stretch] + (cells.origins[stretch] - cells.slicing.shift) % cells.slicing.per_advance
    rows = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[rows], prepend=-1))
    return dict(zip(place[rows[starts]].tolist(), np.split(rows, starts)[1:], strict=True))


def _recompute(kernel: Kernel, cells: Partials, at: Array, n: int) -> Partials:
    total = [column[at - n + 1] for column in cells]
    for step in range(n - 2, -1, -1):
        total = kernel.combine(total, [column[at - step] for column in cells])
    return total


def group_length(slicing: Regular) -> int:
    """Stripes in a group, the top layer of the tree: the least number of whole stripes inside any window."""
    return (slicing.per_window - 1) // slicing.stripe - 1


def _three_layer(kernel: Kernel, cells: Partials, cells_of: _Cells, at: Array) -> Partials:
    """window = (rest of its oldest stripe + whole stripes between) + start of its newest stripe.

    Two scans over the slices of all stripes at once, two over the stripes of all groups at once, two combines per
    window. Stripes and groups are aligned to the absolute slice index. The scheme is van Herk's and Gil and Werman's
    for sliding minima (1992, 1993), applied twice.
    """
    n, stripe = cells_of.slicing.per_window, cells_of.slicing.stripe
    grid = [np.ascontiguousarray(column.reshape(-1, stripe).T) for column in cells]
    with locating(lambda index: cells_of.place(index * stripe)):
        suffix = _scan(kernel, grid, backwards=True)
        prefix = _scan(kernel, grid, backwards=False)
    between = _Between(kernel, cells_of, [column[-1] for column in prefix])
    first = at - n + 1
    middle = between.of(first // stripe, at // stripe)
    with locating(lambda index: cells_of.place(int(at[index]))):
        total = kernel.combine([column.T.ravel()[first] for column in suffix], middle)
        return kernel.combine(total, [column.T.ravel()[at] for column in prefix])


def _scan(kernel: Kernel, grid: Partials, backwards: bool) -> Partials:
    """Running combination along the first axis, in time order whichever way it runs."""
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
    """The whole stripes between a window's oldest and newest: the rest of one group, the start of the next."""

    def __init__(self, kernel: Kernel, cells: _Cells, totals: Partials):
        self.kernel, self.group, self.cells = kernel, group_length(cells.slicing), cells
        stripe = cells.slicing.stripe
        first = cells.offsets[:-1] // stripe
        stretch = np.repeat(np.arange(len(first)), np.diff(cells.offsets) // stripe)
        self.absolute = cells.origins[stretch] // stripe + np.arange(len(stretch)) - first[stretch]
        same = stretch[1:] == stretch[:-1]
        offset = self.absolute % self.group
        self.start, self.rest = [c.copy() for c in totals], [c.copy() for c in totals]
        for step in range(1, self.group):
            here = 1 + np.flatnonzero(same & (offset[1:] == step))
            self._join(self.start, here, here - 1, here)
            here = np.flatnonzero(same & (offset[:-1] == self.group - 1 - step))
            self._join(self.rest, here, here, here + 1)

    def _join(self, columns: Partials, target: Array, a: Array, b: Array) -> None:
        with self._locating(target):
            joined = self.kernel.combine([c[a] for c in columns], [c[b] for c in columns])
        for column, new in zip(columns, joined, strict=True):
            column[target] = new

    def _locating(self, stripes: Array) -> AbstractContextManager[None]:
        return locating(lambda index: self.cells.place(int(stripes[index]) * self.cells.slicing.stripe))

    def of(self, old: Array, new: Array) -> Partials:
        """The combination of stripes `old + 1` to `new - 1`, per pair; `new` is one of two values for each `old`."""
        nearest = self.group + 1
        variant = 2 * old + (new - old - nearest)
        wanted = np.zeros(2 * len(self.absolute), dtype=bool)
        wanted[variant] = True
        pairs = np.flatnonzero(wanted)
        first, last = pairs // 2 + 1, pairs // 2 + nearest + pairs % 2 - 1
        total = [column[first] for column in self.rest]
        crosses = np.flatnonzero(self.absolute[last] // self.group > self.absolute[first] // self.group)
        with self._locating(first[crosses]):
            joined = self.kernel.combine([c[crosses] for c in total], [c[last[crosses]] for c in self.start])
        for column, item in zip(total, joined, strict=True):
            column[crosses] = item
        where = np.cumsum(wanted)[variant] - 1
        return [column[where] for column in total]
