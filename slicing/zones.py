"""Edges on a wall clock: days, weeks, months and hours as a time zone counts them.

A zone is a table: instants at which its offset from UTC changes, and the offsets. It is made once, from `zoneinfo`, and
shipped, so that every process has the same edges whatever its own time zone data say.

Two functions of the clock carry everything. `reached(t)` is the latest wall time that the clock has shown up to t,
and `first(w)` the first instant at which it shows w or later. Both ascend, where the clock itself does not::

    wall   03 |       /                  |      /      the clock jumps: times it leaves out
           02 |     ./  <- gap           |   /|/       are all first reached at the jump
           01 |  /                       |  / fold     the clock steps back: times it shows twice
              +-----------> instant      +-----------> are first reached before it

So an edge in a gap is the first instant after it, one in a fold the earlier instant, edges never step back, and
`count(t)`, the greatest i with `edge(i) <= t`, is the number of the last edge in wall time at or before `reached(t)`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from slicing.edges import AFTER, BEFORE, Array, Edges, elementwise, saturated, within
from slicing.errors import InvalidType, InvalidValue

SECOND = 10**6
DAY = 86_400 * SECOND
CYCLE = 146_097 * DAY
"""400 years: dates and days of the week repeat, and with them the rules of zones."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HORIZON = (datetime(2500, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""From here on the zone repeats the 400 years before: all of them follow the rule that its data end with."""

