"""Several families over one cut: they share slices, one query and one state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicing.errors import InvalidValue
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.family import Family
from slicing.windows.time.clocks import CYCLE, SECOND
from slicing.windows.time.cut import Cut, refines
from slicing.windows.time.edges import Array, Edges, Every, elementwise
from slicing.windows.time.local import Local
from slicing.windows.time.slices import Index

_AROUND = np.arange(-2, 3)
"""The distances of the windows to compare from a window in which a clock changes."""


@dataclass(frozen=True)
class Several(Family):
    """A set of families over one shared cut, made by `several`. It answers questions about slices, not about windows.

    `members` are the families over their own cuts, in the given order; `families` are the same over the shared `cut`.
    """

    members: tuple[Family, ...]
    cut: Cut

    assembled = ""
    may_repeat = False

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The families as ranges of the shared slices."""
        return tuple(member.over(self.cut) for member in self.members)

    @property
    def closed_right(self) -> bool:  # type: ignore[override]
        """The value of the members, which share slices."""
        return self.members[0].closed_right

    @property
    def longest(self) -> int:
        """The maximum number of slices of any window."""
        return max(family.longest for family in self.families)

    @property
    def ratio(self) -> float:
        """The average number of windows of all families that contain a record."""
        return sum(member.ratio for member in self.members)

    @property
    def shortest(self) -> int:
        """The smallest distance between edges of one family, in microseconds."""
        return min(member.shortest for member in self.members)

    @property
    def has_gaps(self) -> bool:
        """Whether there may be instants in no window of any family."""
        return all(family.has_gaps for family in self.families)

    def in_gap(self, index: Array) -> Any:
        """Return whether each slice belongs to no window of any family."""
        return np.logical_and.reduce([np.asarray(family.in_gap(index)) for family in self.families])

    def in_time(self, index: Array, times: Array) -> NDArray[np.bool_]:
        """Return whether each record belongs to a window of any family that may be emitted."""
        found: NDArray[np.bool_] = np.logical_or.reduce([family.in_time(index, times) for family in self.families])
        return found

    @elementwise
    def slice_at(self, time: Array) -> Array:
        """Index of the slice that holds an instant."""
        return self.families[0].slice_at(time)

    def slice_start(self, index: Index) -> Index:
        """First microsecond of a slice."""
        return self.families[0].slice_start(index)

    def spec(self) -> list[Any]:
        """`["several", [members], cut]`."""
        return ["several", [member.spec() for member in self.members], self.cut.spec()]


def several(families: Sequence[Family]) -> Several:
    """Return the families over one cut: a common grid if it is coarse enough, otherwise all their edges.

    The length of the grid is the greatest common divisor of all lengths and distances of edges. The grid is used if it
    has at most twice as many slices as there are edges, because every family is then even. Families that already have
    the same cut keep it. The cut does not depend on the order of the families. Raises InvalidValue for no family.
    """
    if not families:
        raise InvalidValue("A set of windows is empty; give at least one.")
    cuts = [family.cut for family in families]
    if all(cut == cuts[0] for cut in cuts):
        return Several(tuple(families), cuts[0])
    every = Cut([edges for cut in cuts for edges in cut.sequences]).sequences
    coarse = [e for e in every if not any(other is not e and refines(other, e) for other in every)]
    return Several(tuple(families), _grid(coarse) or Cut(coarse))


def _grid(sequences: Sequence[Edges]) -> Cut | None:
    """Return the cut at the greatest common divisor, or None if it is too fine or if edges are not even."""
    even = [edges for edges in sequences if isinstance(edges, Every)]
    if len(even) < len(sequences):
        return None
    offset = min((edges.offset for edges in even), key=lambda offset: (abs(offset), offset))
    length = math.gcd(*(edges.length for edges in even), *(edges.offset - offset for edges in even))
    edges_per_slice = sum(Fraction(length, edges.length) for edges in even)
    return Cut([Every(length, offset)]) if 2 * edges_per_slice >= 1 else None


