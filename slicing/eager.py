"""The eager strategy: every record is folded into every window that covers it, as Kafka Streams and Spark do.

It is for aggregates without `combine`, which no slice can be assembled from, and it is what slicing is measured
against: one page per window, R reads and R writes of a partial per (record, key), R being the windows of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.assembling import without_repeats
from slicing.assembly import Windows
from slicing.blocks import (
    Block,
    Shape,
    concat,
    empty,
    encode_keys,
    fold,
    fold_arrays,
    from_records,
    order,
    place,
    rerank,
)
from slicing.changes import differing, result_codes
from slicing.emission import CHANGED, NEWEST, ON_CLOSE, ONLY_NEW, UPDATE, WITH_DRAINED, WITH_OLD, Emission
from slicing.errors import RowFailure
from slicing.families import Family
from slicing.fingerprint import Fingerprint
from slicing.kernel import Array, locating, union
from slicing.lateness import Late, is_late
from slicing.pages import MemoryStore, Nodes, Pages, Store, page_name
from slicing.pending import pending, trigger_time
from slicing.stripes import FOREVER
from slicing.touching import all_of, newest_slices, of_keys, without_partials

WINDOW = "window"
"""The name of the pages of windows in the directory."""
MARKED = "marked "
"""Before the first window that has all marks of `Newest`, as a list without pages."""


@dataclass(frozen=True)
class Records:
    """Records in the order of the input: slices, event times, the leaves of their keys, and columns of values."""

    slices: Array
    times: Array
    names: pa.Table
    values: list[pa.Array]

    def take(self, rows: Array) -> Records:
        """Some of the records."""
        chosen = pa.array(rows)
        return Records(
            self.slices[rows], self.times[rows], self.names.take(chosen), [value.take(chosen) for value in self.values]
        )

    def slice(self, start: int, count: int) -> Records:
        """So many records from one on, not copied."""
        rows = slice(start, start + count)
        values = [value.slice(start, count) for value in self.values]
        return Records(self.slices[rows], self.times[rows], self.names.slice(start, count), values)


class WindowPages:
    """A page of partials for each window that takes records or is looked at, folded from records in their order."""

    def __init__(self, shape: Shape, arguments: Sequence[Sequence[int]], pages: Pages, emission: Emission = ON_CLOSE):
        self.shape, self.slicing, self.arguments, self.what = shape, shape.slicing, arguments, emission.what
        self.nodes = Nodes(pages, WINDOW, shape)
        self._before: dict[int, Block] = {}
        self._new: dict[int, Block] = {}

    def held(self) -> list[int]:
        """The windows that have a page, in order."""
        return sorted(map(int, self.nodes.names()))

    def page(self, window: int) -> Block:
        """The partials of a window, none if it has no page."""
        return self.nodes.load(str(window)) or empty(self.shape)

    def add(self, records: Records, taking: int, done: int) -> None:
        """Fold records into the windows from `taking` on that cover them; those before `done` are corrected."""
        last, first = self.slicing.last_window(records.slices), self.slicing.first_window(records.slices)
        for window in self._covering(records.slices, taking):
            covered = np.flatnonzero((first <= window) & (window <= last))
            if len(covered):
                self._fold(window, records.take(covered), corrected=window < done)

    def remove_before(self, window: int) -> None:
        """Remove the pages of earlier windows."""
        for held in self.held():
            if held < window:
                self.nodes.drop(str(held))

    def fill(self, frame: Windows) -> Windows:
        """The windows of a frame, and what they replace, with the partials of their pages.

        A window that its page does not hold has no records and `init()`. Reads a page once for each frame.
        """
        only_new = frame.kind == "correction" and self.what == ONLY_NEW
        filled = self.filled(frame, self._new.__getitem__ if only_new else self.page)
        return replace(filled, old=frame.old and self.filled(frame.old, self._before.__getitem__))

    def with_old(self, frame: Windows) -> Windows:
        """The windows of a frame with what they were before records came in this micro-batch."""
        return replace(frame, old=self.filled(frame, self._before.__getitem__))

    def only_new(self, window: int) -> Block:
        """What the records of this micro-batch alone make of a window that is corrected."""
        return self._new[window]

    def _covering(self, slices: Array, taking: int) -> list[int]:
        """The windows from `taking` on that cover one of the slices, in order."""
        found: set[int] = set()
        for index in np.unique(slices).tolist():
            first, last = self.slicing.first_window(index), self.slicing.last_window(index)
            found.update(range(max(first, taking), last + 1))
        return sorted(found)

    def _fold(self, window: int, records: Records, corrected: bool) -> None:
        page = self.page(window)
        if corrected and self.what == WITH_OLD:
            self._before.setdefault(window, page)
        if corrected and self.what == ONLY_NEW:
            new = self._new.get(window) or empty(self.shape)
            self._new[window] = fold_onto(self.shape, new, window, records, self.arguments)
        self.nodes.save(str(window), fold_onto(self.shape, page, window, records, self.arguments))

    def filled(self, frame: Windows, page_of: Callable[[int], Block]) -> Windows:
        """The windows of a frame as some pages have them; see `fill`."""
        rows = np.argsort(frame.windows, kind="stable")
        blocks, places = [], []
        for some in np.split(rows, np.flatnonzero(np.diff(frame.windows[rows])) + 1):
            if not len(some):
                continue
            wanted = all_of(frame.names.take(pa.array(frame.keys[some])))
            page = of_keys(page_of(int(frame.windows[some[0]])), wanted)
            places.append(some[page.keys])
            blocks.append(replace(page, keys=frame.keys[places[-1]], names=frame.names))
        there, at = concat(self.shape, blocks), np.concatenate([*places, rows[:0]])
        records = np.zeros(len(frame), dtype=np.int64)
        records[at] = there.records
        partials = [kernel.spread(len(frame)) for kernel in self.shape.kernels]
        for columns, held in zip(partials, there.partials, strict=True):
            for column, items in zip(columns, held, strict=True):
                column[at] = items
        return replace(frame, records=records, partials=partials, dictionaries=there.dictionaries, old=None)


class EagerBucket:
    """One bucket of the eager strategy, used as `slicing.state.Bucket` is; pages are of one window each."""

    def __init__(
        self,
        shape: Shape,
        arguments: Sequence[Sequence[int]],
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        emission: Emission = ON_CLOSE,
    ):
        self.shape, self.grace, self.emission = shape, grace, emission
        self.wait = 0 if emission.corrects else grace
        self.pages = Pages(store, fingerprint, shape.slicing.first_open(0, self.wait))
        self.head = self.pages.head
        if self.pages.is_new and emission.corrects:
            self.head.taking = self.head.kept = shape.slicing.first_open(0, grace)
        elif not emission.corrects:
            self.head.taking = self.head.done
        self.windows = WindowPages(shape, arguments, self.pages, emission)
        self.newest = Newest(shape, self.pages, self.windows)
        self.early = Nodes(self.pages, "early", shape.select(()))
        self.pending = pending(emission, self.head, self.early)
        self._came: list[Block] = []

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
        return Late(late_for_all, late_for_some, refused, taking, self.head.watermark)

    def extent(self) -> dict[str, int]:
        """How many open windows hold records; there are no slices in this state."""
        return {"open_windows": sum(window >= self.head.done for window in self.windows.held()), "slices": 0}

    def close(self, watermark: int, now: int = 0) -> Iterator[Windows]:
        """Yield all that goes out in a micro-batch, then write the state that is left; see `slicing.state.Bucket`."""
        return without_repeats(self.shape.slicing, self._all_frames(watermark, now))

    def _all_frames(self, watermark: int, now: int) -> Iterator[Windows]:
        head, slicing = self.head, self.shape.slicing
        came = fold(self.shape.select(()), self._came)
        now = head.clock = trigger_time(self.emission, head.clock, now)
        head.revision += not self.emission.once
        if self.emission.corrects:
            yield from self._corrections(came)
        elif self.emission.when == UPDATE:
            yield from self._updates(came)
        self.newest.note(came)
        head.watermark = max(head.watermark, watermark)
        end = max(head.done, slicing.first_open(watermark * 1000, self.wait))
        still_taking = slicing.first_open(watermark * 1000, self.grace)
        head.taking = max(head.taking, still_taking) if self.emission.corrects else end
        yield from self.drain(end)
        head.done = end
        if self.pending is not None:
            due = self.pending.due(came, slicing.first_slice(end), now)
            yield from self._touched(due, end, FOREVER, "early")
        self._forget()
        self.pages.save_header()

    def _forget(self) -> None:
        """Remove what another emission kept, and everything once no window is left."""
        held = self.windows.held()
        self.newest.forget(min(held, default=FOREVER), self.emission.which == NEWEST)
        if self.pending is None or not held:
            self.early.clear()

    def drain(self, end: int) -> Iterator[Windows]:
        """Yield the windows before `end` that this emission puts out at their close, and forget what is not needed."""
        first = self.head.done
        held = self.windows.held()
        if self.emission.which == CHANGED:
            for window in sorted({w for each in held for w in (each, each + 1) if first <= w < end}):
                yield from self._changes(window)
        elif self.emission.has_trees:
            for window in held:
                if first <= window < end:
                    yield _as_windows(self.windows.page(window))
        if end > first:
            # Not before: what another emission has left is compared with by `on_change`.
            keep = end - 1 if self.emission.which == CHANGED else min(end, self.head.taking)
            self.head.kept = max(self.head.kept, keep)
            self.windows.remove_before(keep)

    def _changes(self, window: int) -> Iterator[Windows]:
        """The rows of a window that closes, for the keys whose result is not that of the window before."""
        pages = {at: self.windows.page(at) for at in (window - 1, window)}
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
        pages = [page_name(entry) for entries in head.caches.values() for entry in entries]
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
        self.marks, self.later = Nodes(pages, "newest", self.shape), Nodes(pages, "later", self.shape)
        begins = [int(name.removeprefix(MARKED)) for name in self.later.lists if name.startswith(MARKED)]
        # The first window whose marks of the later slice are all there; older ones were written without.
        self._begins = begins[0] if begins else max(windows.held(), default=-FOREVER) + 1

    def slices(self, came: Block, taking: int) -> Block:
        """The newest slice of each key that windows from `taking` on hold, with those of `came`; kept from now on."""
        known = self.marks.load("slice") or self._derived(taking)
        newest = newest_slices(fold(self.shape, [known, came]))
        self.marks.save("slice", newest.between(self.slicing.first_slice(taking), FOREVER))
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
        if window >= self._begins or self.slicing.longest == 1:
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
    pages = WindowPages(shape, arguments, Pages(MemoryStore(), Fingerprint(), 0))
    for records in batches:
        pages.add(records, -FOREVER, -FOREVER)
    return pages


def late_records(slicing: Family, batches: Sequence[Records], taking: int) -> list[Records]:
    """The records that come late for one window at least, `taking` being the first that takes records."""
    return [records.take(np.flatnonzero(is_late(slicing, records.slices, taking))) for records in batches]


def fold_records(shape: Shape, batches: Sequence[Records], arguments: Sequence[Sequence[int]]) -> Block:
    """One folded block of the partials of records, in their order."""
    batches = [records for records in batches if len(records.slices)]
    if not batches:
        return empty(shape)
    codes, names = encode_keys(pa.concat_tables([records.names for records in batches]))
    slices, times = (np.concatenate([getattr(r, name) for r in batches]) for name in ("slices", "times"))
    values = [pa.concat_arrays(arrays) for arrays in zip(*(records.values for records in batches), strict=True)]
    arrays = [[pa.array(times) if i < 0 else values[i] for i in positions] for positions in arguments]
    return from_records(shape, slices, codes, names, arrays)


def fold_onto(shape: Shape, page: Block, window: int, records: Records, arguments: Sequence[Sequence[int]]) -> Block:
    """A page of one window with records added in their order: `agg` goes on from the partial that is there."""
    codes, names = encode_keys(pa.concat_tables([page.names, records.names]))
    known, codes = codes[page.keys], codes[len(page.names) :]
    rows, starts = order(np.zeros_like(codes), codes)
    heads = codes[rows[starts]]
    counts = np.zeros(len(names), dtype=np.int64)
    counts[known] = page.records
    counts[heads] += np.diff(np.append(starts, len(rows)))
    partials, dictionaries = [], []
    times = pa.array(records.times)
    with locating(lambda index: place(shape, names, codes[rows[index]], records.slices[rows[index]])):
        for kernel, old, old_dictionary, positions in zip(
            shape.kernels, page.partials, page.dictionaries, arguments, strict=True
        ):
            arrays = [times if i < 0 else records.values[i] for i in positions]
            columns = kernel.spread(len(names))
            for column, there in zip(columns, old, strict=True):
                column[known] = there
            if kernel.aggregate.combine is None:
                added, dictionary = fold_arrays(kernel, arrays, rows, starts, onto=[c[heads] for c in columns])
            else:
                new, new_dictionary = fold_arrays(kernel, arrays, rows, starts)
                dictionary = union([old_dictionary, new_dictionary])
                columns = rerank(kernel, columns, old_dictionary, dictionary)
                new = rerank(kernel, new, new_dictionary, dictionary)
                try:
                    added = kernel.combine([c[heads] for c in columns], new)
                except RowFailure as failure:
                    raise failure.at(int(starts[failure.index])) from failure.__cause__
            for column, item in zip(columns, added, strict=True):
                column[heads] = item
            partials.append(columns)
            dictionaries.append(dictionary)
    return Block(np.full(len(names), window), np.arange(len(names)), names, counts, partials, dictionaries)


def encode_records(shape: Shape, records: Records) -> bytes:
    """Records as an Arrow stream: slice, event time, the key's leaves, values."""
    columns = {"slice": pa.array(records.slices), "time": pa.array(records.times)}
    columns |= dict(zip(shape.key_schema.names, records.names.columns, strict=True))
    columns |= {f"v{i}": value for i, value in enumerate(records.values)}
    table = pa.table(columns).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def decode_records(shape: Shape, data: bytes) -> Records:
    """The inverse of `encode_records`."""
    table = pa.ipc.open_stream(data).read_all()
    first = 2 + len(shape.keys)
    slices, times = (np.asarray(table[name].combine_chunks()) for name in ("slice", "time"))
    values = [column.combine_chunks() for column in table.columns[first:]]
    return Records(slices, times, table.select(range(2, first)), values)
