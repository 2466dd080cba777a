"""The metrics that a query observes on packed rows, as SQL.

Not as columns: each would be a dozen calls of the JVM, and all of them most of the time in which a query is built.
"""

from __future__ import annotations

from slicing.stages.flat import CAUSE
from slicing.stages.metrics import (
    CAUSES,
    DELAYS,
    LONGEST_DELAY,
    MAXIMA,
    REQUIRED_DELAYS,
    RETAINED,
    WATERMARK_DELAY,
)
from slicing.stages.packed import COUNT


def counted(name: str) -> str:
    """What is counted under a name, 0 if nothing is."""
    return f"{_count(name)} AS `{name}`"


def delays(delay: int, retained: int | None) -> list[str]:
    """The delays that records need, as an array of counts and the longest; then those that there are."""
    return [
        f"array({', '.join(map(_count, DELAYS))}) AS `{REQUIRED_DELAYS}`",
        counted(LONGEST_DELAY),
        f"{delay}L AS `{WATERMARK_DELAY}`",
        f"{'NULL' if retained is None else retained}::bigint AS `{RETAINED}`",
    ]


def _count(name: str) -> str:
    function = "max" if name in MAXIMA else "sum"
    return f"coalesce({function}(CASE WHEN `{CAUSE}` = {CAUSES[name]} THEN `{COUNT}` END), 0L)"
