"""Edges on a wall clock: days, weeks, months and hours as the clock of a zone shows them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slicing.errors import InvalidValue
from slicing.windows.time.clocks import DAY, SECOND, Clock
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

    Units that divide an hour have an edge at each instant at which the clock shows a multiple, so both instants of a
    repeated hour are edges. With `repeats=False` only the earlier one is, as for longer units: state of version 0.2 has
    such edges. Raises InvalidValue.
    """

    unit: str
    each: int
    zone: Zone
    repeats: bool

    def __init__(self, unit: str, count: int, zone: Zone, repeats: bool = True) -> None:
        if unit not in _MONTHS and unit not in _LENGTHS:
            raise InvalidValue(f"`unit` must be one of {', '.join([*_LENGTHS, *_MONTHS])}; got {unit!r}.")
        longest = 100_000 * 366 * DAY // (_LENGTHS.get(unit) or _MONTHS[unit] * 31 * DAY)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= longest:
            raise InvalidValue(
                f"`count` of units must be a positive integer, of 100,000 years at most; got {count!r} of {unit!r}."
            )
        unit, count = _plain(unit, count)
        repeats = repeats and unit == "microsecond" and _LENGTHS["hour"] % count == 0
        for name, value in (("unit", unit), ("each", count), ("zone", zone), ("repeats", repeats)):
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
        return self._number(self._clock.reached(np.clip(time, BEFORE + _MARGIN, AFTER - _MARGIN)))

    def _wall(self, number: Array) -> Array:
        """Return the wall time of an edge."""
        if self.unit != "month":
            return number * self._length + self._origin
        return _converted(number * self.each, "M", "D") * DAY

    def _number(self, wall: Array) -> Array:
        """Return the number of the last edge at or before a wall time."""
        if self.unit != "month":
            return (wall - self._origin) // self._length
        return _converted(wall // DAY, "D", "M") // self.each

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
        return _MONDAY if self.unit == "week" else 0

    def refines(self, other: Edges) -> bool:
        """Return whether all edges of `other` are edges of this sequence, by the calendar, whatever the clock does."""
        if not isinstance(other, Local) or other.zone != self.zone:
            return False
        if other.unit == "month":
            unit = self.each if self.unit == "month" else 0
            return other.each % unit == 0 if unit else DAY % self._length == 0
        if self.unit == "month" or (other.repeats and not self.repeats):
            return False
        return other._length % self._length == 0 and (other._origin - self._origin) % self._length == 0

    def spec(self) -> list[Any]:
        """`["local hours", unit, count, name of the zone, its digest]` with `repeats`, otherwise `["local", ...]`."""
        return [CLOCK if self.repeats else LOCAL, self.unit, self.each, self.zone.name, self.zone.digest]

    def __str__(self) -> str:
        return f"{show_units(self.unit, self.each)} in {self.zone.name}"


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


def _converted(values: Array, unit: str, to: str) -> Array:
    """Return months since 1970 for days since 1970-01-01, or the reverse."""

    def calendar(values: Array) -> Array:
        return values.astype(f"datetime64[{unit}]").astype(f"datetime64[{to}]").astype(np.int64)

    low, high = int(values.min()), int(values.max())
    if high - low >= values.size:
        return calendar(values)
    # There are usually far fewer dates than values: each date is converted once.
    return calendar(np.arange(low, high + 1))[values - low]


def show_units(unit: str, count: int) -> str:
    """Return the text of a number of units in messages: "1 month", "7 days"; clock time in its largest whole unit."""
    if unit == "microsecond":
        unit, length = next((u, n) for u, n in reversed(_LENGTHS.items()) if count % n == 0)
        count //= length
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
