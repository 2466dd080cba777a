"""Tables of many runs of tables at once: differences of running counts, where the same values occur again and again.

A run is some neighbouring tables, as the slices of a window. Runs that overlap form a group. For the values of a group,
counts are added up over its tables; a run has the difference of two of these sums. So no two tables are merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from combinators._common import Array
from combinators._tables import Layout, Tables, sorted_rows

_ROOM = 1 << 20
"""Sums of values of a group that are computed at once."""
_GROUP = 1_500
"""A group takes as long as so many counts of runs."""
_MERGING = 2
"""A row that is merged into the table of a run takes longer than so many counts."""


def counts_of_runs(layout: Layout, partials: Array, low: Array, high: Array, most: int | None = None) -> Array | None:
    """Return the tables of the runs of `partials` from `low[i]` up to but not including `high[i]`, for every i.

    None if merging tables is quicker, because values seldom occur again, or if a group has more than `most` values.
    """
    if not len(low):
        return None
    groups, starts = _Groups.of(low, high), np.append(0, np.cumsum(layout.sizes(partials)))
    merged = _MERGING * int((starts[high] - starts[low]).sum())
    if _GROUP * groups.count > merged:
        return None
    tables = layout.read(partials)
    values = _Values.of(tables, groups)
    if values.counts.max() > (most or merged) or int(values.counts @ groups.sizes) + _GROUP * groups.count > merged:
        return None
    found = np.empty(len(low), object)
    for runs, group in groups.parts(values.counts):
        found[runs] = layout.write(values.of_runs(tables, starts, group, low[runs], high[runs]))
    return found


@dataclass(frozen=True)
class _Groups:
    """Groups of runs that overlap: group g has runs `runs[starts[g] : starts[g + 1]]`, of tables before `ends[g]`."""

    runs: Array
    starts: Array
    ends: Array

    @classmethod
    def of(cls, low: Array, high: Array) -> _Groups:
        runs = np.argsort(low, kind="stable")
        reach = np.maximum.accumulate(high[runs])
        heads = np.flatnonzero(np.append(True, low[runs][1:] >= reach[:-1]))
        starts = np.append(heads, len(runs))
        return cls(runs, starts, reach[starts[1:] - 1])

    @property
    def count(self) -> int:
        return len(self.ends)

    @property
    def sizes(self) -> Array:
        sizes: Array = np.diff(self.starts)
        return sizes

    def parts(self, values: Array) -> Iterator[tuple[Array, int]]:
        """Yield runs of a group whose sums, of as many `values` each, fit into the room; and the group."""
        for group, (start, end) in enumerate(zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)):
            step = max(1, _ROOM // max(1, int(values[group])))
            for at in range(start, end, step):
                yield self.runs[at : min(end, at + step)], group


@dataclass(frozen=True)
class _Values:
    """The values of each group, sorted: `counts[g]` values, the first of which is value `first[g]`.

    `rows[j]` is a row that has value j, and `numbers[i]` is the value of row i.
    """

    counts: Array
    first: Array
    rows: Array
    numbers: Array

    @classmethod
    def of(cls, tables: Tables, groups: _Groups) -> _Values:
        group = np.searchsorted(groups.ends, tables.cells, "right")  # rows after all runs are in a group of their own
        order, is_first = sorted_rows(group, groups.count + 1, tables.numbers)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.cumsum(is_first) - 1
        rows = order[is_first]
        counts = np.bincount(group[rows], minlength=groups.count + 1)
        return cls(counts[: groups.count], np.cumsum(counts) - counts, rows, numbers)

    def of_runs(self, tables: Tables, starts: Array, group: int, low: Array, high: Array) -> Tables:
        """Return the tables of some runs of a group."""
        first, width = int(self.first[group]), int(self.counts[group])
        edges, places = np.unique(np.concatenate([low, high]), return_inverse=True)
        rows = slice(starts[edges[0]], starts[edges[-1]])
        sums = np.zeros((len(edges), width), np.int64)
        after = np.searchsorted(edges, tables.cells[rows], "right")
        np.add.at(sums.ravel(), after * width + self.numbers[rows] - first, tables.counts[rows])
        np.cumsum(sums, axis=0, out=sums)
        counts = (sums[places[len(low) :]] - sums[places[: len(low)]]).ravel()
        held = np.flatnonzero(counts)
        cells, values = np.divmod(held, width)
        some = tables.take(self.rows[first + values])
        return Tables(len(low), cells, some.numbers, counts[held], tables.texts)
