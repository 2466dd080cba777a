"""Open pairs of families of windows: count the records of open windows from the records of their slices.

::

    slices         | 2 | 0 | 1 | 3 |        records of a key, counted once whatever R
    windows        [   3       ]
                       [   4       ]        a difference of two cumulative sums

So a count trigger stores one number per slice and key. Only pairs with trigger state have a row each, see
`pair_memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.sorting import argsorted, sorted_rows
from slicing.assembly.ranges.range_aggregates import before
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, encode_keys
from slicing.content.folding import by_key, fold
from slicing.content.marks import of_keys, under
from slicing.content.memory import Remembered
from slicing.content.pairs import Pairs
from slicing.content.signals import Signals, least_between
from slicing.engines.key_counts import Counting, KeyCounts, has_key, of_pairs
from slicing.engines.pair_memory import PairMemory, memory_of
from slicing.engines.stored_pairs import StoredPairs, remembering
from slicing.engines.values_of_pairs import ValuesOfPairs
from slicing.state.format.header import FamilyState
from slicing.state.format.list_names import COUNTS, EARLY, of_family
from slicing.state.instants import Instants
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.triggers.candidates import Candidates, Extents
from slicing.triggers.panes import Panes
from slicing.windows.families.family import Family
from slicing.windows.time.slices import FOREVER

AT_ONCE = 1_000_000
"""The approximate number of pairs that are processed together."""


class Progressing(Protocol):
    """The interface of a family in an engine: its windows and their progress."""

    family: Family
    shape: Shape
    state: FamilyState

    @property
    def first(self) -> int:
        """Return the first open window."""

    def inside(self, block: Block) -> Block:
        """Return the rows that lie in windows of the family."""

    def closes(self, watermark: int) -> int:
        """Return the end, exclusive, of the windows that a watermark closes."""


@dataclass(frozen=True)
class PairsOfFamily:
    """The windows of one family from `first` up to `end`; `panes` returns the open windows that hold given marks."""

    family: Family
    first: int
    end: int
    memory: PairMemory | None
    inside: Callable[[Block], Block]
    panes: Callable[[Block], Panes]
    purge: Callable[[Block], None] | None = None  # drops the records of pairs; rows have a window in place of a slice

    def reached(self, shape: Shape, marks: Block) -> Reached:
        """Return the windows that hold marks; these are sorted by slice."""
        if self.end < FOREVER:
            marks = marks.between(-FOREVER, int(self.family.end_slice(self.end - 1)))
        return Reached.by(self.family, by_key(shape, self.inside(marks)), self.first, self.end)


def counts_of(pages: Pages, shape: Shape, held: Mapping[str, Block]) -> Instants:
    """Return the stored numbers of records per slice and key; `held` has the cached blocks, by name."""
    nodes = PageLists(pages, EARLY, shape.select(()))
    return Instants(nodes, COUNTS, shape.family.longest, held.get(f"{EARLY} {COUNTS}"))


def keys_of(
    pages: Pages, shape: Shape, held: Mapping[str, Block], counts: Instants, families: Sequence[Progressing]
) -> KeyCounts:
    """Return the stored record counts of keys, kept while a key has records in open windows of one of the families."""
    live = has_key(counts.rows(min(each.family.first_slice(each.first) for each in families)))
    return KeyCounts(pages, shape, held, live)


def pairs_of(
    pages: Pages,
    progress: Progressing,
    panes: Callable[[Block], Panes],
    held: Mapping[str, Block],
    remembers: Remembered | None,
    closed_by: int | None = None,
    purge: Callable[[Block], None] | None = None,
) -> PairsOfFamily:
    """Return the pairs of one family of a bucket: all open windows, or those that the watermark `closed_by` closes."""
    first, of = progress.state.next_to_fire, of_family(progress.state.id)
    end = FOREVER if closed_by is None else progress.closes(closed_by)
    memory = memory_of(pages, progress.shape, held, lambda rows: rows.index >= first, remembers, of)
    return PairsOfFamily(progress.family, first, end, memory, progress.inside, panes, purge)


class SlicePairs(StoredPairs):
    """Open pairs of several families over counted slices; `new` has all marks of this micro-batch.

    `counts` has the earlier numbers of records per slice and key; slices before `first` are forgotten. Records that
    this micro-batch brings for them still count for their keys: otherwise it would depend on the cut into micro-batches
    whether a record counts.
    """

    def __init__(
        self,
        counts: Instants,
        new: Block,
        first: int,
        families: Sequence[PairsOfFamily],
        keys: KeyCounts | None,
        heard: Signals,
    ):
        super().__init__([each.memory for each in families], keys)
        self._counts, self._first, self._families = counts, first, families
        self._new, self._brought = new.between(first, FOREVER), new
        self._heard, self._values = heard, ValuesOfPairs(heard.numbers)
        self._shape = counts.nodes.shape

    @cached_property
    def _now(self) -> Block:
        """The number of records per slice and key, with those of this micro-batch."""
        return fold(self._shape, [self._counts.rows(self._first), self._new])

    def may_end(self, after: int, until: int) -> bool:
        """Whether a window ends after one watermark and by another."""
        families = [(each.family, int(each.family.closed_right)) for each in self._families]
        return any(own.first_open(until - held) > own.first_open(after - held) for own, held in families)

    def candidates(self, everything: bool) -> Iterator[Candidates]:
        """Yield the pairs with new records, or all pairs. If keys are counted, all pairs of keys with new records."""
        families = [each for each in self._families if each.first < each.end]
        if not families:
            return
        marks = self._now if everything else of_keys(self._now, self._brought) if self._keys else self._new
        if not len(marks):
            return
        new_rows = by_key(self._shape, under(self._new, marks.names))
        counted = self._begun(marks.names)
        held = by_key(self._shape, marks if everything or self._keys else of_keys(self._now, marks))
        for each in families:
            for some in each.reached(self._shape, marks).some_keys():
                yield self._of(each, some, held, new_rows, counted and counted[1])
        self._counted = counted

    def _begun(self, names: pa.Table) -> tuple[Block, Counting] | None:
        """Return the new records of keys by their names, and the counts of these keys; None if keys are not counted."""
        if self._keys is None:
            return None
        brought = _among(self._brought, names)
        return brought, self._keys.begin(brought)

    def _of(
        self, each: PairsOfFamily, reached: Reached, held: Block, new_rows: Block, counting: Counting | None
    ) -> Candidates:
        marks, (windows, keys) = reached.marks, reached.windows()
        now, new = (_records(each.family, rows, windows, keys) for rows in (held, new_rows))
        names, memory = marks.names, None
        if each.memory:
            memory = each.memory.of(windows, keys, names, is_new=now == new)
        return Candidates(
            now,
            now - new,
            memory,
            remembering(each.memory, windows, keys, names, memory),
            lambda chosen: _chosen(each.panes, marks, windows[chosen], keys[chosen]),
            lambda: _extents(each.family, windows, keys, names),
            *of_pairs(counting, keys),
            self._least(each.family, names, windows, keys),
            partial(_purge, each.purge, windows, keys, names, now),
            partial(self._values.of, each.family, windows, keys, names),
        )

    def _least(self, family: Family, names: pa.Table, windows: Array, keys: Array) -> dict[str, Array]:
        """Return the signals of the new records of each window, by name: the least value among its slices."""
        if not self._heard.names:
            return {}
        rows = _among(self._signals, names)
        low, high = _ranges(family, rows, windows, keys)
        return {name: least_between(rows.partials[at][0], low, high) for at, name in enumerate(self._heard.names)}

    @cached_property
    def _signals(self) -> Block:
        """The signals of this micro-batch, by key and slice."""
        return self._heard.together(self._shape)

    def save(self) -> None:
        """Store the counts of the new records, and the trigger's state of pairs and keys."""
        self._counts.put(self._new, self._now, self._first)
        super().save()

    def to_cache(self) -> dict[str, Block]:
        """Return the blocks that the bucket cache keeps, by name."""
        cached = {f"{self._counts.nodes.prefix}{COUNTS}": self._counts.cached} if self._counts.cached else {}
        return cached | super().to_cache()


