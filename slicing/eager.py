"""The eager strategy: every record is folded into every window that covers it, as Kafka Streams and Spark do.

It is for aggregates without `combine`, which no slice can be assembled from, and it is what slicing is measured
against: one page per window, R reads and R writes of a partial per (record, key), R being the windows of a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.assembly import Windows
from slicing.blocks import Block, Shape, empty, encode_keys, fold, fold_arrays, from_records, order, place, rerank
from slicing.changes import differing, result_codes
from slicing.emission import CHANGED, NEWEST, ON_CLOSE, ONLY_NEW, UPDATE, WITH_DRAINED, WITH_OLD, Emission
from slicing.kernel import Array, locating, union
from slicing.lateness import Late, is_late
from slicing.pages import MemoryStore, Nodes, Pages, Store, page_name
from slicing.pending import pending
from slicing.stripes import FOREVER
from slicing.touching import all_of, newest_slices, of_keys


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


class EagerBucket:
    """One bucket of the eager strategy, used as `slicing.state.Bucket` is; pages are of one window each."""

    def __init__(
        self,
        shape: Shape,
        arguments: Sequence[Sequence[int]],
        grace: int,
        fingerprint: dict[str, str],
        store: Store,
        emission: Emission = ON_CLOSE,
    ):
        self.shape, self.arguments, self.grace, self.emission = shape, arguments, grace, emission
        self.wait = 0 if emission.corrects else grace
        self.pages = Pages(store, fingerprint, shape.slicing.first_open(0, self.wait))
        self.head = self.pages.head
        if self.pages.is_new and emission.corrects:
            self.head.taking = shape.slicing.first_open(0, grace)
        elif not emission.corrects:
            self.head.taking = self.head.done
        self.windows = Nodes(self.pages, "window", shape)
        self.newest = Nodes(self.pages, "newest", shape.select(()))
        self.early = Nodes(self.pages, "early", shape.select(()))
        self.pending = pending(emission, self.head, self.early)
        self._came: list[Block] = []
        self._before: dict[int, Block] = {}
        self._new: dict[int, Block] = {}

    def add(self, batches: Sequence[Records]) -> Late[list[Records]]:
        """Fold records into every open window that covers them, in their order; return and count those refused."""
        slicing, taking = self.shape.slicing, self.head.taking
        late_for_all = 0
        refused = []
        for records in batches:
            if len(records.slices) == 0:
                continue
            last, first = slicing.last_window(records.slices), slicing.first_window(records.slices)
            late_for_all += int(np.sum(last < taking))
            refused.append(records.take(np.flatnonzero(is_late(slicing, records.slices, taking))))
            for window in self._open_windows(records.slices):
                covered = np.flatnonzero((first <= window) & (window <= last))
                if len(covered):
                    self._fold(window, records.take(covered))
            if not self.emission.once:
                self._came.append(_marks(self.shape, records.take(np.flatnonzero(last >= taking))))
        late_for_some = sum(len(records.slices) for records in refused) - late_for_all
        return Late(late_for_all, late_for_some, refused, taking, self.head.watermark)

    def _open_windows(self, slices: Array) -> list[int]:
        """The windows not closed that cover one of the slices, in order."""
        found: set[int] = set()
        for index in np.unique(slices).tolist():
            first, last = self.shape.slicing.first_window(index), self.shape.slicing.last_window(index)
            found.update(range(max(first, self.head.taking), last + 1))
        return sorted(found)

    def _fold(self, window: int, records: Records) -> None:
        page = self.windows.load(str(window)) or empty(self.shape)
        if window < self.head.done:
            self._before.setdefault(window, page)
            if self.emission.what == ONLY_NEW:
                new = self._new.get(window) or empty(self.shape)
                self._new[window] = fold_onto(self.shape, new, window, records, self.arguments)
        self.windows.save(str(window), fold_onto(self.shape, page, window, records, self.arguments))

    def extent(self) -> dict[str, int]:
        """How many open windows hold records; there are no slices in this state."""
        return {"open_windows": sum(int(name) >= self.head.done for name in self.windows.names()), "slices": 0}

    def close(self, watermark: int, now: int = 0) -> Iterator[Windows]:
        """Yield all that goes out in a micro-batch, then write the state that is left; see `slicing.state.Bucket`."""
        head, slicing = self.head, self.shape.slicing
        came = fold(self.shape.select(()), self._came)
        now = head.clock = max(now, head.clock)
        head.revision += not self.emission.once
        if self.emission.corrects:
            yield from self._corrections(came)
        elif self.emission.when == UPDATE:
            yield from self._updates(came)
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
        for nodes, mine in ((self.newest, self.emission.which == NEWEST), (self.early, self.pending is not None)):
            for name in nodes.names():
                if not mine or not self.windows.names():
                    nodes.drop(name)

    def drain(self, end: int) -> Iterator[Windows]:
        """Yield the windows before `end` that this emission puts out at their close, and forget what is not needed."""
        first = self.head.done
        keep = end - 1 if self.emission.which == CHANGED else min(end, self.head.taking)
        held = sorted(map(int, self.windows.names()))
        if self.emission.which == CHANGED:
            for window in sorted({w for each in held for w in (each, each + 1) if first <= w < end}):
                yield from self._changes(window)
        elif self.emission.has_trees:
            for window in held:
                if first <= window < end:
                    yield _as_windows(self._page(window))
        for window in held:
            if window < keep:
                self.windows.drop(str(window))

    def _page(self, window: int) -> Block:
        return self.windows.load(str(window)) or empty(self.shape)

    def _changes(self, window: int) -> Iterator[Windows]:
        """The rows of a window that closes, for the keys whose result is not that of the window before."""
        pages = [self._page(at) for at in (window - 1, window)]
        _, names = encode_keys(pa.concat_tables([page.names for page in pages]))
        before, there = (_aligned(self.shape, page, names, window - 1 + i) for i, page in enumerate(pages))
        now, previous = result_codes(self.shape, [there, before])
        yield from differing(self.shape, there, now, previous, self.emission.what == WITH_DRAINED)

    def _updates(self, came: Block) -> Iterator[Windows]:
        if not len(came):
            return
        if self.emission.which != NEWEST:
            yield from self._touched(came, self.head.taking, FOREVER, "update")
            return
        slicing, taking = self.shape.slicing, self.head.taking
        newest = newest_slices(fold(self.newest.shape, [self.newest.load("slice") or came, came]))
        self.newest.save("slice", newest.between(slicing.first_slice(taking), FOREVER))
        newest = of_keys(newest, came)
        first = np.maximum(slicing.first_window(newest.slices), taking)
        for window in np.unique(first).tolist():
            keys = newest.keys[first == window]
            inside = came.take(np.flatnonzero(np.isin(came.keys, keys)))
            yield from self._touched(inside, window, window + 1, "update")

    def _corrections(self, came: Block) -> Iterator[Windows]:
        for windows in self._touched(came, self.head.taking, self.head.done, "correction"):
            window = int(windows.windows[0])
            if self.emission.what == ONLY_NEW:
                yield replace(_as_windows(self._new[window]), kind="correction")
            elif self.emission.what == WITH_OLD:
                names = windows.names.take(pa.array(windows.keys))
                yield replace(windows, old=_aligned(self.shape, self._before[window], names, window))
            else:
                yield windows

    def _touched(self, marks: Block, first: int, end: int, kind: str) -> Iterator[Windows]:
        """The windows `first` up to `end` that hold a row of `marks`, for the keys of those rows."""
        slicing = self.shape.slicing
        low, high = slicing.first_window(marks.slices), slicing.last_window(marks.slices)
        for window in sorted(map(int, self.windows.names())):
            inside = np.flatnonzero((low <= window) & (window <= high)) if first <= window < end else low[:0]
            if len(inside):
                page = of_keys(self._page(window), marks.take(inside))
                yield replace(_as_windows(page), kind=kind)

    def check(self) -> None:
        """Assert the invariants between header and pages: nothing is kept too long, every page in place."""
        head = self.head
        keep = head.done - 1 if self.emission.which == CHANGED else min(head.done, head.taking)
        assert all(int(name) >= keep for name in self.windows.names()), "expired windows are removed"
        pages = [page_name(entry) for entries in head.caches.values() for entry in entries]
        assert len(pages) == len(set(pages)), "a page belongs to one window"
        assert all(self.pages.store.get(page) for page in pages)


def _as_windows(page: Block) -> Windows:
    return Windows(page.slices, page.keys, page.names, page.records, page.partials, page.dictionaries)


def _aligned(shape: Shape, page: Block, names: pa.Table, window: int) -> Windows:
    """One window of the keys `names`, in their order, from its page; keys without records hold `init()`."""
    page = of_keys(page, all_of(names))
    records = np.zeros(len(names), dtype=np.int64)
    records[page.keys] = page.records
    partials = [kernel.spread(len(names)) for kernel in shape.kernels]
    for columns, there in zip(partials, page.partials, strict=True):
        for column, items in zip(columns, there, strict=True):
            column[page.keys] = items
    every = np.arange(len(names))
    return Windows(np.full(len(names), window), every, names, records, partials, page.dictionaries)


def _marks(shape: Shape, records: Records) -> Block:
    """Which slices of which keys records came for, as a block without partials."""
    codes, names = encode_keys(records.names)
    return from_records(shape.select(()), records.slices, codes, names, [])


def all_windows(shape: Shape, arguments: Sequence[Sequence[int]], batches: Sequence[Records]) -> Iterator[Windows]:
    """All windows of bounded input, which is never late."""
    bucket = EagerBucket(shape, arguments, 0, {}, MemoryStore())
    bucket.head.done = bucket.head.taking = -FOREVER
    bucket.add(batches)
    return bucket.drain(FOREVER)


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
                added = kernel.combine([c[heads] for c in columns], new)
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
