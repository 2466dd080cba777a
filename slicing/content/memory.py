"""The memory of triggers for (key, window) pairs, as rows of blocks: the newest row of a pair counts.

The slice index of a row is the number of the window, or the start of a session.
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
from slicing.aggregates.sorting import argsorted, order
from slicing.content.block import Block, Shape

NEVER = -1
"""The value of a clock that stands for "no record"."""


def _newer(_: Any, newer: Any) -> Any:
    return newer


class _Remembering(Aggregate):
    """The aggregate of the memory's kernel. It is not a result of a query."""


def kernel_of(fields: Sequence[Field], nothing: Sequence[Any]) -> Kernel:
    """Return the kernel of the fields of a memory; `nothing` has their values for new pairs."""
    init = tuple(nothing) if len(nothing) > 1 else nothing[0]
    partial = ", ".join(map(str, fields))
    return kernel("state", _Remembering(lambda: init, _newer, _newer, partial=partial, columns=True, laws=False))


FIELDS = tuple(Field(name, "bigint") for name in ("fired", "counted", "since"))
"""The fields of `slicing.triggers.candidates.Memory`, in their order."""
MEMORY = kernel_of(FIELDS, (0, 0, NEVER))
"""The kernel with these fields."""


@dataclass(frozen=True)
class Remembered:
    """A kind of memory of pairs: the fields of a kernel, with the values `nothing` for new pairs.

    `which` names the list of pages. `made` turns the arrays of all fields into the object that a trigger gets; the
    object has the arrays as `fields`. `merged(parts, starts)` returns the fields of merged sessions from the fields of
    their parts; the parts of session i begin at `starts[i]`.
    """

    which: str
    kernel: Kernel
    nothing: tuple[Any, ...]
    made: Callable[..., Any]
    merged: Callable[[Sequence[Array], Array], Sequence[Array]]

    def of_none(self, count: int) -> list[Array]:
        """Return the fields of new pairs."""
        types = [field.dtype for field in self.kernel.spread(0)]
        return [np.full(count, value, dtype) for value, dtype in zip(self.nothing, types, strict=True)]

    def telling(self, rows: Block) -> Block:
        """Return the rows that differ from the memory of a new pair."""
        tells = np.zeros(len(rows), dtype=bool)
        for field, value in zip(rows.partials[0], self.nothing, strict=True):
            tells |= differs(field, value)
        return rows.take(np.flatnonzero(tells))


def differs(fields: Array, others: Any) -> Array:
    """Return where values differ: `bool[n]`. NaN equals NaN."""
    different: Array = (fields != others) & ((fields == fields) | (others == others))
    return different


def with_memory(shape: Shape, memory: Kernel = MEMORY) -> Shape:
    """Return the shape of rows of a memory with the same keys."""
    return shape.select(()).with_marks(memory)


def memory_rows(places: Array, keys: Array, names: pa.Table, fields: list[Array]) -> Block:
    """Return rows of a memory as a block, sorted by place. A place is the number of a window, or a session start."""
    rows = argsorted(places)
    ones = np.ones(len(rows), dtype=np.int64)
    return Block(places[rows], keys[rows], names, ones, [[field[rows] for field in fields]], [None])


def newest(block: Block) -> Block:
    """Return the last row of each pair, sorted by window. The rows must be in the order in which they were appended."""
    rows, starts = order(block.index, block.keys)
    return block.take(rows[np.append(starts[1:], len(rows)) - 1] if len(rows) else rows)
