"""Long windows with a tail: each ends at a fine edge and begins at a coarse edge, a multiple of the tail.

::

    tails     |-----------|-----------|-----------|---------        coarse edges, at which windows begin
    slices    |---|---|---|---|---|---|---|---|---|---|---|-        fine edges, at which windows end
    windows               [===========================)             size 2 tails: between 2 and 3 tails long
                          [===============================)
                          [===================================)
                                      [===========================)

All windows that end within the same tail have the same start. Once these windows have fired, no window needs the slices
of that tail one by one. One partial for the whole tail is then enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slicing.errors import InvalidValue
from slicing.windows.families.ending import EndingAtEdges
from slicing.windows.families.family import TAILED, Family, OverSharedCut, earlier, most_slices, sample
from slicing.windows.families.stepped import Stepped
from slicing.windows.time.cut import refines
from slicing.windows.time.edges import AFTER, Array, Edges, after, before, elementwise


@dataclass(frozen=True)
class Tailed(EndingAtEdges):
    """Windows that end at each edge of `ends`, and begin `whole` tails before the tail that contains `end - rest`.

    The size is `whole` tails and `rest` microseconds: a window begins at the last edge of `tails` at or before
    `end - size`. Where a zone skips whole tails, this may be no earlier than its end: such a window begins at the last
    edge before its end, so that no window is empty. Window i ends with slice i. Every edge of `tails` must be an edge
    of `ends`. Raises InvalidValue if that is not known from their definitions, if `whole` is not positive, or if `rest`
    is negative.
    """

    tails: Edges
    ends: Edges
    whole: int
    rest: int = 0
    closed_right: bool = False
    assembled = TAILED

    def __post_init__(self) -> None:
        if not refines(self.ends, self.tails) or self.whole < 1 or self.rest < 0:
            raise InvalidValue(
                "windows with a tail must begin where others end, at least one tail before their end; got tails "
                f"{self.tails.spec()}, ends {self.ends.spec()}, {self.whole} tails and {self.rest} us."
            )

    @property
    def wholes(self) -> Stepped:
        """The windows of `whole` tails, with tails as slices: the part of a window before the tail in which it ends."""
        return Stepped(self.tails, 1, self.whole)

    @cached_property
    def per_tail(self) -> int:
        """The number of slices of a tail."""
        first, end = self.ends.count(self.tails.edge(0)), self.ends.count(self.tails.edge(1))
        return max(1, end - first)

    @cached_property
    def longest(self) -> int:
        """The maximum number of slices of the last windows that begin with each of some thousand sampled tails."""
        return most_slices(self, self.last_window(self.ends.count(self.tails.edge(sample(self.tails.count)))))

    @cached_property
    def ratio(self) -> float:
        """The average number of windows that contain a record, over the slices of a typical tail."""
        first = self.ends.count(self.tails.edge(self.whole))
        slices = np.arange(first, first + self.per_tail)
        return float((self.last_window(slices) - self.first_window(slices) + 1).mean())

    @elementwise
    def tail_of_end(self, window: Array) -> Array:
        """Return the tail in which a window ends; if it ends with a tail, the next tail."""
        return self.tails.count(self.window_end(window))

    @elementwise
    def first_tail(self, window: Array) -> Array:
        """Return the first tail of a window."""
        end = self.window_end(window)
        return np.minimum(self.tails.count(earlier(end, self.rest)) - self.whole, self.tails.count(before(end)))

    def spells(self, firsts: Array, ends: Array) -> tuple[Array, Array]:
        """Return the first windows and the ends of runs that end in one tail and start alike: `int64[n]`, `int64[n]`.

        They cover the windows `firsts[i]` up to but not including `ends[i]`, which ascend and are apart. The first run
        of each i may begin earlier, and no run is empty. Cost: linear in the tails in which these windows end.
        """
        oldest, newest = (self.tails.edge(self.tail_of_end(windows)) for windows in (firsts, ends - 1))
        edges = self.tails.edge(union(self.tails.count(oldest - self.rest), self.tails.count(newest) + 1))
        starts = self.first_open(oldest - 1)
        # A window begins later than the one before it if it is the first to end at, or after, such an instant.
        changes = [self.first_open(time) for time in (edges - 1, edges, edges + self.rest - 1)]
        found = np.unique(np.concatenate([starts, *changes]))
        of = np.searchsorted(starts, found, side="right") - 1
        found, of = (each[(of >= 0) & (found < ends[of])] for each in (found, of))
        alike = (self.tail_of_end(found) == self.tail_of_end(found - 1)) & (
            self.first_tail(found) == self.first_tail(found - 1)
        )
        begins = np.flatnonzero(~alike | (found == starts[of]))
        found, of = found[begins], of[begins]
        return found, np.minimum(np.append(found[1:], ends[-1:]), ends[of])

    @elementwise
    def window_start(self, window: Array) -> Array:
        """First microsecond of a window."""
        return self.tails.edge(self.first_tail(window))

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Return the last window that starts at or before a slice; it ends no earlier than the tail of the slice."""
        tail = self.tails.count(before(self.ends.edge(after(index))))
        later = self.tails.edge(tail + self.whole + 1)
        last = self.ends.count(before(np.minimum(later, AFTER - self.rest) + self.rest))
        return np.maximum(last, self.ends.count(self.tails.edge(tail + 1))) - 1

    def spec(self) -> list[Any]:
        """`["tailed", tails, ends, whole, rest]`, and `true` with `closed_right`."""
        return ["tailed", self.tails.spec(), self.ends.spec(), self.whole, self.rest, *self.closed_right * [True]]


def tailed(family: Family) -> Tailed:
    """Return the windows of a family as `Tailed` over their own cut; they must have a tail."""
    found = family.family if isinstance(family, OverSharedCut) else family
    assert isinstance(found, Tailed), "these windows have a coarse start"
    return found


def union(firsts: Array, ends: Array) -> Array:
    """Return the numbers in the ranges `firsts[i]` up to but not including `ends[i]`, each once: `int64[n]`, ascending.

    The ranges ascend by both.
    """
    begins = np.maximum(firsts, np.append(firsts[:1], ends[:-1]))
    counts = np.maximum(ends - begins, 0)
    numbers: Array = np.arange(int(counts.sum())) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
    return numbers
