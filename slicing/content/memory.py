"""What a trigger remembers of pairs of key and window: rows in which the newest one of a pair counts.

The number of the window, or the start of a session, is in the place of the slice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.arrays import Array
from slicing.aggregates.kernels import kernel
from slicing.content.block import Block, Shape, order

NEVER = -1
"""The clock of no record."""


def _nothing() -> tuple[int, int, int]:
    return 0, 0, NEVER


def _itself(_: Any, value: Any) -> Any:
    return value, value, value


def _newer(_: Any, newer: Any) -> Any:
    return newer


MEMORY = kernel("memory", Aggregate(_nothing, _itself, _newer, columns=True, laws=False))
"""The fields of `slicing.triggers.candidates.Memory`, in their order."""


def with_memory(shape: Shape) -> Shape:
    """The shape of rows of memory, of the same keys."""
    return shape.select(()).with_marks(MEMORY)


def memory_rows(places: Array, keys: Array, names: pa.Table, fields: list[Array]) -> Block:
    """Rows of memory, sorted as blocks are."""
    rows = np.argsort(places, kind="stable")
    ones = np.ones(len(rows), dtype=np.int64)
    return Block(places[rows], keys[rows], names, ones, [[field[rows] for field in fields]], [None])


def newest(block: Block) -> Block:
    """The newest row of each pair, rows being in the order in which they were appended; sorted by window."""
    rows, starts = order(block.index, block.keys)
    return block.take(rows[np.append(starts[1:], len(rows)) - 1] if len(rows) else rows)
