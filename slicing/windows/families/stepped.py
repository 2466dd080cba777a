"""Windows with equally many slices at equal distances in slices: hopping windows on a calendar or a grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slicing.windows.families.by_edges import OverSharedCut
from slicing.windows.families.family import Family, OverCut
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Array, Edges, elementwise, within
from slicing.windows.time.slices import stripe_of


@dataclass(frozen=True)
class Stepped(OverCut):
    """Windows of `longest` slices each that start every `step` slices, from slice `shift` on.

    Of days on a wall clock, or of the slices of a finer grid. Slices count, not their lengths: a window of seven days
    has seven slices, and is an hour longer where one of the days is.
    """

    edges: Edges
    step: int
    longest: int
    shift: int = 0
    assembled = ""

    @cached_property
    def cut(self) -> Cut:
        """The edges, of which every `step`-th one starts a window."""
        return Cut([self.edges])

    @property
    def per_window(self) -> int:
        """Slices per window."""
        return self.longest

    @property
    def per_advance(self) -> int:
        """Slices per advance."""
        return self.step

    @property
    def stripe(self) -> int:
        """Consecutive slices in a stripe: an advance at least, as no window may leave more than one behind."""
        return max(stripe_of(self.longest), self.step)

    @property
    def ratio(self) -> float:
        """Windows that a record is in, on average."""
        return self.longest / self.step

    @property
    def has_gaps(self) -> bool:
        """Whether there are slices in no window."""
        return self.step > self.longest

    @elementwise
    def window_start(self, window: Array) -> Array:
        """First microsecond of a window."""
        return self.edges.edge(self.first_slice(window))

    @elementwise
    def window_end(self, window: Array) -> Array:
        """First microsecond after a window."""
        return self.edges.edge(self.end_slice(window))

    @elementwise
    def first_slice(self, window: Array) -> Array:
        """First slice of a window."""
        return self._wide(window) * self.step + self.shift

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """The slice after the last one of a window."""
        return self._wide(window) * self.step + (self.shift + self.longest)

    @elementwise
    def first_window(self, index: Array) -> Array:
        """First window that covers a slice."""
        return (index - (self.shift + self.longest)) // self.step + 1

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Last window that starts at or before a slice."""
        return (index - self.shift) // self.step

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.first_window(self.edges.count(time))

    def _wide(self, window: Array) -> Array:
        """Numbers of windows whose slices an int64 numbers; the last and the first of them for those beyond."""
        limit = (1 << 62) // self.step
        return window if within(window, -limit, limit) else np.clip(window, -limit, limit)

    def over(self, cut: Cut) -> Family:
        """Over other edges too, windows are uneven."""
        return self if cut == self.cut else OverSharedCut(self, cut)

    def spec(self) -> list[Any]:
        """`["stepped", edges, step, longest, shift]`."""
        return ["stepped", self.edges.spec(), self.step, self.longest, self.shift]
