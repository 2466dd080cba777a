"""Pages of windows: one partial per window and key, into which records are folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.sorting import argsorted
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, empty
from slicing.content.marks import all_of, of_keys
from slicing.content.records import Records, fold_onto
from slicing.state.format.list_names import WINDOW
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.triggers.accumulation import ACCUMULATING, Accumulation
from slicing.triggers.panes import ALL, BEFORE, NEW


class WindowPages:
    """A page of partials for each window that accepts records or is still needed, folded from records in their order.

    `shape` has one family; `prefix` begins the names of its pages. `mode` is the accumulation mode of late firings.
    """

    def __init__(
        self,
        shape: Shape,
        arguments: Sequence[Sequence[int]],
        pages: Pages,
        prefix: str = "",
        mode: Accumulation = ACCUMULATING,
    ):
        self.shape, self.family, self.arguments = shape, shape.family, arguments
        self.nodes = PageLists(pages, prefix + WINDOW, shape)
        self.mode = mode
        self._seen: dict[str, dict[int, Block]] = {ALL: {}, BEFORE: {}, NEW: {}}

    def held(self) -> list[int]:
        """Return the windows that have a page, in ascending order."""
        return sorted(map(int, self.nodes.names()))

    def read(self, window: int, seen: str = ALL) -> Block:
        """Return the partials of a window, an empty block if it has none.

        BEFORE and NEW are for windows that have fired, as far as the accumulation mode needs these.
        """
        found = self._seen[seen].get(window)
        if found is None and seen != NEW:
            found = self.nodes.load(str(window))
        return found or empty(self.shape)

    def put(self, window: int, page: Block) -> None:
        """Replace the page of a window."""
        self.nodes.save(str(window), page)

    def add(self, records: Records, first_accepting: int, next_to_fire: int) -> None:
        """Fold records into the windows from `first_accepting` on that cover them.

        Windows before `next_to_fire` have fired.
        """
        last, first = self.family.last_window(records.index), self.family.first_window(records.index)
        for window in self._covering(records.index, first_accepting):
            covered = np.flatnonzero((first <= window) & (window <= last))
            if len(covered):
                self._fold(window, records.take(covered), fired=window < next_to_fire)

    def remove_before(self, window: int) -> None:
        """Remove the pages of earlier windows."""
        for held in self.held():
            if held < window:
                self.nodes.drop(str(held))

    def _covering(self, slices: Array, first_accepting: int) -> list[int]:
        """Return the windows from `first_accepting` on that cover one of the slices, in ascending order."""
        found: set[int] = set()
        for index in np.unique(slices).tolist():
            first, last = self.family.first_window(index), self.family.last_window(index)
            found.update(range(max(first, first_accepting), last + 1))
        return sorted(found)

    def _fold(self, window: int, records: Records, fired: bool) -> None:
        page = self.read(window)
        if fired:
            before = partial(self._seen[BEFORE].setdefault, window, page)
            self.mode.note(before, partial(self._add_alone, window, records))
        self.nodes.save(str(window), fold_onto(self.shape, page, window, records, self.arguments))

    def _add_alone(self, window: int, records: Records) -> None:
        self._seen[NEW][window] = fold_onto(self.shape, self.read(window, NEW), window, records, self.arguments)

    def filled(self, frame: Windows, page_of: Callable[[int], Block]) -> Windows:
        """Return the windows of a frame with the partials of their pages; each page is read once.

        A window without a row in its page has no records and the partial `init()`.
        """
        rows = argsorted(frame.windows)
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
