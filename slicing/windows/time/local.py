"""Edges on a wall clock: days, weeks, months and hours as the clock of a zone shows them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slicing.errors import InvalidValue
from slicing.windows.time.clocks import DAY, SECOND, Clock
from slicing.windows.time.durations import show
from slicing.windows.time.edges import AFTER, BEFORE, Array, Edges, elementwise, saturated, within
from slicing.windows.time.zones import Zone

# Instants, wall times and distances from the first edge differ by at most five days. None of them overflows if instants
# are at least `_MARGIN` away from the limits of int64. There are no edges beyond it.
_MARGIN = 8 * DAY
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_LENGTHS = {"microsecond": 1, "millisecond": 10**3, "second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND}
_LENGTHS |= {"day": DAY, "week": 7 * DAY}
_MONDAY = 4 * DAY
"""1970-01-05, from which weeks are counted."""
LOCAL, CLOCK = "local", "local hours"
"""The kinds of a spec: only the earlier instant of a fold is an edge, or both are."""


@dataclass(frozen=True)
class Local:
    """Edges every `count` units of a zone's wall clock, counted from 1970-01-01 there, weeks from Monday 1970-01-05.

    `unit` is day, week, month, quarter or year, or a clock unit down to microsecond. Clock units must divide the day:
    the i-th edge of a day is midnight + i x length by the clock. Equivalent units are equal: 60 minutes are an hour, 12
    months a year, 24 hours a day. But 7 days are not a week, because they are counted from a Thursday.

    `offset` shifts all edges on the clock, by microseconds; for months and longer `months` does, by months: days from
    06:00, weeks from Sunday, quarters from February.

    Units that divide an hour, which have no `offset`, have an edge at each instant at which the clock shows a multiple,
    so both instants of a repeated hour are edges. With `repeats=False` only the earlier one is, as for longer units:
    state of version 0.2 has such edges. Raises InvalidValue.
    """

    unit: str
    each: int
    zone: Zone
    repeats: bool
    offset: int
    months: int

    def __init__(
        self, unit: str, count: int, zone: Zone, repeats: bool = True, offset: int = 0, months: int = 0
    ) -> None:
        if unit not in _MONTHS and unit not in _LENGTHS:
            raise InvalidValue(f"`unit` must be one of {', '.join([*_LENGTHS, *_MONTHS])}; got {unit!r}.")
        longest = 100_000 * 366 * DAY // (_LENGTHS.get(unit) or _MONTHS[unit] * 31 * DAY)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= longest:
            raise InvalidValue(
                f"`count` of units must be a positive integer, of 100,000 years at most; got {count!r} of {unit!r}."
            )
        unit, count = _plain(unit, count)
        if unit != "month":
            offset %= count * _LENGTHS[unit]
        repeats = repeats and unit == "microsecond" and _LENGTHS["hour"] % count == 0
        if repeats and offset:
            raise InvalidValue(
                f"Clock units that divide an hour begin with the hour in a zone; got {show_units(unit, count)} from "
                f"{show(offset)} on. Use longer units, or `by_edges`."
            )
        values = {"unit": unit, "each": count, "zone": zone, "repeats": repeats, "offset": offset}
        for name, value in (values | {"months": months % count if unit == "month" else 0}).items():
            object.__setattr__(self, name, value)

    @property
    def _clock(self) -> Clock:
        return self.zone.ascending(self.each) if self.repeats else self.zone.clock

    @elementwise
    def edge(self, number: Array) -> Array:
        """Instant of an edge."""
        return saturated(number, *self._numbers, lambda known: self._clock.first(self._wall(known)))

    @elementwise
    def count(self, time: Array) -> Array:
        """Number of the last edge at or before an instant."""
        if within(time, -(1 << 62), 1 << 62):
            return self._number(self._clock.reached(time))
        margin = _MARGIN + abs(self.offset)
        return self._number(self._clock.reached(np.clip(time, BEFORE + margin, AFTER - margin)))

    def _wall(self, number: Array) -> Array:
        """Return the wall time of an edge."""
        if self.unit != "month":
            return number * self._length + self._origin
        return converted(number * self.each + self.months, "M", "D") * DAY + self.offset

    def _number(self, wall: Array) -> Array:
        """Return the number of the last edge at or before a wall time."""
        if self.unit != "month":
            return (wall - self._origin) // self._length
        return (converted((wall - self.offset) // DAY, "D", "M") - self.months) // self.each

    @cached_property
    def _numbers(self) -> tuple[int, int]:
        """The numbers of the first and of the last edge."""
        return self.count(BEFORE) + 1, self.count(AFTER)

    @property
    def least(self) -> int:
        """The length of the shortest unit in microseconds, without clock changes."""
        return 28 * self.each * DAY if self.unit == "month" else self._length

    @property
    def _length(self) -> int:
        return self.each * _LENGTHS[self.unit]

    @property
    def _origin(self) -> int:
        return (_MONDAY if self.unit == "week" else 0) + self.offset

    def refines(self, other: Edges) -> bool:
        """Return whether all edges of `other` are edges of this sequence, by the calendar, whatever the clock does."""
        if not isinstance(other, Local) or other.zone != self.zone:
            return False
        if other.unit == "month":
            if self.unit != "month":
                return DAY % self._length == 0 and (other.offset - self._origin) % self._length == 0
            aligned = other.each % self.each == 0 and (other.months - self.months) % self.each == 0
            return aligned and other.offset == self.offset
        if self.unit == "month" or (other.repeats and not self.repeats):
            return False
        return other._length % self._length == 0 and (other._origin - self._origin) % self._length == 0

    def spec(self) -> list[Any]:
        """`["local hours", unit, count, name of the zone, its digest]` with `repeats`, otherwise `["local", ...]`.

        Edges that are shifted have two numbers more, `offset` and `months`.
        """
        shift = [self.offset, self.months] if self.offset or self.months else []
        return [CLOCK if self.repeats else LOCAL, self.unit, self.each, self.zone.name, self.zone.digest, *shift]

    def __str__(self) -> str:
        shift = show_shift(self.offset, self.months)
        return f"{show_units(self.unit, self.each)} in {self.zone.name}{shift and f' from {shift} on'}"


def _plain(unit: str, count: int) -> tuple[str, int]:
    """Return the normal form of a unit, in which equal edges are equal: microsecond, day, week or month."""
    if unit in _MONTHS:
        return "month", count * _MONTHS[unit]
    if unit in ("day", "week"):
        return unit, count
    length = count * _LENGTHS[unit]
    if DAY % length:
        raise InvalidValue(
            "Clock units in a zone start again at each midnight and must divide the day; "
            f'got {show_units(unit, count)}. Use whole days, or for example "6 hours".'
        )
    return ("day", 1) if length == DAY else ("microsecond", length)


def converted(values: Array, unit: str, to: str) -> Array:
    """Return months ("M") since 1970 for days ("D") since 1970-01-01, or the reverse."""

    def calendar(values: Array) -> Array:
        return values.astype(f"datetime64[{unit}]").astype(f"datetime64[{to}]").astype(np.int64)

    low, high = int(values.min()), int(values.max())
    if high - low >= values.size:
        return calendar(values)
    # There are usually far fewer dates than values: each date is converted once.
    return calendar(np.arange(low, high + 1))[values - low]


def show_shift(offset: int = 0, months: int = 0) -> str:
    """Return the text of an offset on a wall clock, "" for none: "1 month", "6 hours", "1 month 6 hours"."""
    return " ".join([show_units("month", months)] * bool(months) + [show(offset)] * bool(offset))


def show_units(unit: str, count: int) -> str:
    """Return the text of a number of units in messages: "1 month", "7 days"; clock time in its largest whole unit."""
    if unit == "microsecond":
        unit, length = next((u, n) for u, n in reversed(_LENGTHS.items()) if count % n == 0)
        count //= length
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
