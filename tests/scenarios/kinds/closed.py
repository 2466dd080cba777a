"""Windows that hold their ends and not their starts, (start, end]: of each kind with `closed="right"`."""

from dataclasses import replace

from slicing.windows.window import Hopping

from ..kind import CONTENTS, MS
from .calendar import KINDS as CALENDAR
from .cumulating import Cumulating
from .even import Even, some
from .several import several
from .tailed import Coarse


class Right:
    """What differs from windows that hold their starts."""

    def holding(self, time):
        places = ((number, self.edges(number)) for number in self.near(time - 1))
        return {place: number for number, place in places if place is not None and place.start < time <= place.end}

    def next(self, place):
        number = self.holding(place.end)[place] + 1
        while self.edges(number) == place:
            number += 1
        return self.edges(number)

    def first_from(self, start, end):
        """Records at both instants belong to slices that end there; edges are whole milliseconds."""
        return super().first_from(start - 1, end - 1)

    def closed(self, place, until):
        return place.end < until

    def other(self, rng):
        found = super().other(rng)
        return found and right(found)


def right(kind):
    """The same windows, closed on the right."""
    window, of = kind.window, type(kind)
    if isinstance(window, Hopping):
        window = replace(window, closed_right=True)
    else:
        window = replace(window, of=replace(window.of, closed_right=True), call=f"{window.call[:-1]}, closed='right')")
    made = type(f"Right{of.__name__}", (Right, of), {})
    return made(window, kind.begin, kind.step, kind.reach, kind.spec, kind.contents)


KINDS = {
    "tumbling, closed on the right": lambda rng: right(Even.of(7, 7, begin=-30 * MS)).over(*CONTENTS),
    "hopping, closed on the right": lambda rng: right(some(rng)).over(*CONTENTS),
    "days in a zone, closed on the right": lambda rng: right(CALENDAR["days in a zone"](rng)),
    "cumulating, closed on the right": lambda rng: right(Cumulating.of(6, 2)).over(*CONTENTS),
    "tail, closed on the right": lambda rng: right(Coarse.of(12, 1, 4)).over(*CONTENTS),
    "several, closed on the right": lambda rng: several(
        right(Even.of(7, 7)), right(Even.of(30, 5)), right(Cumulating.of(60, 5)), reach=60 * MS
    ),
    "side by side, closed on the right": lambda rng: several(
        *map(right, (Even.of(5, 1), Even.of(24, 1), Even.of(12, 1))), reach=24 * MS, wide=True
    ).over(*CONTENTS),
}
