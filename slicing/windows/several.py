"""Several families at once over one cut, so that they share slices: one query, one state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from slicing.errors import InvalidValue
from slicing.windows.cut import Cut, refines
from slicing.windows.edges import Edges, Every
from slicing.windows.family import Family


@dataclass(frozen=True)
class Several:
    """A set of families over one shared cut, made by `several`.

    `members` are the families as they would be alone, in the order given, `families` the same over `cut`.
    """

    members: tuple[Family, ...]
    cut: Cut

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The families as ranges of the shared slices."""
        return tuple(member.over(self.cut) for member in self.members)

    @property
    def longest(self) -> int:
        """The most slices of any window."""
        return max(family.longest for family in self.families)

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
