"""Process more rows than fit into memory, in partitions: a partition has all rows that must be combined together.

Blocks are read one after another. If all of them fit into memory, they are one partition. Otherwise their rows are
spilled to a file. They are read back either in the order of slices (`InOrder`: for the trees, and for rows that are
stored by slice) or key by key (`key_partitions`: to assemble windows). A window needs only rows of its own key, so keys
are split by ranges of a hash::

    pages       1            2            3                    blocks as stored; each contains every key
    spilled     1a 1b .. 1z  2a 2b .. 2z  3a 3b .. 3z          the rows of the pages by hash range, in one file
    partitions  1a 2a 3a 1b 2b 3b | 1c 2c 3c | ...             folded; as many ranges as fit

If the rows of one key do not fit, they are split further, into ranges of windows. Partitioning does not change which
rows are combined, nor their order. Results are therefore the same to the last bit.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import IO, NoReturn

import numpy as np
import pyarrow as pa

from slicing.aggregates.fields import arrow_type
from slicing.aggregates.record_file import RecordFile, temporary
from slicing.aggregates.records import KeptRecords
from slicing.aggregates.sorting import argsorted
from slicing.assembly.large_windows import written
from slicing.content.block import Block, Shape, concat, show_key
from slicing.content.codec import decode, encode
from slicing.content.folding import fold, regroup
from slicing.content.hashing import hashes, mixed
from slicing.content.sizes import memory, parts, runs
from slicing.errors import TooLarge
from slicing.windows.time.slices import FOREVER

PARTITION_BYTES = 56 << 20
"""Bytes of rows that are processed at a time; folding and assembly need a small multiple of them."""
WINDOW_BYTES = 64 << 20
"""The most bytes that the slices of one window of a key may take: they are in memory at the same time."""
RANGES = 64
"""Number of hash ranges into which rows are spilled; a range that does not fit is split again."""


@dataclass(frozen=True)
class Partition:
    """Folded rows of some keys, one block per source, and the range of windows to assemble from them.

    `is_all` says that no other partition follows: nothing was spilled.
    """

    blocks: list[Block]
    first: int
    end: int
    is_all: bool = False


@dataclass(frozen=True)
class Piece:
    """A part of the spilled rows, of slices `first` up to but not including `end`, and its position in the file."""

    first: int
    end: int
    size: int  # bytes in memory
    records: int
    at: int  # the offset in the file, in bytes
    length: int  # bytes in the file


class SpillFile:
    """A temporary file of pieces of at most about a page each: written once, read as needed, removed when it is closed.

    Raises TooLarge if a single row is too large.
    """

    def __init__(self, shape: Shape):
        self.shape = shape
        self._file: IO[bytes] | None = None

    def put(self, block: Block) -> list[Piece]:
        """Write rows, sorted by slice, and return their pieces. Rows of one slice and key keep their order."""
        if not len(block):
            return []
        in_order = block.take(argsorted(block.index))
        return [self._write(page) for page in parts(self.shape, in_order)]

    def _write(self, page: Block) -> Piece:
        self._file = self._file or temporary()
        data = encode(self.shape, page)
        at = self._file.seek(0, os.SEEK_END)
        self._file.write(data)
        first, end, size = int(page.index[0]), int(page.index[-1]) + 1, memory(self.shape, page)
        return Piece(first, end, size, int(page.records.sum()), at, len(data))

    def read(self, piece: Piece) -> Block:
        """Return the rows of a piece."""
        assert self._file is not None
        self._file.seek(piece.at)
        return decode(self.shape, self._file.read(piece.length))

    def close(self) -> None:
        """Remove the file."""
        if self._file:
            self._file.close()


class InOrder:
    """Rows in the order of slices: one folded block if they fit into memory; otherwise spilled, and `block` is None."""

    def __init__(self, shape: Shape, blocks: Iterable[Block]):
        self.shape, self._spill = shape, SpillFile(shape)
        self._pieces: list[Piece] = []
        held: list[Block] = []
        for _, block, is_full in _filling(shape, [blocks]):
            held.append(block)
            if is_full:
                self._put(held)
        if self._pieces:
            self._put(held)
        self.block = None if self._pieces else fold(shape, held)
        self._edges = _edges(self._pieces)

    def _put(self, held: list[Block]) -> None:
        block = concat(self.shape, held)
        held.clear()
        self._pieces += self._spill.put(block)

    def parts(self, first: int = -FOREVER, end: int = FOREVER) -> Iterator[Block]:
        """Yield the folded rows of slices `first` up to but not including `end`, in blocks that fit into memory.

        Each block has consecutive slices. If the records of one slice do not fit, they are in several blocks, in order.
        """
        if self.block is not None:
            if len(found := self.block.between(first, end)):
                yield found
            return
        low = max(first, self._edges[0])
        while low < min(end, self._edges[-1]):
            high = min(end, self.reach(low))
            if self.shape.keeps_records and min(high, self._edges[-1]) == low + 1:
                yield from (regroup(self.shape, rows) for rows in self._read(low, high))
            elif rows := list(self._read(low, high)):
                yield _together(self.shape, rows)
            low = high

    def between(self, first: int, end: int) -> Block:
        """Return the folded rows of slices `first` up to but not including `end` as one block."""
        return fold(self.shape, list(self.parts(first, end)))

    def reach(self, first: int) -> int:
        """Return the end of the longest run of slices from `first` on that fits into memory, at least one slice."""
        if self.block is not None:
            return FOREVER
        found = _fitting(self._pieces, self._edges, first)
        return max(found, first + 1) if found < self._edges[-1] else FOREVER

    def _read(self, first: int, end: int) -> Iterator[Block]:
        return _inside(self._spill, self._pieces, first, end)

    def close(self) -> None:
        """Delete the spill file, if there is one."""
        self._spill.close()


def key_partitions(
    shape: Shape,
    sources: Sequence[Iterable[Block]],
    first: int = -FOREVER,
    end: int = FOREVER,
    before: int = 0,
    level: int = 0,
) -> Iterator[Partition]:
    """Yield partitions of whole keys for windows `first` up to but not including `end`.

    The rows of each slice must be in order in the blocks. If one key does not fit and `first` is given, its rows are
    split into ranges of windows; each range also has the rows of the `before` windows before it. Raises TooLarge if the
    slices of one window of a key do not fit. If a function gets its records part by part, the records of the first
    source are written to a file instead.
    """
    with closing(_SpilledByHash(shape, len(sources), level)) as spilled:
        held: list[list[Block]] = [[] for _ in sources]
        for number, block, is_full in _filling(shape, sources):
            held[number].append(block)
            if is_full:
                spilled.put(held)
        if not spilled.ranges:
            yield Partition([fold(shape, rows) for rows in held], first, end, is_all=True)
            return
        spilled.put(held)
        yield from spilled.partitions(first, end, before)


def in_memory(
    shape: Shape, sources: Sequence[Iterable[Block]], first: int = -FOREVER, end: int = FOREVER
) -> Iterator[Partition]:
    """Yield partitions of blocks that are in memory already; nothing is spilled. All blocks have the same keys."""
    blocks = [concat(shape, list(source)) for source in sources]
    size = sum(memory(shape, block) for block in blocks)
    if size <= PARTITION_BYTES:
        yield Partition([regroup(shape, block) for block in blocks], first, end, is_all=True)
        return
    keys = max(len(block.names) for block in blocks)
    rows = np.sum([np.bincount(block.keys, minlength=keys) for block in blocks], axis=0)
    for low, high in runs(rows * (size / rows.sum()), PARTITION_BYTES):
        some = (block.take(np.flatnonzero((low <= block.keys) & (block.keys < high))) for block in blocks)
        yield Partition([regroup(shape, block) for block in some], first, end)


@dataclass
class _Range:
    """The spilled rows of one range of hashes: pieces by source, size in bytes, smallest and largest hash."""

    pieces: list[list[Piece]]
    size: int = 0
    least: int = 1 << 64
    most: int = -1


class _SpilledByHash:
    """Rows spilled by ranges of the hash of their keys."""

    def __init__(self, shape: Shape, sources: int, level: int):
        self.shape, self.sources, self.level, self.spill = shape, sources, level, SpillFile(shape)
        self.ranges: dict[int, _Range] = {}

    def put(self, held: Sequence[list[Block]]) -> None:
        """Spill the blocks of each source, and release them."""
        for source, blocks in enumerate(held):
            if blocks:
                block = concat(self.shape, blocks)
                blocks.clear()
                self._put(source, block)

    def _put(self, source: int, block: Block) -> None:
        # Each level has its own hash, which also differs from the hash that chooses the bucket.
        bits = mixed(hashes(block.names) + np.uint64(self.level + 1))
        ranges = (bits % np.uint64(RANGES)).astype(np.int16)[block.keys]
        order = argsorted(ranges)
        starts = np.flatnonzero(np.diff(ranges[order], prepend=-1))
        for number, rows in zip(ranges[order[starts]].tolist(), np.split(order, starts)[1:], strict=True):
            found, some = self.ranges.setdefault(number, self._range()), bits[block.keys[rows]]
            found.least, found.most = min(found.least, int(some.min())), max(found.most, int(some.max()))
            pieces = self.spill.put(block.take(rows))
            found.pieces[source] += pieces
            found.size += sum(piece.size for piece in pieces)

    def _range(self) -> _Range:
        return _Range([[] for _ in range(self.sources)])

    def partitions(self, first: int, end: int, before: int) -> Iterator[Partition]:
        """Yield the ranges that fit together; a range that does not fit is split by another hash, or by windows."""
        ranges = list(self.ranges.values())
        for low, high in runs(np.array([each.size for each in ranges]), PARTITION_BYTES):
            some = ranges[low:high]
            if some[0].size > PARTITION_BYTES and some[0].least < some[0].most:
                again = [map(self.spill.read, pieces) for pieces in some[0].pieces]
                yield from key_partitions(self.shape, again, first, end, before, self.level + 1)
            elif some[0].size > PARTITION_BYTES and first > -FOREVER:
                yield from self._by_window(some[0], first, end, before)
            else:
                pieces = [[piece for each in some for piece in each.pieces[i]] for i in range(self.sources)]
                yield Partition([self._folded(each) for each in pieces], first, end)

    def _by_window(self, key: _Range, first: int, end: int, before: int) -> Iterator[Partition]:
        """Yield the rows of one key in ranges of windows."""
        family, pieces = self.shape.family, [piece for source in key.pieces for piece in source]
        low = max(first, family.first_window(min(piece.first for piece in pieces)))
        end = min(end, family.last_window(max(piece.end for piece in pieces) - 1) + 1 + before)
        edges = _edges(pieces)
        while low < end:
            start = family.first_slice(low - before)
            reach = _fitting(pieces, edges, start)
            high = end if reach == edges[-1] else min(end, max(low + 1, family.first_window(reach)))
            stop = family.end_slice(high - 1)
            large = self._inside(pieces, low) if high == low + 1 or self.shape.keeps_records else []
            if sum(piece.size for piece in large) <= self._limit:
                yield Partition([self._folded(source, start, stop) for source in key.pieces], low, high)
            elif self._by_parts:
                assert self._of_records is not None, "they are given by parts"
                with closing(RecordFile(arrow_type(self._of_records.record))) as file:
                    own, *others = key.pieces
                    marks = [self._folded(source, start, stop) for source in others]
                    yield Partition([self._in_file(own, start, stop, file), *marks], low, high)
            else:
                self._refuse(large, low)
            low = high

    def _in_file(self, pieces: Sequence[Piece], start: int, stop: int, file: RecordFile) -> Block:
        """Write the records of one window, which does not fit into memory, to a file; return a block over it."""
        edges = _edges(pieces)

        def ranges() -> Iterator[tuple[int, int, bool]]:
            low = start
            while low < min(stop, edges[-1]):
                high = min(stop, _fitting(pieces, edges, low))
                size = sum(piece.size for piece in pieces if piece.first < high and piece.end > low)
                fits = size <= PARTITION_BYTES
                high = high if fits else low + 1
                yield low, high, fits
                low = high

        return written(
            self.shape, ranges(), lambda low, high: _inside(self.spill, pieces, low, high), file, PARTITION_BYTES
        )

    def _inside(self, pieces: Sequence[Piece], window: int) -> list[Piece]:
        """Return the pieces that lie entirely inside a window."""
        start, stop = self.shape.family.first_slice(window), self.shape.family.end_slice(window)
        return [piece for piece in pieces if start <= piece.first and piece.end <= stop]

    @property
    def _of_records(self) -> KeptRecords | None:
        """The aggregate that keeps records; None if the kernels have partials only."""
        own = (kernel.aggregate for kernel in self.shape.kernels)
        return next((each for each in own if isinstance(each, KeptRecords)), None)

    @property
    def _by_parts(self) -> bool:
        return self._of_records is not None and self._of_records.by_parts

    @property
    def _limit(self) -> int:
        own = self._of_records
        if own is None:
            return WINDOW_BYTES
        return PARTITION_BYTES if own.by_parts else window_limit(own)

    def _refuse(self, large: Sequence[Piece], window: int) -> NoReturn:
        """Refuse a window that does not fit. Raises TooLarge."""
        family, size = self.shape.family, sum(piece.size for piece in large)
        key = show_key(self.spill.read(large[0]).names, 0)
        if self._of_records is not None:
            start, end = (family.show(int(edge(window))) for edge in (family.window_start, family.window_end))
            rule, cause, remedy = too_large(self._of_records, size, sum(piece.records for piece in large))
            raise TooLarge(f"{rule} {cause} for {key} in window [{start}, {end}). {remedy}")
        raise TooLarge(
            f"the slices of one window of a key must take at most {_shown(WINDOW_BYTES)} together; got "
            f"{_shown(size)} for {key}. Keep less in the partial, or take fewer slices with a longer `advance`."
        )

    def _folded(self, pieces: Sequence[Piece], first: int = -FOREVER, end: int = FOREVER) -> Block:
        inside = (self.spill.read(piece) for piece in pieces if piece.first < end and piece.end > first)
        return _together(self.shape, [block.between(first, end) for block in inside])

    def close(self) -> None:
        """Delete the spill file."""
        self.spill.close()


def _filling(shape: Shape, sources: Sequence[Iterable[Block]]) -> Iterator[tuple[int, Block, bool]]:
    """Yield each block with the number of its source, and whether the blocks since the last full one are too many.

    They are if they take more than `PARTITION_BYTES`.
    """
    size, names = 0, pa.table({})
    for number, source in enumerate(sources):
        for block in source:
            if len(block):
                size += memory(shape, block) - (block.names.nbytes if block.names is names else 0)
                names = block.names
                is_full = size > PARTITION_BYTES
                yield number, block, is_full
                if is_full:
                    size, names = 0, pa.table({})


def window_limit(records: KeptRecords) -> int:
    """Return the most bytes that the records of a window may take if a function gets all of them at once."""
    return records.window_bytes or WINDOW_BYTES


def too_large(records: KeptRecords, size: float, count: int) -> tuple[str, str, str]:
    """Return rule, cause and remedy of the error for a window whose records exceed `window_limit`."""
    return (
        f"the records of a window must take at most {_shown(window_limit(records))} together (`window_bytes`);",
        f"got {_shown(size)} of {count:,} records",
        records.call.remedy,
    )


def _inside(spill: SpillFile, pieces: Sequence[Piece], first: int, end: int) -> Iterator[Block]:
    """Yield the rows of slices `first` up to but not including `end`, piece by piece."""
    inside = (piece for piece in pieces if piece.first < end and piece.end > first)
    return (rows for rows in (spill.read(piece).between(first, end) for piece in inside) if len(rows))


def _shown(size: float) -> str:
    return f"{size / (1 << 20):.3g} MiB"


def _together(shape: Shape, rows: list[Block]) -> Block:
    """Fold rows into one block; `rows` is emptied, so that they are not in memory twice."""
    block = concat(shape, rows)
    rows.clear()
    return regroup(shape, block)


def _edges(pieces: Sequence[Piece]) -> list[int]:
    return sorted({edge for piece in pieces for edge in (piece.first, piece.end)})


def _fitting(pieces: Sequence[Piece], edges: Sequence[int], first: int) -> int:
    """Return the last edge before which the pieces from slice `first` on fit into memory.

    It is at least the first edge after `first`.
    """
    low, high = bisect_right(edges, first), len(edges) - 1
    if low >= high:
        return edges[-1]

    def size(end: int) -> int:
        return sum(piece.size for piece in pieces if piece.first < end and piece.end > first)

    count = bisect_right(range(low, high + 1), PARTITION_BYTES, key=lambda at: size(edges[at]))
    return edges[max(low, low + count - 1)]
