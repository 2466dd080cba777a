"""A function of all records of a window against `applyInPandas` on records that were copied into every window."""

from benchmarks.baselines.medians import AppliedMedians, OurMedians
from benchmarks.comparisons.comparison import BOUNDED, Check, Comparison
from benchmarks.running import bounded
from benchmarks.workloads.inputs import HOUR, MINUTE
from benchmarks.workloads.workload import Workload

MEDIANS = Workload("medians", 200_000, 1_000, 14_400, 1)

BENCHMARKS = (
    Comparison(
        "ProcessMedian",
        "medians, R = 60, `process` with numpy's median / Spark `applyInPandas` on exploded rows, bounded",
        sides=lambda: (
            bounded.run(AppliedMedians(), MEDIANS, HOUR, MINUTE),
            bounded.run(OurMedians(), MEDIANS, HOUR, MINUTE),
        ),
        checks=(Check(OurMedians(), AppliedMedians(), MEDIANS.cut(0.02), HOUR, MINUTE, BOUNDED),),
        goal=10.0,
    ),
)
