"""Pages of windows: a partial for each window and key, onto which records are folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, empty
from slicing.content.marks import all_of, of_keys
from slicing.content.records import Records, fold_onto
from slicing.state.format.list_names import WINDOW
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.triggers.emission import ON_CLOSE, ONLY_NEW, WITH_OLD, Emission


class WindowPages:
    """A page of partials for each window that takes records or is looked at, folded from records in their order."""

    def __init__(self, shape: Shape, arguments: Sequence[Sequence[int]], pages: Pages, emission: Emission = ON_CLOSE):
        self.shape, self.slicing, self.arguments, self.what = shape, shape.slicing, arguments, emission.what
        self.nodes = PageLists(pages, WINDOW, shape)
        self._before: dict[int, Block] = {}
        self._new: dict[int, Block] = {}

    def held(self) -> list[int]:
        """The windows that have a page, in order."""
        return sorted(map(int, self.nodes.names()))

    def page(self, window: int) -> Block:
        """The partials of a window, none if it has no page."""
        return self.nodes.load(str(window)) or empty(self.shape)

    def add(self, records: Records, taking: int, done: int) -> None:
        """Fold records into the windows from `taking` on that cover them; those before `done` are corrected."""
        last, first = self.slicing.last_window(records.slices), self.slicing.first_window(records.slices)
        for window in self._covering(records.slices, taking):
            covered = np.flatnonzero((first <= window) & (window <= last))
            if len(covered):
                self._fold(window, records.take(covered), corrected=window < done)

    def remove_before(self, window: int) -> None:
        """Remove the pages of earlier windows."""
        for held in self.held():
            if held < window:
                self.nodes.drop(str(held))

    def fill(self, frame: Windows) -> Windows:
        """The windows of a frame, and what they replace, with the partials of their pages.

        A window that its page does not hold has no records and `init()`. Reads a page once for each frame.
        """
        only_new = frame.kind == "correction" and self.what == ONLY_NEW
        filled = self.filled(frame, self._new.__getitem__ if only_new else self.page)
        return replace(filled, old=frame.old and self.filled(frame.old, self._before.__getitem__))

    def with_old(self, frame: Windows) -> Windows:
        """The windows of a frame with what they were before records came in this micro-batch."""
        return replace(frame, old=self.filled(frame, self._before.__getitem__))

    def only_new(self, window: int) -> Block:
        """What the records of this micro-batch alone make of a window that is corrected."""
        return self._new[window]

    def _covering(self, slices: Array, taking: int) -> list[int]:
        """The windows from `taking` on that cover one of the slices, in order."""
        found: set[int] = set()
        for index in np.unique(slices).tolist():
            first, last = self.slicing.first_window(index), self.slicing.last_window(index)
            found.update(range(max(first, taking), last + 1))
        return sorted(found)

    def _fold(self, window: int, records: Records, corrected: bool) -> None:
        page = self.page(window)
        if corrected and self.what == WITH_OLD:
            self._before.setdefault(window, page)
        if corrected and self.what == ONLY_NEW:
            new = self._new.get(window) or empty(self.shape)
            self._new[window] = fold_onto(self.shape, new, window, records, self.arguments)
        self.nodes.save(str(window), fold_onto(self.shape, page, window, records, self.arguments))

    def filled(self, frame: Windows, page_of: Callable[[int], Block]) -> Windows:
        """The windows of a frame as some pages have them; see `fill`."""
        rows = np.argsort(frame.windows, kind="stable")
        blocks, places = [], []
        for some in np.split(rows, np.flatnonzero(np.diff(frame.windows[rows])) + 1):
            if not len(some):
                continue
            wanted = all_of(frame.names.take(pa.array(frame.keys[some])))
            page = of_keys(page_of(int(frame.windows[some[0]])), wanted)
            places.append(some[page.keys])
            blocks.append(replace(page, keys=frame.keys[places[-1]], names=frame.names))
        there, at = concat(self.shape, blocks), np.concatenate([*places, rows[:0]])
        records = np.zeros(len(frame), dtype=np.int64)
        records[at] = there.records
        partials = [kernel.spread(len(frame)) for kernel in self.shape.kernels]
        for columns, held in zip(partials, there.partials, strict=True):
            for column, items in zip(columns, held, strict=True):
                column[at] = items
        return replace(frame, records=records, partials=partials, dictionaries=there.dictionaries, old=None)
