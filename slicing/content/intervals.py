"""Intervals: rows that end somewhere. A row's slice is its start, and its last partial its end.

The end is a partial like any other: it travels and is stored with the rest, and where rows become one theirs is the
greatest.
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
    """Return a block whose rows have the ends `ends` in addition to their partials."""

    ends: Array

    def take(self, rows: Array | slice) -> Ending:
        """Some of the rows."""
        return replace(super().take(rows), ends=self.ends[rows])  # type: ignore[call-arg, return-value]


@dataclass(frozen=True)
class EndingRecords(Records):
    """Records whose intervals end where `ends` says."""

    ends: Array

    def take(self, rows: Array) -> EndingRecords:
        """Some of the records."""
        some = super().take(rows)
        return EndingRecords(some.index, some.times, some.names, some.values, self.ends[rows])


def with_ends(shape: Shape) -> Shape:
    """The shape of rows that end somewhere."""
    return shape.with_marks(END)


def put_ends(block: Block, ends: Array) -> Block:
    """A block with ends as its last partials."""
    return replace(block, partials=[*block.partials, [ends]], dictionaries=[*block.dictionaries, None])


def ends_of(block: Block) -> Array:
    """Return the ends of the rows of a block that has ends."""
    return block.partials[-1][0]


def ending(block: Block, beyond: int = 0) -> Ending:
    """Return the same rows with ends that are later by a duration."""
    fields = (block.index, block.keys, block.names, block.records, block.partials[:-1], block.dictionaries[:-1])
    return Ending(*fields, ends=ends_of(block) + beyond)


def extents(block: Block) -> Block:
    """Only where the rows of a block begin and end, and how many records they have."""
    return replace(block, partials=block.partials[-1:], dictionaries=block.dictionaries[-1:])


def last_key(block: Block) -> Array:
    """The values of the last field of the key, row by row: a number that is there for each."""
    return np.asarray(block.names.columns[-1].combine_chunks())[block.keys]


def without_last_key(block: Block, encode: Callable[[pa.Table], tuple[Array, pa.Table]]) -> Block:
    """The block by the other fields of its keys."""
    codes, names = encode(block.names.select(range(block.names.num_columns - 1)))
    return replace(block, keys=codes[block.keys], names=names)
