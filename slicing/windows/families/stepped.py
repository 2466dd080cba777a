"""Windows with the same number of slices at equal distances in slices: hopping windows on a calendar or a grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from slicing.windows.families.family import Regular
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Array, Edges, elementwise, within
from slicing.windows.time.slices import group_size


@dataclass(frozen=True)
class Stepped(Regular):
    """Windows of `longest` slices each; one starts at every `step`-th slice, counted from slice `shift`.

    Slices are days on a wall clock, for example, or parts of a finer grid. The number of slices is fixed, not their
    length: a window of seven days has seven slices, and is an hour longer if one of the days is.
    """

    edges: Edges
    step: int = field()
    longest: int = field()
    shift: int = 0
    closed_right: bool = False

    @cached_property
    def cut(self) -> Cut:
        """The cut at all edges; every `step`-th edge starts a window."""
        return Cut([self.edges])

    @property
    def slices_per_group(self) -> int:
        """The number of slices in a slice group, at least `step`: no advance may leave more than one group."""
        return max(group_size(self.longest), self.step)

    @property
    def ratio(self) -> float:
        """The average number of windows that contain a record."""
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
        return self._clipped(window) * self.step + self.shift

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """Return the slice after the last one of a window."""
        return self._clipped(window) * self.step + (self.shift + self.longest)

    @elementwise
    def first_window(self, index: Array) -> Array:
        """Return the first window that covers a slice."""
        return (index - (self.shift + self.longest)) // self.step + 1

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Return the last window that starts at or before a slice."""
        return (index - self.shift) // self.step

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.first_window(self.edges.count(time))

    def _clipped(self, window: Array) -> Array:
        """Clip window numbers to the range in which slice numbers fit into int64."""
        limit = (1 << 62) // self.step
        return window if within(window, -limit, limit) else np.clip(window, -limit, limit)

    def spec(self) -> list[Any]:
        """`["stepped", edges, step, longest, shift]`, and `true` with `closed_right`."""
        return ["stepped", self.edges.spec(), self.step, self.longest, self.shift, *self.closed_right * [True]]
