"""What triggers remember of pairs of key and window: rows in which the newest one of a pair counts.

The number of the window, or the start of a session, is in the place of the slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field
from slicing.aggregates.kernel import Kernel
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


class _Remembering(Aggregate):
    """The aggregate of a kernel of memory, which is no result of a query."""


MEMORY = kernel("memory", _Remembering(_nothing, _itself, _newer, columns=True, laws=False))
"""The fields of `slicing.triggers.candidates.Memory`, in their order."""


def kernel_of(fields: Sequence[Field], nothing: Sequence[Any]) -> Kernel:
    """The kernel of fields that a trigger remembers, and their values where nothing is."""
    init = tuple(nothing) if len(nothing) > 1 else nothing[0]
    partial = ", ".join(map(str, fields))
    return kernel("state", _Remembering(lambda: init, _newer, _newer, partial=partial, columns=True, laws=False))


@dataclass(frozen=True)
class Remembered:
    """What is remembered of pairs: the fields of a kernel, with the values `nothing` of pairs that are new.

    `which` names the list of pages. `made` makes what a trigger sees of the arrays of all fields, which its `fields`
    are. `merged` gives the fields of sessions that have become one, from those of their parts and from where the parts
    of each session start.
    """

    which: str
    kernel: Kernel
    nothing: tuple[Any, ...]
    made: Callable[..., Any]
    merged: Callable[[Sequence[Array], Array], Sequence[Array]]

    def of_none(self, count: int) -> list[Array]:
        """The fields of pairs that are new."""
        types = [field.dtype for field in self.kernel.spread(0)]
        return [np.full(count, value, dtype) for value, dtype in zip(self.nothing, types, strict=True)]

    def telling(self, rows: Block) -> Block:
        """The rows that say something."""
        tells = np.zeros(len(rows), dtype=bool)
        for field, value in zip(rows.partials[0], self.nothing, strict=True):
            tells |= differs(field, value)
        return rows.take(np.flatnonzero(tells))


def differs(fields: Array, others: Any) -> Array:
    """Where values are others: `bool[n]`. NaN is NaN."""
    different: Array = (fields != others) & ((fields == fields) | (others == others))
    return different


def with_memory(shape: Shape, memory: Kernel = MEMORY) -> Shape:
    """The shape of rows of memory, of the same keys."""
    return shape.select(()).with_marks(memory)


def memory_rows(places: Array, keys: Array, names: pa.Table, fields: list[Array]) -> Block:
    """Rows of memory, sorted as blocks are."""
    rows = np.argsort(places, kind="stable")
    ones = np.ones(len(rows), dtype=np.int64)
    return Block(places[rows], keys[rows], names, ones, [[field[rows] for field in fields]], [None])


def newest(block: Block) -> Block:
    """The newest row of each pair, rows being in the order in which they were appended; sorted by window."""
    rows, starts = order(block.index, block.keys)
    return block.take(rows[np.append(starts[1:], len(rows)) - 1] if len(rows) else rows)
