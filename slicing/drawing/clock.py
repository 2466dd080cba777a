"""Instants as an axis shows them: as short as they can be told apart, at places that fit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_000_000_000_000_000, 253_000_000_000_000_000
"""Instants that datetime knows in every zone, in microseconds."""
SECOND = 10**6
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
STEPS = (
    *(unit * each for unit in (1, 10**3) for each in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(unit * each for unit in (SECOND, MINUTE) for each in (1, 2, 5, 10, 15, 30)),
    *(HOUR * each for each in (1, 2, 3, 6, 12)),
    *(DAY * each for each in (1, 2, 7, 14, 28, 91, 182, 365, 730, 1826, 3652, 36_525)),
)
"""Distances of ticks, in microseconds."""


class Clock:
    """How instants of `[low, high]` are written, by the clock of a zone: with days, with seconds, only if they differ.

    `instants` are those that will be shown.
    """

    def __init__(self, instants: Sequence[int], zone: str = "UTC"):
        self.zone = ZoneInfo(zone)
        known = [self._local(each) for each in instants if _FIRST < each < _LAST]
        midnight = [(each.hour, each.minute, each.second, each.microsecond) == (0, 0, 0, 0) for each in known]
        self.by_days = bool(known) and all(midnight) and len(set(known)) > 1
        self.by_years = self.by_days and len({each.year for each in known}) > 1
        self.several_days = not self.by_days and len({each.date() for each in known}) > 1
        self.digits = 6 if any(each.microsecond % 1000 for each in known) else 3
        self.digits = self.digits if any(each.microsecond for each in known) else 0
        self.seconds = any(each.second for each in known) or self.digits > 0

    def text(self, instant: int) -> str:
        """An instant, with its day where there are several."""
        if not _FIRST < instant < _LAST:
            return "-∞" if instant < 0 else "∞"
        local = self._local(instant)
        if self.by_days:
            return f"{local.day} {local:%b %Y}" if self.by_years else f"{local.day} {local:%b}"
        return f"{local.day} {local:%b} {self._time(local)}" if self.several_days else self._time(local)

    def tick(self, instant: int, before: int | None) -> str:
        """An instant under a tick, `before` being that of the tick before: days are said where they begin."""
        local = self._local(instant)
        if self.by_days or not self.several_days:
            return self.text(instant)
        new = before is None or self._local(before).date() != local.date()
        return f"{local.day} {local:%b} {self._time(local)}" if new else self._time(local)

    def _time(self, local: datetime) -> str:
        text = f"{local:%H:%M:%S}" if self.seconds else f"{local:%H:%M}"
        return f"{text}.{local.microsecond:06d}"[: len(text) + 1 + self.digits] if self.digits else text

    def _local(self, instant: int) -> datetime:
        return (_EPOCH + timedelta(microseconds=instant)).astimezone(self.zone)


def ticks(low: int, high: int, wanted: Sequence[int], apart: float) -> list[int]:
    """Instants for ticks in `[low, high]`: those wanted, if they are `apart` microseconds apart, else round ones.

    Of those wanted, if they are even, every second, fifth or tenth is taken if only then they fit.
    """
    inside = sorted({each for each in wanted if low <= each <= high})
    is_even = len({b - a for a, b in pairwise(inside)}) == 1
    for every in (1, 2, 3, 4, 5, 6, 10, 12) if is_even else (1,):
        some = inside[::every]
        if len(some) > 2 and min(b - a for a, b in pairwise(some)) >= apart:
            return some
    if 0 < len(inside) <= 2 and (len(inside) == 1 or inside[1] - inside[0] >= apart):
        return inside
    step = next((each for each in STEPS if each >= apart), STEPS[-1])
    return list(range(-(-low // step) * step, high + 1, step))
