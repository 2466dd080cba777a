"""One family of an eager bucket: its progress, and the pages of its windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from slicing.assembly.comparing import differing, result_codes
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, encode_keys
from slicing.content.marks import of_keys, without_keys
from slicing.content.records import Records
from slicing.engines.eager.newest import NewestSlices
from slicing.engines.eager.window_pages import WindowPages
from slicing.engines.lateness import FamilyProgress
from slicing.engines.looking import Look
from slicing.state.pages import Pages
from slicing.triggers.accumulation import Accumulation
from slicing.triggers.panes import ALL, BEFORE
from slicing.windows.families.family import emitted_before, emitted_from
from slicing.windows.time.slices import FOREVER


class FamilyPages(FamilyProgress):
    """The windows of one family, over its pages. `number` is the position of the family.

    The windows of `aligned_families` are not longer; their results are in the wide rows of this family.
    """

    def __init__(
        self,
        number: int,
        shape: Shape,
        arguments: Sequence[Sequence[int]],
        pages: Pages,
        wait: int,
        grace: int,
        compares: bool,
        mode: Accumulation,
    ):
        super().__init__(number, shape, pages, wait, grace, compares)
        self.windows = WindowPages(shape, arguments, pages, self.prefix, mode)
        self.newest = NewestSlices(shape, pages, self.windows, self.prefix)
        self._purged: list[Block] = []

    def add(self, records: Records) -> None:
        """Fold records into the windows that accept them."""
        self.windows.add(records, self.state.first_accepting, self.state.next_to_fire)

    def touched(self, marks: Block, first: int, end: int = FOREVER, seen: str = ALL) -> Iterator[Windows]:
        """Yield the windows `first` up to `end` that hold a row of `marks`, for the keys of these rows."""
        low, high = self.family.first_window(marks.index), self.family.last_window(marks.index)
        for window in self.windows.held():
            inside = np.flatnonzero((low <= window) & (window <= high)) if first <= window < end else low[:0]
            if len(inside):
                page = of_keys(self.windows.read(window, seen), marks.take(inside))
                yield self.complete(as_windows(page), seen)

    def fired_again(self, marks: Block, with_old: bool) -> Iterator[Windows]:
        """Yield the fired windows that hold a row of `marks`; `with_old` adds their results before this micro-batch."""
        for frame in self.touched(marks, self.state.first_accepting, self.state.next_to_fire):
            old = None
            if with_old:
                old = self.complete(self.windows.filled(frame, partial(self.windows.read, seen=BEFORE)), BEFORE)
            yield replace(frame, old=old)

    def purge(self, pairs: Block) -> None:
        """Note pairs whose records `drop_purged` will drop; rows have a window in place of a slice."""
        self._purged.append(pairs)

    def drop_purged(self) -> None:
        """Drop the records of the noted pairs from the pages of their windows."""
        for pairs in self._purged:
            for window in np.unique(pairs.index).tolist():
                page, gone = self.windows.read(window), pairs.take(np.flatnonzero(pairs.index == window))
                self.windows.put(window, without_keys(page, gone))

    def note(self, marks: Block) -> None:
        """Store what `newest_windows` cannot derive from the pages of windows."""
        self.newest.note(self.inside(marks))

    def newest_windows(self, marks: Block) -> Iterator[Windows]:
        """Yield the first window of each key that holds its newest record, if it holds a row of `marks`."""
        accepting, marks = self.state.first_accepting, self.inside(marks)
        newest = of_keys(self.newest.slices(marks, accepting), marks)
        first = np.maximum(self.family.first_window(newest.index), accepting)
        for window in np.unique(first).tolist():
            keys = newest.keys[first == window]
            inside = marks.take(np.flatnonzero(np.isin(marks.keys, keys)))
            yield from self.touched(inside, window, window + 1)

    def look(self, asked: Look) -> Iterator[Windows]:
        """Yield the windows that are looked up, accept records and hold some."""
        held = np.array(
            [window for window in self.windows.held() if window >= self.state.first_accepting], dtype=np.int64
        )
        for window in held[asked.starting(self.family.window_start(held))].tolist():
            page = asked.of_keys(self.windows.read(window))
            if len(page):
                yield self.complete(as_windows(page))

    def closing(self) -> Iterator[Windows]:
        """Yield the windows that close."""
        for window in self.windows.held():
            if self.first <= window < self.end:
                yield self.complete(as_windows(self.windows.read(window)))

    def changed(self, tombstones: bool) -> Iterator[Windows]:
        """Yield the windows that close, for the keys whose result differs from that of the previous window."""
        held = self.windows.held()
        after = emitted_from(self.family, np.array(held, dtype=np.int64) + 1, self.by_end).tolist()
        for window in sorted({w for w in (*held, *after) if self.first <= w < self.end}):
            pages = {at: self.windows.read(at) for at in (emitted_before(self.family, window, self.by_end), window)}
            _, names = encode_keys(pa.concat_tables([page.names for page in pages.values()]))
            before, there = (self.complete(self.windows.filled(_places(names, at), pages.__getitem__)) for at in pages)
            now, previous = result_codes(self.shape, [there, before])
            yield from differing(there, now, previous, tombstones)

    def complete(self, frame: Windows, seen: str = ALL) -> Windows:
        """Return a frame with its aligned windows."""
        if not self.aligned_families:
            return frame
        return replace(frame, aligned=tuple(each.filled(frame, seen) for each in self.aligned_families))

    def filled(self, frame: Windows, seen: str) -> Windows:
        """Return the windows of this family that are aligned with those of a frame, for the same keys."""
        windows = self.aligned(frame.windows)
        return self.windows.filled(replace(frame, windows=windows, aligned=()), partial(self.windows.read, seen=seen))

    def retire(self) -> None:
        """Remove the pages that no window needs, after the windows that close have fired."""
        if self.end > self.first:
            # Only once windows close: `on_change` compares with the pages that another trigger has left.
            self.state.retained_from = max(self.state.retained_from, self.keep)
            self.windows.remove_before(self.keep)
        self.pass_closed()


def as_windows(page: Block) -> Windows:
    """Return the windows of a page."""
    return Windows(page.index, page.keys, page.names, page.records, page.partials, page.dictionaries)


def _places(names: pa.Table, window: int) -> Windows:
    """Return one window for each key in `names`, without records or partials."""
    every = np.arange(len(names))
    return Windows(np.full(len(names), window), every, names, np.zeros_like(every), [], [])
