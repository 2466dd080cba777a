"""A segment tree for each key: any runs of its rows, joined in order, at most 2 log2(m) combines for a run of m rows.

Sums that can be subtracted exactly are the difference of two running totals. Everything else is joined from nodes of
two rows, of four, of eight, each made once however many runs it is a part of::

    rows of a key     0    1    2    3    4    5    6
    nodes of two     [0    1]  [2    3]  [4    5]            the last row has no neighbour, so no node
    nodes of four    [0              3]
    run 1 up to 6          1   [2    3]  [4    5]            from the oldest on: `combine` need not commute

Nodes are numbered from the first row of their key on, so that a run is joined alike whatever other keys lie beside.
They are made once for all runs of all lengths, where `assembly.ranges.range_aggregates` joins each row anew for each
length; but a stream forgets the first rows of a key, and must not emit other bits for that, so it takes the other way.
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


@dataclass(frozen=True)
class Level:
    """Nodes of equal length: those of key k are `counts[k]` from `starts[k]` on."""

    columns: Partials
    starts: Array
    counts: Array


class SegmentTree:
    """The partials of one kernel, row after row; those of key k are `counts[k]` from `starts[k]` on.

    `reach` is for each row the end of the longest run that it may be in: rows that no run has together are not joined,
    as `combine` may fail for them. `place` names a row, for messages. Memory: as much again as the rows, at most.
    """

    def __init__(self, kernel: Kernel, columns: Partials, starts: Array, counts: Array, reach: Array, place: Place):
        self.kernel, self.reach, self.place = kernel, reach, place
        self.levels = [Level(columns, starts, counts)]
        self.totals: Sequence[Array] | None = None
        if is_additive(kernel) and kernel.sums_fit(columns):
            self.totals = [before(column) for column in columns]

    def joined(self, keys: Array, low: Array, high: Array, place: Place) -> Partials:
        """Rows `low[i]` up to `high[i]`, at least one and all of key `keys[i]`, as one partial each.

        `place` names a run, for messages.
        """
        if self.totals is not None:
            return [total[high] - total[low] for total in self.totals]
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
        """Join nodes to the runs that are chosen, which are older."""
        if not len(chosen):
            return
        with locating(lambda index: place(int(chosen[index]))):
            joined = self.kernel.combine([c[chosen] for c in out], [c[nodes] for c in level.columns])
        for column, new in zip(out, joined, strict=True):
            column[chosen] = new

    def _level(self, number: int) -> Level:
        """Rows, nodes of two, nodes of four: made when they are asked for."""
        if number == len(self.levels):
            self.levels.append(self._above(self.levels[-1]))
        return self.levels[number]

    def _above(self, below: Level) -> Level:
        """The nodes of twice the length, of which those are made that lie in a run."""
        counts, length = below.counts >> 1, 1 << len(self.levels)
        starts = np.cumsum(counts) - counts
        number = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        older = np.repeat(below.starts, counts) + 2 * number
        first = np.repeat(self.levels[0].starts, counts) + length * number
        some = np.flatnonzero(self.reach[first] >= first + length)
        columns, nodes = [column[older] for column in below.columns], older[some]
        if len(some):
            with locating(lambda index: self.place(int(first[some[index]]))):
                joined = self.kernel.combine([c[some] for c in columns], [c[nodes + 1] for c in below.columns])
            for column, new in zip(columns, joined, strict=True):
                column[some] = new
        return Level(columns, starts, counts)
