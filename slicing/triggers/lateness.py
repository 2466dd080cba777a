"""Late records: records that arrive after some or all of their windows are closed.

All records of a slice belong to the same windows, so lateness is computed per slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.triggers.required_delay import NO_ENDS, FirstEnds
from slicing.windows.families.family import Family, emitted_between

Rows = TypeVar("Rows")

COUNTS, PARTIALS, RECORDS = LATE_OUTPUTS = ("counts", "partials", "records")
"""The output for late records: only their number, also their partials as rows, or also the records as rows."""

LATE = "late"
"""The column that tags late rows; it is null in results."""
TIMES = ("window", "window_end")
"""The column with the time of a result: the window, or the end of aligned windows."""


@dataclass(frozen=True)
class ClosedWindows:
    """The closed windows of each slice: an item for each slice."""

    windows: Array  # the number of its windows that were closed, without those that are never emitted
    taken: Array  # its first window that was open
    by_all: Array  # whether all of its windows were closed


@dataclass(frozen=True)
class RefusedRows(Generic[Rows]):
    """The records of a micro-batch that closed windows of one family refused."""

    rows: Rows  # the records that were late for some or all of their windows, or their partials
    first_accepting: int  # the first window that accepted records
    watermark: int  # the watermark that had closed the earlier windows, in microseconds

    def missed_by(self, family: Family, rows: Any) -> ClosedWindows:
        """Return the closed windows of each refused row or record."""
        return self.missed(family, rows.index)

    def missed(self, family: Family, slices: Array) -> ClosedWindows:
        """Return the closed windows of each slice. Every slice must be late for at least one window."""
        first, last = family.first_window(slices), family.last_window(slices)
        taken = np.maximum(first, self.first_accepting)
        closed = emitted_between(family, first, np.minimum(taken, last + 1))
        return ClosedWindows(closed, taken, taken > last)


@dataclass(frozen=True)
class Late(Generic[Rows]):
    """The records of a micro-batch that a bucket refused.

    `all` and `some` count a record once; `refused` lists it for each family that refused it.
    """

    all: int  # the number of records late for all of their windows
    some: int  # the number of records late for some of their windows, and counted in the others
    refused: tuple[RefusedRows[Rows], ...]  # by family
    first_ends: FirstEnds = NO_ENDS  # of all new records, late or not
    copies: int = 0  # refused copies of records, if a record has a copy in each of its windows

    @property
    def any(self) -> bool:
        """Whether anything was refused. Copies may be there without their record, which another bucket counts."""
        return bool(self.all or self.some or self.copies)


def is_late(family: Family, slices: Array, first_accepting: int) -> Array:
    """Return which slices are late for at least one window: `bool[n]`.

    `first_accepting` is the first window that accepts records.
    """
    late: Array = family.first_window(slices) < first_accepting
    return late & ~np.asarray(family.in_gap(slices)) if family.has_gaps else late
