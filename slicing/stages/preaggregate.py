"""The first stage, before the shuffle: records of one input partition become blocks, one row per bucket and part.

Every bucket gets a row in every micro-batch, even without records: thus a bucket exists from the first micro-batch on,
and sees all watermarks. One row is enough, so only the first input partition sends it: that partition exists in every
micro-batch with data. It sends the row even if it has no records, which may all be dropped between the watermark and
this stage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.sorting import argsorted
from slicing.content.block import Block, Shape, empty, encode_keys, encode_sorted
from slicing.content.codec import encode
from slicing.content.folding import fold, from_records
from slicing.content.records import Records, encode_records
from slicing.content.sizes import at_once, memory, parts
from slicing.stages.labels import labels_of
from slicing.windows.families.family import Family

CHUNK_ROWS = 1_000_000
CHUNK_BYTES = 64 << 20
"""The limit in bytes of records, and of their partials, that are folded, held and shuffled in one batch."""
FIRST_ROWS = 1_000
"""The number of records that are folded first if the size of their partials is not known in advance."""

SCHEMA = "bucket int, partition int, part int, block binary, no_time bigint, no_window bigint"
RECORDS_SCHEMA = f"{SCHEMA}, records binary"
"""The columns of a first stage that shuffles records together with blocks."""

Page = tuple[int, bytes | None]
"""The label of the bucket of a row, and its block, if there is one."""
Between = Callable[[], Iterable[pa.RecordBatch]]
"""A function that returns additional rows for the shuffle. It is called between two chunks."""


@dataclass
class Dropped:
    """Records dropped before the shuffle, by cause."""

    no_time: int = 0
    no_window: int = 0


@dataclass
class Numbers:
    """The counter of the rows that one input partition shuffles."""

    partition: int
    count: int = 0

    def next(self) -> int:
        """Return the number of the next row."""
        self.count += 1
        return self.count - 1


@dataclass(frozen=True)
class PreAggregate:
    """The function for `mapInArrow` that pre-aggregates records. Its input has columns time, the key's leaves, values.

    `arguments` has for every kernel the positions of its columns among the values, -1 for the event time. `labels` has
    the labels of all buckets. With `with_records` the records are shuffled together with the blocks, in separate rows,
    because lateness is known only after the shuffle.
    """

    shape: Shape
    arguments: tuple[tuple[int, ...], ...]
    labels: tuple[int, ...]
    with_records: bool = False

    @property
    def schema(self) -> str:
        """Return the columns of the output rows as DDL."""
        return RECORDS_SCHEMA if self.with_records else SCHEMA

    @property
    def packed(self) -> Shape:
        """Return the shape of the shuffled blocks; `shape` is that of the records."""
        return self.shape

    def __call__(
        self, batches: Iterable[pa.RecordBatch], partition: int = 0, between: Between = lambda: ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows for the shuffle: at the end of the input, or earlier when the folded blocks exceed the limits.

        `partition` is the number of the input partition, counted from 0. `between` returns additional rows, and is
        called before each chunk.
        """
        refused, part, none = Dropped(), Numbers(partition), empty(self.packed)
        held: dict[int, Block] = {}
        for chunk in _chunks(batches):
            yield from between()
            records = self._read(chunk, refused)
            if not len(records.index):
                continue
            if self.with_records:
                yield from map(_in_records, _shipped(_encoded(self.shape, records, self._labels), part, Dropped()))
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
        """Yield records as folded blocks: one block, or several if the size of partials is not known in advance."""
        count, start = len(records.index), 0
        rows = FIRST_ROWS if any(kernel.has_long_objects for kernel in self.packed.kernels) else count
        while start < count:
            block = self._block(records.slice(start, rows))
            yield block
            start, per_record = start + rows, memory(self.packed, block) / min(rows, count - start)
            rows = min(4 * rows, at_once(CHUNK_BYTES / 2, per_record))

    def _block(self, records: Records) -> Block:
        codes, names = encode_sorted(records.names)
        times = pa.array(records.times)
        arguments = [[times if i < 0 else records.values[i] for i in positions] for positions in self.arguments]
        return from_records(self.shape, records.index, codes, names, arguments)

    def _by_bucket(self, block: Block) -> Iterator[tuple[int, Block]]:
        """Yield the label and the rows of each bucket with rows. A block has only the keys of its rows."""
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
            yield shipped.append_column("records", none) if self.with_records else shipped


