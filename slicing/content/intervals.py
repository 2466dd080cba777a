"""Rows that are intervals: the slice of a row is its start, and its last partial is its end.

The end is shuffled and stored like any other partial. When rows are combined, the latest end counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.arrays import Array
from slicing.aggregates.kernels import kernel
from slicing.content.block import Block, Shape
from slicing.content.records import Records
from slicing.windows.time.slices import FOREVER


def _never() -> int:
    return -FOREVER


def _itself(_: Any, end: Any) -> Any:
    return end


END = kernel("end", Aggregate(_never, _itself, fieldwise(np.maximum), columns=True, laws=False))
"""The end of a row, in microseconds."""


@dataclass(frozen=True)
class Ending(Block):
    """A block whose rows have the ends `ends` (microseconds, `int64[n]`) in addition to their partials."""

    ends: Array

    def take(self, rows: Array | slice) -> Ending:
        """Return some of the rows."""
        return replace(super().take(rows), ends=self.ends[rows])  # type: ignore[call-arg, return-value]


@dataclass(frozen=True)
class EndingRecords(Records):
    """Records that are intervals with the ends `ends`: microseconds, `int64[n]`."""

    ends: Array

    def take(self, rows: Array) -> EndingRecords:
        """Return some of the records."""
        some = super().take(rows)
        return EndingRecords(some.index, some.times, some.names, some.values, self.ends[rows])


def with_ends(shape: Shape) -> Shape:
    """Return the shape with an end for each row."""
    return shape.with_marks(END)


def put_ends(block: Block, ends: Array) -> Block:
    """Return the block with ends as its last partials."""
    return replace(block, partials=[*block.partials, [ends]], dictionaries=[*block.dictionaries, None])


def ends_of(block: Block) -> Array:
    """Return the ends of the rows of a block that has ends."""
    return block.partials[-1][0]


def ending(block: Block, beyond: int = 0) -> Ending:
    """Return the block with its ends in `ends` instead of the last partials, later by `beyond` microseconds."""
    fields = (block.index, block.keys, block.names, block.records, block.partials[:-1], block.dictionaries[:-1])
    return Ending(*fields, ends=ends_of(block) + beyond)


def extents(block: Block) -> Block:
    """Return the block with no partials but the ends: only starts, ends and record counts."""
    return replace(block, partials=block.partials[-1:], dictionaries=block.dictionaries[-1:])


def last_key(block: Block) -> Array:
    """Return the last field of the key of each row. It must be a number without nulls."""
    return np.asarray(block.names.columns[-1].combine_chunks())[block.keys]


def without_last_key(block: Block, encode: Callable[[pa.Table], tuple[Array, pa.Table]]) -> Block:
    """Return the block with the last field of its keys removed."""
    codes, names = encode(block.names.select(range(block.names.num_columns - 1)))
    return replace(block, keys=codes[block.keys], names=names)