def _extents(family: Family, windows: Array, keys: Array, names: pa.Table) -> Extents:
    return Extents(family.window_start(windows), family.window_end(windows), keys, names, int(family.closed_right))


def _purge(
    purge: Callable[[Block], None] | None, windows: Array, keys: Array, names: pa.Table, held: Array, chosen: Array
) -> Array:
    """Drop the records of the chosen pairs; the counts of slices stay, as other windows hold the same records."""
    assert purge is not None, "other windows have refused the trigger"
    some = np.flatnonzero(chosen)
    if len(some):
        purge(Block(windows[some], keys[some], names, np.ones_like(some), [], []))
    return held


@dataclass(frozen=True)
class Reached:
    """Marks by key and slice: mark i adds the windows `low[i]` up to but not including `end[i]` to those of its key.

    Windows are in the order of their slices, so the windows that a mark adds follow the last window of the mark before.
    """

    marks: Block
    low: Array
    end: Array

    @classmethod
    def by(cls, family: Family, marks: Block, first: int, until: int = FOREVER, last: Array | None = None) -> Reached:
        """Return the windows from `first` up to `until` that hold marks, which are sorted by key and slice.

        `last` has the last window of each mark, if not the last one that holds it.
        """
        low = np.maximum(family.first_window(marks.index), first)
        end = (family.last_window(marks.index) if last is None else last) + 1
        end = np.minimum(end, until)
        follows = marks.keys[1:] == marks.keys[:-1]
        low[1:] = np.where(follows, np.maximum(low[1:], end[:-1]), low[1:])
        return cls(marks, low, np.maximum(low, end))

    def some_keys(self) -> Iterator[Reached]:
        """Split the marks by keys into parts of about `AT_ONCE` windows each."""
        counts = self.end - self.low
        part = (np.cumsum(counts) - counts) // AT_ONCE
        heads = np.flatnonzero(np.diff(self.marks.keys, prepend=-1) != 0)
        # All marks of a key are in the same part as its first mark.
        starts = heads[np.diff(part[heads], prepend=-1) != 0].tolist()
        for start, end in pairwise([*starts, len(self.marks)]):
            yield Reached(self.marks.take(slice(start, end)), self.low[start:end], self.end[start:end])

    def windows(self) -> tuple[Array, Array]:
        """Return the windows and the codes of their keys, each pair once: `int64[n]` each."""
        counts = self.end - self.low
        rows = np.repeat(np.arange(len(self.marks)), counts)
        return self.low[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts), self.marks.keys[
            rows
        ]


