"""The eager strategy: every record is folded into every window that covers it, as Kafka Streams and Spark do.

It is for aggregates without `combine`, which no slice can be assembled from, and it is what slicing is measured
against: one page per window, R reads and R writes of a partial per (record, key), R being the windows of a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slicing.assembly import Windows
from slicing.blocks import Block, Shape, empty, encode_keys, fold_arrays, order, place, rerank
from slicing.kernel import Array, locating, union
from slicing.pages import MemoryStore, Nodes, Pages, Store, page_name
from slicing.state import Late
from slicing.stripes import FOREVER


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


class EagerBucket:
    """One bucket of the eager strategy, used as `slicing.state.Bucket` is; pages are of one window each."""

    def __init__(
        self,
        shape: Shape,
        arguments: Sequence[Sequence[int]],
        grace: int,
        fingerprint: dict[str, str],
        store: Store,
    ):
        self.shape, self.arguments, self.grace = shape, arguments, grace
        self.pages = Pages(store, fingerprint, shape.slicing.first_open(0, grace))
        self.head = self.pages.head
        self.windows = Nodes(self.pages, "window", shape)

    def add(self, batches: Sequence[Records]) -> Late:
        """Fold records into every open window that covers them, in their order; count the others."""
        slicing, late = self.shape.slicing, Late()
        for records in batches:
            last, first = slicing.last_window(records.slices), slicing.first_window(records.slices)
            late.all += int(np.sum(last < self.head.done))
            late.some += int(np.sum((first < self.head.done) & (last >= self.head.done)))
            if len(records.slices) == 0:
                continue
            for window in self._open_windows(records.slices):
                covered = np.flatnonzero((first <= window) & (window <= last))
                if len(covered):
                    self._fold(window, records.take(covered))
        return late

    def _open_windows(self, slices: Array) -> list[int]:
        """The windows not closed that cover one of the slices, in order."""
        found: set[int] = set()
        for index in np.unique(slices).tolist():
            first, last = self.shape.slicing.first_window(index), self.shape.slicing.last_window(index)
            found.update(range(max(first, self.head.done), last + 1))
        return sorted(found)

    def _fold(self, window: int, records: Records) -> None:
        page = self.windows.load(str(window)) or empty(self.shape)
        self.windows.save(str(window), fold_onto(self.shape, page, window, records, self.arguments))

    def save(self) -> None:
        """Write the header; pages are written as records come."""
        self.pages.save_header()

    def close(self, watermark: int) -> Iterator[Windows]:
        """Yield the windows that go out at a watermark (in milliseconds) and forget them."""
        end = self.shape.slicing.first_open(watermark * 1000, self.grace)
        yield from self.drain(end)
        self.head.done, self.head.watermark = max(self.head.done, end), max(self.head.watermark, watermark)
        self.save()

    def drain(self, end: int) -> Iterator[Windows]:
        """Yield and forget the windows before `end`."""
        for window in sorted(window for window in map(int, self.windows.names()) if window < end):
            block = self.windows.load(str(window))
            assert block is not None
            yield Windows(block.slices, block.keys, block.names, block.records, block.partials, block.dictionaries)
            self.windows.drop(str(window))

    def check(self) -> None:
        """Assert the invariants between header and pages: nothing that has gone out is kept, every page in place."""
        assert all(int(name) >= self.head.done for name in self.windows.names()), "expired windows are removed"
        pages = [page_name(entry) for entries in self.windows.lists.values() for entry in entries]
        assert len(pages) == len(set(pages)), "a page belongs to one window"
        assert all(self.pages.store.get(page) for page in pages)


def all_windows(shape: Shape, arguments: Sequence[Sequence[int]], batches: Sequence[Records]) -> Iterator[Windows]:
    """All windows of bounded input, which is never late."""
    bucket = EagerBucket(shape, arguments, 0, {}, MemoryStore())
    bucket.head.done = -FOREVER
    bucket.add(batches)
    return bucket.drain(FOREVER)


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
