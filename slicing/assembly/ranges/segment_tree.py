"""A segment tree per key: combine any run of m rows in order, with at most 2 log2(m) combines.

Sums that can be subtracted exactly are the difference of two running totals. Other aggregates use nodes of two, four,
eight, ... rows. Each node is computed once and shared by all runs::

    rows of a key     0    1    2    3    4    5    6
    nodes of two     [0    1]  [2    3]  [4    5]            the last row has no neighbour, hence no node
    nodes of four    [0              3]
    run 1 up to 6          1   [2    3]  [4    5]            oldest first: `combine` need not be commutative

Nodes are numbered from the first row of their key, so that other keys do not affect how a run is combined. The nodes
serve runs of all lengths, whereas `assembly.ranges.range_aggregates` combines every row again for each length. Streams
use `range_aggregates` nevertheless: their state drops the first rows of a key, which would renumber the nodes and
change the bits of floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.assembly.choice import is_additive
from slicing.assembly.ranges.range_aggregates import before

Place = Callable[[int], str]
Reach = Callable[[], Array]


@dataclass(frozen=True)
class Level:
    """Nodes of equal length: key k has the `counts[k]` nodes from `starts[k]` on."""

    columns: Partials
    starts: Array
    counts: Array


class SegmentTree:
    """A segment tree over the partials of one kernel: key k has the `counts[k]` rows from `starts[k]` on.

    `reach` returns, for each row, the greatest end of a run that may hold it; it is called if rows are combined. Rows
    that are in no common run are not, because `combine` may fail for them. `place` names a row in error messages. The
    tree needs at most as much memory as the rows.
    """

    def __init__(self, kernel: Kernel, columns: Partials, starts: Array, counts: Array, reach: Reach, place: Place):
        self.kernel, self.reach, self.place = kernel, reach, place
        self.levels = [Level(columns, starts, counts)]
        self.totals: Sequence[Array] | None = None
        if is_additive(kernel) and kernel.sums_fit(columns):
            self.totals = [before(column) for column in columns]

    def joined(self, keys: Array, low: Array, high: Array, place: Place) -> Partials:
        """Return the partial of rows `low[i]` up to but not including `high[i]`, for every i.

        A run has at least one row, and all its rows are of key `keys[i]`. `place` names a run in error messages.
        """
        if self.totals is not None:
            return [total[high] - total[low] for total in self.totals]
        if (found := self.kernel.runs(self.levels[0].columns, low, high)) is not None:
            return found
        first = self.levels[0].starts[keys]
        out = [column[low] for column in self.levels[0].columns]
        newer = []
        runs, left, right = np.arange(len(low)), low + 1 - first, high - first
        for number in count():
            some = np.flatnonzero(left < right)
            if not len(some):
                break
            level = self._level(number)
            runs, left, right = runs[some], left[some], right[some]
            at = level.starts[keys[runs]]
            odd = np.flatnonzero(left & 1)
            self._join(out, runs[odd], level, (at + left)[odd], place)
            left = left + (left & 1)
            odd = np.flatnonzero((right & 1) & (left < right))
            newer.append((runs[odd], level, (at + right)[odd] - 1))
            left, right = left >> 1, right >> 1
        for chosen, level, nodes in reversed(newer):
            self._join(out, chosen, level, nodes, place)
        return out

    def _join(self, out: Partials, chosen: Array, level: Level, nodes: Array, place: Place) -> None:
        """Combine nodes, as the newer part, into the runs `chosen`."""
        if not len(chosen):
            return
        with locating(lambda index: place(int(chosen[index]))):
            joined = self.kernel.combine([c[chosen] for c in out], [c[nodes] for c in level.columns])
        for column, new in zip(out, joined, strict=True):
            column[chosen] = new

    def _level(self, number: int) -> Level:
        """Return the nodes of `2 ** number` rows; they are computed on first use."""
        if number == len(self.levels):
            self.levels.append(self._above(self.levels[-1]))
        return self.levels[number]

    def _above(self, below: Level) -> Level:
        """Return the nodes of twice the length. Nodes that are in no run are not combined."""
        counts, length = below.counts >> 1, 1 << len(self.levels)
        starts = np.cumsum(counts) - counts
        number = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        older = np.repeat(below.starts, counts) + 2 * number
        first = np.repeat(self.levels[0].starts, counts) + length * number
        some = np.flatnonzero(self.reach()[first] >= first + length)
        columns, nodes = [column[older] for column in below.columns], older[some]
        if len(some):
            with locating(lambda index: self.place(int(first[some[index]]))):
                joined = self.kernel.combine([c[some] for c in columns], [c[nodes + 1] for c in below.columns])
            for column, new in zip(columns, joined, strict=True):
                column[some] = new
        return Level(columns, starts, counts)
