"""The names of the metrics that a query observes."""

from __future__ import annotations

from slicing.profiling import STAGES
from slicing.triggers.required_delay import BOUNDS

METRICS = "slicing: "
"""How the names of all observed metrics begin."""
REFUSED = ("late", "late_for_some", "no_time", "no_window")
"""Refused records by cause, as the observed metrics name them."""
IMPLAUSIBLE = "implausible"
"""Records whose time `slicing.spark.plausible` made null; observed there, under names that begin so."""
EXTENT = ("open_windows", "slices")
"""The size of the state. Buckets share their slices, so the metric is that of the bucket with most."""
COUNTERS = (*REFUSED, "partials_read", "partials_written", "results", *EXTENT)
"""All observed metrics; what a stream reads and writes is counted in partials of its state."""
WATERMARK_DELAY, RETAINED = "watermark_delay", "retained"
"""Where records may be late: the delay of the watermark, and how long a record stays in the state, in microseconds."""
REQUIRED_DELAYS, LONGEST_DELAY = "required_delays", "longest_required_delay"
"""There too: records by the delay that they need, as an array (`slicing.triggers.required_delay`), and the longest."""
DELAYS = tuple(f"{REQUIRED_DELAYS}[{number}]" for number in range(len(BOUNDS) + 1))
"""The counts of the array, as the stateful operator names them."""


def timer(stage: str) -> str:
    """The metric of a stage that is timed."""
    return f"micros_{stage}"


PREAGGREGATE = timer("preaggregate")
TIMERS = (PREAGGREGATE, *map(timer, STAGES))
"""More observed metrics where a stream is timed: microseconds of the stages in Python, see `slicing.profiling`."""
BEFORE_WARM, LOADED = OF_WARM_STARTS = ("before_warm", "loaded")
"""More observed metrics of a warm start: records of the stream that lie in its history, and are dropped; and records of
the history that were loaded, in the first micro-batch."""
MAXIMA = (*EXTENT, LONGEST_DELAY)
"""The metrics that are the greatest of all buckets; of the others it is the sum."""
CAUSES = {name: cause for cause, name in enumerate((*COUNTERS, *TIMERS, LONGEST_DELAY, *DELAYS, *OF_WARM_STARTS))}
"""The numbers by which flat rows name what they count."""
