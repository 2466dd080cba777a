"""Rows of keys whose records are counted: partials of slices with a fixed number of records, or the records.

Beside its partials a row has `BEGUN`: the slice from which its key has been counted, and the clock of its last record.
A key that is forgotten and comes again is counted from the slice on that follows its old ones: so rows of both may lie
in one ledger, and are told apart.
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
from slicing.windows.time.slices import FOREVER


def _zeros() -> tuple[int, int]:
    return 0, 0


def _themselves(_: Any, begins: Any, clock: Any) -> Any:
    return begins, clock


BEGUN = kernel("begun", Aggregate(_zeros, _themselves, fieldwise(np.maximum, np.maximum), columns=True, laws=False))
"""The slice from which the key of a row is counted, and the clock of its last record in milliseconds."""


def with_begun(shape: Shape) -> Shape:
    """The shape of rows that say since when their keys are counted."""
    return shape.with_marks(BEGUN)


def put_begun(block: Block, begins: Array, clock: int) -> Block:
    """A block with the slices from which its rows are counted, and the clock of all."""
    own = [begins, np.full(len(block), clock)]
    return replace(block, partials=[*block.partials, own], dictionaries=[*block.dictionaries, None])


def without_begun(block: Block) -> Block:
    """The block by the slices of its keys, the first of each since it is counted being 0, without `BEGUN`."""
    local = block.index - block.partials[-1][0]
    return replace(block, index=local, partials=block.partials[:-1], dictionaries=block.dictionaries[:-1])


@dataclass(frozen=True)
class Tally:
    """The counts of keys, by their codes: the first counted slice and the number of records so far."""

    begins: Array
    counts: Array

    @classmethod
    def of(cls, rows: Block, unit: int, now: int, ttl: int | None) -> Tally:
        """Return the counts of rows by key and slice, in slices of `unit` records; keys without rows have none.

        Nor have those that are idle, for more than `ttl` milliseconds: they begin behind what they had.
        """
        begins, counts = (np.zeros(len(rows.names), dtype=np.int64) for _ in range(2))
        last = last_rows(rows)
        keys, (begun, clocks) = rows.keys[last], (column[last] for column in rows.partials[-1])
        idle = clocks < (-FOREVER if ttl is None else now - ttl)
        begins[keys] = np.where(idle, rows.index[last] + 1, begun)
        counts[keys] = np.where(idle, 0, (rows.index[last] - begun) * unit + rows.records[last])
        return cls(begins, counts)

    def add(self, codes: Array) -> Tally:
        """Return the counts with one more record for each code."""
        return Tally(self.begins, self.counts + np.bincount(codes, minlength=len(self.counts)))

    def live(self, rows: Block, family: CountingFamily) -> Block:
        """Return the rows, by key and slice, of future windows, and the newest row of each key."""
        local = rows.index - self.begins[rows.keys]
        needed = np.maximum(family.first_slice(self.counts // family.advance), 0)[rows.keys]
        kept = local >= needed
        last = last_rows(rows)
        kept[last] = local[last] >= 0
        return rows if kept.all() else rows.take(np.flatnonzero(kept))


def last_rows(rows: Block) -> Array:
    """The last row of each key, of rows by key."""
    return np.flatnonzero(np.append(rows.keys[1:] != rows.keys[:-1], len(rows) > 0))


def heads(keys: Array, slices: Array) -> Array:
    """Return the rows at which another slice or another key starts."""
    return np.flatnonzero((np.diff(keys, prepend=-1) != 0) | (np.diff(slices, prepend=-1) != 0))
