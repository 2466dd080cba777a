"""Ours by kind of aggregate: sums of doubles, which cannot be subtracted, and a user's four functions row by row."""

from benchmarks.baselines.ours import FourFunctions
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons import day, wide
from benchmarks.comparisons.comparison import TIME, Check, Comparison
from benchmarks.comparisons.shared import hourly
from benchmarks.running.run import Run
from benchmarks.workloads.inputs import DAY_CUT, HOUR, MINUTE


def _wide() -> tuple[Run, Run]:
    runs = wide.DAY.sides()
    return runs["v"][1], runs["d"][1]


BENCHMARKS = (
    Comparison(
        "DoubleHour",
        "sum of a double, n = 60 / sum of a long",
        sides=lambda: day.ours()[:2],
        checks=(hourly("v"), hourly("d")),
        goal=1.2,
        measure=TIME,
    ),
    Comparison(
        "DoubleDay",
        "sum of a double, n = 1440 / sum of a long",
        sides=_wide,
        checks=(wide.DAY.check("v"), wide.DAY.check("d")),
        goal=1.2,
        measure=TIME,
    ),
    Comparison(
        "FourFunctionsByRow",
        "day, R = 60, four functions row by row / columnar sum",
        sides=lambda: day.ours()[::2],
        checks=(hourly(), Check(FourFunctions(), SparkWindow(), DAY_CUT, HOUR, MINUTE)),
        goal=3.0,
        measure=TIME,
    ),
)
