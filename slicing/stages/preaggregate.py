"""The first stage, before the shuffle: records of one input partition become blocks, one row per bucket and part.

Every bucket gets a row even if there is nothing for it: that is how a bucket exists from the first micro-batch on, and
knows all watermarks. One row is enough, so the first input partition sends it: there is one in every micro-batch with
data, and it may not wait for records of its own. They may all be left out between the watermark and here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.block import Block, Shape, empty, encode_keys
from slicing.content.codec import encode
from slicing.content.folding import fold, from_records
from slicing.content.records import Records, encode_records
from slicing.content.sizes import at_once, memory, parts
from slicing.stages.labels import labels_of

CHUNK_ROWS = 1_000_000
CHUNK_BYTES = 64 << 20
"""The most bytes of records, and of their partials, that are folded, held and shipped in one batch."""
FIRST_ROWS = 1_000
"""The records that are folded first if the size of partials is not known before."""

SCHEMA = "bucket int, partition int, part int, block binary, no_time bigint, no_window bigint"
RECORDS_SCHEMA = f"{SCHEMA}, records binary"
"""The columns of a first stage that ships records together with blocks."""

Page = tuple[int, bytes | None]
"""The bucket that a row is for, and its block, if there is one."""
Between = Callable[[], Iterable[pa.RecordBatch]]
"""Gives rows that are shipped between those of two chunks."""


@dataclass
class Dropped:
    """Records dropped before the shuffle, by cause."""

    no_time: int = 0
    no_window: int = 0


@dataclass
class Numbers:
    """The numbers of the rows that one input partition ships."""

    partition: int
    count: int = 0

    def next(self) -> int:
        """Return the number of the next row."""
        self.count += 1
        return self.count - 1


@dataclass(frozen=True)
class PreAggregate:
    """The function for `mapInArrow`. Its input has columns time, the key's leaves, then the values.

    `arguments` gives for every kernel the positions of its columns among the values, -1 for the event time; `labels`
    are those of all buckets. With `beside` the records are shipped too, in rows of their own: who is late is known only
    behind the shuffle.
    """

    shape: Shape
    arguments: tuple[tuple[int, ...], ...]
    labels: tuple[int, ...]
    beside: bool = False

    @property
    def schema(self) -> str:
        """The columns of its rows."""
        return RECORDS_SCHEMA if self.beside else SCHEMA

    @property
    def packed(self) -> Shape:
        """The shape of the blocks that it ships; `shape` is that of the records."""
        return self.shape

    def __call__(
        self, batches: Iterable[pa.RecordBatch], partition: int = 0, between: Between = lambda: ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows for the shuffle at the end, or as soon as folding does not shrink the input.

        `partition` is the number of the input partition, counted from 0; `between` gives more rows after each chunk.
        """
        refused, part, none = Dropped(), Numbers(partition), empty(self.packed)
        held: dict[int, Block] = {}
        for chunk in _chunks(batches):
            yield from between()
            records = self._read(chunk, refused)
            if not len(records.index):
                continue
            if self.beside:
                yield from map(_beside, _shipped(_encoded(self.shape, records, self._labels), part, Dropped()))
            for block in self._folded(records):
                for label, rows in self._by_bucket(block):
                    held[label] = self._fold([held.get(label, none), rows])
                if self._is_full(held.values()):
                    yield from self._rows(self._pages(held), part, Dropped())
                    held = {}
        if last := [*self._pages(held), *_without_blocks(self.labels, held, refused, partition)]:
            yield from self._rows(last, part, refused)

    def _read(self, chunk: pa.Table, refused: Dropped) -> Records:
        return records_of(self.shape, chunk, refused)

    def _labels(self, names: pa.Table) -> Array:
        return labels_of(names, self.labels)

    def _fold(self, blocks: Sequence[Block]) -> Block:
        return fold(self.packed, blocks)

    def _is_full(self, held: Collection[Block]) -> bool:
        rows = 2 * sum(map(len, held)) > CHUNK_ROWS
        return rows or sum(memory(self.packed, block) for block in held) > CHUNK_BYTES

    def _folded(self, records: Records) -> Iterator[Block]:
        """Records as folded blocks: one, or, where only the partials say how large they are, several that fit."""
        count, start = len(records.index), 0
        rows = FIRST_ROWS if any(kernel.has_long_objects for kernel in self.packed.kernels) else count
        while start < count:
            block = self._block(records.slice(start, rows))
            yield block
            start, per_record = start + rows, memory(self.packed, block) / min(rows, count - start)
            rows = min(4 * rows, at_once(CHUNK_BYTES / 2, per_record))

    def _block(self, records: Records) -> Block:
        codes, names = encode_keys(records.names)
        times = pa.array(records.times)
        arguments = [[times if i < 0 else records.values[i] for i in positions] for positions in self.arguments]
        return from_records(self.shape, records.index, codes, names, arguments)

    def _by_bucket(self, block: Block) -> Iterator[tuple[int, Block]]:
        """The rows of each bucket that there are rows of, with no keys but their own: blocks of a bucket are folded."""
        labels, codes = self._labels(block.names), np.zeros(len(block.names), dtype=np.int64)
        own = dict(_by_label(labels))
        for keys in own.values():
            codes[keys] = np.arange(len(keys))
        for label, rows in _by_label(labels[block.keys]):
            some, names = block.take(rows), block.names.take(pa.array(own[label]))
            yield label, replace(some, keys=codes[some.keys], names=names)

    def _pages(self, held: dict[int, Block]) -> Iterator[Page]:
        for label, block in held.items():
            for page in parts(self.packed, block):
                yield label, encode(self.packed, page)

    def _rows(self, pages: Iterable[Page], part: Numbers, refused: Dropped) -> Iterator[pa.RecordBatch]:
        for shipped in _shipped(pages, part, refused):
            none = pa.nulls(len(shipped), pa.binary())
            yield shipped.append_column("records", none) if self.beside else shipped


