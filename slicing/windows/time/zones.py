"""Edges on a wall clock: days, weeks, months and hours as a time zone counts them.

A zone is a table: the instants at which its offset from UTC changes, and the offsets. The table is created once, from
`zoneinfo`, and shipped, so every process has the same edges, whatever its own time zone data are.

All computations use two functions of the clock. `reached(t)` is the latest wall time that the clock has shown up to t.
`first(w)` is the first instant at which it shows w or later. Both ascend, although the clock itself does not::

    wall   03 |       /                  |      /      the clock jumps: times it skips
           02 |     ./  <- gap           |   /|/       are all first reached at the jump
           01 |  /                       |  / fold     the clock steps back: times it shows twice
              +-----------> instant      +-----------> are first reached before it

An edge in a gap is therefore the first instant after the gap, and an edge in a fold is the earlier instant. Edges never
step back. `count(t)`, the greatest i with `edge(i) <= t`, is the number of the last edge in wall time at or before
`reached(t)`.
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
"""400 years: after them, dates and days of the week repeat, and so do the rules of zones."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HORIZON = (datetime(2500, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""From here on, a zone repeats the previous 400 years, because the last rule of its data applies to all of them."""


@dataclass(frozen=True)
class Zone:
    """The offsets of a time zone from UTC: `offsets[i]` between `transitions[i - 1]` and `transitions[i]`, in seconds.

    Before the first transition the first offset applies, local mean time as in `zoneinfo`. From year 2500 on, the
    previous 400 years repeat. Made by `Zone.of`. Raises InvalidValue if the table is invalid.
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
        """Return the zone of that name from this machine's `zoneinfo`; takes some tenths of a second once per process.

        Raises InvalidType if the name is not text, InvalidValue if there is no such zone.
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
        """`["zone", name, transitions, offsets]`: the whole table, some 15 KB; `digest` is its short form."""
        return ["zone", self.name, list(self.transitions), list(self.offsets)]

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits that identify the table."""
        table = json.dumps([list(self.transitions), list(self.offsets)], separators=(",", ":"))
        return hashlib.sha256(table.encode()).hexdigest()[:16]

    @elementwise
    def reached(self, instant: Array) -> Array:
        """Return the latest wall time shown up to an instant, which must be a week from the limits of int64."""
        return _repeated(self._reached, instant)

    @elementwise
    def first(self, wall: Array) -> Array:
        """Return the first instant that shows a wall time or a later one; a week from the limits of int64."""
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
        """The offset of each part between two transitions, in microseconds."""
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
    """Apply a function of the clock; times after the horizon are first moved back by whole cycles of 400 years."""
    if at.max() < HORIZON:
        return clock(at)
    cycles: Array = ((np.maximum(at, HORIZON - CYCLE) - HORIZON) // CYCLE + 1) * CYCLE
    return clock(at - cycles) + cycles


class _Parts:
    """Count, for each value, the `ends` at or before it; `ends` ascend.

    Usually all values are in one part, or in a few. Otherwise each value is looked up in a table of even cells, and
    then moved past the few ends in its cell. This takes less than half the time of a binary search per value.
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
    """Return the table of a zone, from the offsets of `zoneinfo`.

    Changes are found between probes and then bisected. Two changes of a zone are at least 95 hours apart (Freetown
    1939; Ramadan of 2040 in Gaza: a week); from 2100 on, where rules apply, some months. There was none before 1830.
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
    """Return the first second in `(low, high]` with another offset than `low`."""
    old = offset(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle) == old else (low, middle)
    return high
