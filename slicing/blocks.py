"""Blocks: batches of partials as columns sorted by slice; the unit that is shuffled and stored.

A block holds one row per (slice, key), its distinct keys once, and for every kernel the columns of its partials. Blocks
are concatenated (keys and dictionaries unified), folded (one row per slice and key again) and encoded without a schema,
which the state's fingerprint already fixes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.durations import show_instant
from slicing.errors import RowFailure, TooLarge, excerpt
from slicing.families import Family
from slicing.kernel import Array, Kernel, Partials, locating, union
from slicing.kinds import Field, arrow_type
from slicing.packing import from_text, pack, to_text, unpack

PAGE_BYTES = 4 << 20
MOST_BYTES = 1 << 31
"""A block never has so many: lengths from damaged bytes are not to ask for memory."""
ROW_BYTES = 3 << 29
"""A row must be smaller: values end at 2 GiB in Arrow and in the JVM, and as text a page is a seventh longer."""
PIECE_ROWS = 20_000
"""Below so many rows per block, taking blocks apart costs more than sorting all of their rows."""
_CODEC = pa.Codec("zstd", compression_level=1)
_HEAD = struct.Struct("<qq")


@dataclass(frozen=True)
class Shape:
    """What a block's rows are: slices of what length, keys of which fields, partials of which kernels.

    There is at least one key field; a query without key columns has a constant one.
    """

    slicing: Family
    keys: tuple[Field, ...]
    kernels: tuple[Kernel, ...]

    @property
    def key_schema(self) -> pa.Schema:
        """Arrow schema of the distinct keys."""
        return pa.schema([(f"k{i}", arrow_type(field.kind)) for i, field in enumerate(self.keys)])

    @property
    def row_schema(self) -> pa.Schema:
        """Arrow schema of the rows: slice, step to the key, records, then all partials' fields."""
        fields = [field for kernel in self.kernels for field in kernel.fields]
        columns = [(f"p{i}", arrow_type(field.kind)) for i, field in enumerate(fields)]
        return pa.schema([("slice", pa.int64()), ("key", pa.int64()), ("records", pa.int64()), *columns])

    def select(self, chosen: Sequence[int]) -> Shape:
        """The shape with only some of the kernels."""
        return replace(self, kernels=tuple(self.kernels[i] for i in chosen))


@dataclass(frozen=True)
class Block:
    """Partials of (slice, key): row i belongs to `slices[i]` and to row `keys[i]` of `names`."""

    slices: Array
    keys: Array
    names: pa.Table
    records: Array
    partials: list[Partials]
    dictionaries: list[pa.Array | None]

    def __len__(self) -> int:
        return len(self.slices)

    def check(self, shape: Shape) -> None:
        """Assert every invariant: sorted by slice, one row per (slice, key), columns of one length."""
        assert np.all(self.slices[1:] >= self.slices[:-1])
        assert len(set(zip(self.slices.tolist(), self.keys.tolist(), strict=True))) == len(self)
        assert not len(self) or (0 <= self.keys.min() and self.keys.max() < len(self.names))
        assert len(self.names) == len(encode_keys(self.names)[1]), "a key is stored once"
        assert all(len(column) == len(self) for partials in self.partials for column in partials)
        assert len(self.partials) == len(shape.kernels) == len(self.dictionaries)
        assert np.all(self.records > 0)

    def take(self, rows: Array | slice) -> Block:
        """Some of the rows; `names` stays as it is."""
        return replace(
            self,
            slices=self.slices[rows],
            keys=self.keys[rows],
            records=self.records[rows],
            partials=[[column[rows] for column in partials] for partials in self.partials],
        )

    def between(self, first: int, end: int) -> Block:
        """The rows of slices `first` up to but not including `end`."""
        return self.take(slice(*np.searchsorted(self.slices, (first, end))))


def empty(shape: Shape) -> Block:
    """A block without rows."""
    none = np.zeros(0, dtype=np.int64)
    partials = [kernel.spread(0) for kernel in shape.kernels]
    dictionaries = [kernel.no_dictionary for kernel in shape.kernels]
    return Block(none, none, shape.key_schema.empty_table(), none, partials, dictionaries)


