"""Sliding windows: one that ends with each time of a key, and one that begins behind it; several lengths in one row."""

from bisect import bisect_left
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from slicing.windows.sliding import sliding

from ..kind import MS, Kind, Place
from .several import Several

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Sliding(Kind):
    """Windows that exist at the times of records, as Kafka Streams has them."""

    separate = False
    keeps = True

    def instant(self, record):
        return self.floored(record)

    def floored(self, record):
        return record.time // self.window.unit * self.window.unit

    def definition(self, records):
        difference, unit, closed = self.window.difference, self.window.unit, self.window.closed
        times = sorted({self.floored(record) for record in records})
        places = {self.ending_with(record) for record in records}
        for one, other in pairwise(times) if self.window.right else ():
            if other < one + difference + 2 * unit:
                places.add(Place(one + unit, one + difference + 2 * unit))
        in_time = sorted(records, key=self.floored)
        held = {}
        for place in places:
            edges = place.start + unit * (closed in ("right", "none")), place.end - unit * (closed in ("left", "none"))
            first, end = (bisect_left(in_time, edge, key=self.floored) for edge in edges)
            held[place] = sorted(in_time[first:end], key=lambda record: record.order)
        return held

    def holding_of(self, record, records):
        """Also the window that it makes, whether or not it is in it."""
        return list({self.ending_with(record), *super().holding_of(record, records)})

    def makes(self, record, place):
        return place == self.ending_with(record)

    def ending_with(self, record):
        time = self.floored(record)
        return Place(time - self.window.difference, time + self.window.unit)

    def looked_up(self, windows, records, accepts):
        """Empty windows too: a record that is left out makes them."""
        return {place: held for place, held in windows.items() if accepts(place)}

    def around(self, records, record):
        """Times that are farther away neither make a window that holds it nor keep one from being there."""
        reach = 2 * (self.window.difference + self.window.unit)
        return [other for other in records if abs(other.time - record.time) <= reach]

    def waits(self, record, held, is_open):
        """As long as a window may be open that holds it or begins behind it."""
        unit, size = self.window.unit, self.window.difference + self.window.unit
        time = self.floored(record) + self.window.right * unit
        return is_open(Place(time, time + size))


class Length(Sliding):
    """One of several lengths: `spec` has the longest of them, whose windows hold all others that end with them."""

    @property
    def accepting(self):
        return self.spec[0] if self.spec else self


class Lengths(Several):
    """Several lengths: a record that a window of any length accepts is in all windows that are open or come later."""

    separate = False
    keeps = True
    timed = False
    counts_all = True


def of_lengths(*differences, unit=1, closed="both"):
    """Several lengths, in units of microseconds, in any order."""
    named = {f"w{at}": f"{difference * unit} microseconds" for at, difference in enumerate(differences)}
    window = sliding(**named, unit=f"{unit} microseconds", right=False, closed=closed)
    parts = [Length(member, step=5 * MS, reach=member.difference) for member in window.members]
    longest = max(parts, key=lambda part: part.window.difference)
    for part in parts:
        part.spec = () if part is longest else (longest,)
    reach = max(unit, MS, longest.reach)
    return Lengths(window, step=max(unit, reach // 2), reach=reach, spec=tuple(parts))


class Back(Sliding):
    """Left windows that go back months or days by the clock of a zone; those of a later time may begin earlier."""

    def ending_with(self, record):
        return Place(before(record.time, *self.spec), record.time + 1)


@cache
def before(time, months, days, zone):
    """The instant at which the clock shows the same time, months and days before, on the last day at most."""
    wall = (EPOCH + timedelta(microseconds=time)).astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)
    wall -= timedelta(days)
    year, month = divmod(12 * wall.year + wall.month - 1 - months, 12)
    wall = wall.replace(year=year, month=month + 1, day=min(wall.day, monthrange(year, month + 1)[1]))
    found = wall.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    if found.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0) != wall:  # in the gap of an hour
        early = wall.replace(tzinfo=ZoneInfo(zone), fold=1).astimezone(UTC)
        found = early.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return (found - EPOCH) // timedelta(microseconds=1)


def back(rng):
    """Around the ends of months, and the clock changes of spring and autumn a month later."""
    text, months, days = rng.choice([("1 month", 1, 0), ("1 month", 1, 0), ("2 months", 2, 0), ("1 day", 0, 1)])
    begin = rng.choice(
        [datetime(2025, 3, 27, tzinfo=UTC), datetime(2025, 4, 27, tzinfo=UTC), datetime(2025, 11, 22, tzinfo=UTC)]
    )
    hour, closed = 3600 * 1000 * MS, rng.choice(["both", "both", "left", "right", "none"])
    window = sliding(text, right=False, closed=closed, zone="Europe/Berlin")
    reach = 31 * 24 * hour * months + days * 24 * hour
    step = rng.choice([5, 23]) * hour
    spec, begin = (months, days, "Europe/Berlin"), (begin - EPOCH) // timedelta(microseconds=1)
    return Back(window, begin, step, reach, spec)


def some(rng):
    """The difference is of few units, of none, or of many."""
    units = [(1000, 10), (1000, 3), (2000, 1), (1000, 0), (1, 10_000), (1, 3000), (1, 0)]
    unit, difference = rng.choice(units)
    closed = rng.choice(["both", "both", "left", "right", "none"] if difference > 1 else ["both"])
    right = closed == "both" and rng.random() < 0.7
    window = sliding(f"{difference * unit} microseconds", unit=f"{unit} microseconds", right=right, closed=closed)
    return Sliding(window, step=max(unit, difference * unit // 2), reach=max(unit, MS, difference * unit))


KINDS = {
    "sliding": lambda rng: Sliding(sliding("10 milliseconds"), step=5 * MS),
    "sliding, left": lambda rng: Sliding(sliding("10 milliseconds", right=False), step=5 * MS),
    "sliding, before": lambda rng: Sliding(sliding("10 milliseconds", right=False, closed="left"), step=5 * MS),
    "sliding, within": lambda rng: Sliding(sliding("10 milliseconds", right=False, closed="none"), step=5 * MS),
    "sliding, any": some,
    "sliding, several lengths": lambda rng: of_lengths(3000, 12_000, 0),
    "sliding, any lengths": lambda rng: of_lengths(*rng.sample(range(13), rng.choice([1, 2, 4])), unit=1000),
    "sliding, lengths before": lambda rng: of_lengths(9, 2, 14, unit=1000, closed="left"),
    "sliding, back": back,
}
