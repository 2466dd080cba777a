"""Several families at once over one cut, so that they share slices: one query, one state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, permutations
from typing import Any

import numpy as np

from slicing.errors import InvalidValue
from slicing.windows.families.family import Family, sample
from slicing.windows.time.cut import Cut, refines
from slicing.windows.time.durations import show_instant
from slicing.windows.time.edges import Array, Edges, Every, elementwise
from slicing.windows.time.slices import Index, stripe_of


@dataclass(frozen=True)
class Several:
    """A set of families over one shared cut, made by `several`; asked for slices as a family is, not for windows.

    `members` are the families as they would be alone, in the order given, `families` the same over `cut`.
    """

    members: tuple[Family, ...]
    cut: Cut

    assembled = ""
    show = staticmethod(show_instant)
    step = size = None
    may_repeat = False

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The families as ranges of the shared slices."""
        return tuple(member.over(self.cut) for member in self.members)

    @property
    def longest(self) -> int:
        """The most slices of any window."""
        return max(family.longest for family in self.families)

    @property
    def stripe(self) -> int:
        """Consecutive slices in a stripe of the family with the longest windows."""
        return stripe_of(self.longest)

    @property
    def ratio(self) -> float:
        """Windows of all families that a record is in, on average."""
        return sum(member.ratio for member in self.members)

    @property
    def shortest(self) -> int:
        """The least distance of edges of one family, in microseconds."""
        return min(member.shortest for member in self.members)

    @property
    def has_gaps(self) -> bool:
        """Whether there may be instants in no window of any family."""
        return all(family.has_gaps for family in self.families)

    def in_gap(self, index: Array) -> Any:
        """Which slices belong to no window of any family."""
        return np.logical_and.reduce([np.asarray(family.in_gap(index)) for family in self.families])

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
    """Families over one cut: their grid if that has few slices, else all their edges.

    The grid is that of the greatest common divisor of all lengths and distances of edges; it is taken if it has at most
    twice as many slices as there are edges, for then every family is even. Families that have one cut by themselves
    keep it. The order of families does not matter to the cut. Raises InvalidValue without one.
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
    """The cut at the greatest common divisor, or None if it is too fine or edges are not even."""
    even = [edges for edges in sequences if isinstance(edges, Every)]
    if len(even) < len(sequences):
        return None
    offset = min((edges.offset for edges in even), key=lambda offset: (abs(offset), offset))
    length = math.gcd(*(edges.length for edges in even), *(edges.offset - offset for edges in even))
    edges_per_slice = sum(Fraction(length, edges.length) for edges in even)
    return Cut([Every(length, offset)]) if 2 * edges_per_slice >= 1 else None


def end_together(families: Sequence[Family]) -> bool:
    """Whether a window of each family ends wherever one of another does, of some thousand windows of 400 years."""
    return all(_ends_too(one, other) for one, other in permutations(families, 2))


def _ends_too(one: Family, other: Family) -> bool:
    """Whether another family has a window that ends where each of some windows of a family does."""
    ends = one.window_end(_some_windows(one))
    return bool(np.array_equal(other.window_end(other.first_open(ends - 1)), ends))


def _some_windows(family: Family) -> Array:
    return sample(lambda time: family.last_window(family.slice_at(time)))


def leader(families: Sequence[Family]) -> int | None:
    """Of families that end together, the position of one whose windows hold the others that end with them, or None."""
    ends = families[0].window_end(_some_windows(families[0]))
    starts = np.array([family.window_start(family.first_open(ends - 1)) for family in families])
    held = np.flatnonzero((starts == starts.min(axis=0)).all(axis=1))
    return int(held[0]) if len(held) else None


def share_windows(families: Sequence[Family]) -> tuple[int, int] | None:
    """Positions of two families that make the same interval, of some thousand windows; None if none do."""
    for (a, one), (b, other) in combinations(enumerate(families), 2):
        if _shares(one, other) or _shares(other, one):
            return a, b
    return None


def _shares(one: Family, other: Family) -> bool:
    """Whether another family has one of some windows of a family."""
    windows = _some_windows(one)
    start, end = one.window_start(windows), one.window_end(windows)
    near = other.first_open(end - 1)
    return bool(np.any((start < end) & (other.window_start(near) == start) & (other.window_end(near) == end)))
