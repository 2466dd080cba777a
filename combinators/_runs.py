"""Tables of many runs of tables at once: differences of running counts, where the same values occur again and again.

A run is some neighbouring tables, as the slices of a window. Runs that overlap form a group. Each value of a group has
a line of running counts, one at each edge of a run; a run has the difference of two of them. So no tables are merged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from combinators._common import Array
from combinators._tables import Layout, Tables, in_parts, sorted_rows

_ROOM = 1 << 18
"""Counts of runs that are computed at once."""
_MERGING = 4
"""A row that is merged into the table of a run takes longer than so many counts."""


def counts_of_runs(layout: Layout, partials: Array, low: Array, high: Array, most: int | None = None) -> Array | None:
    """Return the tables of the runs of `partials` from `low[i]` up to but not including `high[i]`, for every i.

    None if merging tables is quicker, because values seldom occur again, or if a group has more than `most` values.
    """
    if not len(low):
        return None
    order, first = np.argsort(low, kind="stable"), int(low.min())
    runs, tables = Runs.of(low[order] - first, high[order] - first), layout.read(partials[first : int(high.max())])
    starts = tables.starts()
    merged = int((starts[runs.high] - starts[runs.low]).sum())
    if not merged:
        return None
    values = Values.of(tables, runs)
    sizes = values.counts[runs.groups]
    if values.counts.max() > (most or merged) or int(sizes.sum()) > _MERGING * merged:
        return None
    found = np.empty(len(low), object)
    for part in in_parts(sizes, _ROOM):
        found[order[part]] = layout.write(values.counted(tables, starts, runs.take(part)))
    return found


@dataclass(frozen=True)
class Runs:
    """Runs in the order of their first table: `low`, `high`, and the group of each; `ends[g]` is the end of group g."""

    low: Array
    high: Array
    groups: Array
    ends: Array

    @classmethod
    def of(cls, low: Array, high: Array) -> Runs:
        """Return runs with their groups."""
        reach = np.maximum.accumulate(high)
        is_first = np.append(True, low[1:] >= reach[:-1])
        return cls(low, high, np.cumsum(is_first) - 1, reach[np.append(is_first[1:], True)])

    def take(self, part: slice) -> Runs:
        """Return some runs."""
        return Runs(self.low[part], self.high[part], self.groups[part], self.ends)


@dataclass(frozen=True)
class Values:
    """The values of each group, sorted: `counts[g]` values, the first of which is value `first[g]`.

    `rows[j]` is a row that has value j. `numbers[i]` is the value of row i, and `groups[i]` its group.
    """

    counts: Array
    first: Array
    rows: Array
    numbers: Array
    groups: Array

    @classmethod
    def of(cls, tables: Tables, runs: Runs) -> Values:
        """Return the values of the groups of runs."""
        count = len(runs.ends)
        groups = np.searchsorted(runs.ends, tables.cells, "right")
        order, is_first = sorted_rows(groups, count, tables.numbers)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.cumsum(is_first) - 1
        rows = order[is_first]
        counts = np.bincount(groups[rows], minlength=count)
        return cls(counts, np.cumsum(counts) - counts, rows, numbers, groups)

    def counted(self, tables: Tables, starts: Array, runs: Runs) -> Tables:
        """Return the tables of some runs."""
        span, first = len(starts), int(runs.groups[0])
        edges = np.unique(np.concatenate([runs.groups, runs.groups]) * span + np.concatenate([runs.low, runs.high]))
        rows = slice(starts[edges[0] % span], starts[edges[-1] % span])
        # Lines of a group are as long as it has edges here; they are one after another, value by value.
        length = np.bincount(edges // span - first)
        edge, line = np.cumsum(length) - length, self.counts[first : first + len(length)]
        begin = np.cumsum(length * line) - length * line
        group = self.groups[rows] - first
        at = np.searchsorted(edges, self.groups[rows] * span + tables.cells[rows], "right") - edge[group]
        # What comes after the last edge of a group begins the next line, where differences do not see it.
        places = begin[group] + (self.numbers[rows] - self.first[first + group]) * length[group] + at
        sums = np.zeros(int(length @ line), np.int64)
        np.add.at(sums, places, tables.counts[rows])
        np.cumsum(sums, out=sums)
        own = runs.groups - first
        width = line[own]
        low, high = (np.searchsorted(edges, runs.groups * span + each) - edge[own] for each in (runs.low, runs.high))
        value = np.arange(int(width.sum())) - np.repeat(np.cumsum(width) - width, width)
        place = value * np.repeat(length[own], width)
        place += np.repeat(begin[own] + low, width)
        counts = -sums[place]
        place += np.repeat(high - low, width)
        counts += sums[place]
        held = np.flatnonzero(counts)
        run = np.repeat(np.arange(len(own)), width)[held]
        some = tables.take(self.rows[self.first[runs.groups][run] + value[held]])
        return Tables(len(own), run, some.numbers, counts[held], tables.texts)
