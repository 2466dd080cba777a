"""Windows by the wall clock of a zone, as the standard library has it: days of 23, 24 and 25 hours, or 23.5."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from slicing.windows.window import cumulating, hopping, tumbling

from ..kind import Numbered, Place

HOUR = 3600 * 10**6
EPOCH = datetime(1970, 1, 1)


class Days(Numbered):
    """`days` local days from each local midnight on; with `hours` they end at each so many hours of the wall clock."""

    def edges(self, number):
        zone, days, hours, shift = self.spec
        steps = 24 // hours if hours else 1
        day, step = divmod(number, steps)
        start = instant(zone, day * 24 + shift)
        end = instant(zone, (day * 24 + (step + 1) * hours if hours else (day + days) * 24) + shift)
        return Place(start, end)

    def other(self, rng):
        """Windows of whole local days that begin at the same hour."""
        days = rng.choice([2, 3, 5])
        zone, *_, shift = self.spec
        window = hopping(f"{days} days", "1 day", offset=f"{shift} hours", zone=zone.key)
        return Days(window, self.begin, self.step, 24 * days * HOUR, (zone, days, None, shift))

    def near(self, time):
        _, days, hours, _ = self.spec
        day, steps = time // (24 * HOUR), 24 // hours if hours else 1
        return range((day - days - 1) * steps, (day + 2) * steps)


class DaysByEnd(Days):
    """Days in wide rows, which have each end once: of windows that end with a day that was left out the first one."""

    late_details = False  # all of these count as closed

    def edges(self, number):
        before, place = super().edges(number - 1), super().edges(number)
        return None if before.end == place.end else place

    def next(self, place):
        number = self.holding(place.start)[place] + 1
        while self.edges(number) is None:
            number += 1
        return self.edges(number)


LEFT_OUT = {"Pacific/Apia": 1_325_000_000, "Pacific/Kwajalein": 745_700_000}
"""Zones that left out a day, the 30th of December 2011 and the 21st of August 1993, and an instant two days before."""


def by_end(zone, days):
    """Windows of some days around a day that a zone left out."""
    window = hopping(f"{days} days", "1 day", zone=zone)
    return DaysByEnd(window, LEFT_OUT[zone] * 10**6, 9 * HOUR, 24 * days * HOUR, (ZoneInfo(zone), days, None, 0))


def instant(zone, hours):
    """Microseconds since the epoch at which the wall clock shows so many hours since its own 1970."""
    local = (EPOCH + timedelta(hours=hours)).replace(tzinfo=zone)
    return (local.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def made(window, begin, step, reach, zone, days, hours=None, shift=0):
    return Days(window, begin * 10**6, step * HOUR, reach * HOUR, (ZoneInfo(zone), days, hours, shift))


SPRING, AUTUMN = 1_774_656_000, 1_775_300_000
BERLIN, LORD_HOWE = "Europe/Berlin", "Australia/Lord_Howe"
KINDS = {
    "days in a zone": lambda rng: made(tumbling("1 day", zone=LORD_HOWE), AUTUMN, 9, 24, LORD_HOWE, 1),
    "weeks of days in a zone": lambda rng: made(hopping("7 days", "1 day", zone=BERLIN), SPRING, 11, 168, BERLIN, 7),
    "days from six in a zone": lambda rng: made(
        hopping("2 days", "1 day", offset="6 hours", zone=BERLIN), SPRING, 7, 48, BERLIN, 2, shift=6
    ),
    "cumulating from two in a zone": lambda rng: made(
        cumulating("1 day", "6 hours", offset="2 hours", zone=BERLIN), SPRING, 5, 24, BERLIN, 1, 6, shift=2
    ),
    "cumulating in a zone": lambda rng: made(cumulating("1 day", "6 hours", zone=BERLIN), SPRING, 5, 24, BERLIN, 1, 6),
}
