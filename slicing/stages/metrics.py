"""The metrics that a query observes: their names, and the histogram of the required delays of new records."""

from __future__ import annotations

from slicing.profiling import STAGES
from slicing.triggers.required_delay import BOUNDS, FirstEnds, counted, required_delays

METRICS = "slicing: "
"""The prefix of the names of all observed metrics."""
REFUSED = ("late", "late_for_some", "no_time", "no_window")
"""Refused records by cause, as the observed metrics name them."""
IMPLAUSIBLE = "implausible"
"""The prefix of the metrics of records whose time `slicing.spark.plausible` has set to null; observed there."""
ELSEWHERE = "dropped_by_other_operators"
"""Rows behind the watermark that other stateful operators of the query drop; Spark's progress counts them."""
EXTENT = ("open_windows", "slices")
"""The size of the state. All buckets have the same slices, so the metric is the maximum over buckets, not the sum."""
COUNTERS = (*REFUSED, "partials_read", "partials_written", "results", *EXTENT)
"""All observed metrics. State that is read and written is counted in partials."""
WATERMARK_DELAY, RETAINED = "watermark_delay", "retained"
"""Metrics if records may be late: the watermark delay, and the time a record stays in the state, in microseconds."""
REQUIRED_DELAYS, LONGEST_DELAY = "required_delays", "longest_required_delay"
"""Metrics if records may be late: the histogram of required delays (`slicing.triggers.required_delay`), the longest."""
DELAYS = tuple(f"{REQUIRED_DELAYS}[{number}]" for number in range(len(BOUNDS) + 1))
"""The names of the counts of the histogram in the stateful operator."""


def timer(stage: str) -> str:
    """Return the name of the metric of a timed stage."""
    return f"micros_{stage}"


PREAGGREGATE = timer("preaggregate")
TIMERS = (PREAGGREGATE, *map(timer, STAGES))
"""Additional metrics of a profiled stream: microseconds of the stages in Python, see `slicing.profiling`."""
BEFORE_WARM, LOADED = OF_WARM_STARTS = ("before_warm", "loaded")
"""Additional metrics of a warm start: records of the stream that lie in its history and are dropped; and records of the
history that were loaded in the first micro-batch."""
MAXIMA = (*EXTENT, LONGEST_DELAY)
"""The metrics that are the maximum over buckets; all others are sums."""
CAUSES = {name: cause for cause, name in enumerate((*COUNTERS, *TIMERS, LONGEST_DELAY, *DELAYS, *OF_WARM_STARTS))}
"""The numbers by which flat rows identify the counters."""


def delay_counts(first: FirstEnds, watermark: int, delay: int, grace: int) -> dict[str, int]:
    """Return the record counts by required delay, by the names in `DELAYS`, and the longest required delay.

    All times are in microseconds. Empty without new records.
    """
    if not len(first.records):
        return {}
    required = required_delays(first, watermark, delay, grace)
    counts = dict(zip(DELAYS, counted(required, first.records).tolist(), strict=True))
    return counts | {LONGEST_DELAY: int(required.max())}
