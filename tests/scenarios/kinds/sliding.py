"""Sliding windows: one that ends with each time of a key, and one that begins behind it."""

from bisect import bisect_left
from itertools import pairwise

from slicing.windows.sliding import sliding

from ..kind import MS, Kind, Place


class Sliding(Kind):
    """Windows that exist at the times of records, as Kafka Streams has them."""

    separate = False
    keeps = True

    def instant(self, record):
        return self.floored(record)

    def floored(self, record):
        return record.time // self.window.unit * self.window.unit

    def definition(self, records):
        difference, unit = self.window.difference, self.window.unit
        times = sorted({self.floored(record) for record in records})
        places = {Place(time - difference, time + unit) for time in times}
        for one, other in pairwise(times) if self.window.right else ():
            if other < one + difference + 2 * unit:
                places.add(Place(one + unit, one + difference + 2 * unit))
        in_time = sorted(records, key=self.floored)
        held = {}
        for place in places:
            first, end = (bisect_left(in_time, edge, key=self.floored) for edge in place)
            held[place] = sorted(in_time[first:end], key=lambda record: record.order)
        return held

    def around(self, records, record):
        """Times that are farther away neither make a window that holds it nor keep one from being there."""
        reach = 2 * (self.window.difference + self.window.unit)
        return [other for other in records if abs(other.time - record.time) <= reach]

    def waits(self, record, held, is_open):
        """As long as a window may be open that holds it or begins behind it."""
        unit, size = self.window.unit, self.window.difference + self.window.unit
        time = self.floored(record) + self.window.right * unit
        return is_open(Place(time, time + size))


def some(rng):
    """The difference is of few units, of none, or of many."""
    units = [(1000, 10), (1000, 3), (2000, 1), (1000, 0), (1, 10_000), (1, 3000), (1, 0)]
    unit, difference = rng.choice(units)
    window = sliding(f"{difference * unit} microseconds", unit=f"{unit} microseconds", right=rng.random() < 0.6)
    return Sliding(window, step=max(unit, difference * unit // 2), reach=max(unit, MS, difference * unit))


KINDS = {
    "sliding": lambda rng: Sliding(sliding("10 milliseconds"), step=5 * MS),
    "sliding, left": lambda rng: Sliding(sliding("10 milliseconds", right=False), step=5 * MS),
    "sliding, any": some,
}
