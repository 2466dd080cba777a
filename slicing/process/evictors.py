"""Evictors: they leave records of a window out before its function is called."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Context as Digits
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.aggregates.conversions import as_number
from slicing.aggregates.fields import FLOATS, INTEGERS, decimal_of
from slicing.column_names import in_code, unquoted
from slicing.errors import InvalidType, InvalidValue, check_takes, excerpt
from slicing.process.context import Context, Span
from slicing.windows.time.durations import microseconds, show

Part: TypeAlias = tuple[pa.Table, Array]
"""Some of the records, and their times in microseconds."""


@dataclass(frozen=True)
class Parts:
    """Records in their order. Each call of `read` iterates over all of them, one part of bounded size at a time."""

    read: Callable[[], Iterator[Part]]

    def __iter__(self) -> Iterator[Part]:
        return (part for part in self.read() if len(part[0]))

    def left(self, kept: Callable[[pa.Table, Array, int], slice | Array]) -> Parts:
        """Return the records that `kept` selects from each part, as a range or as booleans.

        `kept` gets the records, their times, and the position of the first of them in the window.
        """

        def read() -> Iterator[Part]:
            place = 0
            for records, times in self:
                chosen = kept(records, times, place)
                place += len(records)
                yield chosen_of(records, chosen), times[chosen]

        return Parts(read)


def chosen_of(records: pa.Table, kept: slice | Array) -> pa.Table:
    """Return the records of a range, without a copy, or those whose boolean is true."""
    if isinstance(kept, slice):
        return records.slice(kept.start, max(0, kept.stop - kept.start))
    return records.filter(pa.array(kept))


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


_EXACT = Digits(prec=80)
_FURTHER = 10**80
"""More than the distance of any two values of a column, in units of its last digit."""


# Numbers near the last one of a column. Whole numbers and decimals are compared exactly, without overflow:
#
#   tinyint, threshold 60.5    100   -41   -128   -100         the last value is -100
#   near                        no   yes    yes    yes         from -128, as -160 is no tinyint, up to -40


def is_number(kind: str) -> bool:
    """Return whether values of a kind can be compared here."""
    return kind in INTEGERS or kind in FLOATS or decimal_of(kind) is not None


def near(values: pa.ChunkedArray, last: pa.Scalar, threshold: float) -> Array:
    """Return which values differ by less than a threshold from the last one: `bool[n]`. Null and NaN are near none."""
    if not last.is_valid:
        return np.zeros(len(values), dtype=bool)
    if pa.types.is_floating(values.type):
        found = pc.less(pc.abs(pc.subtract(values, last)), _as_float(threshold))
    else:
        low, high = _bounds(last, threshold)
        found = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return np.asarray(found.fill_null(False).combine_chunks())


def _as_float(threshold: float) -> float:
    return float(threshold) if threshold <= sys.float_info.max else math.inf


def _bounds(last: pa.Scalar, threshold: float) -> tuple[pa.Scalar, pa.Scalar]:
    """Return the least and the greatest value of the type that are near the last value."""
    scale, least, most = _range(last.type)
    place, steps = int(_EXACT.scaleb(Decimal(last.as_py()), scale)), _steps(threshold, scale)
    low, high = max(least, place - steps), min(most, place + steps)
    return _scalar(low, scale, last.type), _scalar(high, scale, last.type)


def _range(type_: Any) -> tuple[int, int, int]:
    """Return the digits after the point, and the least and the greatest value, in units of the last digit."""
    if pa.types.is_decimal(type_):
        most = 10**type_.precision - 1
        return type_.scale, -most, most
    half = 1 << (type_.bit_width - 1)
    return 0, -half, half - 1


def _steps(threshold: float, scale: int) -> int:
    """Return the greatest distance below a threshold, in units of the last digit.

    A float stands for the decimal number as which it is written: a distance of 0.10 is not below 0.1.
    """
    if threshold == math.inf:
        return _FURTHER
    exact = Fraction(threshold) if threshold == int(threshold) else Fraction(repr(float(threshold)))
    above: int = math.ceil(exact * 10**scale)
    return above - 1


def _scalar(number: int, scale: int, type_: Any) -> pa.Scalar:
    return pa.scalar(_EXACT.scaleb(Decimal(number), -scale) if pa.types.is_decimal(type_) else number, type_)
