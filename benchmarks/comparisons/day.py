"""Windows of many keys at R = 60, against Spark's tumbling windows, with one window per record."""

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons.comparison import Check, Comparison
from benchmarks.comparisons.shared import hourly
from benchmarks.running import streams, turns
from benchmarks.running.run import Run
from benchmarks.running.side import SLOW, WARM, Side
from benchmarks.workloads.inputs import DAY, DAY_CUT, HOUR, MINUTE


def ours() -> tuple[Run, ...]:
    """Run ours at R = 60: the sum of a long, and of a double.

    Not in turns with Spark, which leaves garbage of a million rows of state that would be collected during our turn.
    """
    return turns.run(*(Side(query, DAY, HOUR, MINUTE, WARM) for query in (Ours("v"), Ours("d"))))


def _tumbling(column: str) -> Run:
    return streams.faster(Side(SparkWindow(column), DAY, MINUTE, MINUTE, SLOW))


BENCHMARKS = (
    Comparison(
        "DayLong",
        "day, R = 60, long / Spark tumbling (R = 1)",
        sides=lambda: (_tumbling("v"), ours()[0]),
        checks=(hourly(), Check(Ours(), SparkWindow(), DAY_CUT, MINUTE, MINUTE)),
        goal=2.2,
    ),
    Comparison(
        "DayDouble",
        "day, R = 60, double / Spark tumbling (R = 1)",
        sides=lambda: (_tumbling("d"), ours()[1]),
        checks=(hourly("d"),),
    ),
)
