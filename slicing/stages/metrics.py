"""The names of the metrics that a query observes."""

from __future__ import annotations

from slicing.profiling import STAGES

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


def timer(stage: str) -> str:
    """The metric of a stage that is timed."""
    return f"micros_{stage}"


PREAGGREGATE = timer("preaggregate")
TIMERS = (PREAGGREGATE, *map(timer, STAGES))
"""More observed metrics where a stream is timed: microseconds of the stages in Python, see `slicing.profiling`."""
