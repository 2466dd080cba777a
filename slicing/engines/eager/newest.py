"""The newest slice of each key, for the eager plan, whose pages of windows have no slices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slicing.content.block import Block, Shape, empty
from slicing.content.folding import fold
from slicing.content.marks import newest_slices, without_partials
from slicing.engines.eager.window_pages import WindowPages
from slicing.state.format.list_names import LATER, LATEST, MARKED, SLICE
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.windows.time.slices import FOREVER


class NewestSlices:
    """The newest slice of each key. `on_update(latest_only=True)` stores a mark in it.

    Other triggers store no such marks, because they would be written with every record. Without marks, the last window
    that holds a key tells its newest slice, if an advance is one slice. If an advance has two slices, either may be the
    newest. Therefore records in the later slice are always marked::

        size 5, advance 2: window L begins with slices 2L and 2L + 1; the newest record is in one of them

        slice    2L  2L+1
        L        [=========)
        L - 2  =====)            holds 2L, but not 2L + 1: is it the first window that holds the newest record?
    """

    def __init__(self, shape: Shape, pages: Pages, windows: WindowPages, prefix: str):
        self.shape, self.family, self.windows = shape.select(()), shape.family, windows
        self.marks, self.later = (
            PageLists(pages, prefix + LATEST, self.shape),
            PageLists(pages, prefix + LATER, self.shape),
        )
        self._marked_prefix = prefix + MARKED
        marked_from = [
            int(name.removeprefix(self._marked_prefix))
            for name in self.later.lists
            if name.startswith(self._marked_prefix)
        ]
        # The first window whose later slice has all its marks; older windows were written without marks.
        self._marked_from = marked_from[0] if marked_from else max(windows.held(), default=-FOREVER) + 1

    def slices(self, new: Block, first_accepting: int) -> Block:
        """Return the newest slice of each key in windows from `first_accepting` on, and store it.

        `new` has the new marks.
        """
        known = self.marks.load(SLICE) or self._derived(first_accepting)
        newest = newest_slices(fold(self.shape, [known, new]))
        self.marks.save(SLICE, newest.between(self.family.first_slice(first_accepting), FOREVER))
        return newest

    def note(self, new: Block) -> None:
        """Mark the new records in the later slice of an advance, as pages of windows do not tell the slice."""
        later = new.index > self.family.first_slice(self.family.last_window(new.index))
        for index in np.unique(new.index[later]).tolist():
            self.later.append(str(self.family.last_window(index)), new.between(index, index + 1))

    def forget(self, window: int, marked: bool) -> None:
        """Remove the marks of windows before `window`; without `marked` also the slices, which `slices` can derive."""
        for name in self.later.names():
            if int(name) < window:
                self.later.drop(name)
        if not marked or window == FOREVER:
            self.marks.clear()
        self.later.lists.pop(f"{self._marked_prefix}{self._marked_from}", None)
        if window < FOREVER and self.family.step != 1:
            self.later.lists[f"{self._marked_prefix}{self._marked_from}"] = []

    def _derived(self, first_accepting: int) -> Block:
        found = [empty(self.shape)]
        for window in self.windows.held():
            if window >= first_accepting:
                page = without_partials(self.windows.read(window))
                found.append(replace(page, index=np.full(len(page), self.family.first_slice(window))))
                found.append(self._later(window, page))
        return fold(self.shape, found)

    def _later(self, window: int, page: Block) -> Block:
        """Return the keys of a window whose newest slice may be its second one, in that slice."""
        if window >= self._marked_from or self.family.step == 1:
            return self.later.load(str(window)) or empty(self.shape)
        # Unknown. With the later slice, the emitted window holds the newest record in any case.
        return replace(page, index=np.full(len(page), self.family.first_slice(window) + 1))
