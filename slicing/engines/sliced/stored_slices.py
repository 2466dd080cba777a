"""Lookups of the slices themselves: what a bucket stores of each key, and where the records of a stored slice end.

::

    slices     |    0    |    3    | 6 | 7 | 8 |       0 and 3 are merged of three slices each
    ends                 3         6   7   8   9

    slices     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |       of windows that were removed live
    query      |       0       |       4       |       a new record of slice 5 is stored in slice 4
    ends                       4               8
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.partitions import key_partitions
from slicing.content.block import Block, Shape
from slicing.content.folding import with_index
from slicing.engines.looking import StoredSlices
from slicing.state.format.coverage import Coverage
from slicing.windows.time.cut import Cut
from slicing.windows.time.slices import Index


@dataclass(frozen=True)
class SliceEdges:
    """The slice edges at which stored rows are separate: edges of the query's slices, and not inside a merged slice.

    `query` is the cut of the query if the slices of the checkpoint have more edges, otherwise None.
    """

    coverage: Coverage
    query: Cut | None

    def before(self, index: Array) -> Array:
        """Return for each slice the last edge at or before its start: `int64[n]`."""
        if self.query is not None:
            start = self.query.slice_start(self.query.slice_at(self.coverage.family.slice_start(index)))
            index = np.asarray(self.coverage.family.slice_at(start))
        return self.coverage.holder(index)

    def after(self, index: Array) -> Array:
        """Return for each slice the first edge at or after its start: `int64[n]`."""
        # Slices are merged up to any edge, also up to one that the query does not have.
        return self.of_query(self.coverage.next_separate(index))

    def of_query(self, index: Index) -> Index:
        """Return for each slice the first edge of the query at or after its start."""
        if self.query is None:
            return index
        holding = self.query.slice_at(self.coverage.family.slice_start(index) - 1)
        return self.coverage.family.slice_at(self.query.slice_start(holding + 1))


def stored_slices(shape: Shape, stored: Iterable[Block], edges: SliceEdges, known: int) -> Iterator[StoredSlices]:
    """Yield the slices of stored rows, older rows of a slice first, some keys at a time.

    Rows between the same two edges become one slice. `known` is where the first slice starts, in microseconds.
    """
    for partition in key_partitions(shape, [stored]):
        (rows,) = partition.blocks
        rows = with_index(shape, rows, edges.before(rows.index))
        ends = shape.family.slice_start(edges.after(rows.index + 1))
        yield StoredSlices(shape.family, rows, np.asarray(ends), known)
