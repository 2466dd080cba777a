"""The named inputs that comparisons share, and durations of the windows over them."""

from dataclasses import replace

from benchmarks.workloads.workload import Workload

SECOND, TEN_SECONDS, MINUTE, TEN_MINUTES = "1 second", "10 seconds", "1 minute", "10 minutes"
HOUR, ONE_DAY, SEVEN_DAYS = "1 hour", "24 hours", "7 days"

DAY = Workload("day", 1_000_000, 10_000, 8_640, 10)
NINETY_DAYS = Workload("ninety days", 1_000_000, 10_000, 77_760, 100)
DAYS = Workload("two days", 1_000_000, 10_000, 8_640, 6, history=replace(DAY, batches=11))
_WEEK = Workload("seven days", 1_000_000, 1_000, 86_400, 7)
TWO_WEEKS = replace(_WEEK, name="two weeks", history=_WEEK)
DENSE = Workload("dense", 200_000, 1_000, 360, 10)
DENSE_MILLION = Workload("dense million", 1_000_000, 1_000, 360, 6)
SLIDING = Workload("an hour", 100_000, 10_000, 360, 10)
SLIDING_MANY = Workload("an hour of ten million", 1_000_000, 10_000, 360, 10)
SMALL = Workload(
    "dense by 1,000", 1_000, 1_000, 1.8, 40, parts=1, history=Workload("dense", 500_000, 1_000, 1_800, 2, parts=1)
)
AFTER_A_DAY = replace(DENSE, name="dense after a day", history=Workload("a day", 2_000_000, 1_000, 45_000, 2))
SPARSE = Workload("sparse", 100_000, 1_000_000, 720, 4, history=Workload("sparse before", 100_000, 1_000_000, 720, 6))
FEW_KEYS = Workload("few keys", 100_000, 4, 8_640, 10)
KEYS = Workload("keys", 200_000, 100_000, 360, 10)

DAY_CUT = DAY.cut(0.002)
DENSE_CUT = DENSE.cut(0.005)
"""Cuts of workloads on which rows are compared."""
