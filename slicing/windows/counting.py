"""Count windows: after every `advance` records of a key, its last `size` records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.time.cut import Cut
from slicing.windows.time.durations import Duration, show
from slicing.windows.time.edges import Array, Edges, Every, elementwise
from slicing.windows.unbounded import ttl_of
from slicing.windows.window import Window

MOST_RECORDS = 1 << 31
"""Longer windows are refused: n in costs and stripes, far beyond what the state of a key can hold."""


@dataclass(frozen=True)
class CountingFamily(ByEdges):
    """Windows of a key as ranges of its slices, of `unit` records each: the greatest that divides size and advance.

    ::

        size 6, advance 4, unit 2
        records    1 2 | 3 4 | 5 6 | 7 8 | 9 ..
        slices       0     1     2     3     4
        window 0   [=========)                     the first ones are shorter
        window 1         [===============)

    Slices and windows are numbered for each key from its first record on, and bounded by numbers of records, the first
    of which is 1.
    """

    starts: Edges = field(default_factory=lambda: Every(1))
    ends: Edges = field(default_factory=lambda: Every(1, 1))
    size_in_records: int = 1
    advance: int = 1
    unit: int = 1

    has_gaps = False
    may_repeat = False

    def __post_init__(self) -> None:
        """Nothing to try: these edges are in order."""

    @classmethod
    def of(cls, size: int, advance: int, unit: int | None = None) -> CountingFamily:
        """Return windows of `size` records, over slices of the greatest common divisor, or of `unit` records."""
        unit = unit or math.gcd(size, advance)
        long, step = size // unit, advance // unit
        return cls(Every(step, step - long), Every(step, step), size, advance, unit)

    @property
    def by_record(self) -> CountingFamily:
        """The same windows over slices of one record each."""
        return CountingFamily.of(self.size_in_records, self.advance, 1)

    @cached_property
    def cut(self) -> Cut:
        """Return a slice for each number of a record."""
        return Cut([Every(1)])

    @property
    def longest(self) -> int:
        """Slices of each window, but for the first ones of a key."""
        return self.size_in_records // self.unit

    @property
    def ratio(self) -> float:
        """Windows that a record is in."""
        return self.size_in_records / self.advance

    @elementwise
    def slice_at(self, time: Array) -> Array:
        """The first slice for every instant: which one a record is in is known where those of its key are counted."""
        return np.zeros_like(time)

    @elementwise
    def slice_start(self, index: Array) -> Array:
        """First record of a slice."""
        return index * self.unit + 1

    @elementwise
    def window_start(self, window: Array) -> Array:
        """First record of a window."""
        return self.slice_start(np.maximum(self.first_slice(window), 0))

    @elementwise
    def window_end(self, window: Array) -> Array:
        """The record after the last one of a window."""
        return self.slice_start(self.end_slice(window))

    @staticmethod
    def show(number: int) -> str:
        """A record, as bounds of slices and windows are shown."""
        return f"record {number:,}"

    def spec(self) -> list[Any]:
        """`["counting", size, advance]`."""
        return ["counting", self.size_in_records, self.advance]


@dataclass(frozen=True)
class Counting(Window):
    """What `counting` returns; `ttl` is in microseconds. Prints as the call that makes it."""

    size: int
    advance: int
    order_by: str | None = None
    ttl: int | None = None

    by_time = False
    alone = "as records of a key decide where it ends"
    columns = ("window", "first_record", "last_record")
    counts = True

    @cached_property
    def family(self) -> CountingFamily:
        """The windows of a key as ranges of its records."""
        return CountingFamily.of(self.size, self.advance)

    def slice_of(self, instant: int | datetime) -> tuple[int, int]:
        """Refused, as `windows_of`. Raises InvalidValue."""
        raise self._undecided()

    def windows_of(self, instant: int | datetime) -> list[tuple[int, int]]:
        """Refused: which windows hold an instant is decided by the records. Raises InvalidValue."""
        raise self._undecided()

    def between(self, low: int, high: int, most: int = 1000) -> list[tuple[int, int]]:
        """None, as records decide."""
        return []

    def _undecided(self) -> InvalidValue:
        return InvalidValue(
            f"windows of an instant are those that time decides; of {self} records decide. Ask its rows."
        )

    def __repr__(self) -> str:
        given = [str(self.size)] + ([f"advance={self.advance}"] if self.advance != self.size else [])
        given += [f"order_by={self.order_by!r}"] if self.order_by is not None else []
        given += [f"ttl={show(self.ttl)!r}"] if self.ttl is not None else []
        return f"counting({', '.join(given)})"


def counting(
    size: int, advance: int | None = None, *, order_by: str | None = None, ttl: Duration | None = None
) -> Counting:
    """Return count windows: the last `size` records of a key, after every `advance` of its records (default: `size`).

    A window ends at each multiple m of `advance` of the key's records and holds its records `max(1, m - size + 1)` to
    m, in the order of arrival: by micro-batch, by input partition, and by position there. It fires in the micro-batch
    of its last record. Records short of a multiple do not fire. Rows have `first_record` and `last_record`, numbers of
    records of the key from 1 on; and `window`, from the first event time in it up to the last one, the end exclusive by
    a microsecond, or null where no time is given: `.window(counting(100))`.

    No watermark is needed, and nothing is late. Bounded input has no order of its own: `order_by` names the column that
    gives it, nulls first; equal ones stay as they are read. Keys stay in the state until `ttl`, by the clock, since
    their last record, for ever without it; a key that comes again begins anew.

    Cost: a record is shuffled as it is, and stored in one partial with the others of its slice, which are
    gcd(size, advance) records; a window is assembled from size / gcd(size, advance) of these in at most 2 sqrt of so
    many combines, in none where partials are added. The state of a key is these partials, or, for an aggregate without
    `combine`, its last `size` records. Raises InvalidValue and InvalidType.

    >>> from slicing.stages.local_runner import bounded
    >>> [(row.start, row.records) for row in bounded(counting(2), [1, 4, 5, 9, 12]).rows]
    [(1, 2), (5, 2)]
    >>> print(counting(100, advance=10))
    counting(100, advance=10)
    """
    length, step = _records("size", size), _records("advance", size if advance is None else advance)
    if step > length:
        raise InvalidValue(
            f"`advance` must not be more than `size`, or records between the windows are in none; got size={size}, "
            f"advance={advance}. If they were swapped, write {Counting(step, length)}."
        )
    if not isinstance(order_by, (str, type(None))):
        raise InvalidType(
            f'`order_by` is the name of a column; got {excerpt(order_by)}. Write for example order_by="seq"; what has '
            "no name, or is made of several, gets one first, by `withColumn`."
        )
    return Counting(length, step, order_by, ttl_of(ttl))


def _records(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidType(
            f"`{name}` is a number of records; got {excerpt(value)}. Write for example `counting(100)`; windows of so "
            "much time are `hopping`."
        )
    if not 0 < value < MOST_RECORDS:
        raise InvalidValue(f"`{name}` must be positive and below {MOST_RECORDS:,} records; got {value}.")
    return value
