"""State of sliding windows that are corrected: a golden file, and the query that continues from it.

The commit that brought sliding windows wrote `open_sliding.json.xz`, by this file as it was then: all micro-batches,
and the header and pages after `SEEN` of them. It is not written again.
"""

from pathlib import Path

from scenarios.kinds.sliding import Sliding
from scenarios.scenario import Scenario

from slicing.state.format.fingerprint import fingerprint_of
from slicing.triggers.emission import on_close
from slicing.windows.sliding import sliding

FILE = Path(__file__).parent / "open_sliding.json.xz"
SEEN = 25


def world():
    """Left and right windows that say what they replace."""
    trigger = on_close(corrections=True, old=True)
    made = Scenario(Sliding(sliding("10 milliseconds")), trigger, 20_000, results=("sum", "joined"))
    made.fingerprint = fingerprint_of(made.shape, ["partials"] * 2, [["v"], ["s"]], "1 bucket")
    return made
