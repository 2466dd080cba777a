"""The eager plan: every record is folded into every window that covers it, as in Kafka Streams and Spark.

It is used for aggregates without `combine`, whose windows cannot be assembled from slices, and as the baseline of
slicing. It has one page per window. Each (record, key) reads and writes R partials; R is the windows per record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, encode_keys
from slicing.content.folding import fold, from_records
from slicing.content.records import Records
from slicing.engines.eager.family_pages import FamilyPages
from slicing.engines.eager.window_pages import WindowPages
from slicing.engines.families import FamiliesBucket
from slicing.engines.lateness import FamilyProgress, first_ends, led
from slicing.engines.looking import Look
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import EARLY, parse
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.state.store import MemoryStore, Store
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import Late, RefusedRows, is_late
from slicing.triggers.panes import NEW, Panes
from slicing.triggers.required_delay import joined
from slicing.triggers.trigger import Trigger
from slicing.windows.time.slices import FOREVER


class EagerBucket(FamiliesBucket[FamilyPages]):
    """One bucket of the eager plan, with one page per window. `wide` as in `sliced.bucket.SlicedBucket`."""

    def __init__(
        self,
        shape: Shape,
        arguments: Sequence[Sequence[int]],
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        trigger: Trigger = ON_CLOSE,
        wide: bool = False,
    ):
        super().__init__(shape, grace, fingerprint, store, trigger)
        shape, wait = self.shape, self.wait
        families = shape.family.families
        self.step_families(families, wait, wide)
        self.needs = trigger.needs
        self.families = [
            FamilyPages(
                i, shape.over(family), arguments, self.pages, wait, grace, self.needs.compares, trigger.accumulation
            )
            for i, family in enumerate(families)
        ]
        self.leading = led(self.families) if wide else self.families
        self._notes = self.needs.marks or any(each.family.step != 1 for each in self.families)
        self._new: list[Block] = []

    @of_stage(ASSEMBLE)
    def accept(self, shipped: Sequence[Records]) -> Late[list[Records]]:
        """Fold records, in their order, into every open window that covers them; return and count the late ones."""
        late_for_all = late_for_some = 0
        for records in shipped:
            by_family = [each.accepted_and_late(records.index) for each in self.families]
            accepted = np.logical_or.reduce([takes for takes, _ in by_family])
            refused = np.logical_or.reduce([refuses for _, refuses in by_family])
            late_for_all += int(np.sum(refused & ~accepted))
            late_for_some += int(np.sum(refused & accepted))
            if len(records.index):
                self._note_newest(records.index[accepted])
                for each in self.families:
                    each.add(records)
                if self._notes:
                    self._note(records, accepted)
        return Late(
            late_for_all,
            late_for_some,
            refused_records(self.families, shipped, self.head.watermark),
            joined([first_ends(self.families, each.index, np.ones(len(each.index), np.int64)) for each in shipped]),
        )

    def take_history(self, shipped: Sequence[Records], until: int) -> None:
        """Fold the records of a history, in their order, into every open window that covers them."""
        for each in self.families:
            each.pass_until(until)
            for records in shipped:
                each.windows.add(records, each.state.retained_from, each.state.retained_from)
        if self._notes:
            first = min(each.family.first_slice(each.state.retained_from) for each in self.families)
            for records in shipped:
                self._note(records, records.index >= first)
        for each in self.families:
            if each.family.step != 1:
                each.note(self.new)

    def _note(self, records: Records, accepted: Array) -> None:
        rows = np.flatnonzero(accepted)
        self._new.append(_marks(self.shape.select(()), records.index[rows], records.names.take(rows)))

    def _note_newest(self, slices: Array) -> None:
        """Keep the newest slice in the header: windows that begin after it hold no record yet."""
        if len(slices):
            newest = int(slices.max())
            self.head.newest = newest if self.head.newest is None else max(newest, self.head.newest)

    @cached_property
    def new(self) -> Block:
        """The number of new records of each slice and key, as a block without partials."""
        return fold(self.shape.select(()), self._new)

    def look(self, asked: Look) -> Iterator[Windows]:
        """Yield the windows that are looked up, from their pages."""
        return self._each(lambda each: each.look(asked))

    # Called by triggers.

    @property
    def arrived(self) -> Block:
        """The number of new records of each slice and key."""
        return self.new

    def newest(self) -> Panes:
        """Return the latest window of each key, if it holds a new record."""
        return self._panes(lambda each: each.newest_windows(self.new) if len(self.new) else iter(()))

    def late(self) -> Panes:
        """Return the windows that have fired and hold a new record."""
        return Panes(
            lambda: self._each(lambda each: each.fired_again(self.new, with_old=False)),
            lambda: self._each(lambda each: each.fired_again(self.new, with_old=True)),
            lambda: self._each(
                lambda each: each.touched(self.new, each.state.first_accepting, each.state.next_to_fire, NEW)
            ),
        )

    def closing(self) -> Panes:
        """Return the windows that close."""
        return self._panes(FamilyPages.closing)

    def changed(self, tombstones: bool) -> Panes:
        """Return the windows that close and whose result differs from that of the previous window."""
        return self._panes(lambda each: each.changed(tombstones))

    @property
    def _early(self) -> PageLists:
        return PageLists(self.pages, EARLY, self.shape.select(()))

    # Steps of a micro-batch.

    def advance(self, watermark: int) -> None:
        """Find the windows that a watermark closes."""
        for each in self.families:
            if each.family.step != 1:
                each.note(self.new)
            each.advance(watermark)

    def retire(self) -> None:
        """Remove the pages that no window needs."""
        for each in self.families:
            each.retire()

    def save(self) -> None:
        """Write the header; remove the state of other triggers, and all state once no window is left."""
        held = False
        for each in self.families:
            held |= (
                self.head.newest is not None and each.family.last_window(self.head.newest) >= each.state.next_to_fire
            )
            each.drop_purged()
            windows = each.windows.held()
            each.newest.forget(min(windows, default=FOREVER), self.needs.newest)
            held |= bool(windows)
        self._forget_removed()
        self.note_early()
        if not held:
            self._early.clear()
            self.head.newest = None
        super().save()

    def _forget_removed(self) -> None:
        """Remove the pages of families that a change of the query has removed."""
        lists, removed = self.head.lists, self.pages.removed
        for name in [name for name in lists if removed and parse(name).of != EARLY and parse(name).family in removed]:
            self.pages.remove(lists.pop(name))

    def keep(self) -> str:
        """Keep nothing in the bucket cache; blocks that another trigger has kept are not found any more."""
        return ""

    def cut_at(self) -> list[int]:
        """Return the start of the first stored window, the end of the last one, and the instants of lateness."""
        found = []
        for each in self.families:
            if held := each.windows.held():
                found += [int(each.family.window_start(held[0])), int(each.family.window_end(held[-1]))]
            found += each.lateness_instants(self.head.passed)
        return found

    def extent(self) -> dict[str, int]:
        """Count the open windows with a page; this state has no slices."""
        held = (sum(window >= each.state.next_to_fire for window in each.windows.held()) for each in self.families)
        return {"open_windows": sum(held), "slices": 0}

    def check(self) -> None:
        """Assert the invariants between header and pages: no page is kept too long, and every page exists."""
        for each in self.families:
            assert all(window >= each.state.retained_from for window in each.windows.held()), (
                "expired windows are removed"
            )
        super().check()


def _marks(shape: Shape, slices: Array, names: pa.Table) -> Block:
    """Return the number of records of each slice and key, as a block without partials."""
    codes, names = encode_keys(names)
    return from_records(shape, slices, codes, names, [])


def all_windows(
    shape: Shape, arguments: Sequence[Sequence[int]], batches: Sequence[Records], wide: bool = False
) -> Iterator[Windows]:
    """Yield all windows of bounded input, which has no late records: all windows close at once."""
    bucket = EagerBucket(shape, arguments, 0, Fingerprint(), MemoryStore(), wide=wide)
    for each in bucket.families:
        each.first, each.end = -FOREVER, FOREVER
        for records in batches:
            each.windows.add(records, -FOREVER, -FOREVER)
    return bucket.closing().results()


def in_memory(shape: Shape, arguments: Sequence[Sequence[int]], batches: Sequence[Records]) -> WindowPages:
    """Return the pages of all windows of bounded input."""
    pages = WindowPages(shape, arguments, Pages(MemoryStore(), Fingerprint(), [0]))
    for records in batches:
        pages.add(records, -FOREVER, -FOREVER)
    return pages


def refused_records(
    families: Sequence[FamilyProgress], batches: Sequence[Records], watermark: int
) -> tuple[RefusedRows[list[Records]], ...]:
    """Return, for each family, the records that are late for at least one of its windows."""
    accepting = [each.state.first_accepting for each in families]
    late = (
        [records.take(np.flatnonzero(is_late(each.family, records.index, first))) for records in batches]
        for each, first in zip(families, accepting, strict=True)
    )
    return tuple(RefusedRows(rows, first, watermark) for rows, first in zip(late, accepting, strict=True))
