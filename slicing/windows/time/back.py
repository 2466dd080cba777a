"""Calendar units back from an instant, by a wall clock: the same time of the day, a month before.

::

    instant              31 March 10:00           30 March 10:00
    a month before       28 February 10:00        28 February 10:00       the last day of a month without that day

The time of the day stays, so what is before ascends within a day and not always from day to day: 28 March 23:00 leads
to 28 February 23:00, and 29 March 01:00 to 28 February 01:00. It depends on the instant alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slicing.errors import InvalidValue, excerpt
from slicing.windows.time.clocks import DAY
from slicing.windows.time.durations import DAYS, MONTHS, Duration, calendar_units
from slicing.windows.time.edges import AFTER, BEFORE, Array, elementwise
from slicing.windows.time.local import Local, converted, show_units
from slicing.windows.time.zones import Zone

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MOST_DAYS = 10_000 * 366
_MARGIN = 8 * DAY


@dataclass(frozen=True)
class Back:
    """A number of months, weeks or days by the wall clock of a zone. Made by `back_of`.

    A wall time that the clock skips stands for the first instant after the gap, one that it shows twice for the earlier
    instant.
    """

    unit: str
    count: int
    zone: Zone

    @classmethod
    def of(cls, edges: Local) -> Back:
        """Return the distance of edges."""
        return cls(edges.unit, edges.each, edges.zone)

    @elementwise
    def before(self, time: Array) -> Array:
        """Return the instant so many units before each instant."""
        wall = self.zone.clock.shown(np.clip(time, BEFORE + self.longest + _MARGIN, AFTER - _MARGIN))
        day = wall // DAY
        earlier = _months_before(day, self.count) if self.unit == "month" else day - self._most_days
        found: Array = self.zone.clock.first(wall + (earlier - day) * DAY)
        return found

    @property
    def longest(self) -> int:
        """How far before an instant the one before it may be, in microseconds: an upper bound."""
        return (self._most_days + 2) * DAY

    @property
    def _most_days(self) -> int:
        return self.count * {"day": 1, "week": 7, "month": 31}[self.unit]

    def spec(self) -> list[Any]:
        """Return the spec of edges at such distances, which has the digest of the zone."""
        return Local(self.unit, self.count, self.zone).spec()

    def __str__(self) -> str:
        return show_units(self.unit, self.count)


def back_of(duration: Duration, name: str, zone: Zone | str) -> Back | None:
    """Return a duration of days or longer by the wall clock of a zone; None for clock time, which elapses.

    Raises InvalidType and InvalidValue as `calendar_units`, and InvalidValue for more than 10,000 years.
    """
    clock, (unit, count) = zone if isinstance(zone, Zone) else Zone.of(zone), calendar_units(duration, name)
    if unit not in (*DAYS, *MONTHS):
        return None
    if unit in MONTHS:
        unit, count = "month", count * _MONTHS[unit]
    found = Back(unit, count, clock)
    if found.longest > _MOST_DAYS * DAY:
        raise InvalidValue(f"`{name}` in a zone must be shorter than 10,000 years; got {excerpt(duration)}.")
    return found


def _months_before(day: Array, months: int) -> Array:
    """Return the same day of an earlier month, or its last day; days are counted from 1970-01-01."""
    month = converted(day, "D", "M")
    first, following = converted(month - months, "M", "D"), converted(month - months + 1, "M", "D")
    earlier: Array = np.minimum(first + day - converted(month, "M", "D"), following - 1)
    return earlier
