"""A cut divides time into slices at the edges of one or several sequences.

::

    sequence A   |---0---|---1---|---2---|---
    sequence B   --0---|-----1-----|-----2---
    slice        |0 +0 |1| 1+1 |2+1..             the number of a slice is the sum of the numbers of the edges before it

If two edges are equal, there is an empty slice between them, which keeps its number and holds no instant. The cut of
hopping windows has their starts, `Every(advance, offset)`, and also their ends if `size` is not a multiple of
`advance`. Its slices are exactly those of `Even`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slicing.errors import InvalidValue
from slicing.windows.time.clocks import CYCLE
from slicing.windows.time.edges import AFTER, BEFORE, Array, Edges, Every, elementwise, within
from slicing.windows.time.local import LOCAL, Local

_TABLE = 1 << 14
"""The most edges in a table for a closed form. If the sequences meet again only later, starts are searched."""

_FEW = 1 << 12
"""The number of edges that are always listed, in addition to four per requested start."""


@dataclass(frozen=True)
class Cut:
    """Slices between the edges of `sequences`; all times in microseconds.

    Sequences with the same instants count once, and their order does not matter. Every method takes a Python int or
    an int64 array. Raises InvalidValue without a sequence.
    """

    sequences: tuple[Edges, ...]

    def __init__(self, sequences: Iterable[Edges]) -> None:
        kept: list[Edges] = []
        for edges in sorted(sequences, key=_order):
            if not any(same(edges, other) for other in kept):
                kept.append(edges)
        if not kept:
            raise InvalidValue("A cut needs at least one sequence of edges; got none.")
        object.__setattr__(self, "sequences", tuple(kept))

    def __reduce__(self) -> tuple[type[Cut], tuple[tuple[Edges, ...]]]:
        return Cut, (self.sequences,)  # without the tables that are computed on first use

    @elementwise
    def slice_at(self, time: Array) -> Array:
        """Index of the slice that holds an instant."""
        index = self.sequences[0].count(time)
        far = len(self.sequences) > 1 and not within(time, -(1 << 59), 1 << 59)
        for edges in self.sequences[1:]:
            index = _sum(index, edges.count(time)) if far else index + edges.count(time)
        return index

    @elementwise
    def slice_start(self, index: Array) -> Array:
        """Return the first microsecond of a slice: the least instant with `slice_at >= index`.

        For an empty slice this is the start of the next slice that is not empty. A closed form is used for one
        sequence, and for several `Every` with a short common period. Otherwise the edges around are listed. If these
        would be too many, each distinct start is bisected.
        """
        if len(self.sequences) == 1:
            return self.sequences[0].edge(index)
        low, high = self._extremes
        known = np.clip(index, min(low + 1, high), high)
        starts = self._by_table(known) if self._table is not None else self._searched(known)
        return np.where(index <= low, BEFORE, np.where(index > high, AFTER, starts))

    @cached_property
    def _extremes(self) -> tuple[int, int]:
        """The slices of the first and of the last instant of int64."""
        return self.slice_at(BEFORE), self.slice_at(AFTER)

    @cached_property
    def _table(self) -> Array | None:
        """The edges in `[0, period)`, after which all edges repeat; None if there is no closed form."""
        every = [edges for edges in self.sequences if isinstance(edges, Every)]
        period = self._period
        if len(every) < len(self.sequences) or sum(period // edges.length for edges in every) > _TABLE:
            return None
        return np.sort(
            np.concatenate([np.arange(e.offset % e.length, period, e.length, dtype=np.int64) for e in every])
        )

    @property
    def _period(self) -> int:
        return math.lcm(*(edges.length for edges in self.sequences if isinstance(edges, Every)))

    def _by_table(self, index: Array) -> Array:
        table = self._table
        assert table is not None
        since = index - self.slice_at(-1) - 1
        # The product may overflow, but the sum wraps back: the start fits into int64.
        return since // table.size * self._period + table[since % table.size]

    def _searched(self, index: Array) -> Array:
        """Return the least instants with `slice_at >= index`; each distinct index is searched once."""
        wanted, places = np.unique(index, return_inverse=True)
        low, high = self._around(int(wanted[0]), int(wanted[-1]))
        many = self.slice_at(high) - self.slice_at(low) > _FEW + 4 * wanted.size
        starts = self._bisected(wanted) if many else self._listed(low, high)[wanted - self.slice_at(low) - 1]
        return starts[places].reshape(index.shape)

    def _around(self, first: int, last: int) -> tuple[int, int]:
        """Return low, high with `slice_at(low) < first` and `slice_at(high) >= last`; near if edges are even."""
        margin = max(1, round(32 * self._mean_length))
        low, high = self._near(first), self._near(last)
        while self.slice_at(low := max(low - margin, BEFORE)) >= first:
            margin *= 2
        while self.slice_at(high := min(high + margin, AFTER)) < last:
            margin *= 2
        return low, high

    def _near(self, index: int) -> int:
        """Return an instant near the start of a slice, estimated from the mean length of slices."""
        at = 0
        for _ in range(8):
            missing = index - self.slice_at(at)
            if abs(missing) <= 16:
                break
            at = min(max(at + int(missing * self._mean_length), BEFORE), AFTER)
        return at

    @cached_property
    def _mean_length(self) -> float:
        """The mean length of a slice over the 400 years from 1970 on."""
        return CYCLE / max(1, self.slice_at(CYCLE) - self.slice_at(0))

    def _listed(self, low: int, high: int) -> Array:
        """Return all edges in `(low, high]`, ascending: the starts of the slices after `slice_at(low)`."""
        edges = [e.edge(np.arange(e.count(low) + 1, e.count(high) + 1)) for e in self.sequences]
        return np.sort(np.concatenate(edges))

    def _bisected(self, wanted: Array) -> Array:
        """Return the least instants with `slice_at >= wanted`, by 64 calls of `slice_at`."""
        low, high = np.full(wanted.shape, BEFORE), np.full(wanted.shape, AFTER)
        while np.any(high - 1 > low):
            middle = (low & high) + ((low ^ high) >> 1)  # the mean of both; a sum could overflow
            reached = self.slice_at(middle) >= wanted
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return high

    def spec(self) -> list[Any]:
        """`["cut", [specs of the sequences]]`."""
        return ["cut", [edges.spec() for edges in self.sequences]]


def _sum(a: Array, b: Array) -> Array:
    """Return `a + b`, saturated at the limits of int64."""
    total = a + b
    wrapped = ((a ^ total) & (b ^ total)) < 0
    return np.where(wrapped, np.where(a < 0, BEFORE, AFTER), total)


def _order(edges: Edges) -> tuple[str, int, int, str]:
    """Return a sort key that is the same for equal sequences."""
    spec = edges.spec()
    length, offset = spec[1:3] if isinstance(edges, Every) else (0, 0)
    # Specs of older state have one kind for all edges on a wall clock.
    return LOCAL if isinstance(edges, Local) else spec[0], length, offset, json.dumps(spec[1:])


def same(a: Edges, b: Edges) -> bool:
    """Return whether two sequences are known to have the same instants."""
    return a.spec() == b.spec() or (refines(a, b) and refines(b, a))


def refines(inner: Edges, outer: Edges) -> bool:
    """Return whether all edges of `outer` are known to be edges of `inner`."""
    if isinstance(inner, Every | Local):
        return inner.refines(outer)
    return inner.spec() == outer.spec()
