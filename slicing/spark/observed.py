"""The metrics that a query observes on packed rows, as SQL text.

SQL instead of Columns: a Column takes a dozen calls of the JVM, most of the time in which a query is built.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """Return the SQL of the count of this name, 0 if no row has it."""
    return f"{_count(name)} AS `{name}`"


def delays(delay: int, retained: int | None) -> list[str]:
    """Return the SQL of the counts of required delays, the longest one, the watermark delay and the retained time."""
    return [
        f"{_counts_by_number(DELAYS)} AS `{REQUIRED_DELAYS}`",
        counted(LONGEST_DELAY),
        f"{delay}L AS `{WATERMARK_DELAY}`",
        f"CAST({'NULL' if retained is None else retained} AS BIGINT) AS `{RETAINED}`",
    ]


def _counts_by_number(names: Sequence[str]) -> str:
    """The SQL of an array with one count per name; the causes of the names are consecutive and the greatest ones.

    It is one metric that collects the rows with counts, because Spark plans each metric in every micro-batch.
    """
    first = CAUSES[names[0]]
    found = f"CASE WHEN `{CAUSE}` >= {first} THEN struct(`{CAUSE}` - {first} AS place, `{COUNT}` AS number) END"
    added = "transform(sums, (each, place) -> IF(place = one.place, each + one.number, each))"
    return f"aggregate(collect_list({found}), array_repeat(0L, {len(names)}), (sums, one) -> {added})"


def _count(name: str) -> str:
    function = "max" if name in MAXIMA else "sum"
    return f"coalesce({function}(CASE WHEN `{CAUSE}` = {CAUSES[name]} THEN `{COUNT}` END), 0L)"
