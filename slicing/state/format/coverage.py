"""Which records a bucket still has, and at which edges of slices they are separate: from both follows what is whole.

::

    stored slices     removed | 3  merged  | 6  merged  | 9 | 10 | 11 |       merged records lie in slices 3 and 6
    windows                         [5       9)                      not whole: it begins inside a merged slice
                                           [6         10)            whole
                            [2             6)                        not whole: slice 2 has been removed

Its law: a window is whole if and only if each record that was accepted for it lies in a stored row between its edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.state.format.header import Header, known_since
from slicing.windows.families.family import Family
from slicing.windows.time.cut import Cut
from slicing.windows.time.slices import FOREVER, Index


@dataclass(frozen=True)
class Edges:
    """The edges that a family needs: the starts of its windows, and of its groups of `length` slices from `apart` on.

    Merges may have crossed the edges before slice `since`. A family without groups has a `length` of 0.
    """

    family: Family
    since: int = -FOREVER
    length: int = 0
    apart: int = -FOREVER

    def before(self, index: Array) -> Array:
        """Return for each slice the last edge at or before it that no merge has crossed; -FOREVER without one."""
        start = start_before(self.family, index)
        found = np.where(start >= self.since, start, -FOREVER)
        if self.length:
            group = index // self.length * self.length
            found = np.where(group >= max(self.since, self.apart), np.maximum(found, group), found)
        return found

    def after(self, index: Array) -> Array:
        """Return for each slice the first edge at or after it that no merge has crossed."""
        low = np.maximum(index, self.since)
        found: Array = self.family.first_slice(self.family.last_window(low - 1) + 1)
        return np.minimum(found, self.group_after(low)) if self.length else found

    def group_after(self, index: Any) -> Any:
        """Return for each slice the first start of a group, kept apart, at or after it."""
        return -(-np.maximum(index, self.apart) // self.length) * self.length


@dataclass(frozen=True)
class Coverage:
    """The records that a bucket has, by the slices of `family`.

    stored: no slice from it on has been removed.
    accepted: no record from it on has been refused by all windows.
    cut: all slices from it on have the edges of the query.
    merged: the slices from it on are separate, and before it those at one of `edges`; None if all slices are.
    query: the cut of the query, if the stored slices have more edges.
    results: for each result, the first microsecond at which a window with it may start; None if all windows have it.
    """

    family: Family
    stored: int = -FOREVER
    accepted: int = -FOREVER
    cut: int = -FOREVER
    merged: int | None = None
    edges: tuple[Edges, ...] = ()
    query: Cut | None = None
    results: tuple[int | None, ...] = ()

    @property
    def since(self) -> int:
        """The first slice whose windows may be whole: earlier slices may have been removed, or have coarser edges."""
        return max(self.stored, self.cut)

    @property
    def is_merged(self) -> bool:
        """Whether some slices may be merged."""
        return self.merged is not None

    @property
    def known_from(self) -> int:
        """The first microsecond from which on all accepted records are still in the state."""
        return -FOREVER if self.since == -FOREVER else self.start(self.since)

    def start(self, index: int) -> int:
        """Return the first microsecond of a slice."""
        return int(self.family.slice_start(index))

    def whole(self, first: Array, end: Array) -> Array:
        """Return whether windows have all their records, given their first slices and their ends: `bool[n]`."""
        whole: Array = (first >= self.since) & self.is_separate(first) & self.is_separate(end)
        return whole

    def known(self, first: Array, end: Array) -> Array:
        """Return for windows from which of their slices on the records are known, or the slice after it: `int64[n]`."""
        first, end = np.maximum(first, self.since), np.maximum(end, self.since)
        after = self.next_separate(end)
        return np.where(after == end, self.next_separate(first), after)

    def known_since(self, starts: Array) -> Array:
        """Return, for windows that start at `starts`, from which microsecond on their accepted records are known."""
        since = np.maximum(self.known_from, starts)
        if self.merged is None:
            return since
        return np.asarray(self.family.slice_start(self.next_separate(self.family.slice_at(since))))

    def first_whole(self, family: Family, begin: int, kept: Sequence[Edges]) -> int:
        """Return the first window of a family, `begin` or later, from which on all windows are whole and stay so.

        Of the edges that separate slices only those of the family and `kept` stay.
        """
        if self.merged is None:
            return begin
        windows = np.arange(begin, int(family.last_window(self.merged)) + 1)
        first, end = family.first_slice(windows), family.end_slice(windows)
        left = replace(self, edges=(*kept, Edges(family)))
        inside = np.flatnonzero(~(self.whole(first, end) & left.is_separate(end)))
        return begin + int(inside[-1]) + 1 if len(inside) else begin

    def holder(self, index: Array) -> Array:
        """Return the slices that hold the records of some slices: `int64[n]`."""
        if self.merged is None:
            return index
        found = self._edge_before(index)
        return np.where(found == -FOREVER, index, found)

    def is_separate(self, index: Array) -> Array:
        """Return whether each slice is known not to be merged with an earlier one: `bool[n]`.

        Slices before all edges that are known may be: they were merged for windows that the query has no more.
        """
        if self.merged is None:
            return np.ones(len(index), dtype=bool)
        separate: Array = self._edge_before(index) == index
        return separate

    def next_separate(self, index: Array) -> Array:
        """Return for each slice the first slice from it on that is not merged with an earlier one: `int64[n]`."""
        if self.merged is None:
            return index
        found = np.maximum(index, self.merged)
        for each in self.edges:
            found = np.minimum(found, each.after(index))
        return np.where(self.is_separate(index), index, found)

    def _edge_before(self, index: Array) -> Array:
        """Return for each slice the last one at or before it that is separate; -FOREVER without one that is known."""
        assert self.merged is not None, "some slices are merged"
        found = np.where(index >= self.merged, index, -FOREVER)
        for each in self.edges:
            found = np.maximum(found, each.before(index))
        return found

    # A record is stored in the slice in which its slice of the query begins: that may have finer edges inside.

    def row_start(self, index: Array) -> Array:
        """Return for each slice the start of the row in which its records are stored: `int64[n]`."""
        if self.query is not None:
            start = self.query.slice_start(self.query.slice_at(self.family.slice_start(index)))
            index = np.asarray(self.family.slice_at(start))
        return self.holder(index)

    def row_end(self, index: Array) -> Array:
        """Return for each slice where the records of its row end: the slice after them, `int64[n]`."""
        # Slices are merged up to any edge, also up to one that the query does not have.
        return self.of_query(self.next_separate(index + 1))

    def of_query(self, index: Index) -> Index:
        """Return for each slice the first edge of the query at or after its start."""
        if self.query is None:
            return index
        holding = self.query.slice_at(self.family.slice_start(index) - 1)
        return self.family.slice_at(self.query.slice_start(holding + 1))

    def without_ends(self) -> Coverage:
        """Return what is left if all slices are merged up to the next of `edges`."""
        return replace(self, merged=FOREVER)

    def without_starts(self, number: int) -> Coverage:
        """Return what is left if slices are merged across the edges that only one family needs."""
        return replace(self, edges=self.edges[:number] + self.edges[number + 1 :])


def coverage_of(
    head: Header, families: Sequence[Family], groups: Sequence[int] = (), query: Cut | None = None
) -> Coverage:
    """Return the coverage of a bucket from its header. `groups` has the length of the slice groups of each family.

    If the header does not say which records have been refused, these lie before the first window that accepts some.
    """
    pairs = list(zip(head.families, families, strict=True))
    accepting = min(int(own.accepted_from(max(state.retained_from, state.first_accepting))) for state, own in pairs)

    def slice_at(instant: int | None, without: int) -> int:
        return without if instant is None else int(families[0].slice_at(instant))

    return Coverage(
        families[0],
        min(first_needed(head, families), slice_at(head.retained_since, FOREVER)),
        slice_at(head.refused, accepting),
        slice_at(head.cut_since, -FOREVER),
        head.merged,
        tuple(
            Edges(own, -FOREVER if state.merged is None else state.merged, length, state.apart or 0)
            for (state, own), length in zip(pairs, groups or [0] * len(pairs), strict=True)
        ),
        query,
        results_since(head),
    )


def results_since(head: Header) -> tuple[int | None, ...]:
    """Return for each result the first microsecond at which a window with it may start; None if all windows have it."""
    return tuple(map(known_since, head.current))


def first_needed(head: Header, families: Sequence[Family]) -> int:
    """Return the first slice of the windows whose slices are all retained."""
    pairs = zip(head.families, families, strict=True)
    return min(int(own.first_slice(state.retained_from)) for state, own in pairs)


def start_before(family: Family, index: Array) -> Array:
    """Return for each slice the first slice of the last window that begins at or before it."""
    found: Array = family.first_slice(family.last_window(index))
    return found
