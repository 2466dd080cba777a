"""Bounded input against Spark's batch queries."""

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.query import Query
from benchmarks.baselines.spark import SparkRange, SparkTwoStep, SparkWindow
from benchmarks.comparisons.comparison import BOUNDED, Check, Comparison
from benchmarks.running import bounded
from benchmarks.workloads.inputs import DAY, DAY_CUT, HOUR, MINUTE


def _bounded(name: str, title: str, theirs: Query, share: float) -> Comparison:
    """A comparison of ours on the workload day with Spark on a share of it."""
    return Comparison(
        name,
        f"day, bounded, R = 60 / {title}",
        sides=lambda: (
            bounded.run(theirs, DAY.cut(share), HOUR, MINUTE),
            bounded.run(Ours(), DAY, HOUR, MINUTE),
        ),
        checks=(Check(Ours(), theirs, DAY_CUT, HOUR, MINUTE, BOUNDED),),
    )


BENCHMARKS = (
    _bounded("BoundedWindow", "Spark `window()` on a tenth of records and keys, per record", SparkWindow(), 0.1),
    _bounded("BoundedTwoStep", "Spark's own two steps on a tenth of records and keys, per record", SparkTwoStep(), 0.1),
    _bounded("BoundedRange", "Spark `sum().over(rangeBetween)` over slices", SparkRange(), 1.0),
)