@dataclass(frozen=True)
class ShuffleRecords:
    """The first stage of the eager plan, used like `PreAggregate`: shuffles the records themselves, in their order."""

    shape: Shape
    labels: tuple[int, ...]
    schema = SCHEMA

    def __call__(
        self, batches: Iterable[pa.RecordBatch], partition: int = 0, between: Between = lambda: ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows for the shuffle, chunk by chunk; the arguments are those of `PreAggregate`."""
        refused, part = Dropped(), Numbers(partition)
        for chunk in _chunks(batches):
            yield from between()
            records = self._read(chunk, refused)
            if len(records.index):
                yield from _shipped(_encoded(self.shape, records, self._labels), part, Dropped())
        if last := _without_blocks(self.labels, (), refused, partition):
            yield from _shipped(last, part, refused)

    def _read(self, chunk: pa.Table, refused: Dropped) -> Records:
        return records_of(self.shape, chunk, refused)

    def _labels(self, names: pa.Table) -> Array:
        return labels_of(names, self.labels)


def records_of(shape: Shape, chunk: pa.Table, refused: Dropped) -> Records:
    """Return the records of a chunk that belong to a window. Others are counted in `refused`."""
    if missing := chunk["time"].null_count:
        refused.no_time += missing
        chunk = chunk.filter(chunk["time"].is_valid())
    times = np.asarray(chunk["time"].combine_chunks().cast(pa.int64()))
    slices = shape.family.slice_of_record(times)
    if shape.family.has_gaps and np.any(gap := shape.family.in_gap(slices)):
        inside = ~np.asarray(gap)
        refused.no_window += int(np.sum(~inside))
        chunk, times, slices = chunk.filter(pa.array(inside)), times[inside], slices[inside]
    if not _all_in_time(shape.family, slices, times):
        held = shape.family.in_time(slices, times)
        refused.no_time += int(np.sum(~held))
        chunk, times, slices = chunk.filter(pa.array(held)), times[held], slices[held]
    values_from = 1 + len(shape.keys)
    names = key_table(shape, chunk.columns[1:values_from])
    values = [_small(column.combine_chunks()) for column in chunk.columns[values_from:]]
    return Records(slices, times, names, values)


def _all_in_time(family: Family, slices: Array, times: Array) -> bool:
    """Return whether all records are in windows that may be emitted: the earliest and the latest one tell it."""
    if not len(times):
        return True
    return bool(np.all(family.in_time(*(np.array([each.min(), each.max()]) for each in (slices, times)))))


def key_table(shape: Shape, columns: Iterable[pa.ChunkedArray]) -> pa.Table:
    """Return the leaves of keys that Spark provides, in the types of the state."""
    return pa.table([plain(column) for column in columns], schema=shape.key_schema)


def _by_label(labels: Array) -> Iterator[tuple[int, Array]]:
    """Yield each label with the positions of its rows, in their order: `int64[n]`."""
    counts = np.bincount(labels)
    rows = argsorted(labels)
    for label, some in enumerate(np.split(rows, np.cumsum(counts)[:-1])):
        if len(some):
            yield label, some


def _encoded(shape: Shape, records: Records, labels: Callable[[pa.Table], Array]) -> Iterator[tuple[int, bytes]]:
    """Return the label and the encoded records of each bucket, in their order; `labels` returns the labels of keys."""
    codes, names = encode_keys(records.names)
    buckets = labels(names)[codes]
    return ((label, encode_records(shape, records.take(rows))) for label, rows in _by_label(buckets))


def _in_records(shipped: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose column `block` holds records, with that column moved to `records`."""
    at = shipped.schema.get_field_index("block")
    without = shipped.set_column(at, "block", pa.nulls(len(shipped), pa.binary()))
    return without.append_column("records", shipped.column(at))


def _without_blocks(labels: Sequence[int], held: Collection[int], refused: Dropped, partition: int) -> list[Page]:
    """Return the rows without blocks at the end of an input partition: for the buckets that are not in `held`."""
    if partition == 0:
        return [(label, None) for label in labels if label not in held]
    # Another partition sends a row only to report its refused records.
    return [(labels[0], None)] if refused != Dropped() and not held else []


def _shipped(pages: Iterable[Page], part: Numbers, refused: Dropped) -> Iterator[pa.RecordBatch]:
    """Yield rows for the shuffle, at least one, in batches far below the size limit of Arrow's columns."""
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
    """Yield the batches, which Spark makes small, joined into chunks that are worth folding."""
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
    """Return text and binary with 32-bit offsets, whatever `spark.sql.execution.arrow.useLargeVarTypes` says."""
    if pa.types.is_large_string(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pa.types.is_large_binary(array.type) else array


def plain(column: pa.ChunkedArray) -> pa.Array:
    """Return a column of keys or partials in the types of blocks."""
    array = _small(column.combine_chunks())
    # Spark gives timestamps the session's time zone. The instants are the same in UTC, the zone of the state.
    return array.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(array.type) and array.type.tz else array
