"""The newest slice of each key, where windows have no slices to tell it."""

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
    """The newest slice of each key, for which `on_update(latest_only=True)` keeps a mark.

    Under another trigger there is none, as it would be written with every record. Then the last window that holds a
    key says its newest slice, if there is one slice an advance. Of two either may be the newest; so of the later one,
    where a window has another first slice behind it, there is a mark in any case::

        size 5, advance 2: window L begins with slices 2L and 2L + 1; what is newest is in one of them

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
        self.begun = prefix + MARKED
        begins = [int(name.removeprefix(self.begun)) for name in self.later.lists if name.startswith(self.begun)]
        # The first window whose marks of the later slice are all there; older ones were written without.
        self._begins = begins[0] if begins else max(windows.held(), default=-FOREVER) + 1

    def slices(self, came: Block, taking: int) -> Block:
        """The newest slice of each key that windows from `taking` on hold, with those of `came`; kept from now on."""
        known = self.marks.load(SLICE) or self._derived(taking)
        newest = newest_slices(fold(self.shape, [known, came]))
        self.marks.save(SLICE, newest.between(self.family.first_slice(taking), FOREVER))
        return newest

    def note(self, came: Block) -> None:
        """Keep what the windows will not say of records that came."""
        later = came.index > self.family.first_slice(self.family.last_window(came.index))
        for index in np.unique(came.index[later]).tolist():
            self.later.append(str(self.family.last_window(index)), came.between(index, index + 1))

    def forget(self, window: int, marked: bool) -> None:
        """Remove what is about windows before one; without `marked` what only `slices` needs, which makes it anew."""
        for name in self.later.names():
            if int(name) < window:
                self.later.drop(name)
        if not marked or window == FOREVER:
            self.marks.clear()
        self.later.lists.pop(f"{self.begun}{self._begins}", None)
        if window < FOREVER and self.family.step != 1:
            self.later.lists[f"{self.begun}{self._begins}"] = []

    def _derived(self, taking: int) -> Block:
        found = [empty(self.shape)]
        for window in self.windows.held():
            if window >= taking:
                page = without_partials(self.windows.page(window))
                found.append(replace(page, index=np.full(len(page), self.family.first_slice(window))))
                found.append(self._later(window, page))
        return fold(self.shape, found)

    def _later(self, window: int, page: Block) -> Block:
        """The keys of a window whose newest slice may be its second one, in that slice."""
        if window >= self._begins or self.family.step == 1:
            return self.later.load(str(window)) or empty(self.shape)
        # Not known: the window that is emitted then holds the newest record in any case.
        return replace(page, index=np.full(len(page), self.family.first_slice(window) + 1))
