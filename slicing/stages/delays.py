"""The delays that the new records of a bucket need, as counts."""

from __future__ import annotations

from slicing.stages.metrics import DELAYS, LONGEST_DELAY
from slicing.triggers.required_delay import FirstEnds, counted, required_delays


def delay_counts(first: FirstEnds, watermark: int, delay: int, grace: int) -> dict[str, int]:
    """Return how many records need which delay, by the names of the counts, and the longest; times in microseconds."""
    if not len(first.records):
        return {}
    required = required_delays(first, watermark, delay, grace)
    counts = dict(zip(DELAYS, counted(required, first.records).tolist(), strict=True))
    return counts | {LONGEST_DELAY: int(required.max())}
