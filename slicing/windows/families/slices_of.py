"""Slices as windows: each slice of other windows is a window by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slicing.windows.families.family import Family, Regular
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Array, after, elementwise


@dataclass(frozen=True)
class SlicesOf(Regular):
    """One window per slice of the windows `of`, a family or a set of families; slices in their gaps are left out.

    Window i is slice i.
    """

    of: Family

    longest = step = 1
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
        """Return whether each slice belongs to none of the other windows."""
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
        """Return the only slice of a window."""
        return window.copy()

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """Return the slice after the only slice of a window."""
        return after(window)

    @elementwise
    def first_window(self, index: Array) -> Array:
        """Return the only window that covers a slice."""
        return index.copy()

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Return the only window that covers a slice."""
        return index.copy()

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.cut.slice_at(time)

    def spec(self) -> list[Any]:
        """`["slices", spec of the other windows]`."""
        return ["slices", self.of.spec()]
