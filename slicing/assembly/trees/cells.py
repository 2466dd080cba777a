"""The cells of a matrix: a column per slice and a row per key, without the long gaps between records of a key.

A *stretch* is a run of slices of one key in which no gap is as long as a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.block import Block, show_place
from slicing.windows.families.family import Regular


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