# Instants, wall times and distances from the first edge differ by five days at most: so far from the ends of int64 none
# of them wraps. Edges are numbered up to `_LIMIT`, instants are told apart beyond it.
_MARGIN = 8 * DAY
_LIMIT = AFTER - 16 * DAY
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_LENGTHS = {"microsecond": 1, "millisecond": 10**3, "second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND}
_LENGTHS |= {"day": DAY, "week": 7 * DAY}
_MONDAY = 4 * DAY
"""1970-01-05, from which weeks are counted."""


@dataclass(frozen=True)
class Zone:
    """The offsets of a time zone from UTC: `offsets[i]` between `transitions[i - 1]` and `transitions[i]`, in seconds.

    Before the first transition the first offset holds, local mean time as in `zoneinfo`. From year 2500 on, the 400
    years before repeat. Made by `Zone.of`. Raises InvalidValue when the table is not one.
    """

    name: str
    transitions: tuple[int, ...]
    offsets: tuple[int, ...]

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in zip(self.transitions, self.transitions[1:], strict=False))
        if len(self.offsets) != len(self.transitions) + 1 or not ascending or max(map(abs, self.offsets)) >= 86_400:
            raise InvalidValue(
                f"`Zone` {self.name!r}: transitions ascend, and one offset more, each below a day; "
                f"got {len(self.transitions)} transitions and {len(self.offsets)} offsets."
            )

    @staticmethod
    def of(name: str) -> Zone:
        """The zone of that name, by this machine's `zoneinfo`; some tenths of a second, once per process.

        Raises InvalidType when the name is not text, InvalidValue when there is no such zone.
        """
        if not isinstance(name, str):
            raise InvalidType(f'`zone` is the name of a time zone, as "Europe/Berlin"; got {name!r}.')
        return _probed(name)

    def __getstate__(self) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        return self.name, self.transitions, self.offsets

    def __setstate__(self, state: tuple[str, tuple[int, ...], tuple[int, ...]]) -> None:
        for field, value in zip(("name", "transitions", "offsets"), state, strict=True):
            object.__setattr__(self, field, value)

    def spec(self) -> list[Any]:
        """`["zone", name, transitions, offsets]`: all of it, some 15 KB; `digest` stands for it where that is long."""
        return ["zone", self.name, list(self.transitions), list(self.offsets)]

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits that tell tables apart."""
        table = json.dumps([list(self.transitions), list(self.offsets)], separators=(",", ":"))
        return hashlib.sha256(table.encode()).hexdigest()[:16]

    @elementwise
    def reached(self, instant: Array) -> Array:
        """The latest wall time shown up to an instant; for instants a week from the ends of int64."""
        return _repeated(self._reached, instant)

    @elementwise
    def first(self, wall: Array) -> Array:
        """The first instant that shows a wall time or a later one; for times a week from the ends of int64."""
        return _repeated(self._first, wall)

    def _reached(self, instant: Array) -> Array:
        part = self._by_start(instant)
        wall: Array = np.maximum(instant + self._shifts[part], self._reached_before[part])
        return wall

    def _first(self, wall: Array) -> Array:
        part = self._by_wall(wall - 1)
        instant: Array = np.maximum(wall - self._shifts[part], self._starts[part])
        return instant

    @cached_property
    def _shifts(self) -> Array:
        """The offset of each part, between two transitions, in microseconds."""
        return np.array(self.offsets, np.int64) * SECOND

    @cached_property
    def _starts(self) -> Array:
        """The first instant of each part."""
        return np.concatenate([[BEFORE], np.array(self.transitions, np.int64) * SECOND])

    @cached_property
    def _reached_before(self) -> Array:
        """The latest wall time shown before each part."""
        shown = np.concatenate([np.array([BEFORE]), self._starts[1:] - 1 + self._shifts[:-1]])
        reached: Array = np.maximum.accumulate(shown)
        return reached

    @cached_property
    def _by_start(self) -> _Parts:
        return _Parts(self._starts[1:])

    @cached_property
    def _by_wall(self) -> _Parts:
        return _Parts(self._reached_before[1:])


def _repeated(clock: Callable[[Array], Array], at: Array) -> Array:
    """A function of the clock, beyond the horizon by as many cycles of 400 years earlier as it takes."""
    if at.max() < HORIZON:
        return clock(at)
    cycles: Array = ((np.maximum(at, HORIZON - CYCLE) - HORIZON) // CYCLE + 1) * CYCLE
    return clock(at - cycles) + cycles


class _Parts:
    """How many of ascending `ends` are at or before each value.

    Most often the values are of one part, or a few. Where they are of many, each is looked up in a table of even cells,
    and goes on from there past the few ends in its cell, in less than half the time of a search for each.
    """

    def __init__(self, ends: Array) -> None:
        self.ends = ends
        if ends.size:
            self.shift = max(0, (int(ends[-1]) - int(ends[0])).bit_length() - 16)
            self.first = int(ends[0]) >> self.shift
            cells = np.arange(self.first, (int(ends[-1]) >> self.shift) + 2)
            self.before = np.searchsorted(ends, cells << self.shift)
            self.most = int(np.diff(self.before).max())
            self.following = np.concatenate([ends, np.array([AFTER])])

    def __call__(self, at: Array) -> Any:
        low, high = np.searchsorted(self.ends, [at.min(), at.max()], "right")
        if high - low < 8:
            return low if low == high else low + np.searchsorted(self.ends[low:high], at, "right")
        part = self.before[np.clip((at >> self.shift) - self.first, 0, self.before.size - 1)]
        for _ in range(self.most):
            part += self.following[part] <= at
        return part


@lru_cache(maxsize=64)
def _probed(name: str) -> Zone:
    """The table of a zone, from the offsets that `zoneinfo` gives.

    Changes are found between probes and then bisected. Those of one zone are at least 95 hours apart (Freetown 1939;
    Ramadan of 2040 in Gaza: a week), from 2100 on, where rules hold, some months. None was before 1830.
    """
    try:
        zone = ZoneInfo(name)
    except Exception as error:  # KeyError and ValueError, and OSError for the name of a directory
        raise InvalidValue(
            f'`zone`: there is no time zone {name!r} here. Write for example "Europe/Berlin"; where the system has no '
            "time zone data, install the package tzdata."
        ) from error

    def offset(second: int) -> timedelta:
        return datetime.fromtimestamp(second, zone).utcoffset() or timedelta(0)

    day, rules = 86_400, 47_482 * 86_400
    probes = [*range(-51_134 * day, rules, 2 * day), *range(rules, HORIZON // SECOND + 60 * day, 20 * day)]
    known = [offset(second) for second in probes]
    changes = [i for i in range(1, len(known)) if known[i] != known[i - 1]]
    transitions = [_change(offset, probes[i - 1], probes[i]) for i in changes]
    offsets = [known[0], *(known[i] for i in changes)]
    return Zone(name, tuple(transitions), tuple(shift // timedelta(seconds=1) for shift in offsets))


def _change(offset: Callable[[int], timedelta], low: int, high: int) -> int:
    """The first second in `(low, high]` with another offset than `low`."""
    old = offset(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle) == old else (low, middle)
    return high


@dataclass(frozen=True)
class Local:
    """Edges every `count` units of a zone's wall clock, counted from 1970-01-01 there, weeks from Monday 1970-01-05.

    `unit` is day, week, month, quarter or year, or a clock unit down to microsecond; clock units divide the day, so
    that its i-th edge is midnight + i x length by the clock. Equal are those that must be: 60 minutes are an hour, 12
    months a year, 24 hours a day; 7 days are no week, for they are counted from a Thursday. Raises InvalidValue.
    """

    unit: str
    each: int
    zone: Zone

    def __init__(self, unit: str, count: int, zone: Zone) -> None:
        if unit not in _MONTHS and unit not in _LENGTHS:
            raise InvalidValue(f"`unit` must be one of {', '.join([*_LENGTHS, *_MONTHS])}; got {unit!r}.")
        longest = 100_000 * 366 * DAY // (_LENGTHS.get(unit) or _MONTHS[unit] * 31 * DAY)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= longest:
            raise InvalidValue(
                f"`count` of units must be a positive integer, of 100,000 years at most; got {count!r} of {unit!r}."
            )
        unit, count = _plain(unit, count)
        for name, value in (("unit", unit), ("each", count), ("zone", zone)):
            object.__setattr__(self, name, value)

    @elementwise
    def edge(self, number: Array) -> Array:
        """Instant of an edge."""
        return saturated(number, *self._numbers, lambda known: self.zone.first(self._wall(known)))

    @elementwise
    def count(self, time: Array) -> Array:
        """Number of the last edge at or before an instant."""
        if within(time, -(1 << 62), 1 << 62):
            return self._number(self.zone.reached(time))
        low, high = self._numbers
        clipped = np.clip(time, BEFORE + _MARGIN, AFTER - _MARGIN)
        return np.clip(self._number(self.zone.reached(clipped)), low - 1, high)

    def _wall(self, number: Array) -> Array:
        """The wall time of an edge."""
        if self.unit != "month":
            return number * self._length + self._origin
        return _converted(number * self.each, "M", "D") * DAY

    def _number(self, wall: Array) -> Array:
        """The number of the last edge at or before a wall time."""
        if self.unit != "month":
            return (wall - self._origin) // self._length
        return _converted(wall // DAY, "D", "M") // self.each

    @cached_property
    def _numbers(self) -> tuple[int, int]:
        """First and last number whose edge an int64 holds."""
        low, high = self._number(np.array([-_LIMIT, _LIMIT]))
        return int(low) + 1, int(high)

    @property
    def least(self) -> int:
        """Microseconds of the shortest of these units, where no clock changes."""
        return 28 * self.each * DAY if self.unit == "month" else self._length

    @property
    def _length(self) -> int:
        return self.each * _LENGTHS[self.unit]

    @property
    def _origin(self) -> int:
        return _MONDAY if self.unit == "week" else 0

    def refines(self, other: Edges) -> bool:
        """Whether all edges of `other` are edges here, by the calendar: true whatever the zone's clock does."""
        if not isinstance(other, Local) or other.zone != self.zone:
            return False
        if other.unit == "month":
            unit = self.each if self.unit == "month" else 0
            return other.each % unit == 0 if unit else DAY % self._length == 0
        if self.unit == "month":
            return False
        return other._length % self._length == 0 and (other._origin - self._origin) % self._length == 0

    def spec(self) -> list[Any]:
        """`["local", unit, count, name of the zone, its digest]`."""
        return ["local", self.unit, self.each, self.zone.name, self.zone.digest]

    def __str__(self) -> str:
        return f"{show_units(self.unit, self.each)} in {self.zone.name}"


def _plain(unit: str, count: int) -> tuple[str, int]:
    """The one way in which equal edges are written: microsecond, day, week or month."""
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
    """Months since 1970 of days since 1970-01-01, or days of months."""

    def calendar(values: Array) -> Array:
        return values.astype(f"datetime64[{unit}]").astype(f"datetime64[{to}]").astype(np.int64)

    low, high = int(values.min()), int(values.max())
    if high - low >= values.size:
        return calendar(values)
    # As a rule there are far fewer dates than values: each is converted once.
    return calendar(np.arange(low, high + 1))[values - low]


def show_units(unit: str, count: int) -> str:
    """A number of units as messages show it: "1 month", "7 days"; clock time in its largest whole unit."""
    if unit == "microsecond":
        unit, length = next((u, n) for u, n in reversed(_LENGTHS.items()) if count % n == 0)
        count //= length
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
