"""Count windows: after every `advance` records of a key, its last `size` records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.time.cut import Cut
from slicing.windows.time.durations import Duration, show
from slicing.windows.time.edges import AFTER, BEFORE, Array, Edges, Every, elementwise
from slicing.windows.unbounded import ttl_of
from slicing.windows.window import Window

MOST_RECORDS = 1 << 31
"""Longer windows are refused: their n would be far beyond what the state of a key can hold."""


@dataclass(frozen=True)
class CountingFamily(ByEdges):
    """Windows of a key as ranges of its slices. A slice has `unit` records, the gcd of size and advance by default.

    ::

        size 6, advance 4, unit 2
        records    1 2 | 3 4 | 5 6 | 7 8 | 9 ..
        slices       0     1     2     3     4
        window 0   [=========)                     the first windows are shorter
        window 1         [===============)

    Slices and windows are numbered per key, from its first record on. Their bounds are record numbers instead of
    instants; the first record is number 1.
    """

    starts: Edges = field(default_factory=lambda: Every(1))
    ends: Edges = field(default_factory=lambda: Every(1, 1))
    size_in_records: int = 1
    advance: int = 1
    unit: int = 1

    has_gaps = False
    may_repeat = False
    limits = BEFORE, AFTER

    def __post_init__(self) -> None:
        """No checks: these edges are in order."""

    @classmethod
    def of(cls, size: int, advance: int, unit: int | None = None) -> CountingFamily:
        """Return windows of `size` records, over slices of `unit` records (default: gcd of `size` and `advance`)."""
        unit = unit or math.gcd(size, advance)
        long, step = size // unit, advance // unit
        return cls(Every(step, step - long), Every(step, step), size, advance, unit)

    def in_time(self, index: Array, times: Array) -> NDArray[np.bool_]:
        """Return whether there is an instant after each record: a window ends a microsecond after its last record."""
        return times < AFTER

    @property
    def by_record(self) -> CountingFamily:
        """The same windows over slices of one record each."""
        return CountingFamily.of(self.size_in_records, self.advance, 1)

    @cached_property
    def cut(self) -> Cut:
        """Return a cut with one slice per record number."""
        return Cut([Every(1)])

    @property
    def longest(self) -> int:
        """The number of slices of each window, except the first ones of a key."""
        return self.size_in_records // self.unit

    @property
    def ratio(self) -> float:
        """The number of windows that contain a record."""
        return self.size_in_records / self.advance

    @elementwise
    def slice_at(self, time: Array) -> Array:
        """Return slice 0 for every instant; the real slice is known only when the records of a key are counted."""
        return np.zeros_like(time)

    @elementwise
    def slice_start(self, index: Array) -> Array:
        """Return the number of the first record of a slice."""
        return index * self.unit + 1

    @elementwise
    def window_start(self, window: Array) -> Array:
        """Return the number of the first record of a window."""
        return self.slice_start(np.maximum(self.first_slice(window), 0))

    @elementwise
    def window_end(self, window: Array) -> Array:
        """Return the number of the record after the last one of a window."""
        return self.slice_start(self.end_slice(window))

    @staticmethod
    def show(number: int) -> str:
        """Return the text of a record number in messages."""
        return f"record {number:,}"

    def spec(self) -> list[Any]:
        """`["counting", size, advance]`."""
        return ["counting", self.size_in_records, self.advance]


@dataclass(frozen=True)
class Counting(Window):
    """The result of `counting`; `ttl` is in microseconds. Its repr is the call that makes it."""

    size: int
    advance: int
    order_by: str | None = None
    ttl: int | None = None

    by_time = False
    decided_by = "records decide. Ask its rows."
    alone = "as records of a key decide where it ends"
    columns = ("window", "first_record", "last_record")
    counts = True

    @cached_property
    def family(self) -> CountingFamily:
        """The windows of a key as ranges of its records."""
        return CountingFamily.of(self.size, self.advance)

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
    of its last record. Records after the last multiple do not fire, except at the end of bounded input with
    `early(..., final=True)`: their window then ends with the last record of the key. Rows have `first_record` and
    `last_record`, record numbers of the key from 1 on. They also have `window`, from the first event time in it to one
    microsecond after the last; it is null if no time is given: `.window(counting(100))`.

    No watermark is needed, and no record is late. Bounded input has no order of its own: `order_by` names the column
    that defines the order, nulls first; equal values stay in the order of reading. A key stays in the state until `ttl`
    has passed since its last record, by the clock; without `ttl` it stays forever. After that the key starts again at
    record 1.

    Cost: a record is shuffled once, and stored in one partial together with the other records of its slice, which has
    gcd(size, advance) records. A window of n = size / gcd(size, advance) slices costs at most 2 sqrt(n) combines; none
    if partials are added. The state of a key is these partials, at most 2 n rows, or, for an aggregate without
    `combine`, its last `size` records, which each window folds. It is written again when more than half of it is
    obsolete; a process caches up to 128 MiB of its buckets. The metric `open_windows` counts keys, `slices` rows.
    Without a time, aggregates that use event time are refused; a record whose time is null is counted as `no_time`.
    Raises InvalidValue and InvalidType.

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
