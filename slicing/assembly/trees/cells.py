"""The cells of a matrix: one column per slice, one row per key, in partitions that fit into memory."""

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
    """The cells of the rows of a block, sorted by (key, slice), in their stretches."""

    family: Regular
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
        return show_place(self.family, self.names, self.keys[stretch], index)

    def ends(self, low: int, high: int) -> tuple[Array, Array, Array]:
        """The cells in which windows `low` up to but not including `high` may end: cell, window and key of each."""
        family, lengths = self.family, np.diff(self.offsets)
        newest, end = (family.end_slice(window) - 1 for window in (low, high))
        last = self.origins + lengths  # clipped before the difference, which may have more than 64 bits
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
        """Return the cells of stretches `first` to `end`, exclusive, which have the rows `rows`."""
        at = self.offsets[first]
        offsets, position = self.offsets[first : end + 1] - at, self.position[rows] - at
        return replace(
            self, origins=self.origins[first:end], offsets=offsets, keys=self.keys[first:end], position=position
        )


def portions(block: Block, cells: Cells, limit: int) -> Iterator[tuple[Block, Cells]]:
    """Runs of whole stretches with at most `limit` cells (or one stretch, if it has more)."""
    first = 0
    while first < len(cells.keys):
        full = int(np.searchsorted(cells.offsets, cells.offsets[first] + limit, side="right")) - 1
        end = max(first + 1, full)
        rows = slice(*np.searchsorted(cells.position, cells.offsets[[first, end]]))
        yield block.take(rows), cells.between(first, end, rows)
        first = end


def layout(block: Block, family: Regular, aligned: bool, first: int, end: int) -> Cells:
    """Cells of a block sorted by (key, slice). A stretch ends where no window reaches the key's next slice.

    A stretch has a cell for every slice from its origin to the end of the last window that holds a record. The origin
    is the first slice with a record; the empty cells at the end are then those before it of the next stretch. For trees
    it is the start of the stripe in which the first such window starts, and only the windows `first` up to but not
    including `end` have cells.
    """
    n, stripe = family.per_window, family.stripe
    slices, keys = block.index, block.keys
    breaks = (np.diff(keys, prepend=-1) != 0) | (np.diff(slices, prepend=slices[0]).view(np.uint64) >= n)
    heads = np.flatnonzero(breaks)
    tails = np.append(heads[1:], len(slices)) - 1
    origins, newest = slices[heads], slices[tails]
    if aligned:
        origins = np.maximum(origins - n + 1, family.first_slice(first)) // stripe * stripe
        newest = np.minimum(newest, family.first_slice(end - 1))
    lengths = newest + n - origins
    if aligned:
        lengths = -(-lengths // stripe) * stripe
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    stretch = np.cumsum(breaks) - 1
    position, lead = offsets[stretch] + slices - origins[stretch], n - 1 if aligned else 0
    return Cells(family, block.names, origins, offsets, keys[heads], position, lead)


@dataclass(frozen=True)
class Spans:
    """The rows of a window, a window being a cell and the n - 1 before it: rows `first` up to but not including `end`.

    Rows are sorted as cells are, so those of a window follow one another.
    """

    first: Array
    end: Array

    @classmethod
    def of(cls, cells: Cells, at: Array) -> Spans:
        """The spans of the windows that end in some cells."""
        n = cells.family.per_window
        filled = np.zeros(cells.count + n, dtype=np.int32)
        filled[cells.position + n] = 1
        before = np.cumsum(filled, dtype=np.int32)
        return cls(before[at], before[at + n])

    def take(self, at: Array) -> Spans:
        """Some of the spans."""
        return Spans(self.first[at], self.end[at])

    def total(self, values: Array) -> Array:
        """The sum over each span, as a difference of two running totals, which is exact where this is used."""
        running = np.zeros(len(values) + 1, dtype=values.dtype)
        np.cumsum(values, out=running[1:])
        total: Array = running[self.end]
        total -= running[self.first]
        return total
