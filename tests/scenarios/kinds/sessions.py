"""Sessions: the intervals `[time, time + gap)` of a key that overlap or touch are one."""

from collections import defaultdict
from itertools import combinations

from slicing.windows.session import session
from slicing.windows.time.edges import BEFORE

from ..kind import MS, Kind, Place


class Sessions(Kind):
    """Windows from one pause of a key to the next."""

    grows = True
    late_details = False

    @property
    def results(self):
        """Records of one time are in any order if each has a gap of its own."""
        return ("sum", "highest", "joined") if self.window.gap else ("sum", "highest", "rows")

    @property
    def separate(self):
        """Whether each record is late or not by its own interval."""
        return self.window.late_by == "record"

    @property
    def gaps(self):
        return (0,) if self.window.gap else (None, 0, -5, 1, 2 * MS, 10 * MS, 10 * MS, 35 * MS)

    def is_valid(self, record):
        return record.time is not None and (self.window.gap or record.gap or 0) > 0

    def interval(self, record):
        return record.span or Place(record.time, record.time + (self.window.gap or record.gap))

    def definition(self, records):
        """Two that overlap or touch become one, until none do."""
        same = defaultdict(list)
        for record in records:
            same[self.interval(record)].append(record)
        found = list(same.items())
        while pair := next((pair for pair in combinations(found, 2) if touch(*(place for place, _ in pair))), None):
            (one, held), (other, more) = pair
            found = [each for each in found if each not in pair]
            found.append((Place(min(one.start, other.start), max(one.end, other.end)), held + more))
        return {
            Place(start, end + self.window.unit): sorted(held, key=lambda record: record.order)
            for (start, end), held in found
        }

    def settled(self, record, place):
        """What a session had is one interval, before new records with the same start."""
        return record._replace(order=(place.start, -1), span=Place(place.start, place.end - self.window.unit))


class Longest(Sessions):
    """Those of a greatest length: one record after another; none ends before another one before it."""

    splits = True

    def definition(self, records):
        found, held, last = {}, [], BEFORE
        for record in [*sorted(records, key=lambda record: record.time), None]:
            reached = max((self.interval(each).end for each in held), default=BEFORE)
            if held and (record is None or record.time > min(reached, held[0].time + self.window.longest)):
                last = max(last, reached)
                found[Place(held[0].time, last + self.window.unit)] = sorted(held, key=lambda each: each.order)
                held = []
            held.append(record)
        return found

    def settled(self, record, place):
        return record

    def gives_way(self, gone, place, held):
        """That of its first record."""
        return gone.start in {record.time for record in held}


def touch(one, other):
    return one.start <= other.end and other.start <= one.end


def made(*given, scale=1, **options):
    return Sessions(session(*given, **options), step=10 * scale * MS, reach=40 * scale * MS)


def longest(rng, *given, **options):
    window = session(*given, longest=rng.choice(["10 milliseconds", "14 milliseconds", "33 milliseconds"]), **options)
    return Longest(window, step=10 * MS, reach=40 * MS)


def some(rng):
    """Any gap: most records have a session of their own, or they are of weeks."""
    gap, scale = rng.choice(
        [("10 milliseconds", 1), ("7 milliseconds", 1), ("1 millisecond", 1), ("30 days", 259_200_000)]
    )
    return made(gap, scale=scale, late_by="session")


KINDS = {
    "sessions": lambda rng: made("10 milliseconds"),
    "sessions, late by session": some,
    "sessions, later ends": lambda rng: made("10 milliseconds", late_by="session", unit="1 millisecond"),
    "sessions of a greatest length": lambda rng: longest(
        rng,
        "10 milliseconds",
        **rng.choice([{}, {"late_by": "session"}, {"late_by": "session", "unit": "1 millisecond"}]),
    ),
    "sessions of a greatest length and a gap column": lambda rng: longest(rng, gap_column="gap"),
    "sessions of a gap column": lambda rng: made(gap_column="gap", late_by=rng.choice(["record", "session"])),
}
