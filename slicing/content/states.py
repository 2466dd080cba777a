"""Rows of the states of functions: the newest row of a key, or of a (key, window) pair, is the current state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.fields import Field
from slicing.aggregates.records import RecordKernel, kept_records
from slicing.content.block import Block, Shape, order


class StatesKernel(RecordKernel):
    """The kernel of states: of rows with equal place and key, the newest one replaces the older ones."""

    def joined(self, partials: Partials, dictionary: pa.Array | None, starts: Array) -> tuple[Partials, pa.Array]:
        """Return the last row of each run."""
        assert dictionary is not None
        last = partials[0][np.append(starts[1:], len(partials[0])) - 1] if len(starts) else partials[0][:0]
        return [last, last + 1], dictionary


def with_states(shape: Shape, kinds: Sequence[str]) -> Shape:
    """Return the shape of rows of states with the same keys, and with values of these types."""
    fields = [Field(f"v{at}", kind) for at, kind in enumerate(kinds)]
    return shape.select(()).with_marks(StatesKernel("states", kept_records(fields, None)))


def state_rows(shape: Shape, places: Array, keys: Array, names: pa.Table, columns: Sequence[pa.Array]) -> Block:
    """Return rows of states as a block, sorted by place and key. `columns` has a column for each value."""
    partials, dictionary = shape.kernels[0].singles(columns) or ([], None)
    rows, _ = order(places, keys)
    ones = np.ones(len(places), dtype=np.int64)
    return Block(places, keys, names, ones, [partials], [dictionary]).take(rows)
