"""Evictors: they leave records of a window out before its function is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.aggregates.conversions import as_number
from slicing.column_names import in_code, unquoted
from slicing.errors import InvalidType, InvalidValue, check_takes, excerpt
from slicing.process.context import Context, Span
from slicing.process.nearness import is_number, near
from slicing.process.parts import Parts
from slicing.windows.time.durations import microseconds, show


class Evictor(Protocol):
    """The argument of `.evict(...)`; a function is wrapped into one."""

    @property
    def needs_time(self) -> bool:
        """Whether it reads the time of records."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the records that it reads; they must be numbers."""

    @property
    def needs_whole(self) -> bool:
        """Whether it needs all records of a window at once."""

    def kept(self, records: pa.Table, times: Array, window: Span | None, context: Context) -> slice | Array:
        """Return the records that are left, as a range or as `bool[n]`; `times` has their times in microseconds."""

    def left(self, parts: Parts) -> Parts:
        """Return the records that are left, part by part. Reads all parts once here, and again as the result is read.

        Not called if it `needs_whole`.
        """


@dataclass(frozen=True)
class KeepLast:
    """The evictor of `keep_last`: keeps the last `count` records."""

    count: int
    needs_time = needs_whole = False
    columns = ()

    def __repr__(self) -> str:
        return f"keep_last({self.count})"

    def kept(self, records: pa.Table, times: Array, window: Span | None, context: Context) -> slice | Array:
        """Return the last records."""
        return slice(max(0, len(records) - self.count), len(records))

    def left(self, parts: Parts) -> Parts:
        """Return the last records, after counting all of them."""
        first = sum(len(records) for records, _ in parts) - self.count

        def last(records: pa.Table, times: Array, place: int) -> slice:
            return slice(min(len(records), max(0, first - place)), len(records))

        return parts.left(last)


@dataclass(frozen=True)
class KeepNewest:
    """The evictor of `keep_newest`; the duration is in microseconds."""

    duration: int
    needs_time, needs_whole = True, False
    columns = ()

    def __repr__(self) -> str:
        return f"keep_newest({show(self.duration)!r})"

    def kept(self, records: pa.Table, times: Array, window: Span | None, context: Context) -> slice | Array:
        """Return the records less than the duration before the newest one."""
        after: Array = times > times.max(initial=-(1 << 62)) - self.duration
        return after

    def left(self, parts: Parts) -> Parts:
        """Return the same records as `kept`, after finding the newest time."""
        newest = max((int(times.max()) for _, times in parts), default=0)
        return parts.left(lambda records, times, place: times > newest - self.duration)


@dataclass(frozen=True)
class WithinDelta:
    """The evictor of `within_delta`: keeps the records whose number is near that of the last record."""

    column: str
    threshold: float
    needs_time = needs_whole = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the column that is compared."""
        return (self.column,)

    def __repr__(self) -> str:
        return f"within_delta({self.column!r}, {self.threshold!r})"

    def kept(self, records: pa.Table, times: Array, window: Span | None, context: Context) -> slice | Array:
        """Return the records near the last one; no value is near a null."""
        return near(records[self.column], records[self.column][-1], self.threshold) if len(records) else slice(0, 0)

    def left(self, parts: Parts) -> Parts:
        """Return the same records as `kept`, after finding the last value."""
        last = None
        for records, _ in parts:
            last = records[self.column][-1]
        return parts.left(lambda records, times, place: near(records[self.column], last, self.threshold))


@dataclass(frozen=True)
class ByFunction:
    """A function of a user: `function(records, window, context)` returns a boolean for each record, true to keep it."""

    function: Callable[[pa.Table, Span | None, Context], Any]
    needs_time, needs_whole = False, True
    columns = ()

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))

    def kept(self, records: pa.Table, times: Array, window: Span | None, context: Context) -> slice | Array:
        """Return the booleans of the function. Raises InvalidValue for an array of another length or type."""
        mask = self.function(records, window, context)
        found = np.asarray(pc.fill_null(mask, False) if isinstance(mask, (pa.Array, pa.ChunkedArray)) else mask)
        if found.dtype != np.bool_ or found.shape != (len(records),):
            raise InvalidValue(
                f"a function of `.evict` must return {len(records)} booleans, one for each record; got {excerpt(mask)}."
            )
        return found

    def left(self, parts: Parts) -> Parts:
        """Never called: such a query is refused when it is built."""
        raise AssertionError("a function is given whole windows")


def keep_last(count: int) -> KeepLast:
    """Keep the last `count` records of a window, by time or, in count windows and `unbounded()`, by arrival.

    Flink's `CountEvictor`. Raises InvalidValue if it is not positive.

    >>> keep_last(3)
    keep_last(3)
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InvalidValue(
            f"`keep_last` takes a positive whole number of records; got {excerpt(count)}. "
            "Write for example keep_last(3)."
        )
    return KeepLast(count)


def keep_newest(duration: str | timedelta) -> KeepNewest:
    """Keep the records of a window less than a duration before its newest one, by event time.

    A record at exactly that distance is evicted, as by Flink's `TimeEvictor`. Raises InvalidType, InvalidValue.

    >>> keep_newest("10 minutes")
    keep_newest('10 minutes')
    """
    found = microseconds(duration, "duration")
    if found <= 0:
        raise InvalidValue(
            f"`keep_newest` takes a positive duration; got {excerpt(duration)}. "
            'Write for example keep_newest("10 minutes").'
        )
    return KeepNewest(found)


def within_delta(column: str, threshold: float) -> WithinDelta:
    """Keep the records of a window whose number differs by less than a threshold from that of the last record.

    Flink's `DeltaEvictor`. Records with a null or NaN are evicted; if the last record has one, all are. Whole numbers
    and decimals are compared exactly. The column must be among those of `process`. Raises InvalidType, InvalidValue.

    >>> within_delta("speed", 5.0)
    within_delta('speed', 5.0)
    """
    if not isinstance(column, str):
        raise InvalidType(
            f"`within_delta` takes the name of a column; got {excerpt(column)}. "
            'Compute an expression before, with `withColumn("x", ...)`, and name it.'
        )
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not threshold > 0:
        raise InvalidValue(
            f"`within_delta` takes a positive threshold; got {excerpt(threshold)}. "
            f"Write for example within_delta({column!r}, 0.5)."
        )
    return WithinDelta(unquoted(column), threshold)


def check_kinds(evictors: Iterable[Evictor], kinds: Mapping[str, str]) -> None:
    """Raise InvalidType if a column that an evictor compares holds no numbers. `kinds` are those of the columns."""
    for each in evictors:
        for column in each.columns:
            if not is_number(kinds[column]):
                raise InvalidType(
                    f"`{each}` compares numbers; `{column}` is {kinds[column]}. "
                    f"{as_number(kinds[column], in_code(column))}"
                )


def evictor(given: Any) -> Evictor:
    """Return the argument of `.evict(...)` as an evictor. Raises InvalidType if it is neither one nor a function."""
    if isinstance(given, (KeepLast, KeepNewest, WithinDelta)):
        return given
    if not callable(given) or isinstance(given, type):
        raise InvalidType(
            "`evict` takes keep_last(n), keep_newest(duration), within_delta(column, threshold), or a function "
            f"`(records, window, context) -> mask`; got {excerpt(given)}."
        )
    check_takes(given, "a function of `evict`", "records", "window", "context")
    return ByFunction(given)
