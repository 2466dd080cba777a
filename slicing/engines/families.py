"""The base class of engines whose windows are families over slices: what they answer to triggers, family by family."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Generic

import numpy as np

from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.marks import without_partials
from slicing.content.memory import Remembered
from slicing.engines.bucket import Bucket
from slicing.engines.dirty_set import DirtySet, WaitingSlices
from slicing.engines.lateness import OfFamily
from slicing.engines.slice_pairs import SlicePairs, counts_of, keys_of, pairs_of
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import EARLY, PENDING
from slicing.state.instants import Instants
from slicing.state.lists import PageLists
from slicing.state.store import Store
from slicing.triggers.panes import NONE, Panes
from slicing.triggers.trigger import Trigger


class FamiliesBucket(Bucket, Generic[OfFamily]):
    """One bucket of families of windows. The rows of the `leading` families hold the results of all."""

    families: Sequence[OfFamily]
    leading: Sequence[OfFamily]

    def __init__(self, shape: Shape, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger):
        # A window that holds its end fires no earlier than a microsecond after it.
        self.wait = wait = max(trigger.wait(grace), int(shape.family.closed_right))
        super().__init__(fingerprint, store, trigger, [each.first_open(0, wait) for each in shape.family.families])
        self.shape = self.over_stored(shape)
        self.family = self.shape.family

    @property
    def arrived(self) -> Block:
        """The new rows of open windows, by slice and key."""
        raise NotImplementedError

    @property
    def derived(self) -> Mapping[str, Block]:
        """The blocks that the bucket cache has, by name."""
        return {}

    def touched(self) -> Panes:
        """Return the open windows that hold a new record."""
        return self._touched(self.arrived, lambda each: each.state.first_accepting)

    def _touched(self, marks: Block, first: Callable[[OfFamily], int]) -> Panes:
        if not len(marks):
            return NONE
        return self._panes(lambda each: each.touched(marks, first(each)))

    @cached_property
    def waiting(self) -> WaitingSlices:
        """The open windows that hold a mark of the dirty set."""
        nodes = PageLists(self.pages, EARLY, self.shape.select(()))
        dirty = DirtySet(nodes, self.derived.get(PENDING), self._in_windows)
        if self.pages.added:
            dirty.forget_unlisted()
        return WaitingSlices(dirty, lambda: self.arrived, self._oldest, self._waiting)

    def _in_windows(self, marks: Block) -> Block:
        """Return the marks that lie in windows: others are of windows that a change of the query has removed."""
        if not self.family.has_gaps:
            return marks
        return marks.take(np.flatnonzero(~np.asarray(self.family.in_gap(marks.index))))

    def _waiting(self, marks: Block) -> Panes:
        return self._touched(marks, lambda each: each.state.next_to_fire)

    def all_pairs(self, remembers: Remembered | None, counts_keys: bool, closing: bool = False) -> SlicePairs:
        """Return the open pairs, or those that close, of the families with rows of their own."""
        first, held, closed_by = self._oldest(), self.derived, self.head.watermark if closing else None
        counts = self._counts(held)
        keys = keys_of(self.pages, self.shape, held, counts, self.families) if counts_keys else None
        return SlicePairs(
            counts,
            without_partials(self.arrived),
            first,
            [
                pairs_of(self.pages, each, self._panes_of(each), held, remembers, closed_by, each.purge)
                for each in self.leading
            ],
            keys,
            self.heard,
        )

    def _counts(self, held: Mapping[str, Block]) -> Instants:
        """Return the stored numbers of records per slice and key of open windows; `held` has the cached blocks."""
        return counts_of(self.pages, self.shape, held)

    def _panes_of(self, each: OfFamily) -> Callable[[Block], Panes]:
        return lambda marks: Panes(lambda: each.emitted(each.touched(marks, each.state.next_to_fire)))

    def _panes(self, frames: Callable[[OfFamily], Iterator[Windows]]) -> Panes:
        return Panes(lambda: self._each(frames))

    def _each(self, frames: Callable[[OfFamily], Iterator[Windows]]) -> Iterator[Windows]:
        for each in self.leading:
            yield from each.emitted(frames(each))

    def _oldest(self) -> int:
        return min(each.oldest for each in self.families)
