"""Results of runs of rows by `Aggregate.results_of_runs`, which needs no combines; otherwise by a segment tree."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import locating
from slicing.assembly.ranges.segment_tree import Place, SegmentTree


class RunResults(SegmentTree):
    """A tree that returns results. They are the partials of `Kernel.of_results`."""

    @cached_property
    def _of_runs(self) -> Callable[[Array, Array], Array | None]:
        prepare = self.kernel.aggregate.results_of_runs
        assert prepare is not None
        return prepare(*self.levels[0].columns)

    def joined(self, keys: Array, low: Array, high: Array, place: Place) -> Partials:
        """Return the result of rows `low[i]` up to but not including `high[i]`, for every i; see `SegmentTree`."""
        with locating(place):
            found = self._of_runs(low, high)
            return self.kernel.lower(super().joined(keys, low, high, place)) if found is None else [found]
