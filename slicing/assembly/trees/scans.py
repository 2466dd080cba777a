"""The trees over a matrix: compute every window of every key in a few calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.assembly.choice import outer_group_length
from slicing.assembly.trees.cells import Cells


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
        with locating(lambda index: self.cells.place(int(self.cells.position[rows[index]]))):
            made = function([total[where] for total in self.totals], [column[rows] for column in self.columns])
        for total, new in zip(self.totals, made, strict=True):
            total[where] = new


def _by_place(cells: Cells, of: Array, stretch: Array) -> dict[int, Array]:
    """Return the positions in `of` of the cells at each place of their stretch.

    A place counts slices from the start of the advance in which the stretch begins.
    """
    place = of - cells.offsets[stretch] + (cells.origins[stretch] - cells.family.shift) % cells.family.per_advance
    counts = np.bincount(place)
    # numpy sorts narrow integers by radix.
    rows = np.argsort(place.astype(np.min_scalar_type(len(counts))), kind="stable")
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
    with locating(lambda index: cells_of.place(index * length)):
        suffix = _scan(kernel, grid, backwards=True)
        prefix = _scan(kernel, grid, backwards=False)
    between = _Between(kernel, cells_of, [column[-1] for column in prefix])
    first = at - n + 1
    middle = between.of(first // length, at // length)
    with locating(lambda index: cells_of.place(int(at[index]))):
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
        length = cells.family.slices_per_group
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
        with self._locating(target):
            joined = self.kernel.combine([c[a] for c in columns], [c[b] for c in columns])
        for column, new in zip(columns, joined, strict=True):
            column[target] = new

    def _locating(self, groups: Array) -> AbstractContextManager[None]:
        return locating(lambda index: self.cells.place(int(groups[index]) * self.cells.family.slices_per_group))

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
        with self._locating(first[crosses]):
            joined = self.kernel.combine([c[crosses] for c in total], [c[last[crosses]] for c in self.start])
        for column, item in zip(total, joined, strict=True):
            column[crosses] = item
        where = np.cumsum(wanted)[variant] - 1
        return [column[where] for column in total]