@dataclass(frozen=True)
class Ship:
    """The first stage of the eager strategy, used as `PreAggregate`: records as they are, in their order."""

    shape: Shape
    labels: tuple[int, ...]
    schema = SCHEMA

    def __call__(
        self, batches: Iterable[pa.RecordBatch], partition: int = 0, between: Between = lambda: ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows for the shuffle, chunk by chunk; arguments as those of `PreAggregate`."""
        refused, part = Dropped(), Numbers(partition)
        for chunk in _chunks(batches):
            yield from between()
            records = self._read(chunk, refused)
            if len(records.index):
                encoded = _encoded(self.shape, records, lambda names: labels_of(names, self.labels))
                yield from _shipped(encoded, part, Dropped())
        if last := _without_blocks(self.labels, (), refused, partition):
            yield from _shipped(last, part, refused)

    def _read(self, chunk: pa.Table, refused: Dropped) -> Records:
        return records_of(self.shape, chunk, refused)


def records_of(shape: Shape, chunk: pa.Table, refused: Dropped) -> Records:
    """The records of a chunk that belong to a window; the others are counted."""
    if missing := chunk["time"].null_count:
        refused.no_time += missing
        chunk = chunk.filter(chunk["time"].is_valid())
    times = np.asarray(chunk["time"].combine_chunks().cast(pa.int64()))
    slices = shape.family.slice_at(times)
    if shape.family.has_gaps and np.any(gap := shape.family.in_gap(slices)):
        inside = ~np.asarray(gap)
        refused.no_window += int(np.sum(~inside))
        chunk, times, slices = chunk.filter(pa.array(inside)), times[inside], slices[inside]
    values_from = 1 + len(shape.keys)
    names = key_table(shape, chunk.columns[1:values_from])
    values = [_small(column.combine_chunks()) for column in chunk.columns[values_from:]]
    return Records(slices, times, names, values)


def key_table(shape: Shape, columns: Iterable[pa.ChunkedArray]) -> pa.Table:
    """The leaves of keys as Spark gives them, in the types that state has."""
    return pa.table([plain(column) for column in columns], schema=shape.key_schema)


def _by_label(labels: Array) -> Iterator[tuple[int, Array]]:
    """The rows of each label, in their order."""
    counts = np.bincount(labels)
    # Of narrow integers numpy makes a radix sort.
    rows = np.argsort(labels.astype(np.min_scalar_type(len(counts))), kind="stable")
    for label, some in enumerate(np.split(rows, np.cumsum(counts)[:-1])):
        if len(some):
            yield label, some


def _encoded(shape: Shape, records: Records, labels: Callable[[pa.Table], Array]) -> Iterator[tuple[int, bytes]]:
    """The records of each bucket, in their order; `labels` gives those of keys."""
    codes, names = encode_keys(records.names)
    buckets = labels(names)[codes]
    return ((label, encode_records(shape, records.take(rows))) for label, rows in _by_label(buckets))


def _beside(shipped: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with their blocks, which hold records, moved to the column of records."""
    at = shipped.schema.get_field_index("block")
    without = shipped.set_column(at, "block", pa.nulls(len(shipped), pa.binary()))
    return without.append_column("records", shipped.column(at))


def _without_blocks(labels: Sequence[int], held: Collection[int], refused: Dropped, partition: int) -> list[Page]:
    """The buckets, but for those in `held`, that the last rows of an input partition are for."""
    if partition == 0:
        return [(label, None) for label in labels if label not in held]
    # Somebody has to count what was refused.
    return [(labels[0], None)] if refused != Dropped() and not held else []


def _shipped(pages: Iterable[Page], part: Numbers, refused: Dropped) -> Iterator[pa.RecordBatch]:
    """Rows for the shuffle, at least one, in batches that stay far below what Arrow's columns hold."""
    waiting: list[Page] = []
    size = 0
    for label, page in pages:
        length = 0 if page is None else len(page)
        if waiting and size + length > CHUNK_BYTES:
            yield _batch(waiting, part, Dropped())
            waiting, size = [], 0
        waiting.append((label, page))
        size += length
    yield _batch(waiting, part, refused)


def _batch(pages: list[Page], part: Numbers, refused: Dropped) -> pa.RecordBatch:
    rows = [(label, part.partition, part.next(), page, 0, 0) for label, page in pages]
    rows[0] = (*rows[0][:4], refused.no_time, refused.no_window)
    types = [pa.int32(), pa.int32(), pa.int32(), pa.binary(), pa.int64(), pa.int64()]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, ["bucket", "partition", "part", "block", "no_time", "no_window"])


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches, which Spark makes small, together until they are worth a fold."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _small(array: pa.Array) -> pa.Array:
    """Text and binary with the offsets of their kinds, whatever `spark.sql.execution.arrow.useLargeVarTypes` says."""
    if pa.types.is_large_string(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pa.types.is_large_binary(array.type) else array


def plain(column: pa.ChunkedArray) -> pa.Array:
    """A column of keys or partials as blocks have it."""
    array = _small(column.combine_chunks())
    # Spark names the session's time zone; the instants are the same in UTC, which is what state remembers.
    return array.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(array.type) and array.type.tz else array
