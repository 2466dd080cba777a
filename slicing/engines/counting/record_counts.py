"""The record counts of keys in count windows, and the rows that carry them.

In addition to its partials a row has `COUNT_ORIGIN`: the slice at which the counting of its key began, and the clock of
its last record. The counting of a key that was forgotten and occurs again begins at the slice after its old ones. So
old and new rows can be in the same ledger and are distinguished.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.arrays import Array
from slicing.aggregates.kernels import kernel
from slicing.content.block import Block, Shape
from slicing.windows.counting import CountingFamily


def _zeros() -> tuple[int, int]:
    return 0, 0


def _themselves(_: Any, origins: Any, clock: Any) -> Any:
    return origins, clock


COUNT_ORIGIN = kernel(
    "begun", Aggregate(_zeros, _themselves, fieldwise(np.maximum, np.maximum), columns=True, laws=False)
)
"""The slice at which the counting of a row's key began, and the clock of its last record in milliseconds."""


def with_origin(shape: Shape) -> Shape:
    """Return the shape of rows with `COUNT_ORIGIN`."""
    return shape.with_marks(COUNT_ORIGIN)


def put_origin(block: Block, origins: Array, clock: int) -> Block:
    """Add `COUNT_ORIGIN` to a block: `origins[i]` for row i, and the same clock, in milliseconds, for all rows."""
    own = [origins, np.full(len(block), clock)]
    return replace(block, partials=[*block.partials, own], dictionaries=[*block.dictionaries, None])


def without_origin(block: Block) -> Block:
    """Remove `COUNT_ORIGIN` from a block, and number the slices of each key from 0, where its counting began."""
    local = block.index - block.partials[-1][0]
    return replace(block, index=local, partials=block.partials[:-1], dictionaries=block.dictionaries[:-1])


@dataclass(frozen=True)
class RecordCounts:
    """The record counts of keys, by code: the slice at which counting began, and the number of records since."""

    origins: Array
    counts: Array

    @classmethod
    def of(cls, rows: Block, unit: int, since: int) -> RecordCounts:
        """Return the counts of rows sorted by key and slice, in slices of `unit` records; 0 for keys without rows.

        The count of a key whose last record came before the clock `since` is 0: counting begins after its old slices.
        """
        origins, counts = (np.zeros(len(rows.names), dtype=np.int64) for _ in range(2))
        last = last_rows(rows)
        keys, (origin, clocks) = rows.keys[last], (column[last] for column in rows.partials[-1])
        idle = clocks < since
        origins[keys] = np.where(idle, rows.index[last] + 1, origin)
        counts[keys] = np.where(idle, 0, (rows.index[last] - origin) * unit + rows.records[last])
        return cls(origins, counts)

    def add(self, codes: Array) -> RecordCounts:
        """Return the counts with one more record for each code."""
        return RecordCounts(self.origins, self.counts + np.bincount(codes, minlength=len(self.counts)))

    def live(self, rows: Block, family: CountingFamily) -> Block:
        """Return the rows, sorted by key and slice, that future windows hold, and the newest row of each key."""
        local = rows.index - self.origins[rows.keys]
        needed = np.maximum(family.first_slice(self.counts // family.advance), 0)[rows.keys]
        kept = local >= needed
        last = last_rows(rows)
        kept[last] = local[last] >= 0
        return rows if kept.all() else rows.take(np.flatnonzero(kept))


def last_rows(rows: Block) -> Array:
    """Return the position of the last row of each key, of rows sorted by key."""
    return np.flatnonzero(np.append(rows.keys[1:] != rows.keys[:-1], len(rows) > 0))
