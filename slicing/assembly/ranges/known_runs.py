"""Runs of rows, counting only rows that are known by an instant: a row has its time, and when it became known.

::

    rows of a key, by time      a    b    c    d         known at 5, 2, 9, 3
    nodes of two, by knowledge [b    a]  [d    c]        b, a + b            d, c + d
    nodes of four              [b    d    a    c]        b, b + d, a + b + d, a + b + c + d
    run a up to d, known by 4                            one prefix of each node that covers it: b, and nothing of c

Nodes have 1, 2, 4, ... rows. A prefix of a node has its rows that are known by then. It is joined from one prefix of
each half, so rows are combined in the order of time, and `combine` need not be commutative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.aggregates.sorting import argsorted
from slicing.assembly.ranges.range_aggregates import before, reach_of

Place = Callable[[int], str]


@dataclass(frozen=True)
class KnownRows:
    """Rows sorted by key and time, each of `records[i]` records. `firsts[i]` is the first row of the key of row i.

    `ranks[i]` is the place of the instant at which row i became known among all such instants. `place` names a row in
    error messages.
    """

    kernels: Sequence[Kernel]
    partials: Sequence[Partials]
    records: Array
    firsts: Array
    ranks: Array
    place: Place

    def joined(self, low: Array, high: Array, until: Array, place: Place) -> tuple[Array, list[Partials]]:
        """Return the record counts and the partials of the rows `low[i]` up to `high[i]` with a rank below `until[i]`.

        The partial of no rows is `init()`. `place` names a run in error messages. Cost for runs of at most m rows:
        log2(m) combines per row and 2 log2(m) per run, at most. Memory: the rows of the keys of the runs twice.
        """
        some = np.flatnonzero(low < high)
        older, newer = (_Sums(self.kernels, len(low), place) for _ in range(2))
        if len(some):
            self._collect(some, low[some], high[some], until[some], older, newer)
        older.append(newer)
        return older.records, older.columns

    def _collect(self, runs: Array, low: Array, high: Array, until: Array, older: _Sums, newer: _Sums) -> None:
        """Add the nodes that cover each run: those of its left half to `older`, oldest first, the others to `newer`."""
        begin, end = int(self.firsts[low].min()), int(high.max())
        level = _Level(self, begin, end, reach_of(low - begin, high - begin, end - begin))
        first = self.firsts[low] - begin
        left, right = low - begin - first, high - begin - first
        while len(runs):
            odd = np.flatnonzero(left & 1)
            older.add(runs[odd], level, first[odd] + (left[odd] << level.number), until[odd])
            left = left + (left & 1)
            odd = np.flatnonzero((right & 1) & (left < right))
            newer.add(runs[odd], level, first[odd] + ((right[odd] - 1) << level.number), until[odd], in_front=True)
            left, right = left >> 1, right >> 1
            open_ = np.flatnonzero(left < right)
            runs, first, left, right, until = (each[open_] for each in (runs, first, left, right, until))
            if len(runs):
                level.rise()


class _Level:
    """The nodes of `2 ** number` rows, side by side: seat i has a row, and the partial of its node's rows up to it.

    A node is sorted by knowledge. Rows `begin` up to `end` have seats; `reach` is that of their runs.
    """

    def __init__(self, rows: KnownRows, begin: int, end: int, reach: Array):
        some = slice(begin, end)
        self.rows, self.begin, self.reach, self.number = rows, begin, reach, 0
        self.firsts, self.ranks, self.records = rows.firsts[some] - begin, rows.ranks[some], rows.records[some]
        self.columns = [[column[some] for column in columns] for columns in rows.partials]
        self.most = int(self.ranks.max()) + 1
        self._starts = np.arange(end - begin)
        self._count()

    def _count(self) -> None:
        self._packed, self._totals = self._pack(self._starts, self.ranks), before(self.records)

    def _pack(self, starts: Array, ranks: Array) -> Array:
        """Return numbers that sort by node, then by knowledge."""
        packed: Array = starts * (self.most + 1) + np.minimum(ranks, self.most)
        return packed

    def known(self, starts: Array, until: Array) -> tuple[Array, Array]:
        """Return the end of the seats of nodes, from their starts on, with a rank below `until`; and their records."""
        ends = np.searchsorted(self._packed, self._pack(starts, until))
        return ends, self._totals[ends] - self._totals[starts]

    def rise(self) -> None:
        """Join pairs of neighbouring nodes. Nodes that are in no run are not combined."""
        half, seats = 1 << self.number, np.arange(len(self.ranks))
        self.number += 1
        self._starts = starts = self.firsts + ((seats - self.firsts) >> self.number << self.number)
        order = argsorted(self._pack(starts, self.ranks))
        of_right = before((order >= starts + half).astype(np.int64))
        right = of_right[1:] - of_right[starts]
        left = seats + 1 - starts - right
        both = np.flatnonzero((left > 0) & (right > 0) & (self.reach[starts] >= starts + 2 * half))
        newer = starts + half + right - 1
        self._join(np.where(left > 0, starts + left - 1, newer), both, newer[both])
        self.ranks, self.records = self.ranks[order], self.records[order]
        self._count()

    def _join(self, older: Array, both: Array, newer: Array) -> None:
        """Replace the partials by those of seats `older`, joined at seats `both` with those of seats `newer`."""
        starts = self._starts
        for number, (kernel, columns) in enumerate(zip(self.rows.kernels, self.columns, strict=True)):
            made = [column[older] for column in columns]
            if len(both):
                with locating(lambda index: self.rows.place(int(self.begin + starts[both[index]]))):
                    joined = kernel.combine([c[both] for c in made], [c[newer] for c in columns])
                for column, new in zip(made, joined, strict=True):
                    column[both] = new
            self.columns[number] = made


class _Sums:
    """The partials of runs so far, and the records in them; a run without records has `init()`."""

    def __init__(self, kernels: Sequence[Kernel], count: int, place: Place):
        self.kernels, self.place = kernels, place
        self.records = np.zeros(count, dtype=np.int64)
        self.columns = [kernel.spread(count) for kernel in kernels]

    def add(self, runs: Array, level: _Level, starts: Array, until: Array, in_front: bool = False) -> None:
        """Combine the known rows of one node into each run: as its newer part, or `in_front` as its older part."""
        ends, records = level.known(starts, until)
        held = np.flatnonzero(ends > starts)
        seats = ends[held] - 1
        new = [[column[seats] for column in columns] for columns in level.columns]
        self._combine(runs[held], records[held], new, in_front)

    def append(self, newer: _Sums) -> None:
        """Combine the partials of other sums into each run, as its newer part."""
        runs = np.flatnonzero(newer.records)
        new = [[column[runs] for column in columns] for columns in newer.columns]
        self._combine(runs, newer.records[runs], new, False)

    def _combine(self, runs: Array, records: Array, new: Sequence[Partials], in_front: bool) -> None:
        is_first = self.records[runs] == 0
        again = np.flatnonzero(~is_first)
        for kernel, columns, some in zip(self.kernels, self.columns, new, strict=True):
            for column, each in zip(columns, some, strict=True):
                column[runs[is_first]] = each[is_first]
            if len(again):
                pair = [column[runs[again]] for column in columns], [each[again] for each in some]
                with locating(lambda index: self.place(int(runs[again[index]]))):
                    joined = kernel.combine(*(reversed(pair) if in_front else pair))
                for column, each in zip(columns, joined, strict=True):
                    column[runs[again]] = each
        self.records[runs] += records
