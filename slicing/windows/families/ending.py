"""Families in which one window ends at each edge: window i ends with slice i, wherever it begins."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from slicing.windows.families.family import Family
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Array, after, elementwise


class EndingAtEdges(Family):
    """The methods that follow from `ends`, the edges at which windows end; subclasses define where windows begin."""

    ends: Any

    @cached_property
    def cut(self) -> Cut:
        """The cut at the edges at which windows end; windows begin at some of these edges."""
        return Cut([self.ends])

    @property
    def has_gaps(self) -> bool:
        """False: each slice is in the window that ends with it."""
        return False

    @elementwise
    def window_end(self, window: Array) -> Array:
        """First microsecond after a window."""
        return self.ends.edge(after(window))  # type: ignore[no-any-return]

    @elementwise
    def first_slice(self, window: Array) -> Array:
        """First slice of a window."""
        return self.ends.count(self.window_start(window))  # type: ignore[no-any-return]

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """Return the slice after the last one of a window."""
        return after(window)

    @elementwise
    def first_window(self, index: Array) -> Array:
        """Return the first window that covers a slice: the window that ends with it."""
        return index.copy()

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.ends.count(time)  # type: ignore[no-any-return]
