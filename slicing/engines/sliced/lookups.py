"""Lookups of windows in slices: assembled like windows of bounded input; the latest windows by point lookups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.assembling import assemble
from slicing.assembly.choice import choose
from slicing.assembly.partitions import key_partitions
from slicing.assembly.ranges.point_lookups import lookup_sorted
from slicing.assembly.results import Windows
from slicing.assembly.trees.covering import covering
from slicing.content.block import Block, Shape
from slicing.content.folding import by_key, fold
from slicing.engines.bounded import all_frames
from slicing.engines.looking import Look, Other, Pieces, last_rows, over_one_cut
from slicing.state.format.coverage import Coverage
from slicing.windows.families.family import Family, emitted_from, repeats
from slicing.windows.time.slices import FOREVER


@dataclass(frozen=True)
class SliceLookups:
    """The slices in which windows are looked up; `coverage` tells which windows are whole.

    `trees` has the trees of all families, one family after another. `oldest` has for each family the first window that
    may be looked up. `lacking` is the first window of the primary family of wide rows that may lack slices and is
    looked up all the same, because other windows of its row do not lack any; None if there is none.
    """

    shape: Shape
    trees: Sequence[str]
    coverage: Coverage
    oldest: Sequence[int]
    wide: bool = False
    lacking: int | None = None

    def of(self, other: Other) -> SliceLookups:
        """Return the same slices, with other windows over them."""
        shape = self.shape.over(over_one_cut(other.families))
        trees = [choose(kernel, family) for family in other.families for kernel in shape.kernels]
        return SliceLookups(shape, trees, self.coverage, [-FOREVER] * len(other.families), other.wide)

    def look(self, asked: Look, stored: Callable[[int, int], Iterable[Block]]) -> Iterator[Windows]:
        """Yield the windows that hold a record; `stored` reads the rows of slices, older rows of a slice first."""
        if asked.other is not None:
            yield from self.of(asked.other).look_in(asked, stored)
        else:
            yield from self.look_in(asked, stored)

    def look_in(self, asked: Look, stored: Callable[[int, int], Iterable[Block]]) -> Iterator[Windows]:
        """Yield the windows of this shape that are looked up and hold a record."""
        first, end = self._slices(asked)
        rows = (asked.of_keys(block) for block in stored(first, end))
        for partition in key_partitions(self.shape, [rows]):
            for frame in all_frames(self.shape, self.trees, partition.blocks[0], self.wide, self._assembling(asked)):
                families = self.shape.family.families
                there = asked.starting(families[frame.family].window_start(frame.windows))
                for family, side in frame.by_family(families):  # a wide row is left out with any of its windows
                    there &= self._known(asked, family, side.windows)
                if there.any():
                    yield frame if there.all() else frame.take(np.flatnonzero(there))

    def pieces(
        self, asked: Look, stored: Callable[[int, int], Iterable[Block]], late: Callable[[int, int], Iterable[Block]]
    ) -> Iterator[Pieces]:
        """Yield the slices of the windows of one key that are looked up; `late` reads the late rows of slices.

        `accepts` is all false: which slices accept records is not known here.
        """
        if asked.other is not None:
            yield from self.of(asked.other).pieces(replace(asked, other=None), stored, late)
            return
        count = len(self.shape.kernels)
        for number, family in enumerate(self.shape.family.families):
            first, end = asked.windows(family, self.coverage.since)
            windows = np.arange(max(first, self.oldest[number]), end)
            there = asked.starting(family.window_start(windows)) & self._known(asked, family, windows)
            if family.may_repeat and len(windows):
                there &= ~repeats(family, windows, self.wide)
            trees = list(dict.fromkeys(self.trees[number * count : (number + 1) * count]))
            for window in windows[there].tolist():
                edges = int(family.first_slice(window)), int(family.end_slice(window))
                rows = self._of_key(asked, stored(*edges))
                counted = dict(zip(*self._counts(asked, late(*edges)), strict=True))
                late_counts = np.array([counted.get(index, 0) for index in rows.index.tolist()], np.int64)
                nodes = tuple((tree, node) for tree in trees for node in covering(family, tree, window))
                shape = self.shape.over(family)
                yield Pieces(shape, window, rows, late_counts, np.zeros(len(rows), dtype=bool), nodes)

    def _of_key(self, asked: Look, blocks: Iterable[Block]) -> Block:
        return fold(self.shape, [asked.of_keys(block) for block in blocks])

    def _counts(self, asked: Look, blocks: Iterable[Block]) -> tuple[list[int], list[int]]:
        rows = self._of_key(asked, blocks)
        return rows.index.tolist(), rows.records.tolist()

    def _known(self, asked: Look, family: Family, windows: Array) -> Array:
        """Return which windows do not end inside a merged slice, nor, unless `asked.incomplete`, begin inside one."""
        if not self.coverage.is_merged:  # the edges of a window over a shared cut cost 0.2 us
            return np.ones(len(windows), dtype=bool)
        known = self.coverage.is_separate(family.end_slice(windows))
        return known if asked.incomplete else known & self.coverage.is_separate(family.first_slice(windows))

    def _next_known(self, asked: Look, family: Family, windows: Array) -> Array:
        """Return for each window the first one from it on that is known, see `_known`."""
        next_separate = self.coverage.next_separate
        while self.coverage.is_merged and len(windows):
            end = next_separate(family.end_slice(windows))
            found = np.maximum(windows, family.first_window(end - 1))
            if not asked.incomplete:
                start = next_separate(family.first_slice(found))
                found = np.maximum(found, family.last_window(start - 1) + 1)
            if np.array_equal(found, windows):
                break
            windows = found
        return windows

    def _slices(self, asked: Look) -> tuple[int, int]:
        """Return the first slice of the windows that are looked up, and the end."""
        if asked.starts is None:
            return self.coverage.since, FOREVER
        ranges = [(family, *asked.windows(family, self.coverage.since)) for family in self.shape.family.families]
        first = min(int(family.first_slice(first)) for family, first, _ in ranges)
        return max(self.coverage.since, first), max(int(family.end_slice(end - 1)) for family, _, end in ranges)

    def _since(self, asked: Look, family: Family) -> int:
        """Return the slice from which on windows that begin are looked up."""
        if self.lacking is None or asked.incomplete:
            return self.coverage.since
        return min(self.coverage.since, int(family.first_slice(self.lacking)))

    def _assembling(self, asked: Look) -> Callable[[int, Shape, Sequence[str], Block], Iterator[Windows]]:
        next_known = partial(self._next_known, asked)

        def assembled(number: int, shape: Shape, trees: Sequence[str], rows: Block) -> Iterator[Windows]:
            first, end = asked.windows(shape.family, self._since(asked, shape.family))
            first = max(first, self.oldest[number])
            if asked.latest:
                return latest(shape, rows, lambda at: next_known(shape.family, np.maximum(at, first)), self.wide)
            return assemble(shape, trees, rows, first, end)

        return assembled


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
