"""Time zones as tables: the instants at which the offset of a zone from UTC changes, and the offsets.

A table is created once, from `zoneinfo`, and shipped, so every process has the same edges, whatever its own time zone
data are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from slicing.errors import InvalidType, InvalidValue
from slicing.windows.time.clocks import HORIZON, SECOND, Clock


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

    @cached_property
    def clock(self) -> Clock:
        """The wall clock of the zone."""
        return Clock(np.array(self.transitions, np.int64) * SECOND, np.array(self.offsets, np.int64) * SECOND)

    def ascending(self, unit: int) -> Clock:
        """Return `clock.ascending(unit)`, which is kept."""
        if unit not in self._ascending:
            self._ascending[unit] = self.clock.ascending(unit)
        return self._ascending[unit]

    @cached_property
    def _ascending(self) -> dict[int, Clock]:
        return {}


def zone_info(name: str) -> ZoneInfo:
    """Return the time zone of that name from this machine's `zoneinfo`. Raises InvalidValue if there is none."""
    try:
        return ZoneInfo(name)
    except Exception as error:  # KeyError and ValueError, and OSError for the name of a directory
        raise InvalidValue(
            f'`zone`: there is no time zone {name!r} here. Write for example "Europe/Berlin"; where the system has no '
            "time zone data, install the package tzdata."
        ) from error


@lru_cache(maxsize=64)
def _probed(name: str) -> Zone:
    """Return the table of a zone, from the offsets of `zoneinfo`.

    Changes are found between probes and then bisected. Two changes of a zone are at least 95 hours apart (Freetown
    1939; Ramadan of 2040 in Gaza: a week); from 2100 on, where rules apply, some months. There was none before 1830.
    """
    zone = zone_info(name)

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
