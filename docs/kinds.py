"""Draw one window of each kind after another over the same records."""

from slicing import counting, cumulating, hopping, session, sliding, tumbling, unbounded
from slicing.drawing.svg import svg
from slicing.drawing.timeline import Dot, Row, Timeline
from slicing.drawing.windows import packed
from slicing.stages.local_runner import bounded

MINUTE = 60_000_000
NOON = 720 * MINUTE
RECORDS = [NOON + minute * MINUTE for minute in (2, 4, 9, 17, 18)]
LOW, HIGH = NOON - 10 * MINUTE, NOON + 30 * MINUTE
KINDS = (
    tumbling("10 minutes"),
    hopping("10 minutes", advance="5 minutes"),
    cumulating("10 minutes", step="5 minutes"),
    sliding("10 minutes", right=False),
    session("5 minutes"),
    counting(2),
    unbounded(),
)


def kinds():
    """Return the records, and the windows of each kind that hold them, as SVG."""
    rows = [Row("records", dots=tuple(Dot(at, "taken") for at in RECORDS), is_first=True)]
    for window in KINDS:
        rows += packed(repr(window), _intervals(window))
    return svg(Timeline("the same records in each kind of windows", tuple(rows), LOW, HIGH))


def _intervals(window):
    """The windows with records, cut to the picture."""
    found = dict.fromkeys((row.start, row.end) for row in bounded(window, RECORDS).rows)
    return [(max(start, LOW), min(end, HIGH)) for start, end in found]