def encode_keys(table: pa.Table) -> tuple[Array, pa.Table]:
    """Codes 0, 1, ... of equal rows, and the distinct rows by code. Nulls are equal, and so are NaNs."""
    codes = np.zeros(len(table), dtype=np.int64)
    for column in table.columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + np.asarray(encoded.indices)
        if table.num_columns > 1:
            codes = np.asarray(pa.array(codes).dictionary_encode().indices).astype(np.int64)
    if table.num_columns == 1:
        return codes, pa.table([encoded.dictionary], names=table.column_names)
    first = np.full(int(codes.max(initial=-1)) + 1, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, table.take(pa.array(first))


def concat(shape: Shape, blocks: Sequence[Block]) -> Block:
    """All rows of the blocks, in their order, over one set of keys and dictionaries. Not folded."""
    blocks = [block for block in blocks if len(block)] or [empty(shape)]
    if len(blocks) == 1:
        return blocks[0]
    codes, names = _unify_names(blocks)
    partials, dictionaries = [], []
    for index, kernel in enumerate(shape.kernels):
        parts, dictionary = _unify_ranks(kernel, blocks, index)
        partials.append([np.concatenate([part[c] for part in parts]) for c in range(kernel.width)])
        dictionaries.append(dictionary)
    slices = np.concatenate([block.slices for block in blocks])
    return Block(slices, codes, names, np.concatenate([b.records for b in blocks]), partials, dictionaries)


def _unify_names(blocks: Sequence[Block]) -> tuple[Array, pa.Table]:
    names = blocks[0].names
    if all(block.names is names for block in blocks):
        return np.concatenate([block.keys for block in blocks]), names
    codes, names = encode_keys(pa.concat_tables([block.names for block in blocks]))
    offsets = np.cumsum([0] + [len(block.names) for block in blocks])
    return np.concatenate([codes[at + b.keys] for at, b in zip(offsets, blocks, strict=False)]), names


def _unify_ranks(kernel: Kernel, blocks: Sequence[Block], index: int) -> tuple[list[Partials], pa.Array | None]:
    old = [block.dictionaries[index] for block in blocks]
    dictionary = union(old)
    return [rerank(kernel, b.partials[index], own, dictionary) for b, own in zip(blocks, old, strict=True)], dictionary


def rerank(kernel: Kernel, partials: Partials, old: pa.Array | None, new: pa.Array | None) -> Partials:
    """Partials with ranks in one dictionary, with ranks in another that holds its values."""
    if old is None or new is None or old is new:
        return partials
    return kernel.rerank(partials, old, new)


def order(slices: Array, keys: Array) -> tuple[Array, Array]:
    """Rows sorted by (slice, key), stable, and where each run of equal (slice, key) starts in that order.

    Both may be any integers, also the other way round. Packing (slice, key, row) into one int64 lets numpy sort plain
    values, several times faster than a stable argsort.
    """
    count = len(slices)
    if count == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    first, least = int(slices.min()), int(keys.min())
    width, bits = int(keys.max()) + 1 - least, max(1, (count - 1).bit_length())
    if (int(slices.max()) - first + 1) * width < 1 << (63 - bits):
        packed = ((slices - first) * width + (keys - least if least else keys)) << bits
        packed |= np.arange(count)
        packed.sort()
        rows = packed & ((1 << bits) - 1)
        group = packed >> bits
        return rows, np.flatnonzero(np.diff(group, prepend=-1))
    rows = np.lexsort((keys, slices))
    change = np.ones(count, dtype=bool)
    change[1:] = (np.diff(slices[rows]) != 0) | (np.diff(keys[rows]) != 0)
    return rows, np.flatnonzero(change)


def fold(shape: Shape, blocks: Sequence[Block]) -> Block:
    """One block from folded ones: equal (slice, key) are combined in the order of the blocks.

    Slices that only one block has are only put together, which costs a third of sorting them.
    """
    blocks = [block for block in blocks if len(block)]
    together = concat(shape, blocks)
    if all(a.slices[-1] < b.slices[0] for a, b in pairwise(blocks)):
        return together
    if len(together) < PIECE_ROWS * len(blocks):
        return regroup(shape, together)
    stretches = list(_stretches(blocks))
    alone = sum(rows[0].stop - rows[0].start for rows in stretches if len(rows) == 1)
    if 2 * alone < len(together):
        return regroup(shape, together)
    pieces = [
        together.take(rows[0]) if len(rows) == 1 else regroup(shape, together.take(np.r_[tuple(rows)]))
        for rows in stretches
    ]
    return concat(shape, pieces)


def _stretches(blocks: Sequence[Block]) -> Iterator[list[slice]]:
    """Ranges of slices, in order, as the rows that each block has of them in a concatenation.

    A range is of one block only, or of several that overlap.
    """
    firsts, ends = (np.array([int(block.slices[i]) for block in blocks]) for i in (0, -1))
    ends += 1
    offsets = np.cumsum([0] + [len(block) for block in blocks])
    edges = np.unique(np.concatenate([firsts, ends]))
    cover = (firsts <= edges[:, None]) & (edges[:, None] < ends)
    several = cover.sum(axis=1) > 1
    edges = edges[np.append(True, ~(several[1:] & several[:-1]))]
    for low, high in pairwise(edges.tolist()):
        found = []
        for offset, block, first, end in zip(offsets, blocks, firsts, ends, strict=False):
            if first < high and low < end:
                start, stop = offset + np.searchsorted(block.slices, (low, high))
                if start < stop:
                    found.append(slice(int(start), int(stop)))
        if found:
            yield found


def regroup(shape: Shape, block: Block) -> Block:
    """The block folded, whatever its order: one row per (slice, key), in the order of the rows."""
    rows, starts = order(block.slices, block.keys)
    if len(starts) == len(block):
        return block.take(rows)
    heads = rows[starts]
    with locating(lambda index: place(shape, block.names, block.keys[rows[index]], block.slices[rows[index]])):
        partials = [
            kernel.reduce([column[rows] for column in columns], starts)
            for kernel, columns in zip(shape.kernels, block.partials, strict=True)
        ]
    records = np.add.reduceat(block.records[rows], starts)
    return replace(block, slices=block.slices[heads], keys=block.keys[heads], records=records, partials=partials)


def place(shape: Shape, names: pa.Table, key: int, index: int) -> str:
    """A key and a slice as messages show them."""
    return show_place(shape.slicing, names, key, index)


def show_place(slicing: Family, names: pa.Table, key: int, index: int) -> str:
    """`place` where there is no shape."""
    start, end = (slicing.slice_start(int(i)) for i in (index, index + 1))
    return f"{show_key(names, key)} in slice [{show_instant(start)}, {show_instant(end)})"


def show_key(names: pa.Table, key: int) -> str:
    """A key as messages show it, by its code."""
    return f"key {excerpt(tuple(names.slice(int(key), 1).to_pylist()[0].values()))}"


def from_records(
    shape: Shape, slices: Array, keys: Array, names: pa.Table, arguments: Sequence[Sequence[pa.Array]]
) -> Block:
    """A folded block from records: their slices, the codes of their keys, and for each kernel its columns of values."""
    rows, starts = order(slices, keys)
    heads = rows[starts]
    partials, dictionaries = [], []
    for kernel, arrays in zip(shape.kernels, arguments, strict=True):
        with locating(lambda index, rows=rows: place(shape, names, keys[rows[index]], slices[rows[index]])):  # type: ignore[misc]
            columns, dictionary = fold_arrays(kernel, arrays, rows, starts)
        partials.append(columns)
        dictionaries.append(dictionary)
    records = np.diff(np.append(starts, len(rows)))
    return Block(slices[heads], keys[heads], names, records, partials, dictionaries)


def fold_arrays(
    kernel: Kernel, arrays: Sequence[pa.Array], rows: Array, starts: Array, onto: Partials | None = None
) -> tuple[Partials, pa.Array | None]:
    """Fold records, taken in the order `rows`, into one partial per group; group g begins at `starts[g]` of that order.

    `onto` has the partials to go on from, `init()` if left out. Also returns the dictionary of the ranks.
    """
    condition = None
    if kernel.aggregate.filtered:
        *arrays, condition = arrays
    values, dictionary = kernel.values(arrays)
    known = _known(kernel, arrays, condition)
    if known is None:
        return kernel.fold(_permuted(values, rows), starts, len(rows), onto), dictionary
    # Records with a null are left out: fold the groups that have others, the rest keep `init()`.
    kept = known[rows]
    sizes = np.add.reduceat(kept, starts, dtype=np.int64) if len(starts) else starts
    folded = kernel.spread(len(starts)) if onto is None else onto
    if kept.any():
        filled = np.flatnonzero(sizes)
        within = np.cumsum(sizes[filled]) - sizes[filled]
        positions = np.flatnonzero(kept)
        begun = None if onto is None else [column[filled] for column in onto]
        try:
            some = kernel.fold(_permuted(values, rows[kept]), within, len(positions), begun)
        except RowFailure as failure:
            raise failure.at(int(positions[failure.index])) from failure.__cause__
        for column, new in zip(folded, some, strict=True):
            column[filled] = new
    return folded, dictionary


def _known(kernel: Kernel, arrays: Sequence[pa.Array], condition: pa.Array | None) -> Array | None:
    """Of which records `agg` is to know, None for all."""
    valid = [] if kernel.aggregate.nulls else [np.asarray(array.is_valid()) for array in arrays if array.null_count]
    if condition is not None:
        valid.append(np.asarray(condition.fill_null(False)))
    return np.logical_and.reduce(valid) if valid else None


def _permuted(values: Sequence[object], rows: Array) -> list[object]:
    return [tuple(v[rows] for v in value) if isinstance(value, tuple) else value[rows] for value in values]  # type: ignore[index]


def encode(shape: Shape, block: Block) -> bytes:
    """The block as bytes: two lengths, then, compressed, the packed columns of keys and of rows.

    Rows are numbered, slice after slice and key after key, and the steps from one to the next take the place of the
    codes of their keys: small numbers where rows are sorted, which they need not be.
    """
    used = np.zeros(len(block.names), dtype=bool)
    used[block.keys] = True
    codes, width = np.cumsum(used)[block.keys] - 1, int(np.count_nonzero(used))
    keys = pack([column.combine_chunks() for column in block.names.filter(pa.array(used)).columns])
    steps = np.diff(_since_first(block.slices) * width + codes, prepend=0)
    columns = [pa.array(block.slices), pa.array(steps), pa.array(block.records)]
    with locating(lambda row: place(shape, block.names, block.keys[row], block.slices[row])):
        for kernel, partials, dictionary in zip(shape.kernels, block.partials, block.dictionaries, strict=True):
            columns += kernel.to_arrow(partials, dictionary)
    body = keys + pack(columns)
    return _HEAD.pack(len(keys), len(body)) + bytes(_CODEC.compress(body, asbytes=True))


def decode(shape: Shape, data: bytes) -> Block:
    """The inverse of `encode`."""
    size, length = _HEAD.unpack_from(data)
    if not 0 <= size <= length < MOST_BYTES:
        raise ValueError(f"no block has {size:,} bytes of keys in {length:,}")
    body = _CODEC.decompress(pa.py_buffer(data).slice(_HEAD.size), length)
    names = pa.table(unpack(body.slice(0, size), shape.key_schema), schema=shape.key_schema)
    rows = unpack(body.slice(size), shape.row_schema)
    slices, steps, records = (np.array(column, dtype=np.int64) for column in rows[:3])
    keys = np.cumsum(steps) - _since_first(slices) * len(names)
    partials, dictionaries, at = [], [], 3
    for kernel in shape.kernels:
        columns, dictionary = kernel.from_arrow(rows[at : at + len(kernel.fields)])
        partials.append(columns)
        dictionaries.append(dictionary)
        at += len(kernel.fields)
    return Block(slices, keys, names, records, partials, dictionaries)


def _since_first(slices: Array) -> Array:
    return slices - slices[0] if len(slices) else slices


def encode_text(shape: Shape, block: Block) -> str:
    """`encode` as text, which Spark moves between Python and the state store faster than binary values."""
    return to_text(encode(shape, block))


def decode_text(shape: Shape, text: str) -> Block:
    """The inverse of `encode_text`."""
    return decode(shape, from_text(text))


def parts(shape: Shape, block: Block) -> Iterator[Block]:
    """The block in consecutive parts of at most about `PAGE_BYTES` each, or of one row. Raises TooLarge for a row."""
    sizes = row_sizes(shape, block)
    if isinstance(sizes, float):
        rows = max(1, int(PAGE_BYTES / sizes))
        for start in range(0, max(1, len(block)), rows):
            yield block.take(slice(start, start + rows))
        return
    _check_rows(shape, block, sizes)
    for start, end in runs(sizes, PAGE_BYTES):
        yield block.take(slice(start, end))


def runs(sizes: Array, most: float) -> Iterator[tuple[int, int]]:
    """Consecutive rows of these sizes, from and up to, of at most `most` together or one alone; (0, 0) if none."""
    totals, start = np.cumsum(sizes), 0
    while True:
        before = totals[start - 1] if start else 0.0
        end = max(start + 1, int(np.searchsorted(totals, before + most, side="right")))
        yield start, min(end, len(sizes))
        if end >= len(sizes):
            return
        start = end


def _check_rows(shape: Shape, block: Block, sizes: Array) -> None:
    if len(block) and sizes.max() > ROW_BYTES:
        row = int(sizes.argmax())
        found = place(shape, block.names, block.keys[row], block.slices[row])
        raise TooLarge(
            f"a partial, with its key, must take less than {ROW_BYTES / (1 << 30):.3g} GiB; got "
            f"{int(sizes[row]):,} bytes for {found}, "
            f"{_shares(shape, block, row)}. Keep less in the partial, or make slices shorter with a shorter `advance`."
        )


def _shares(shape: Shape, block: Block, row: int) -> str:
    """How many bytes of a row are the partial of each result."""
    one = block.take(slice(row, row + 1))
    pairs = zip(shape.kernels, one.partials, one.dictionaries, strict=True)
    shares = [f"{int(np.sum(kernel.sizes(columns, own)))} of them `{kernel.label}`" for kernel, columns, own in pairs]
    return ", ".join(shares)


def row_sizes(shape: Shape, block: Block) -> Array | float:
    """About how many bytes each row takes when it is encoded, one number where all take the same.

    By the kinds of keys and fields, and by the real lengths of text and binaries: a sample would miss the long ones.
    """
    sizes = 20.0 + _key_sizes(block)
    for kernel, columns, dictionary in zip(shape.kernels, block.partials, block.dictionaries, strict=True):
        sizes = sizes + kernel.sizes(columns, dictionary)
    return sizes


def row_bytes(shape: Shape, block: Block) -> float:
    """The mean of `row_sizes`."""
    sizes = row_sizes(shape, block)
    return sizes if isinstance(sizes, float) else float(sizes.mean()) if len(sizes) else 20.0


def memory(shape: Shape, block: Block) -> int:
    """About how many bytes a block takes in memory, as arrays or as Python objects, its distinct keys counted once."""
    size = 24.0 * len(block) + block.names.nbytes
    for kernel, columns, dictionary in zip(shape.kernels, block.partials, block.dictionaries, strict=True):
        held = sum(column.itemsize for column in columns) + kernel.object_bytes
        lengths = kernel.lengths(columns, None)
        size += held * len(block) + (0.0 if isinstance(lengths, float) else lengths.sum())
        size += 0 if dictionary is None else dictionary.nbytes
    return int(size)


def _key_sizes(block: Block) -> Array | float:
    """Of each row the size of its key, which rows of a page share."""
    found: Array | float = 0.0
    for column in block.names.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths = np.asarray(pc.binary_length(column.combine_chunks()).fill_null(0), dtype=np.float64)
            found = found + 4.0 + lengths[block.keys]
        else:
            found = found + column.type.bit_width / 8
    return found
