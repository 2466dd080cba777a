"""The windows of one family in a bucket: its open windows, and the results of those that close.

The families of a bucket share its slices. Each has its own progress in the header (`FamilyState`), its own tree nodes,
and closes when its own windows end. Slices take in late records at once. So if a family does not close with the
others, the late records are kept for its nodes, too::

    slices     | 0 | 1 | 2 | 3 | 4 | 5 |
    minutes        entered up to 5 ----^   takes in slices 3 and 4, and a late row of slice 1
    hours      entered up to 2 ^           its next close reads 2, 3 and 4 from slice groups; its nodes
                                           hold 0 and 1, and the late row waits for them in a list
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.assembling import assemble
from slicing.assembly.partitions import InOrder, key_partitions
from slicing.assembly.ranges.point_lookups import lookup
from slicing.assembly.results import FRAME_ROWS, Windows
from slicing.content.block import Block, Shape
from slicing.content.folding import fold
from slicing.content.marks import of_keys, under
from slicing.engines.lateness import FamilyProgress
from slicing.engines.sliced.aligned import aligned_all
from slicing.engines.sliced.closing import Close, CloseRange, Closing, FromSlices
from slicing.engines.sliced.running_totals import RunningClose
from slicing.engines.sliced.slices import Slices
from slicing.engines.sliced.tailed_close import TailedClose
from slicing.engines.sliced.touching import as_before, as_marks, touched
from slicing.state.bucket_cache import around
from slicing.state.format.list_names import LATE, ROWS, TREES
from slicing.state.lists import PageLists
from slicing.triggers.panes import ALL, BEFORE, NEW
from slicing.windows.families.family import RUNNING, RUNS, TAILED, emitted_from
from slicing.windows.time.slices import FOREVER

CLOSES: dict[str, Callable[[CloseRange], Close]] = {
    "": Closing,
    RUNNING: RunningClose,
    TAILED: TailedClose,
    RUNS: FromSlices,
}
"""The close for each way in which the windows of a family are assembled."""


def close_of(close_range: CloseRange) -> Close:
    """Return the close of a family's windows; windows of trees without nodes are assembled from slices."""
    assembled = RUNS if set(close_range.trees) <= {RUNS} else close_range.shape.family.assembled
    return CLOSES[assembled](close_range)


