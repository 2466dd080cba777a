"""Windows between given edges, and any family over a finer cut: each window's slices are looked up by its edges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicing.errors import InvalidValue
from slicing.windows.families.family import RUNS, Family, OverCut, last_instant, most_slices, sample
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Array, Edges, Listed, elementwise


@dataclass(frozen=True)
class ByEdges(OverCut):
    """Windows `[starts(i), ends(i))` between any edges.

    Raises InvalidValue if a sampled window ends before it starts, or if one sequence is a list and the other is not a
    list of the same length.
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
        """The cut at all starts and ends."""
        return Cut([self.starts, self.ends])

    @property
    def step(self) -> None:
        """None: windows differ in length."""
        return None

    @cached_property
    def longest(self) -> int:
        """The maximum number of slices of a window: over all windows of lists, otherwise over sampled windows."""
        return most_slices(self, self._tried)

    @property
    def listed(self) -> Array | None:
        """All windows between listed edges, None for edges without end."""
        return np.arange(len(self.starts.instants)) if isinstance(self.starts, Listed) else None

    @property
    def _tried(self) -> Array:
        listed = self.listed
        return sample(self.starts.count) if listed is None else listed

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
        """Return the slice after the last one of a window."""
        return self.cut.slice_at(self.ends.edge(window))

    @elementwise
    def first_window(self, index: Array) -> Array:
        """Return the first window that ends after the start of a slice."""
        return self._first_after(last_instant(self.cut, index))

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Return the last window that starts before a slice ends."""
        return self.starts.count(last_instant(self.cut, index))

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.ends.count(time) + 1

    def over(self, cut: Cut) -> Family:
        """Return the same windows over a cut that may have other edges too."""
        return self if cut == self.cut else OverSharedCut(self, cut)

    def spec(self) -> list[Any]:
        """`["by_edges", starts, ends]`."""
        return ["by_edges", self.starts.spec(), self.ends.spec()]


@dataclass(frozen=True)
class OverSharedCut(OverCut):
    """The windows of a family as ranges of slices of a cut that has edges of other families as well."""

    family: Family
    cut: Cut

    @property
    def assembled(self) -> str:
        """The method of the family; it depends on the windows, not on the slices."""
        return self.family.assembled or RUNS

    @property
    def step(self) -> None:
        """None: windows differ in their number of slices."""
        return None

    @property
    def size(self) -> int | None:
        """The value of the family."""
        return self.family.size

    @property
    def limits(self) -> tuple[int, int]:
        """The value of the family, whose windows have the same numbers."""
        return self.family.limits

    def in_time(self, index: Array, times: Array) -> NDArray[np.bool_]:
        """Return whether each record belongs to a window that may be emitted, by the slices of the family."""
        return self.family.in_time(self.family.slice_at(times), times)

    @property
    def ratio(self) -> float:
        """The value of the family."""
        return self.family.ratio

    @property
    def has_gaps(self) -> bool:
        """Whether there may be instants in no window."""
        return self.family.has_gaps

    @cached_property
    def longest(self) -> int:
        """The maximum number of slices of the sampled windows; of all windows of a list."""
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
        """Return the slice after the last one of a window."""
        return self.cut.slice_at(self.family.window_end(window))

    @elementwise
    def first_window(self, index: Array) -> Array:
        """Return the first window that ends after the start of a slice."""
        return self.family.first_open(last_instant(self.cut, index))

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Return the last window that starts before a slice ends."""
        return self.family.last_window(self.family.slice_at(last_instant(self.cut, index)))

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.family.first_open(time)

    def over(self, cut: Cut) -> Family:
        """Return the same windows over another cut."""
        return self if cut == self.cut else self.family.over(cut)

    def spec(self) -> list[Any]:
        """`["shared", family, cut]`."""
        return ["shared", self.family.spec(), self.cut.spec()]
