"""Late rows: what came after some of its windows, or all of them, were closed.

All records of a slice belong to the same windows, so whatever is judged here is judged by its slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.triggers.required_delay import NO_ENDS, FirstEnds
from slicing.windows.families.family import Family

Rows = TypeVar("Rows")

COUNTS, PARTIALS, RECORDS = LATE_OUTPUTS = ("counts", "partials", "records")
"""What becomes of late records: they are counted; their partials, or they themselves too, are rows of the output."""


@dataclass(frozen=True)
class Missed:
    """What slices met, one by one."""

    windows: Array  # how many of its windows were closed
    taken: Array  # its first window that was open
    by_all: Array  # whether none was


@dataclass(frozen=True)
class Refused(Generic[Rows]):
    """What windows of one family refused of a micro-batch."""

    rows: Rows  # records that were late for all of its windows or for some, or their partials
    first_accepting: int  # its first window that accepted records
    watermark: int  # the watermark that had closed the others, in microseconds

    def missed_by(self, family: Family, rows: Any) -> Missed:
        """What each of some rows, or records, met that were refused."""
        return self.missed(family, rows.index)

    def missed(self, family: Family, slices: Array) -> Missed:
        """What slices met that came late for one window at least."""
        first, last = family.first_window(slices), family.last_window(slices)
        taken = np.maximum(first, self.first_accepting)
        return Missed(np.minimum(taken, last + 1) - first, taken, taken > last)


@dataclass(frozen=True)
class Late(Generic[Rows]):
    """What a bucket refused of a micro-batch; a record counts once, and is refused by each family on its own."""

    all: int  # records late for all of their windows
    some: int  # records late for some windows, counted in the others
    refused: tuple[Refused[Rows], ...]  # by family
    first_ends: FirstEnds = NO_ENDS  # of all new records, also of those that are not late


def is_late(family: Family, slices: Array, first_accepting: int) -> Array:
    """Which slices come late for one window at least, `first_accepting` being the first that accepts records."""
    late: Array = family.first_window(slices) < first_accepting
    return late & ~np.asarray(family.in_gap(slices)) if family.has_gaps else late
