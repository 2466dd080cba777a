"""Windows from edge to edge, and any family over a finer cut: their slices are asked for, window by window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slicing.errors import InvalidValue
from slicing.windows.families.family import RUNS, Family, OverCut, last_instant, most_slices, sample
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Array, Edges, Listed, elementwise


@dataclass(frozen=True)
class ByEdges(OverCut):
    """Windows `[starts(i), ends(i))`, of any edges.

    Raises InvalidValue when a window tried ends before it starts, or one sequence is a list and the other is not of
    that length.
    """

    starts: Edges
    ends: Edges

    def __post_init__(self) -> None:
        lengths = [len(e.instants) if isinstance(e, Listed) else None for e in (self.starts, self.ends)]
        if lengths[0] != lengths[1]:
            shown = " and ".join("no list" if length is None else str(length) for length in lengths)
            raise InvalidValue(
                f"`starts` and `ends` must be as many: window i is [starts(i), ends(i)); got {shown}. "
                "Give two lists of one length, or two sequences without end."
            )
        tried = self._tried
        starts, ends = self.window_start(tried), self.window_end(tried)
        if (wrong := np.flatnonzero(ends < starts)).size:
            at = wrong[0]
            raise InvalidValue(
                f"`ends(i)` must not come before `starts(i)`; window {tried[at]} would be [{starts[at]}, {ends[at]})."
            )

    @cached_property
    def cut(self) -> Cut:
        """Starts and ends."""
        return Cut([self.starts, self.ends])

    @property
    def step(self) -> None:
        """Windows differ in length."""
        return None

    @cached_property
    def longest(self) -> int:
        """The most slices of a window: of all that are listed, of those tried of other edges."""
        return most_slices(self, self._tried)

    @property
    def _tried(self) -> Array:
        if isinstance(self.starts, Listed):
            return np.arange(len(self.starts.instants))
        return sample(self.starts.count)

    @elementwise
    def window_start(self, window: Array) -> Array:
        """First microsecond of a window."""
        return self.starts.edge(window)

    @elementwise
    def window_end(self, window: Array) -> Array:
        """First microsecond after a window."""
        return self.ends.edge(window)

    @elementwise
    def first_slice(self, window: Array) -> Array:
        """First slice of a window."""
        return self.cut.slice_at(self.starts.edge(window))

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """The slice after the last one of a window."""
        return self.cut.slice_at(self.ends.edge(window))

    @elementwise
    def first_window(self, index: Array) -> Array:
        """Return the first window that ends after the start of a slice."""
        return self._first_after(last_instant(self.cut, index))

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Last window that starts before a slice ends."""
        return self.starts.count(last_instant(self.cut, index))

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.ends.count(time) + 1

    def over(self, cut: Cut) -> Family:
        """Over other edges too."""
        return self if cut == self.cut else OverSharedCut(self, cut)

    def spec(self) -> list[Any]:
        """`["by_edges", starts, ends]`."""
        return ["by_edges", self.starts.spec(), self.ends.spec()]


@dataclass(frozen=True)
class OverSharedCut(OverCut):
    """The windows of a family as ranges of slices of a cut that has other edges as well."""

    family: Family
    cut: Cut

    @property
    def assembled(self) -> str:
        """Whether windows begin alike depends on them, not on the slices."""
        return self.family.assembled or RUNS

    @property
    def step(self) -> None:
        """Windows differ in slices."""
        return None

    @property
    def size(self) -> int | None:
        """Return the value of the family."""
        return self.family.size

    @property
    def ratio(self) -> float:
        """Return the value of the family."""
        return self.family.ratio

    @property
    def has_gaps(self) -> bool:
        """Whether there may be instants in no window."""
        return self.family.has_gaps

    @cached_property
    def longest(self) -> int:
        """The most slices of the windows tried; all, of a list."""
        return most_slices(self, self.family._tried if isinstance(self.family, ByEdges) else self._tried)

    @property
    def _tried(self) -> Array:
        return sample(lambda time: self.family.last_window(self.family.slice_at(time)))

    @elementwise
    def window_start(self, window: Array) -> Array:
        """First microsecond of a window."""
        return self.family.window_start(window)

    @elementwise
    def window_end(self, window: Array) -> Array:
        """First microsecond after a window."""
        return self.family.window_end(window)

    @elementwise
    def first_slice(self, window: Array) -> Array:
        """First slice of a window."""
        return self.cut.slice_at(self.family.window_start(window))

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """The slice after the last one of a window."""
        return self.cut.slice_at(self.family.window_end(window))

    @elementwise
    def first_window(self, index: Array) -> Array:
        """Return the first window that ends after the start of a slice."""
        return self.family.first_open(last_instant(self.cut, index))

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Last window that starts before a slice ends."""
        return self.family.last_window(self.family.slice_at(last_instant(self.cut, index)))

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.family.first_open(time)

    def over(self, cut: Cut) -> Family:
        """The same windows, over another cut."""
        return self if cut == self.cut else self.family.over(cut)

    def spec(self) -> list[Any]:
        """`["shared", family, cut]`."""
        return ["shared", self.family.spec(), self.cut.spec()]