class FamilyWindows(FamilyProgress):
    """One family over the slices of its bucket. `trees` has one tree per kernel; `number` is the family's position.

    The windows of `aligned_families` are not longer; their results are in the wide rows of this family.
    """

    def __init__(
        self,
        number: int,
        shape: Shape,
        trees: Sequence[str],
        slices: Slices,
        wait: int,
        grace: int,
    ):
        super().__init__(number, shape, slices.pages, wait, grace, slices.needs.compares)
        self.trees, self.slices = trees, slices
        self.compared = shape  # the results that `on_change` compares
        self.join: Callable[[Windows, str], Windows] | None = None  # adds results that do not come from slices
        self._late = self.cache(LATE, shape)

    def cache(self, tree: str, shape: Shape) -> PageLists:
        """Return the lists in which the nodes of a tree are stored."""
        return PageLists(self.slices.pages, self.prefix + tree, shape)

    @property
    def own(self) -> tuple[str, ...]:
        """The beginnings of the names of the family's page lists."""
        return tuple(f"{self.prefix}{name} " for name in (*TREES, LATE))

    def fit_trees(self) -> None:
        """Drop the nodes of other trees than `trees`; new nodes will be computed from the slices."""
        state = self.state
        if state.trees != list(self.trees) and not self.slices.pages.is_new:
            self.forget()
        state.trees = list(self.trees)

    def forget(self) -> None:
        """Drop all nodes."""
        self.state.nodes = None
        for name in [name for name in self.slices.head.lists if name.startswith(self.own)]:
            self.slices.pages.remove(self.slices.head.lists.pop(name))

    @property
    def last(self) -> int:
        """The last window that may hold a record."""
        assert self.slices.head.newest is not None
        return self.family.last_window(self.slices.head.newest)

    @property
    def is_left(self) -> bool:
        """Whether a window is kept that may hold a record, or the one after it, if there is one."""
        return self.keep <= min(self.last + 1, self.family.limits[1])

    def held(self, first: int, end: int) -> int:
        """Count the open windows that hold a slice from `first` up to `end`."""
        low = max(self.state.next_to_fire, self.family.first_window(first))
        return max(0, self.family.last_window(end - 1) + 1 - low)

    def step(self, is_empty: bool) -> None:
        """Advance the progress without results: no window closes, or there are no records."""
        if is_empty:
            self.state.nodes = self.end
        self.state.next_to_fire = self.end

    def retained(self, since: int | None) -> int:
        """Return the first window whose slices all stay; slices from `since` on stay even if no window needs them."""
        return self.keep if since is None else min(self.keep, int(self.family.last_window(since)))

    def passed(self, fresh: InOrder, is_left: bool, retained: int) -> None:
        """Advance the progress after the results; `fresh` is stored next, if any slice is left.

        All slices of window `retained` and of later windows stay.
        """
        if self.end == self.first and self.slices.needs.trees and self.state.nodes is not None:
            for part in fresh.parts(self.family.first_slice(self.first), self.family.entered(self.first)):
                self._late.append(ROWS, part)
        self.state.next_to_fire, self.state.retained_from = self.end, max(self.state.retained_from, retained)
        if not is_left:
            self.state.nodes = self.end

    def close(self, fresh: InOrder) -> Iterator[Windows]:
        """Yield the windows `first` up to `end` that hold a record, from the trees."""
        known: list[FamilyWindows] = [self, *self.aligned_families]
        until = min(self.end, self.last + 1)
        if until <= self.first:
            for progress in known:
                progress.forget()
            return
        with ExitStack() as stack:
            news = stack.enter_context(closing(self.news(fresh)))
            late = {progress.number: [news, stack.enter_context(closing(progress.take_late()))] for progress in known}
            closed = self._together if self.aligned_families else self._closed
            yield from map(self.joined, closed(news, late, until))

    def _closed(self, news: InOrder, late: dict[int, list[InOrder]], until: int) -> Iterator[Windows]:
        return self._close(news, late[self.number], (self.first, until, self.end), self.family.entered(self.first))

    def _together(self, news: InOrder, late: dict[int, list[InOrder]], until: int) -> Iterator[Windows]:
        """Yield windows with the aligned windows of other families, about a frame at a time.

        Windows with one end, as of a day that a zone left out, stay together: they have one row and one aligned window.
        """
        low, count, entered = self.first, 1, self.family.entered(self.first)
        while low < until:
            high = int(emitted_from(self.family, np.array([min(until, low + count)]), by_end=True)[0])
            windows = low, high, self.end if high >= until else high
            own = list(self._close(news, late[self.number], windows, entered))
            others = [
                list(
                    progress._close(news, late[progress.number], progress.aligned(np.array(windows)).tolist(), entered)
                )
                for progress in self.aligned_families
            ]
            yield from aligned_all(
                own, [(progress.shape, progress.aligned) for progress in self.aligned_families], others
            )
            late = {number: [] for number in late}
            rows = sum(map(len, own))
            low, count = high, max(1, FRAME_ROWS * (high - low) // max(1, rows))

    def _close(self, news: InOrder, late: Sequence[InOrder], windows: Sequence[int], entered: int) -> Iterator[Windows]:
        first, until, end = windows
        cached, self.state.nodes = self.state.nodes == first, None
        slice_groups = self.slices.slice_groups
        close_range = CloseRange(
            self.shape, self.trees, slice_groups, news, late, self.cache, cached, first, until, end, entered
        )
        close = close_of(close_range)
        yield from close.windows()
        # Nodes subtract slices later, so the window that they assemble next must have all of its slices.
        self.state.nodes = end if close.leaves_nodes and end >= self.state.retained_from else None

    def take_late(self) -> InOrder:
        """Remove and return the kept late rows: rows of entered slices that the nodes do not contain yet."""
        entries = self._late.entries(ROWS)
        rows = InOrder(self.shape, self.slices.pages.take(entries, self.shape))
        self._late.drop(ROWS)
        return rows

    def news(self, fresh: InOrder) -> InOrder:
        """Return the new rows since the last close, and entering slices that are already in slice groups."""
        entering = self.family.entered(self.first), self.family.entered(self.end)
        return InOrder(self.shape, chain(self.slices.slice_groups.read(*entering), fresh.parts()))

    def left(self, slices: Array) -> list[Array]:
        """Return the first window without each slice; for aligned families, the first whose aligned one is without."""
        ends = [each.family.window_end(each.family.last_window(slices) + 1) for each in self.aligned_families]
        return [self.family.last_window(slices) + 1, *(self.family.first_open(end - 1) for end in ends)]

    def complete(self, frame: Windows, rows: Block, seen: str = ALL) -> Windows:
        """Return a frame with all results and its aligned windows, assembled from the folded rows of all their slices.

        `seen` says which records `rows` has.
        """
        if self.aligned_families:
            rows = under(rows, frame.names)
            pairs = ((each, each.aligned(frame.windows)) for each in self.aligned_families)
            found = (lookup(each.shape, rows, frame.keys, windows) for each, windows in pairs)
            frame = replace(frame, aligned=tuple(found))
        return self.joined(frame, seen)

    def joined(self, frame: Windows, seen: str = ALL) -> Windows:
        """Return a frame and its aligned windows with the results that are not assembled from slices."""
        if self.join is None:
            return frame
        sides = zip(self.aligned_families, frame.aligned, strict=True)
        return replace(self.join(frame, seen), aligned=tuple(each.joined(side, seen) for each, side in sides))

    def look(self, marks: Block, first: int) -> Iterator[Block]:
        """Yield all rows of the keys of `marks` from slice `first` on; each block has some of the keys."""
        rows = (self.inside(of_keys(part, marks)) for part in self.slices.cache.since(first))
        for partition in self.slices.partitioning(first)(self.shape, [rows]):
            yield partition.blocks[0] if partition.is_all else of_keys(partition.blocks[0], marks)

    def touched(self, marks: Block, first: int) -> Iterator[Windows]:
        """Yield the windows from `first` on that hold a row of `marks`."""
        ranges = self._around(marks, first)
        if not ranges:
            return
        newest, cache = self.slices.newest(), self.slices.cache
        keep = next((low for low, high in ranges if high > newest), None)
        rows = (of_keys(part, marks) for part in cache.slices(ranges, keep))
        sources = [rows, [as_marks(self.shape, marks)]]
        for partition in self.slices.partitioning(ranges[0][0])(self.shape, sources, first, FOREVER):
            slices, some = partition.blocks
            for frame in touched(self.shape, self.trees, slices, some, partition.first, partition.end):
                yield self.complete(frame, slices)

    # Late firings: windows that have fired and hold new, delayed records, until grace is over.

    def late_rows(self, new: Block) -> Block:
        """Return the new rows of slices that fired windows hold."""
        return new.between(-FOREVER, self.family.entered(self.state.next_to_fire))

    def of_new_rows(self, new: Block) -> Iterator[Windows]:
        """Yield the fired windows that hold new rows, assembled from the new rows alone."""
        late, state = self.late_rows(new), self.state
        if len(late):
            frames = assemble(self.shape, self.trees, late, state.first_accepting, state.next_to_fire)
            yield from (self.complete(frame, late, NEW) for frame in frames)

    def fired_again(self, new: Block, with_old: bool) -> Iterator[Windows]:
        """Yield the fired windows that hold new rows, from all their slices; `with_old` adds those without new rows."""
        late, shape, trees = self.late_rows(new), self.shape, self.trees
        if not len(late):
            return
        stored = (
            of_keys(block, late)
            for low, high in self._around(late, self.state.first_accepting)
            for block in self.slices.stored(low, high)
        )
        sources = [chain(stored, [late]), [as_marks(shape, late)]] if shape.keeps_records else [stored, [late]]
        for partition in key_partitions(shape, sources, self.state.first_accepting, self.state.next_to_fire):
            before, some = partition.blocks
            both = before if shape.keeps_records else fold(shape, [before, some])
            windows = partition.first, partition.end
            for frame in touched(shape, trees, both, as_marks(shape, some), *windows):
                old = None
                if with_old:
                    old = self.complete(as_before(shape, trees, before, frame, *windows), before, BEFORE)
                yield replace(self.complete(frame, both), old=old)

    def _around(self, marks: Block, first: int) -> list[tuple[int, int]]:
        """Return ranges of the slices of all windows from `first` on with a mark: at most 2n - 1 slices per mark."""
        return around(self.family, np.unique(marks.index), self.family.first_slice(first))
