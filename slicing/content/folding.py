"""Fold records, or partials, into one partial per (slice, key)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.aggregates.sorting import order, ordered
from slicing.content.block import Block, Shape, concat, place
from slicing.errors import RowFailure

PIECE_ROWS = 20_000
"""The mean rows per block below which splitting blocks costs more than sorting all of their rows."""


def fold(shape: Shape, blocks: Sequence[Block]) -> Block:
    """Return one folded block from folded blocks. Rows of equal (slice, key) are combined in the order of the blocks.

    Slices that only one block has are concatenated, which costs a third of sorting them.
    """
    blocks = [block for block in blocks if len(block)]
    together = concat(shape, blocks)
    if all(a.index[-1] < b.index[0] for a, b in pairwise(blocks)):
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
    """Yield ranges of slices in order, each as the row ranges of its blocks in the concatenation of all blocks.

    The rows of a range belong to one block only, or to several blocks that overlap.
    """
    firsts, ends = (np.array([int(block.index[i]) for block in blocks]) for i in (0, -1))
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
                start, stop = offset + np.searchsorted(block.index, (low, high))
                if start < stop:
                    found.append(slice(int(start), int(stop)))
        if found:
            yield found


def regroup(shape: Shape, block: Block, in_order: bool = False) -> Block:
    """Return the block folded: rows of equal (slice, key), in any order, are combined in the order of the rows.

    With `in_order`, floats are combined one by one.
    """
    return reduced(shape, block, *order(block.index, block.keys), in_order)


def with_index(shape: Shape, block: Block, index: Array) -> Block:
    """Return a folded block with other slices `index`, folded again: rows of one (slice, key) are combined in order."""
    return block if np.array_equal(index, block.index) else regroup(shape, replace(block, index=index), in_order=True)


def reduced(shape: Shape, block: Block, rows: Array, starts: Array, in_order: bool = False) -> Block:
    """Return a row for each run of `rows`, with the slice and the key of the first row of the run.

    `rows` has all row numbers in some order; run g begins at `starts[g]` of it. With `in_order`, floats
    are combined one by one.
    """
    firsts = rows if len(starts) == len(block) else rows[starts]
    return _joined(shape, block, rows, starts, block.index[firsts], block.keys[firsts], in_order)


def by_key(shape: Shape, block: Block) -> Block:
    """Return the block folded, sorted by key and slice. Its rows may be in any order."""
    rows, starts, columns = ordered(block.keys, block.index)
    if columns is None:
        return reduced(shape, block, rows, starts)
    keys, index = columns if len(starts) == len(block) else (column[starts] for column in columns)
    return _joined(shape, block, rows, starts, index, keys)


def _joined(
    shape: Shape, block: Block, rows: Array, starts: Array, index: Array, keys: Array, in_order: bool = False
) -> Block:
    """Return the runs of `reduced`; that from `starts[g]` on has the slice `index[g]` and the key `keys[g]`."""
    with locating(lambda row: place(shape, block.names, block.keys[rows[row]], block.index[rows[row]])):
        triples = zip(shape.kernels, block.partials, block.dictionaries, strict=True)
        joined = [
            (kernel.in_order if in_order else kernel.joined)([column[rows] for column in columns], dictionary, starts)
            for kernel, columns, dictionary in triples
        ]
    records = block.records[rows]
    records = records if len(starts) == len(block) else np.add.reduceat(records, starts)
    return Block(index, keys, block.names, records, [each for each, _ in joined], [each for _, each in joined])


def from_records(
    shape: Shape, slices: Array, keys: Array, names: pa.Table, arguments: Sequence[Sequence[pa.Array]]
) -> Block:
    """Return a folded block from records: their slices, the codes of their keys, and the input columns per kernel."""
    return from_runs(shape, slices, keys, names, arguments, *order(slices, keys))


def from_runs(
    shape: Shape,
    slices: Array,
    keys: Array,
    names: pa.Table,
    arguments: Sequence[Sequence[pa.Array]],
    rows: Array,
    starts: Array,
) -> Block:
    """Return a row for each run of records, with the slice and the key of the first record of the run.

    `rows` has the record numbers in some order; run g begins at `starts[g]` of it.
    """
    firsts = rows[starts]
    partials, dictionaries = [], []
    for kernel, arrays in zip(shape.kernels, arguments, strict=True):
        with locating(lambda index, rows=rows: place(shape, names, keys[rows[index]], slices[rows[index]])):  # type: ignore[misc]
            columns, dictionary = fold_arrays(kernel, arrays, rows, starts)
        partials.append(columns)
        dictionaries.append(dictionary)
    records = np.diff(np.append(starts, len(rows)))
    return Block(slices[firsts], keys[firsts], names, records, partials, dictionaries)


def fold_arrays(
    kernel: Kernel, arrays: Sequence[pa.Array], rows: Array, starts: Array, onto: Partials | None = None
) -> tuple[Partials, pa.Array | None]:
    """Fold records, taken in the order `rows`, into one partial per group; group g begins at `starts[g]` of that order.

    `onto` has the partials to start from, `init()` if left out. Also returns the dictionary of the partials, if any.
    """
    if singles := kernel.singles(arrays):
        partials, dictionary = singles
        return kernel.joined([column[rows] for column in partials], dictionary, starts)
    condition = None
    if kernel.aggregate.filtered:
        *arrays, condition = arrays
    values, dictionary = kernel.values(arrays)
    known = _known(kernel, arrays, condition)
    if known is None:
        return kernel.fold(_permuted(values, rows), starts, len(rows), onto), dictionary
    # Records with a null are left out. Groups without other records keep `init()`, or `onto`.
    kept = known[rows]
    sizes = np.add.reduceat(kept, starts, dtype=np.int64) if len(starts) else starts
    folded = kernel.spread(len(starts)) if onto is None else onto
    if kept.any():
        filled = np.flatnonzero(sizes)
        within = np.cumsum(sizes[filled]) - sizes[filled]
        positions = np.flatnonzero(kept)
        initial = None if onto is None else [column[filled] for column in onto]
        try:
            some = kernel.fold(_permuted(values, rows[kept]), within, len(positions), initial)
        except RowFailure as failure:
            raise failure.at(int(positions[failure.index])) from failure.__cause__
        for column, new in zip(folded, some, strict=True):
            column[filled] = new
    return folded, dictionary


def _known(kernel: Kernel, arrays: Sequence[pa.Array], condition: pa.Array | None) -> Array | None:
    """Return which records are passed to `agg`: `bool[n]`, None for all."""
    valid = [] if kernel.aggregate.nulls else [np.asarray(array.is_valid()) for array in arrays if array.null_count]
    if condition is not None:
        valid.append(np.asarray(condition.fill_null(False)))
    return np.logical_and.reduce(valid) if valid else None


def _permuted(values: Sequence[object], rows: Array) -> list[object]:
    return [tuple(v[rows] for v in value) if isinstance(value, tuple) else value[rows] for value in values]  # type: ignore[index]
