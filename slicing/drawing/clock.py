"""Axis labels for instants: as short as possible without ambiguity, at positions that fit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_000_000_000_000_000, 253_000_000_000_000_000
"""The range of instants that datetime supports in every zone, in microseconds."""
SECOND = 10**6
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
STEPS = (
    *(unit * each for unit in (1, 10**3) for each in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(unit * each for unit in (SECOND, MINUTE) for each in (1, 2, 5, 10, 15, 30)),
    *(HOUR * each for each in (1, 2, 3, 6, 12)),
    *(DAY * each for each in (1, 2, 7, 14, 28, 91, 182, 365, 730, 1826, 3652, 36_525)),
)
"""Possible distances of ticks, in microseconds."""


class Clock:
    """Formats instants in a time zone: as days if all are midnights, with the day if they span several days.

    `instants` are those that will be shown, in microseconds.
    """

    def __init__(self, instants: Sequence[int], zone: str = "UTC"):
        self.zone = ZoneInfo(zone)
        known = [self._local(each) for each in instants if _FIRST < each < _LAST]
        self.by_days = len(set(known)) > 1 and not any(map(_since_midnight, known))
        self.by_years = self.by_days and len({each.year for each in known}) > 1
        self.several_days = not self.by_days and len({each.date() for each in known}) > 1
        self.seconds = any(each.second or each.microsecond for each in known)

    def text(self, instant: int) -> str:
        """Return the label of an instant, as short as possible."""
        if not _FIRST < instant < _LAST:
            return "-∞" if instant < 0 else "∞"
        local = self._local(instant)
        if self.by_days:
            return f"{local.day} {local:%b %Y}" if self.by_years else f"{local.day} {local:%b}"
        time = _time(local, seconds=False)
        return f"{local.day} {local:%b} {time}" if self.several_days else time

    def tick(self, instant: int, before: int | None) -> str:
        """Return the label of a tick, with the day only if it differs from that of the tick `before`.

        If any instant has seconds, all labels have seconds.
        """
        if self.by_days:
            return self.text(instant)
        local = self._local(instant)
        new = self.several_days and (before is None or self._local(before).date() != local.date())
        time = _time(local, self.seconds)
        return f"{local.day} {local:%b} {time}" if new else time

    def _local(self, instant: int) -> datetime:
        return (_EPOCH + timedelta(microseconds=instant)).astimezone(self.zone)


def _since_midnight(local: datetime) -> bool:
    return (local.hour, local.minute, local.second, local.microsecond) != (0, 0, 0, 0)


def _time(local: datetime, seconds: bool) -> str:
    """The time of day to the minute, or to seconds or microseconds if needed."""
    if local.microsecond:
        return f"{local:%H:%M:%S}.{local.microsecond:06d}".removesuffix("000")
    return f"{local:%H:%M:%S}" if seconds or local.second else f"{local:%H:%M}"


def ticks(low: int, high: int, wanted: Sequence[int], distance: float) -> list[int]:
    """Return instants for ticks in `[low, high]`, at least `distance` microseconds apart: the wanted or round ones.

    If equally spaced wanted instants are too close, every second, third, ... up to every twelfth of them is used.
    """
    inside = sorted({each for each in wanted if low <= each <= high})
    is_even = len({b - a for a, b in pairwise(inside)}) == 1
    for every in (1, 2, 3, 4, 5, 6, 10, 12) if is_even else (1,):
        some = inside[::every]
        if len(some) > 2 and min(b - a for a, b in pairwise(some)) >= distance:
            return some
    if 0 < len(inside) <= 2 and (len(inside) == 1 or inside[1] - inside[0] >= distance):
        return inside
    step = next((each for each in STEPS if each >= distance), STEPS[-1])
    return list(range(-(-low // step) * step, high + 1, step))
