"""State of windows of so many records, of partials and of records: a golden file, and the queries that go on from it.

The commit that brought them wrote `counted.json.xz`, by this file as it was then: for each kind all micro-batches, and
the header and pages after `SEEN` of them. It is not written again.
"""

from pathlib import Path

from oracle import CASES, Case
from scenarios.kinds.counting import Counting
from scenarios.scenario import Scenario

from slicing.aggregates.aggregate import Aggregate
from slicing.state.format.fingerprint import PARTIALS, WINDOWS, fingerprint_of
from slicing.triggers.emission import on_close
from slicing.windows.counting import counting

FILE = Path(__file__).parent / "counted.json.xz"
SEEN = 25
ALONE = Case(Aggregate(lambda: "", lambda acc, v: f"{acc}{v},"), CASES["joined"].truth)
KINDS = {"partials": ("sum", "joined", "highest"), "records": (ALONE, "sum")}
"""By name: results. The first ones combine, of the others one does not."""


def world(name):
    """Windows whose advance does not divide their size, of keys that are forgotten now and then."""
    made = Scenario(Counting(counting(6, 4, ttl="20 milliseconds")), on_close(), results=KINDS[name])
    content = PARTIALS if name == "partials" else WINDOWS
    columns = [*([f"v{at}"] for at in range(len(KINDS[name]))), [None]]
    made.fingerprint = fingerprint_of(made.shape, [content] * len(columns), columns, "1 bucket", "none")
    return made
