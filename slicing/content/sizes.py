"""The sizes of blocks: estimated bytes of rows in pages and in memory, and the division of blocks into pages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.content.block import Block, Shape, place
from slicing.errors import TooLarge

PAGE_BYTES = 4 << 20
ASSEMBLY_BYTES = 64 << 20
"""The bytes of windows that are in memory at once, together with the rows that they are assembled from."""
ROW_BYTES = 3 << 29
"""The upper limit of a row in bytes. A value is limited to 2 GiB in Arrow and in the JVM, and a page as text is one
seventh longer than its bytes."""


def parts(shape: Shape, block: Block) -> Iterator[Block]:
    """Yield the block in consecutive parts of at most about `PAGE_BYTES` each, or of one row.

    Raises TooLarge if a single row exceeds `ROW_BYTES`.
    """
    sizes = row_sizes(shape, block)
    if isinstance(sizes, float):
        for start, end in even_runs(0, max(1, len(block)), at_once(PAGE_BYTES, sizes)):
            yield block.take(slice(start, end))
        return
    _check_rows(shape, block, sizes)
    for start, end in runs(sizes, PAGE_BYTES):
        yield block.take(slice(start, end))


def at_once(most: float, size: float) -> int:
    """Return how many rows of this size fit into `most` bytes, at least one.

    >>> at_once(100, 30.0), at_once(100, 300)
    (3, 1)
    """
    return max(1, int(most / size))


def even_runs(first: int, end: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows from `first` up to `end`, `count` rows at a time: `runs` for rows of equal size.

    >>> list(even_runs(2, 9, 3))
    [(2, 5), (5, 8), (8, 9)]
    """
    return ((start, min(end, start + count)) for start in range(first, end, count))


def runs(sizes: Array, most: float) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges of rows whose sizes sum to at most `most`, or that have one row; (0, 0) if none."""
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
        found = place(shape, block.names, block.keys[row], block.index[row])
        raise TooLarge(
            f"a partial, with its key, must take less than {ROW_BYTES / (1 << 30):.3g} GiB; got "
            f"{int(sizes[row]):,} bytes for {found}, "
            f"{_shares(shape, block, row)}. Keep less in the partial, or make slices shorter with a shorter `advance`."
        )


def _shares(shape: Shape, block: Block, row: int) -> str:
    """Return the bytes of the partial of each result in a row, as text."""
    one = block.take(slice(row, row + 1))
    pairs = zip(shape.kernels, one.partials, one.dictionaries, strict=True)
    shares = [f"{int(np.sum(kernel.sizes(columns, own)))} of them `{kernel.label}`" for kernel, columns, own in pairs]
    return ", ".join(shares)


def row_sizes(shape: Shape, block: Block) -> Array | float:
    """Return the estimated bytes of each row before compression: `float64[n]`, or one number if all are equal.

    The estimate uses the types of keys and fields, and the real lengths of texts and binaries: a sample would miss the
    long ones.
    """
    sizes = 20.0 + _key_sizes(block)
    for kernel, columns, dictionary in zip(shape.kernels, block.partials, block.dictionaries, strict=True):
        sizes = sizes + kernel.sizes(columns, dictionary)
    return sizes


def row_bytes(shape: Shape, block: Block) -> float:
    """Return the mean of `row_sizes`."""
    sizes = row_sizes(shape, block)
    return sizes if isinstance(sizes, float) else float(sizes.mean()) if len(sizes) else 20.0


def memory(shape: Shape, block: Block) -> int:
    """Return the estimated bytes of a block in memory, as arrays or Python objects. Distinct keys count once."""
    size = 24.0 * len(block) + block.names.nbytes
    for kernel, columns, dictionary in zip(shape.kernels, block.partials, block.dictionaries, strict=True):
        size += kernel.memory(columns, dictionary)
    return int(size)


def _key_sizes(block: Block) -> Array | float:
    """Return the bytes of the key of each row, although rows of a page share their keys."""
    found: Array | float = 0.0
    for column in block.names.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths = np.asarray(pc.binary_length(column.combine_chunks()).fill_null(0), dtype=np.float64)
            found = found + 4.0 + lengths[block.keys]
        else:
            found = found + column.type.bit_width / 8
    return found
