"""The histogram of the required delays of the new records of a bucket."""

from __future__ import annotations

from slicing.stages.metrics import DELAYS, LONGEST_DELAY
from slicing.triggers.required_delay import FirstEnds, counted, required_delays


def delay_counts(first: FirstEnds, watermark: int, delay: int, grace: int) -> dict[str, int]:
    """Return the record counts by required delay, by the names in `DELAYS`, and the longest required delay.

    All times are in microseconds. Empty without new records.
    """
    if not len(first.records):
        return {}
    required = required_delays(first, watermark, delay, grace)
    counts = dict(zip(DELAYS, counted(required, first.records).tolist(), strict=True))
    return counts | {LONGEST_DELAY: int(required.max())}
