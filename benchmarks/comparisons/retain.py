"""Retaining slices for a day although no window needs them, against the same query without `retain`."""

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons.comparison import CLOSED, TIME, Check, Comparison
from benchmarks.running import turns
from benchmarks.running.run import Run
from benchmarks.running.side import Side
from benchmarks.workloads.inputs import AFTER_A_DAY, HOUR, MINUTE, ONE_DAY

RETAINING = Ours(retain=ONE_DAY)


def _sides() -> tuple[Run, Run]:
    """Both queries after more than a day, when equally many slices are removed as added."""
    plain, retaining = turns.run(*(Side(query, AFTER_A_DAY, HOUR, MINUTE) for query in (Ours(), RETAINING)))
    return plain, retaining


BENCHMARKS = (
    Comparison(
        "RetainDay",
        "slices retained for a day, windows of 1 h by 1 min / without",
        sides=_sides,
        checks=(Check(RETAINING, SparkWindow(), AFTER_A_DAY.cut(0.002), HOUR, MINUTE, CLOSED),),
        goal=1.05,
        measure=TIME,
    ),
)
