"""Lookups in slices. All read the same rows: of the keys that are looked up, as far as all their records are known.

::

    windows       assembled from the rows like windows of bounded input; the latest windows by point lookups
    pieces        the rows of each window of one key, and the names of the nodes over them
    slices        the rows themselves

    slices     |    0    |    3    | 6 | 7 | 8 |       0 and 3 are merged of three slices each
    ends                 3         6   7   8   9

    slices     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |       of windows that were removed live
    query      |       0       |       4       |       a new record of slice 5 is stored in slice 4
    ends                       4               8
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.assembling import assemble
from slicing.assembly.choice import choose
from slicing.assembly.partitions import key_partitions
from slicing.assembly.ranges.point_lookups import lookup_sorted
from slicing.assembly.results import Windows
from slicing.assembly.trees.covering import covering
from slicing.content.block import Block, Shape, empty
from slicing.content.folding import by_key, fold, with_index
from slicing.engines.bounded import all_frames
from slicing.engines.looking import Look, Other, Pieces, StoredSlices, last_rows, over_one_cut
from slicing.engines.sliced.slices import Slices
from slicing.state.format.coverage import Coverage
from slicing.windows.families.family import Family, emitted_from, repeats
from slicing.windows.time.slices import FOREVER


@dataclass(frozen=True)
class SliceLookup:
    """One lookup in the slices of a bucket; `coverage` tells which windows are whole.

    `trees` has the trees of all families, one family after another. `oldest` has for each family the first window that
    may be looked up. `lacking` is the first window of the primary family of wide rows that may lack slices and is
    looked up all the same, because other windows of its row do not lack any; None if there is none.
    """

    asked: Look
    slices: Slices
    coverage: Coverage
    shape: Shape
    trees: Sequence[str]
    oldest: Sequence[int]
    wide: bool = False
    lacking: int | None = None

    def over(self, other: Other) -> SliceLookup:
        """Return the lookup of other windows in the same slices."""
        shape = self.shape.over(over_one_cut([each.over(self.shape.family.cut) for each in other.families]))
        families = shape.family.families
        trees = [choose(kernel, family) for family in families for kernel in shape.kernels]
        oldest = [-FOREVER] * len(families)
        return replace(self, shape=shape, trees=trees, oldest=oldest, wide=other.wide, lacking=None)

    def rows(self, first: int, end: int = FOREVER) -> Iterator[Block]:
        """Yield the folded rows of slices `first` up to `end`, all rows of some of the keys that are looked up."""
        stored = (self.asked.of_keys(block) for block in self.slices.stored(first, end))
        return (partition.blocks[0] for partition in key_partitions(self.shape, [stored]))

    # Windows.

    def windows(self) -> Iterator[Windows]:
        """Yield the windows that are looked up and hold a record."""
        families = self.shape.family.families
        for rows in self.rows(*self._span()):
            for frame in all_frames(self.shape, self.trees, rows, self.wide, self._assembled):
                there = self.asked.starting(families[frame.family].window_start(frame.windows))
                for family, side in frame.by_family(families):  # a wide row is left out with any of its windows
                    there &= self._known(family, side.windows)
                if there.any():
                    yield frame if there.all() else frame.take(np.flatnonzero(there))

    def _span(self) -> tuple[int, int]:
        """Return the first slice of the windows that are looked up, and the end."""
        if self.asked.starts is None:
            return self.coverage.since, FOREVER
        ranges = [(family, *self.asked.windows(family, self.coverage.since)) for family in self.shape.family.families]
        first = min(int(family.first_slice(first)) for family, first, _ in ranges)
        return max(self.coverage.since, first), max(int(family.end_slice(end - 1)) for family, _, end in ranges)

    def _assembled(self, number: int, shape: Shape, trees: Sequence[str], rows: Block) -> Iterator[Windows]:
        family, since = shape.family, self.coverage.since
        if self.lacking is not None:
            since = min(since, int(family.first_slice(self.lacking)))
        first, end = self.asked.windows(family, since)
        first = max(first, self.oldest[number])
        if self.asked.latest:
            return latest(shape, rows, lambda at: self._next_known(family, np.maximum(at, first)), self.wide)
        return assemble(shape, trees, rows, first, end)

    def _known(self, family: Family, windows: Array) -> Array:
        """Return which windows do not end inside a merged slice, nor, unless incomplete ones count, begin in one."""
        if not self.coverage.is_merged:  # the edges of a window over a shared cut cost 0.2 us
            return np.ones(len(windows), dtype=bool)
        known = self.coverage.is_separate(family.end_slice(windows))
        return known if self.asked.incomplete else known & self.coverage.is_separate(family.first_slice(windows))

    def _next_known(self, family: Family, windows: Array) -> Array:
        """Return for each window the first one from it on that is known, see `_known`."""
        next_separate = self.coverage.next_separate
        while self.coverage.is_merged and len(windows):
            end = next_separate(family.end_slice(windows))
            found = np.maximum(windows, family.first_window(end - 1))
            if not self.asked.incomplete:
                start = next_separate(family.first_slice(found))
                found = np.maximum(found, family.last_window(start - 1) + 1)
            if np.array_equal(found, windows):
                break
            windows = found
        return windows

    # Slices.

    def pieces(self, accepts: Callable[[Array], Array], nodes: frozenset[tuple[str, str]]) -> Iterator[Pieces]:
        """Yield the slices of the windows of one key that are looked up.

        `accepts` returns which slices accept records; `nodes` are those in the state.
        """
        count = len(self.shape.kernels)
        for number, family in enumerate(self.shape.family.families):
            first, end = self.asked.windows(family, self.coverage.since)
            windows = np.arange(max(first, self.oldest[number]), end)
            there = self.asked.starting(family.window_start(windows)) & self._known(family, windows)
            if family.may_repeat and len(windows):
                there &= ~repeats(family, windows, self.wide)
            trees = list(dict.fromkeys(self.trees[number * count : (number + 1) * count]))
            for window in windows[there].tolist():
                edges = int(family.first_slice(window)), int(family.end_slice(window))
                rows, late = (
                    fold(self.shape, [*map(self.asked.of_keys, read(*edges))])
                    for read in (self.slices.stored, self.slices.late_rows)
                )
                late_counts = np.zeros(len(rows), np.int64)
                late_counts[np.searchsorted(rows.index, late.index)] = late.records
                covers = tuple((tree, node) for tree in trees for node in covering(family, tree, window))
                shape = self.shape.over(family)
                yield Pieces(shape, window, rows, late_counts, accepts(rows.index), covers, nodes)

    def stored_slices(self) -> Iterator[StoredSlices]:
        """Yield the stored slices that have all records of all results, older ones first; the last part is empty.

        Rows between the same two edges become one slice. Slices before a result was added lack some of its records.
        """
        coverage, family = self.coverage, self.shape.family
        since = [at for at in coverage.results if at is not None]
        begin = np.array([family.slice_at(max([coverage.known_from, *since]))])
        first = int(coverage.of_query(coverage.next_separate(begin))[0])
        for block in chain(self.rows(first), [empty(self.shape)]):
            rows = with_index(self.shape, block, coverage.row_start(block.index))
            ends = np.asarray(family.slice_start(coverage.row_end(rows.index)))
            yield StoredSlices(family, rows, ends, int(family.slice_start(first)))


def latest(shape: Shape, rows: Block, next_known: Callable[[Array], Array], by_end: bool = False) -> Iterator[Windows]:
    """Yield for each key the first window that is known and holds its newest record; `rows` are folded.

    `next_known` returns for each window the first one from it on that is known.
    """
    family, block = shape.family, by_key(shape, rows)
    if family.has_gaps:
        block = block.take(np.flatnonzero(~np.asarray(family.in_gap(block.index))))
    at = last_rows(block)
    windows = emitted_from(family, next_known(family.first_window(block.index[at])), by_end)
    there = windows <= family.last_window(block.index[at])
    if there.any():
        yield lookup_sorted(shape, block, block.keys[at[there]], windows[there])
