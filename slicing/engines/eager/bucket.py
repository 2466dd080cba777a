"""The eager strategy: every record is folded into every window that covers it, as Kafka Streams and Spark do.

It is for aggregates without `combine`, which no slice can be assembled from, and it is what slicing is measured
against: one page per window, R reads and R writes of a partial per (record, key), R being the windows of a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slicing.assembly.assembling import without_repeats
from slicing.assembly.comparing import differing, result_codes
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, empty, encode_keys
from slicing.content.folding import fold, from_records
from slicing.content.marks import newest_slices, of_keys, without_partials
from slicing.content.records import Records
from slicing.engines.dirty_set import pending
from slicing.engines.eager.window_pages import WindowPages
from slicing.engines.engine import Moment, begin
from slicing.engines.lateness import Judging, waits
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import EARLY, LATER, LATEST, MARKED, SLICE
from slicing.state.lists import PageLists
from slicing.state.pages import Pages, page_name
from slicing.state.store import MemoryStore, Store
from slicing.triggers.emission import CHANGED, NEWEST, ON_CLOSE, ONLY_NEW, UPDATE, WITH_DRAINED, WITH_OLD, Emission
from slicing.triggers.lateness import Late, Refused, is_late
from slicing.windows.families.family import Family, emitted_before, emitted_from
from slicing.windows.time.slices import FOREVER


class EagerBucket:
    """One bucket of the eager strategy, used as `sliced.bucket.Bucket` is; pages are of one window each."""

    def __init__(
        self,
        shape: Shape,
        arguments: Sequence[Sequence[int]],
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        emission: Emission = ON_CLOSE,
    ):
        self.shape, self.emission = shape, emission
        self.pages = Pages(store, fingerprint, [shape.slicing.first_open(0, waits(emission, grace))])
        self.head = self.pages.head
        self.judging = Judging(shape.slicing, self.head.families[0], emission, grace, self.pages.is_new)
        self.windows = WindowPages(shape, arguments, self.pages, emission)
        self.newest = Newest(shape, self.pages, self.windows)
        self.early = PageLists(self.pages, EARLY, shape.select(()))
        self.pending = pending(emission, self.head, self.early)
        self._came: list[Block] = []

    @of_stage(ASSEMBLE)
    def add(self, batches: Sequence[Records]) -> Late[list[Records]]:
        """Fold records into every open window that covers them, in their order; return and count those refused."""
        taking = self.head.taking
        refused = late_records(self.shape.slicing, batches, taking)
        for records in batches:
            if len(records.slices):
                self.windows.add(records, taking, self.head.done)
                if not self.emission.once or self.shape.slicing.step != 1:
                    accepted = self.shape.slicing.last_window(records.slices) >= taking
                    self._came.append(_marks(self.shape, records.take(np.flatnonzero(accepted))))
        late_for_all = sum(int(np.sum(self.shape.slicing.last_window(each.slices) < taking)) for each in refused)
        late_for_some = sum(len(each.slices) for each in refused) - late_for_all
        return Late(late_for_all, late_for_some, (Refused(refused, taking, self.head.watermark),))

    def extent(self) -> dict[str, int]:
        """How many open windows hold records; there are no slices in this state."""
        return {"open_windows": sum(window >= self.head.done for window in self.windows.held()), "slices": 0}

    @of_stage(ASSEMBLE)
    def close(self, moment: Moment) -> Iterator[Windows]:
        """Yield all that goes out in a micro-batch, then write what is left; see `sliced.bucket.Bucket`."""
        return without_repeats(self.shape.slicing, self._all_frames(begin(self.head, self.emission, moment)))

    def _all_frames(self, moment: Moment) -> Iterator[Windows]:
        came = fold(self.shape.select(()), self._came)
        if self.emission.corrects:
            yield from self._corrections(came)
        elif self.emission.when == UPDATE:
            yield from self._updates(came)
        self.newest.note(came)
        self.judging.move(moment.watermark)
        yield from self._closed()
        if self.pending is not None:
            due = self.pending.due(came, self.judging.oldest, moment.clock)
            yield from self._touched(due, self.head.done, FOREVER, "early")
        self._forget()
        self.pages.save_header()

    def _forget(self) -> None:
        """Remove what another emission kept, and everything once no window is left."""
        held = self.windows.held()
        self.newest.forget(min(held, default=FOREVER), self.emission.which == NEWEST)
        if self.pending is None or not held:
            self.early.clear()

    def _closed(self) -> Iterator[Windows]:
        """The windows that this emission puts out at their close; what is not needed is forgotten."""
        first, end = self.judging.first, self.judging.end
        held = self.windows.held()
        if self.emission.which == CHANGED:
            after = emitted_from(self.shape.slicing, np.array(held, dtype=np.int64) + 1).tolist()
            for window in sorted({w for w in (*held, *after) if first <= w < end}):
                yield from self._changes(window)
        elif self.emission.has_trees:
            for window in held:
                if first <= window < end:
                    yield _as_windows(self.windows.page(window))
        if end > first:
            # Not before: what another emission has left is compared with by `on_change`.
            self.head.kept = max(self.head.kept, self.judging.keep)
            self.windows.remove_before(self.judging.keep)
        self.head.done = end

    def _changes(self, window: int) -> Iterator[Windows]:
        """The rows of a window that closes, for the keys whose result is not that of the window before."""
        pages = {at: self.windows.page(at) for at in (emitted_before(self.shape.slicing, window), window)}
        _, names = encode_keys(pa.concat_tables([page.names for page in pages.values()]))
        before, there = (self.windows.filled(_places(names, at), pages.__getitem__) for at in pages)
        now, previous = result_codes(self.shape, [there, before])
        yield from differing(there, now, previous, self.emission.what == WITH_DRAINED)

    def _updates(self, came: Block) -> Iterator[Windows]:
        if not len(came):
            return
        if self.emission.which != NEWEST:
            yield from self._touched(came, self.head.taking, FOREVER, "update")
            return
        slicing, taking = self.shape.slicing, self.head.taking
        newest = of_keys(self.newest.slices(came, taking), came)
        first = np.maximum(slicing.first_window(newest.slices), taking)
        for window in np.unique(first).tolist():
            keys = newest.keys[first == window]
            inside = came.take(np.flatnonzero(np.isin(came.keys, keys)))
            yield from self._touched(inside, window, window + 1, "update")

    def _corrections(self, came: Block) -> Iterator[Windows]:
        for windows in self._touched(came, self.head.taking, self.head.done, "correction"):
            if self.emission.what == ONLY_NEW:
                yield replace(_as_windows(self.windows.only_new(int(windows.windows[0]))), kind="correction")
            else:
                yield self.windows.with_old(windows) if self.emission.what == WITH_OLD else windows

    def _touched(self, marks: Block, first: int, end: int, kind: str) -> Iterator[Windows]:
        """The windows `first` up to `end` that hold a row of `marks`, for the keys of those rows."""
        slicing = self.shape.slicing
        low, high = slicing.first_window(marks.slices), slicing.last_window(marks.slices)
        for window in self.windows.held():
            inside = np.flatnonzero((low <= window) & (window <= high)) if first <= window < end else low[:0]
            if len(inside):
                page = of_keys(self.windows.page(window), marks.take(inside))
                yield replace(_as_windows(page), kind=kind)

    def check(self) -> None:
        """Assert the invariants between header and pages: nothing is kept too long, every page in place."""
        head = self.head
        assert all(window >= head.kept for window in self.windows.held()), "expired windows are removed"
        pages = [page_name(entry) for entries in head.lists.values() for entry in entries]
        assert len(pages) == len(set(pages)), "a page belongs to one window"
        assert all(self.pages.store.get(page) for page in pages)


class Newest:
    """The newest slice of each key, for which `on_update(latest_only=True)` keeps a mark.

    Under another emission there is none, as it would be written with every record. Then the last window that holds a
    key says its newest slice, if there is one slice an advance. Of two either may be the newest; so of the later one,
    where a window has another first slice behind it, there is a mark in any case::

        size 5, advance 2: window L begins with slices 2L and 2L + 1; what is newest is in one of them

        slice    2L  2L+1
        L        [=========)
        L - 2  =====)            holds 2L, but not 2L + 1: is it the first window that holds the newest record?
    """

    def __init__(self, shape: Shape, pages: Pages, windows: WindowPages):
        self.shape, self.slicing, self.windows = shape.select(()), shape.slicing, windows
        self.marks, self.later = PageLists(pages, LATEST, self.shape), PageLists(pages, LATER, self.shape)
        begins = [int(name.removeprefix(MARKED)) for name in self.later.lists if name.startswith(MARKED)]
        # The first window whose marks of the later slice are all there; older ones were written without.
        self._begins = begins[0] if begins else max(windows.held(), default=-FOREVER) + 1

    def slices(self, came: Block, taking: int) -> Block:
        """The newest slice of each key that windows from `taking` on hold, with those of `came`; kept from now on."""
        known = self.marks.load(SLICE) or self._derived(taking)
        newest = newest_slices(fold(self.shape, [known, came]))
        self.marks.save(SLICE, newest.between(self.slicing.first_slice(taking), FOREVER))
        return newest

    def note(self, came: Block) -> None:
        """Keep what the windows will not say of records that came."""
        if self.slicing.step != 1:
            later = came.slices > self.slicing.first_slice(self.slicing.last_window(came.slices))
            for index in np.unique(came.slices[later]).tolist():
                self.later.append(str(self.slicing.last_window(index)), came.between(index, index + 1))

    def forget(self, window: int, marked: bool) -> None:
        """Remove what is about windows before one; without `marked` what only `slices` needs, which makes it anew."""
        for name in self.later.names():
            if int(name) < window:
                self.later.drop(name)
        if not marked or window == FOREVER:
            self.marks.clear()
        self.later.lists.pop(f"{MARKED}{self._begins}", None)
        if window < FOREVER and self.slicing.step != 1:
            self.later.lists[f"{MARKED}{self._begins}"] = []

    def _derived(self, taking: int) -> Block:
        found = [empty(self.shape)]
        for window in self.windows.held():
            if window >= taking:
                page = without_partials(self.windows.page(window))
                found.append(replace(page, slices=np.full(len(page), self.slicing.first_slice(window))))
                found.append(self._later(window, page))
        return fold(self.shape, found)

    def _later(self, window: int, page: Block) -> Block:
        """The keys of a window whose newest slice may be its second one, in that slice."""
        if window >= self._begins or self.slicing.step == 1:
            return self.later.load(str(window)) or empty(self.shape)
        # Not known: the window that goes out then holds the newest record in any case.
        return replace(page, slices=np.full(len(page), self.slicing.first_slice(window) + 1))


def _as_windows(page: Block) -> Windows:
    return Windows(page.slices, page.keys, page.names, page.records, page.partials, page.dictionaries)


def _places(names: pa.Table, window: int) -> Windows:
    """One window of the keys `names`, without anything in it yet."""
    every = np.arange(len(names))
    return Windows(np.full(len(names), window), every, names, np.zeros_like(every), [], [])


def _marks(shape: Shape, records: Records) -> Block:
    """Which slices of which keys records came for, as a block without partials."""
    codes, names = encode_keys(records.names)
    return from_records(shape.select(()), records.slices, codes, names, [])


def all_windows(shape: Shape, arguments: Sequence[Sequence[int]], batches: Sequence[Records]) -> Iterator[Windows]:
    """All windows of bounded input, which is never late."""
    pages = in_memory(shape, arguments, batches)
    return (_as_windows(pages.page(window)) for window in pages.held())


def in_memory(shape: Shape, arguments: Sequence[Sequence[int]], batches: Sequence[Records]) -> WindowPages:
    """The pages of all windows of bounded input."""
    pages = WindowPages(shape, arguments, Pages(MemoryStore(), Fingerprint(), [0]))
    for records in batches:
        pages.add(records, -FOREVER, -FOREVER)
    return pages


def late_records(slicing: Family, batches: Sequence[Records], taking: int) -> list[Records]:
    """The records that come late for one window at least, `taking` being the first that takes records."""
    return [records.take(np.flatnonzero(is_late(slicing, records.slices, taking))) for records in batches]
