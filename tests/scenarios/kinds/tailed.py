"""Long windows with a coarse start: each ends at a multiple of `advance` and begins at one of `tail`."""

from datetime import UTC, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from slicing.windows.window import hopping

from ..kind import CONTENTS, MS, Numbered, Place
from .calendar import BERLIN, EPOCH, HOUR, LORD_HOWE, SPRING, instant
from .even import Even, over_edges
from .several import several


class Coarse(Numbered):
    """The window that ends at `end` begins at the last multiple of `tail` at or before `end - size`."""

    @classmethod
    def of(cls, size, advance, tail, offset=0, begin=0):
        lengths = {"advance": advance, "tail": tail, "offset": offset}
        texts = {name: f"{value} milliseconds" for name, value in lengths.items()}
        window = hopping(f"{size} milliseconds", **texts)
        return cls(window, begin, advance * MS, (size + tail) * MS, (size * MS, advance * MS, tail * MS, offset * MS))

    def other(self, rng):
        _, advance, tail, offset = (each // MS for each in self.spec)
        return over_edges(rng, rng.choice([advance, tail]), offset)

    def is_kept(self, edge):
        _, _, tail, offset = self.spec
        return (edge - offset) % tail == 0

    def edges(self, number):
        size, advance, tail, offset = self.spec
        end = number * advance
        return Place((end - size) // tail * tail + offset, end + offset)

    def near(self, time):
        size, advance, tail, offset = self.spec
        first = (time - offset) // advance
        return range(first, first + (size + tail) // advance + 2)


class CoarseDays(Numbered):
    """Windows of a zone: they end at each multiple of some hours of the wall clock and begin some days before."""

    @classmethod
    def of(cls, days, hours, begin):
        window = hopping(f"{days} days", f"{hours} hours", tail="1 day", zone=BERLIN)
        return cls(window, begin * 10**6, 2 * hours * HOUR, (days + 1) * 24 * HOUR, (ZoneInfo(BERLIN), days, hours))

    def edges(self, number):
        zone, days, hours = self.spec
        day, step = divmod(number, 24 // hours)
        return Place(instant(zone, (day - days) * 24), instant(zone, day * 24 + step * hours))

    def near(self, time):
        _, days, hours = self.spec
        day = time // (24 * HOUR)
        return range((day - 1) * (24 // hours), (day + days + 3) * (24 // hours))


MINUTE = HOUR // 60
GAPS = [
    (BERLIN, 1, 60, 30, 1_774_746_000),
    (BERLIN, 1, 40, 20, 1_774_746_000),
    (LORD_HOWE, 1, 30, 10, 1_759_591_800),
    ("America/Havana", 1, 20, 20, 1_710_046_800),
    ("Pacific/Apia", 1, 1440, 360, 1_325_239_200),
    ("Pacific/Apia", 2, 1440, 720, 1_325_239_200),
]
"""Zones, the tails of a size, the minutes of a tail and of an advance, and when the clock leaves out a tail."""


class CoarseAtGap(Numbered):
    """Windows of a zone whose clock leaves out whole tails; an end there has several numbers, and one window."""

    @classmethod
    def of(cls, zone, whole, tail, advance, gap, tails):
        length = f"{tail} minutes" if tail < 1440 else "1 day"
        size = length if whole == 1 else f"{whole} days"
        window = hopping(size, f"{advance} minutes", tail=length, zone=zone)
        begin, reach = gap * 10**6 - tails * tail * MINUTE, (whole + 1) * tail * MINUTE
        return cls(window, begin, 2 * advance * MINUTE, reach, (zone, whole, tail, advance))

    def edges(self, number):
        zone, whole, tail, advance = self.spec
        end, last = reached(zone, number * advance), number * advance // tail
        while reached(zone, (last + 1) * tail) <= end:
            last += 1
        first = last
        for _ in range(whole):
            first -= 1
            while 60 % tail == 0 and reached(zone, first * tail) == reached(zone, (first + 1) * tail):
                first -= 1  # of an hour and its parts a clock has no edges in the hour that it leaves out
        while reached(zone, first * tail) == end:
            first -= 1
        return Place(reached(zone, first * tail), end)

    def near(self, time):
        _, whole, tail, advance = self.spec
        minutes = time // MINUTE
        return range((minutes - 1440 - tail) // advance, (minutes + 1440 + (whole + 2) * tail) // advance)


@cache
def reached(zone, minutes):
    """The first instant at which the clock of a zone shows so many minutes since its own 1970, or more."""
    wall = EPOCH + timedelta(minutes=minutes)
    time = wall.replace(tzinfo=UTC) - timedelta(hours=26)
    while time.astimezone(ZoneInfo(zone)).replace(tzinfo=None) < wall:
        time += timedelta(minutes=10)
    return (time - EPOCH.replace(tzinfo=UTC)) // timedelta(microseconds=1)


def some(rng):
    """Any windows with a tail."""
    advance = rng.randrange(1, 5)
    tail = advance * rng.randrange(1, 8)
    size = tail * rng.randrange(1, 6) + rng.choice([0, 0, rng.randrange(tail)])
    return Coarse.of(size, advance, tail, rng.randrange(advance), rng.choice([0, -100 * MS, 10**7 * MS]))


KINDS = {
    "tail": lambda rng: Coarse.of(12, 1, 4).over(*CONTENTS),
    "tail, not a divisor": lambda rng: Coarse.of(20, 2, 6, 1, begin=-50 * MS),
    "tail, any": some,
    "tail, days": lambda rng: CoarseDays.of(3, 6, SPRING),
    "tail, left out": lambda rng: CoarseAtGap.of(*rng.choice(GAPS), rng.randrange(1, 6)),
    "several, tails of other lengths": lambda rng: several(
        Even.of(3, 1), Coarse.of(12, 1, 2), Coarse.of(30, 1, 6), Coarse.of(60, 1, 6), reach=66 * MS
    ),
    "several, one tail seldom": lambda rng: several(Coarse.of(30, 1, 6), Coarse.of(18, 2, 6), reach=36 * MS),
    "several, a tail beside advances of several slices": lambda rng: several(
        Coarse.of(20, 1, 10), Even.of(10, 2), reach=30 * MS
    ),
    "several, tails that share few edges": lambda rng: several(
        Coarse.of(20, 2, 10), Coarse.of(24, 3, 6), reach=30 * MS
    ),
}
