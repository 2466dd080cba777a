"""Slices as windows: what windows are assembled from, each for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slicing.windows.families.by_edges import OverSharedCut
from slicing.windows.families.family import Family, OverCut
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Array, after, elementwise


@dataclass(frozen=True)
class SlicesOf(OverCut):
    """A window for each slice of other windows; `of` are these, or a set of them. Slices in their gaps are none.

    Window i is slice i.
    """

    of: Family

    assembled = ""
    longest = step = per_window = per_advance = 1
    shift = 0
    ratio = 1.0

    @property
    def cut(self) -> Cut:
        """The slices of the other windows."""
        return self.of.cut

    @property
    def has_gaps(self) -> bool:
        """Whether the other windows have gaps."""
        return self.of.has_gaps

    def in_gap(self, index: Array) -> Any:
        """Which slices belong to none of the other windows."""
        return self.of.in_gap(self.of.slice_at(np.asarray(self.slice_start(index))))

    @elementwise
    def window_start(self, window: Array) -> Array:
        """First microsecond of a window."""
        return self.cut.slice_start(window)

    @elementwise
    def window_end(self, window: Array) -> Array:
        """First microsecond after a window."""
        return self.cut.slice_start(after(window))

    @elementwise
    def first_slice(self, window: Array) -> Array:
        """The slice that a window is."""
        return window.copy()

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """The slice after it."""
        return after(window)

    @elementwise
    def first_window(self, index: Array) -> Array:
        """The window that a slice is."""
        return index.copy()

    @elementwise
    def last_window(self, index: Array) -> Array:
        """The same."""
        return index.copy()

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.cut.slice_at(time)

    def over(self, cut: Cut) -> Family:
        """The same windows as ranges of other slices."""
        return self if cut == self.cut else OverSharedCut(self, cut)

    def spec(self) -> list[Any]:
        """`["slices", spec of the other windows]`."""
        return ["slices", self.of.spec()]
