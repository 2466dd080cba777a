"""The names of the metrics that a query observes."""

from __future__ import annotations

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
PREAGGREGATE = "micros_preaggregate"
TIMERS = (
    PREAGGREGATE,
    *(f"micros_{stage}" for stage in ("decode", "read", "assemble", "combine", "encode", "write", "output")),
)
"""More observed metrics where a stream is timed: microseconds of the stages in Python, see `slicing.spark.timers`."""
