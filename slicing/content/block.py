"""Blocks: batches of partials as columns, sorted by slice. A block is the unit that is shuffled and stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernel import Kernel
from slicing.errors import excerpt
from slicing.windows.families.family import Family

Slot: TypeAlias = tuple[int, int]
"""A field: the position of its kernel, and the position of the field in the partial."""


@dataclass(frozen=True)
class Shape:
    """The schema of a block's rows: the family of windows, the fields of keys, the kernels of partials.

    There is at least one key field; a query without key columns has a constant one. `same` maps a field to an earlier
    field that has the same value in every row; only the earlier one is encoded. `numbers` are the positions of the
    kernels among all results, if the shape has only some of them. `since` has for each kernel the microsecond from
    which on windows must begin to hold all records of its result, None if all windows do; it is empty if all windows do
    for every kernel. The last `marks` kernels belong to no result: they are additional columns of an engine.
    """

    family: Family
    keys: tuple[Field, ...]
    kernels: tuple[Kernel, ...]
    same: Mapping[Slot, Slot] = field(default_factory=dict)
    numbers: tuple[int, ...] = ()
    since: tuple[int | None, ...] = ()
    marks: int = 0

    @property
    def places(self) -> tuple[int, ...]:
        """Return the positions of the kernels among all results."""
        return self.numbers or tuple(range(len(self.kernels)))

    @property
    def key_schema(self) -> pa.Schema:
        """Return the Arrow schema of the distinct keys."""
        return pa.schema([(f"k{i}", arrow_type(field.kind)) for i, field in enumerate(self.keys)])

    @property
    def row_schema(self) -> pa.Schema:
        """Return the Arrow schema of encoded rows: slice, step to the key, record count, then all encoded fields."""
        return schema_of_rows([self.kernels[k].fields[f].kind for k, f in self.slots])

    @property
    def slots(self) -> list[Slot]:
        """Return the fields that are encoded, in order."""
        slots = [(number, field) for number, kernel in enumerate(self.kernels) for field in range(len(kernel.fields))]
        return [slot for slot in slots if slot not in self.same]

    @property
    def has_results(self) -> bool:
        """Whether rows have fields of results, and not only additional columns of an engine."""
        return len(self.kernels) > self.marks

    @property
    def keeps_records(self) -> bool:
        """Whether partials are the records themselves."""
        return any(kernel.aggregate.keeps_records for kernel in self.kernels)

    @property
    def has_order(self) -> bool:
        """Whether partials depend on the order in which the rows of a slice are combined."""
        return self.keeps_records or any(kernel.aggregate.ordered for kernel in self.kernels)

    @property
    def pair_bytes(self) -> int:
        """Return the estimated bytes of a row: its fields of results in arrays, and 8 bytes for each field of its key.

        Records that partials keep are not included.
        """
        results = self.kernels[: len(self.kernels) - self.marks]
        fields = sum(column.nbytes for kernel in results for column in kernel.spread(1))
        return int(fields) + 8 * len(self.keys) + 2 * 8  # the window, and its record count

    def with_marks(self, kernel: Kernel) -> Shape:
        """Return the shape with the fields of a kernel as additional columns, after all others."""
        return replace(self, kernels=(*self.kernels, kernel), marks=self.marks + 1)

    def over(self, family: Family) -> Shape:
        """Return the shape with another family."""
        return replace(self, family=family)

    def select(self, chosen: Sequence[int]) -> Shape:
        """Return the shape with only the kernels at the positions `chosen`."""
        at = {number: place for place, number in enumerate(chosen)}
        same = {
            (at[number], field): (at[other], source)
            for (number, field), (other, source) in self.same.items()
            if number in at and other in at
        }
        return replace(
            self,
            kernels=tuple(self.kernels[i] for i in chosen),
            same=same,
            numbers=tuple(self.places[i] for i in chosen),
            since=tuple(self.since[i] for i in chosen if self.since),
        )


@dataclass(frozen=True)
class Block:
    """Partials of (slice, key): row i belongs to slice `index[i]` and to the key in row `keys[i]` of `names`.

    Slices are numbered by the family of the shape. For sessions and sliding windows the number is the time of the row,
    in microseconds and in units; for count windows it is a slice of the key. Totals of keys have the clock of their
    last record instead.

    `index`, `keys` and `records` (record counts) are `int64[n]`. `partials` has a list of arrays for each kernel, and
    `dictionaries` has the dictionary of each kernel, None if it has none.
    """

    index: Array
    keys: Array
    names: pa.Table
    records: Array
    partials: list[Partials]
    dictionaries: list[pa.Array | None]

    def __len__(self) -> int:
        return len(self.index)

    def check(self, shape: Shape) -> None:
        """Assert every invariant: sorted by slice, one row per (slice, key), columns of one length."""
        assert np.all(self.index[1:] >= self.index[:-1])
        assert len(set(zip(self.index.tolist(), self.keys.tolist(), strict=True))) == len(self)
        assert not len(self) or (0 <= self.keys.min() and self.keys.max() < len(self.names))
        assert len(self.names) == len(encode_keys(self.names)[1]), "a key is stored once"
        assert all(len(column) == len(self) for partials in self.partials for column in partials)
        assert len(self.partials) == len(shape.kernels) == len(self.dictionaries)
        assert np.all(self.records > 0)

    def take(self, rows: Array | slice) -> Block:
        """Return some of the rows; `names` keeps all keys."""
        return replace(
            self,
            index=self.index[rows],
            keys=self.keys[rows],
            records=self.records[rows],
            partials=[[column[rows] for column in partials] for partials in self.partials],
        )

    def between(self, first: int, end: int) -> Block:
        """Return the rows of slices `first` up to but not including `end`."""
        return self.take(slice(*np.searchsorted(self.index, (first, end))))


def schema_of_rows(kinds: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of encoded rows with fields of these types."""
    columns = [(f"p{i}", arrow_type(kind)) for i, kind in enumerate(kinds)]
    return pa.schema([("slice", pa.int64()), ("key", pa.int64()), ("records", pa.int64()), *columns])


