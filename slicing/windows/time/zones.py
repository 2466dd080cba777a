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

from slicing.errors import InvalidType, InvalidValue
from slicing.windows.time.edges import AFTER, BEFORE, Array, elementwise

SECOND = 10**6
DAY = 86_400 * SECOND
CYCLE = 146_097 * DAY
"""400 years: dates and days of the week repeat, and with them the rules of zones."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HORIZON = (datetime(2500, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""From here on the zone repeats the 400 years before: all of them follow the rule that its data end with."""


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
        """16 hexadecimal digits that distinguish tables."""
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
