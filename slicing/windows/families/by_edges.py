"""Windows between given edges: each window's slices are looked up by its edges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slicing.errors import InvalidValue
from slicing.windows.families.family import Family, last_instant, sample
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import Array, Edges, Listed, elementwise


@dataclass(frozen=True)
class ByEdges(Family):
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
        tried = self.typical
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
    def listed(self) -> Array | None:
        """All windows between listed edges, None for edges without end."""
        return np.arange(len(self.starts.instants)) if isinstance(self.starts, Listed) else None

    @property
    def typical(self) -> Array:
        """All windows of lists, otherwise sampled ones."""
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

    def spec(self) -> list[Any]:
        """`["by_edges", starts, ends]`."""
        return ["by_edges", self.starts.spec(), self.ends.spec()]