def _records(family: Family, rows: Block, windows: Array, keys: Array) -> Array:
    """Count the records of windows, from rows sorted by key and slice."""
    low, high = _ranges(family, rows, windows, keys)
    total = before(rows.records)
    return total[high] - total[low]


def _ranges(family: Family, rows: Block, windows: Array, keys: Array) -> tuple[Array, Array]:
    """Return the range of rows, sorted by key and slice, that each window holds: `low` up to but excluding `high`."""
    if not len(rows):
        return np.zeros(len(windows), dtype=np.int64), np.zeros(len(windows), dtype=np.int64)
    pairs = Pairs.over(rows.index, len(rows.names))
    at = pairs.pack(rows.keys, rows.index)
    low, high = (
        np.searchsorted(at, pairs.pack(keys, edge)) for edge in (family.first_slice(windows), family.end_slice(windows))
    )
    return low, high


def _among(rows: Block, names: pa.Table) -> Block:
    """Return the rows whose keys are in `names`, with codes into these, sorted by key and slice."""
    found = under(rows, names)
    found = found.take(np.flatnonzero(found.keys < len(names)))
    return found.take(sorted_rows(found.keys, found.index))


def _chosen(panes: Callable[[Block], Panes], marks: Block, windows: Array, keys: Array) -> Panes:
    """Return the panes of the chosen pairs, out of the open windows that hold marks of their keys."""
    some = np.zeros(len(marks.names), dtype=bool)
    some[keys] = True
    marks = marks.take(np.flatnonzero(some[marks.keys]))
    marks = marks.take(argsorted(marks.index))

    def of_chosen(frames: Iterator[Windows]) -> Iterator[Windows]:
        for frame in frames:
            codes, names = encode_keys(pa.concat_tables([marks.names, frame.names]))
            ours, theirs = codes[: len(marks.names)][keys], codes[len(marks.names) :][frame.keys]
            pairs = Pairs.over(np.concatenate([windows, frame.windows]), len(names))
            rows = np.flatnonzero(np.isin(pairs.pack(theirs, frame.windows), pairs.pack(ours, windows)))
            if len(rows):
                yield frame if len(rows) == len(frame) else frame.take(rows)

    return panes(marks).mapped(of_chosen)
