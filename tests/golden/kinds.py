"""State of several windows in one bucket and of windows that never close: a golden file, and how it continues.

The commit that brought it wrote `kinds.json.xz`, by this file as it was then and in format 7: for each scenario the
micro-batches, and the header and pages after two thirds of them. It is not written again.
"""

from scenarios.kinds.calendar import BERLIN, HOUR, made
from scenarios.kinds.cumulating import Cumulating
from scenarios.kinds.even import Even
from scenarios.kinds.several import several
from scenarios.kinds.unbounded import Unbounded
from scenarios.scenario import Scenario

from slicing.state.format.fingerprint import PARTIALS, fingerprint_of
from slicing.triggers.emission import early, on_change, on_close, on_update
from slicing.windows.unbounded import unbounded
from slicing.windows.window import tumbling

MS = 1000
CORRECTED = on_close(corrections=True, old=True)
TOGETHER = Even.of(5, 1), Even.of(30, 1), Even.of(60, 1)
DAYS = made(tumbling("1 day", zone=BERLIN), 0, 5, 24, BERLIN, 1)
SEVERAL = {
    "one closes seldom": (several(Even.of(10, 2), Even.of(60, 60)), on_close(), 0),
    "corrected": (several(Even.of(12, 4), Even.of(40, 20), Even.of(2, 2)), CORRECTED, 20 * MS),
    "cumulating": (several(Cumulating.of(60, 5), Even.of(20, 5)), on_close(), 0),
    "a zone": (several(DAYS, Even.of(6 * HOUR // MS, HOUR // MS)), on_update(), 0),
    "ticks": (several(Even.of(7, 7), Even.of(30, 5)), early(every="20 milliseconds"), 0),
    "side by side": (several(*TOGETHER, wide=True), on_close(), 0),
    "side by side, changed": (several(*TOGETHER, wide=True), on_change(drained=True), 0),
}
UNBOUNDED = {
    "never closing": (Unbounded(unbounded()), on_update(), 0),
    "never closing, idle": (Unbounded(unbounded("7 milliseconds")), on_update(), 0),
    "never closing, counted": (Unbounded(unbounded()), early(records=5), 0),
}
"""By name: windows, trigger and grace."""


def world(name, text=None, pages=()):
    """The query of a scenario, with the state that it has."""
    kind, trigger, grace = (SEVERAL | UNBOUNDED)[name]
    return on_state(Scenario(kind, trigger, grace, results=("sum", "joined", "highest")), text, pages)


def on_state(found, text, pages):
    """A scenario that is named in its state as it is in these files, with the state that it has."""
    columns = [[f"value{at}"] for at in range(len(found.cases))]
    found.fingerprint = fingerprint_of(found.shape, [PARTIALS] * len(columns), columns, "1 over 1 shuffle partitions")
    found.store.text, found.store.pages = text, dict(pages)
    return found
