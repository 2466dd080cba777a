"""State of windows with chosen ends, of windows without records, of sessions that are cut, and of frames of sliding.

The commit that brought it wrote `ends_and_frames.json.xz`, by this file as it was then: for each scenario the
micro-batches, and the header and pages after two thirds of them. It is not written again::

    PYTHONPATH=.:tests python -m golden.ends_and_frames
"""

import random
from dataclasses import replace
from typing import Any, NamedTuple

from golden.make import save
from scenarios.kind import PARTIALS, RECORDS, Kind
from scenarios.kinds.calendar import BERLIN, HOUR, SPRING, made
from scenarios.kinds.closed import right
from scenarios.kinds.cumulating import Cumulating
from scenarios.kinds.even import Even
from scenarios.kinds.sessions import Longest
from scenarios.kinds.several import several
from scenarios.kinds.sliding import Back, Sliding, of_lengths
from scenarios.kinds.tailed import Coarse
from scenarios.scenario import Scenario
from scenarios.streams import stream

from slicing.state.format.fingerprint import REFUSE
from slicing.triggers.emission import early, on_change, on_close, on_update
from slicing.windows.session import session
from slicing.windows.sliding import sliding
from slicing.windows.window import tumbling

NAME, BATCHES, SEEN = "ends_and_frames", 48, 30
MS = 1000
CORRECTED = on_close(corrections=True, old=True)
ON_TIME = early(on_time=True, late=True)
CUT = {"longest": "14 milliseconds"}
DAYS = made(tumbling("1 day", zone=BERLIN), SPRING, 9, 24, BERLIN, 1)
TOGETHER = [right(Even.of(size, 1)) for size in (5, 24, 12)]


class Given(NamedTuple):
    """Windows, a trigger, a grace in milliseconds, and lists that the state has."""

    kind: Kind
    trigger: Any
    grace: int = 0
    lists: tuple = ()
    results: tuple = ("sum", "highest")
    content: str = PARTIALS


def left(difference, **options):
    """Left windows of some milliseconds."""
    window = sliding(f"{difference} milliseconds", right=False, **options)
    return Sliding(window, step=5 * MS, reach=difference * MS)


def back(text, months, days, **options):
    """Left windows that go back months or days by the clock of Berlin, around the change of March."""
    window = sliding(text, right=False, zone=BERLIN, **options)
    reach = (31 * months + days) * 24 * HOUR
    return Back(window, SPRING * 10**6, 5 * HOUR, reach, (months, days, BERLIN))


def cut(*gap, **options):
    """Sessions of a greatest length."""
    return Longest(session(*gap, **options, **CUT), step=10 * MS, reach=40 * MS)


SCENARIOS = {
    "empty": Given(Even.of(10, 5), on_close(empty="40 milliseconds"), lists=("recent recent",)),
    "empty, cumulating": Given(Cumulating.of(12, 4), on_close(empty="30 milliseconds"), 6, ("recent recent",)),
    "empty, closed on the right": Given(right(Even.of(9, 3)), on_close(empty="1 second"), lists=("recent recent",)),
    "closed on the right": Given(right(Even.of(10, 3)), on_close()),
    "closed on the right, corrected": Given(right(Even.of(12, 4)), CORRECTED, 20),
    "closed on the right, changed": Given(right(Even.of(12, 1)), on_change(drained=True), results=("most",)),
    "closed on the right, eager": Given(right(Even.of(12, 4)), on_close(), content=RECORDS),
    "closed on the right, days": Given(right(DAYS), CORRECTED, 1),
    "closed on the right, cumulating": Given(right(Cumulating.of(12, 3)), early(records=3)),
    "closed on the right, a tail": Given(right(Coarse.of(12, 1, 4)), on_close()),
    "closed on the right, several": Given(several(right(Even.of(7, 7)), right(Even.of(30, 5))), on_update()),
    "closed on the right, side by side": Given(several(*TOGETHER, reach=24 * MS, wide=True), on_close()),
    "cut": Given(cut("10 milliseconds"), on_close()),
    "cut, corrected": Given(cut("10 milliseconds"), CORRECTED, 30, ("shown shown",)),
    "cut, updated": Given(cut("10 milliseconds", late_by="session"), on_update(), 10, ("shown shown",)),
    "cut, later ends": Given(cut("7 milliseconds", late_by="session", unit="1 millisecond"), on_close()),
    "cut, gaps of records": Given(cut(gap_column="gap"), on_update()),
    "before": Given(left(10, closed="left"), on_close()),
    "within": Given(left(12, closed="none"), CORRECTED, 20),
    "after": Given(left(12, closed="right"), on_update()),
    "months": Given(back("1 month", 1, 0), on_close()),
    "days, before": Given(back("1 day", 0, 1, closed="left"), CORRECTED, 24 * 3600 * MS),
    "lengths": Given(of_lengths(3000, 12_000, 0), on_close()),
    "lengths, corrected": Given(of_lengths(9, 2, 14, unit=1000), CORRECTED, 20),
    "lengths, before": Given(of_lengths(9, 2, unit=1000, closed="left"), on_update()),
    "on time": Given(Even.of(10, 5), ON_TIME, 20, ("early counts",)),
    "on time, closed on the right": Given(right(Even.of(10, 10)), ON_TIME, 20, ("early counts",)),
    "on time, cut": Given(cut("10 milliseconds"), ON_TIME, 20, ("early memory",)),
}  # fmt: skip
"""By name."""


def world(name):
    """The query of a scenario, which refuses state that it would have to adapt."""
    given = SCENARIOS[name]
    found = Scenario(given.kind, given.trigger, given.grace * MS, given.content, given.results, adapts=True)
    found.fingerprint = replace(found.fingerprint, adapt=REFUSE)
    return found


def stored(name):
    """What the file holds of a scenario."""
    found = world(name)
    batches = [list(each) for each in stream(random.Random(name), found.kind, BATCHES)]
    for batch in batches[:SEEN]:
        found.step(*batch)
    return {"batches": batches, "seen": SEEN, "header": found.store.text, "pages": found.store.pages}


if __name__ == "__main__":
    save(NAME, {name: stored(name) for name in SCENARIOS})
