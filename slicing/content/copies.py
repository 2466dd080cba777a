"""Rows of copies: a record has a copy for each of its windows, and each row counts the records that it may speak for.

::

    record        in [0 10), [5 15) and [5 30)
    copies        [0 10)    [5 15)    [5 30)
    firsts        1         0         0           its first window to end: if this one is closed, the record is late
    lasts         0         0         1           its last one: if this one is closed, it is late for all

The copies are in different buckets. The sums over all buckets count each record once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.arrays import Array
from slicing.aggregates.kernels import kernel
from slicing.content.block import Block, Shape


def _none() -> tuple[int, int]:
    return 0, 0


def _itself(_: Any, is_first: Any, is_last: Any) -> Any:
    return is_first, is_last


COPIES = kernel(
    "copies",
    Aggregate(
        _none, _itself, fieldwise(np.add, np.add), columns=True, laws=False, partial="firsts bigint, lasts bigint"
    ),
)
"""The number of records whose first window, and whose last window, is that of the row."""


def with_copies(shape: Shape) -> Shape:
    """Return the shape of rows that count records in this way, after all other partials."""
    return replace(shape, kernels=(*shape.kernels, COPIES))


def copies_of(blocks: Sequence[Block]) -> tuple[Array, Array]:
    """Return both numbers of all rows of the blocks: `int64[n]` each."""
    none = np.zeros(0, dtype=np.int64)
    firsts, lasts = (np.concatenate([none, *(block.partials[-1][field] for block in blocks)]) for field in (0, 1))
    return firsts, lasts


def without_copies(block: Block) -> Block:
    """Return the block without these numbers."""
    return replace(block, partials=block.partials[:-1], dictionaries=block.dictionaries[:-1])
