"""State of open sessions, and of what has gone out of them: a golden file, and the query that continues from it.

The commit that brought sessions wrote `open_sessions.json.xz`, by this file as it was then: all micro-batches, and the
header and pages after `SEEN` of them. It is not written again.
"""

from pathlib import Path

from scenarios.kinds.sessions import Sessions
from scenarios.scenario import Scenario

from slicing.state.format.fingerprint import fingerprint_of
from slicing.triggers.emission import early
from slicing.windows.session import session

FILE = Path(__file__).parent / "open_sessions.json.xz"
SEEN = 25


def world():
    """Sessions of a gap per record, which go out early too."""
    made = Scenario(Sessions(session(gap_column="gap")), early(records=3), 30_000, results=("sum", "highest"))
    made.fingerprint = fingerprint_of(made.shape, ["partials"] * 2, [["v"], ["s"]], "1 bucket")
    return made