def end_together(families: Sequence[Family]) -> bool:
    """Return whether all families have their window ends in common, by the windows of lists and by sampled windows.

    Windows of a family without end are sampled over 400 years, and at each change of a clock in them: a clock may
    change by half an hour, so that an hour has another length.
    """
    return all(_ends_too(one, other) for one, other in permutations(families, 2))


def _ends_too(one: Family, other: Family) -> bool:
    """Return whether the other family also has a window end at each end of some windows of a family."""
    ends = one.window_end(_windows_to_compare(one, other))
    return bool(np.array_equal(other.window_end(other.first_open(ends - 1)), ends))


def _windows_to_compare(family: Family, other: Family) -> Array:
    """Return some windows of a family, and those around each change of a clock that either of two families has."""
    windows, changes = family.typical, _clock_changes((family, other))
    if family.listed is not None or not changes.size:
        return windows
    near = np.concatenate([family.first_open(changes), family.last_window(family.slice_at(changes))])
    return np.unique(np.concatenate([windows, np.add.outer(near, _AROUND).ravel()]))


def _clock_changes(families: Sequence[Family]) -> Array:
    """Return the instants at which clocks of families change, in the 400 years that are sampled."""
    sequences = [edges for family in families for edges in family.cut.sequences if isinstance(edges, Local)]
    zones = {edges.zone.name: edges.zone for edges in sequences}
    found = np.array([at for zone in zones.values() for at in zone.transitions], np.int64) * SECOND
    return found[(found >= 0) & (found < CYCLE)]


def primary(families: Sequence[Family]) -> int | None:
    """Return the position of a family whose windows contain all aligned windows of the other families, or None."""
    starts = _aligned_starts(families)
    held = np.flatnonzero((starts == starts.min(axis=0)).all(axis=1))
    return int(held[0]) if len(held) else None


def same_windows(families: Sequence[Family]) -> tuple[int, int] | None:
    """Return the positions of two aligned families whose windows are all the same, or None."""
    starts = _aligned_starts(families)
    return next((pair for pair in combinations(range(len(starts)), 2) if np.array_equal(*starts[list(pair)])), None)


def repeats_ends(family: Family) -> bool:
    """Return whether windows between given edges end together and start apart; on a wall clock a skipped day may."""
    if not isinstance(family, ByEdges):
        return False
    windows = family.typical
    start, end = family.window_start(windows + 1), family.window_end(windows)
    return bool(
        np.any((family.window_start(windows) < start) & (start < end) & (family.window_end(windows + 1) == end))
    )


def _aligned_starts(families: Sequence[Family]) -> Array:
    """Return the starts of the windows of each family that end together, for some ends: one row per family."""
    ends = families[0].window_end(families[0].typical)
    return np.array([family.window_start(family.first_open(ends - 1)) for family in families])


def share_windows(families: Sequence[Family]) -> tuple[int, int] | None:
    """Return the positions of two families that have a window interval in common, or None.

    All windows of lists are compared, and a sample of the windows of families without end.
    """
    for (a, one), (b, other) in combinations(enumerate(families), 2):
        if one.listed is not None and other.listed is not None:
            shares = bool(_intervals(one) & _intervals(other))
        else:
            shares = _shares(one, other) or _shares(other, one)
        if shares:
            return a, b
    return None


def _intervals(family: Family) -> set[tuple[int, int]]:
    """Return the intervals of all windows of a list that are not empty."""
    windows = family.typical
    pairs = zip(family.window_start(windows).tolist(), family.window_end(windows).tolist(), strict=True)
    return {(start, end) for start, end in pairs if start < end}


def _shares(one: Family, other: Family) -> bool:
    """Return whether the other family has the interval of any of some windows of a family.

    Windows of the other one with equal ends are taken for the first of them.
    """
    windows = _windows_to_compare(one, other)
    start, end = one.window_start(windows), one.window_end(windows)
    near = other.first_open(end - 1)
    return bool(np.any((start < end) & (other.window_start(near) == start) & (other.window_end(near) == end)))