def empty(shape: Shape) -> Block:
    """Return a block without rows."""
    none = np.zeros(0, dtype=np.int64)
    partials = [kernel.spread(0) for kernel in shape.kernels]
    dictionaries = [kernel.no_dictionary for kernel in shape.kernels]
    return Block(none, none, shape.key_schema.empty_table(), none, partials, dictionaries)


def encode_keys(table: pa.Table) -> tuple[Array, pa.Table]:
    """Return the code of each row (`int64[n]`), equal for equal rows, and the distinct rows by code.

    Codes are 0, 1, ... Nulls are equal, and so are NaNs.
    """
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


def encode_sorted(table: pa.Table) -> tuple[Array, pa.Table]:
    """Return codes and distinct rows like `encode_keys`, the rows sorted by their columns of integers.

    Neighbouring keys are alike then and compress well: a stored page takes a fifth less if keys are small integers.
    Sorting other columns costs more and saves less.
    """
    codes, names = encode_keys(table)
    columns = [column for column in names.columns if pa.types.is_integer(column.type) and not column.null_count]
    if not columns:
        return codes, names
    numbers = [np.asarray(column.combine_chunks()) for column in columns]
    order = np.argsort(numbers[0]) if len(numbers) == 1 else np.lexsort(numbers[::-1])
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places[codes], names.take(pa.array(order))


def concat(shape: Shape, blocks: Sequence[Block]) -> Block:
    """Return all rows of the blocks in order, not folded, with one common set of keys and dictionaries."""
    blocks = [block for block in blocks if len(block)] or [empty(shape)]
    if len(blocks) == 1:
        return blocks[0]
    codes, names = _unify_names(blocks)
    partials, dictionaries = [], []
    for index, kernel in enumerate(shape.kernels):
        parts, dictionary = kernel.unified(
            [block.partials[index] for block in blocks], [block.dictionaries[index] for block in blocks]
        )
        partials.append([np.concatenate([part[c] for part in parts]) for c in range(kernel.width)])
        dictionaries.append(dictionary)
    slices = np.concatenate([block.index for block in blocks])
    return Block(slices, codes, names, np.concatenate([b.records for b in blocks]), partials, dictionaries)


def with_common_names(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks with one common table of keys."""
    codes, names = _unify_names(blocks)
    ends = np.cumsum([len(block) for block in blocks])
    return [
        replace(block, keys=keys, names=names) for block, keys in zip(blocks, np.split(codes, ends[:-1]), strict=True)
    ]


def _unify_names(blocks: Sequence[Block]) -> tuple[Array, pa.Table]:
    names = blocks[0].names
    if all(block.names is names for block in blocks):
        return np.concatenate([block.keys for block in blocks]), names
    # Keys are numbered in the order in which they occur. The block with the most keys comes first, so that its numbers
    # stay the same and its rows stay sorted: the differences that are encoded are small then, and compress well.
    most = max(range(len(blocks)), key=lambda at: len(blocks[at].names))
    ordered = [most, *range(most), *range(most + 1, len(blocks))]
    codes, names = encode_keys(pa.concat_tables([blocks[at].names for at in ordered]))
    ends = np.cumsum([len(blocks[at].names) for at in ordered])
    own = dict(zip(ordered, np.split(codes, ends[:-1]), strict=True))
    return np.concatenate([own[at][block.keys] for at, block in enumerate(blocks)]), names


def place(shape: Shape, names: pa.Table, key: int, index: int) -> str:
    """Return a key and a slice as text for messages."""
    return show_place(shape.family, names, key, index)


def show_place(family: Family, names: pa.Table, key: int, index: int) -> str:
    """Return a key and a slice as text for messages, like `place`, for a family instead of a shape."""
    start, end = (family.slice_start(int(i)) for i in (index, index + 1))
    return f"{show_key(names, key)} in slice [{family.show(start)}, {family.show(end)})"


def show_key(names: pa.Table, key: int) -> str:
    """Return the key of a code as text for messages."""
    return f"key {excerpt(tuple(names.slice(int(key), 1).to_pylist()[0].values()))}"
