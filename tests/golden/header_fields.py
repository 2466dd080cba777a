"""State with the fields that headers of format 8 have got since: a golden file, and how it continues.

The commit that brought it wrote `header_fields.json.xz`, by this file as it was then: for each scenario the
micro-batches, and the header and pages after two thirds of them. It is not written again::

    PYTHONPATH=.:tests python -m tests.golden.header_fields
"""

import random

from golden.kinds import on_state
from golden.make import save
from scenarios.kinds.even import Even
from scenarios.kinds.several import several
from scenarios.kinds.tailed import Coarse
from scenarios.kinds.unbounded import Unbounded
from scenarios.scenario import Scenario
from scenarios.streams import stream

from slicing.triggers.emission import early, on_close, on_update
from slicing.windows.unbounded import unbounded

MS = 1000
NAME, BATCHES, SEEN = "header_fields", 36, 24
BESIDE = several(Coarse.of(20, 1, 10), Even.of(10, 2), reach=30 * MS)
SCENARIOS = {
    "slice groups that are kept apart": (BESIDE, on_close(), "apart"),
    "multiples of event time": (Even.of(12, 4), early(every="20 milliseconds", by="event"), "trigger"),
    "keys that are forgotten": (Unbounded(unbounded("7 milliseconds")), on_update(), "parameters"),
}
"""By name: windows, trigger, and a field that the header has."""


def world(name, text=None, pages=()):
    """The query of a scenario, with the state that it has."""
    kind, trigger, _ = SCENARIOS[name]
    return on_state(Scenario(kind, trigger, results=("floats", "highest"), judged=False), text, pages)


def stored(name):
    """What the file holds of a scenario."""
    made, kind = world(name), SCENARIOS[name][0]
    batches = [list(each) for each in stream(random.Random(name), kind, BATCHES)]
    for batch in batches[:SEEN]:
        made.emit(*batch)
    return {"batches": batches, "seen": SEEN, "header": made.store.text, "pages": made.store.pages}


if __name__ == "__main__":
    save(NAME, {name: stored(name) for name in SCENARIOS})
