"""Several windows of one call: each is what it is alone, over slices that all share."""

from slicing.triggers.trigger import CHANGED
from slicing.windows.families.several import end_together
from slicing.windows.sets import Set

from ..kind import CONTENTS, MS, Kind
from .calendar import HOUR, LEFT_OUT, SPRING, by_end
from .calendar import KINDS as CALENDAR
from .cumulating import Cumulating
from .edges import listed
from .even import Even


class Several(Kind):
    """Kinds that share slices."""

    counts_all = False
    timed = True

    @property
    def parts(self):
        return self.spec

    @property
    def leads(self):
        """Windows side by side are in the rows of the longest ones, which hold all others that end with them."""
        return (max(self.spec, key=lambda part: part.reach),) if self.window.wide else self.spec

    @property
    def late_details(self):
        return all(part.late_details for part in self.spec)

    @property
    def is_endless(self):
        return all(part.is_endless for part in self.spec)

    def allows(self, trigger):
        """Changes are of windows that end together; of those side by side they are of whole rows, which is not said."""
        may_change = end_together(self.window.family.members) and not self.window.wide
        return super().allows(trigger) and (CHANGED not in trigger.asks or may_change)


def several(*parts, begin=0, step=MS, reach=60 * MS, wide=False):
    return Several(Set(tuple(part.window for part in parts), wide=wide), begin, step, reach, parts)


def side_by_side(rng):
    """Windows of wide rows: those of each end are in one row."""
    return several(Even.of(5, 1), Even.of(24, 1), Even.of(12, 1), reach=24 * MS, wide=True).over(*CONTENTS)


def over_a_day_left_out(rng):
    """Windows of wide rows, in any order; several end with a day that the zone left out."""
    zone = rng.choice(list(LEFT_OUT))
    parts = [by_end(zone, days) for days in rng.sample([1, 2, 3, 5], rng.choice([2, 3]))]
    reach = max(part.reach for part in parts)
    return several(*parts, begin=parts[0].begin, step=9 * HOUR, reach=reach, wide=True)


KINDS = {
    "several that end together": lambda rng: several(Even.of(5, 1), Even.of(12, 1), Even.of(24, 1), reach=24 * MS).over(
        *CONTENTS
    ),
    "several, one seldom": lambda rng: several(Even.of(10, 2), Even.of(60, 60), step=2 * MS),
    "several, the longest in the middle": lambda rng: several(
        Even.of(12, 4), Even.of(40, 20), Even.of(2, 2), step=2 * MS, reach=40 * MS
    ).over(*CONTENTS),
    "several of other edges": lambda rng: several(Even.of(7, 7), Even.of(30, 5), reach=30 * MS),
    "several with gaps": lambda rng: several(Even.of(2, 10), Even.of(3, 15, 5), reach=15 * MS).over(*CONTENTS),
    "several, one cumulating": lambda rng: several(Cumulating.of(60, 5), Even.of(20, 5), step=2 * MS),
    "several, one by lists": lambda rng: several(listed([0, 30, 95], [20, 90, 300]), Even.of(6, 3), reach=90 * MS),
    "side by side": side_by_side,
    "side by side, one cumulating": lambda rng: several(
        Even.of(5, 5), Cumulating.of(60, 5), step=2 * MS, reach=60 * MS, wide=True
    ),
    "side by side, a day left out": over_a_day_left_out,
    "several, one in a zone": lambda rng: several(
        CALENDAR["days in a zone"](rng),
        Even.of(6 * HOUR // MS, HOUR // MS),
        begin=SPRING * 10**6,
        step=5 * HOUR,
        reach=24 * HOUR,
    ),
}
