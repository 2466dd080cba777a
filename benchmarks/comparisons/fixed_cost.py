"""The fixed cost of a micro-batch: it has hardly any records."""

from benchmarks.baselines.floor import Floor
from benchmarks.baselines.ours import Ours
from benchmarks.comparisons.comparison import TIME, Comparison
from benchmarks.comparisons.shared import beside_spark, dense
from benchmarks.running.run import Run
from benchmarks.running.side import Settings, Side
from benchmarks.workloads.inputs import HOUR, SMALL, TEN_SECONDS

SMALLEST = SMALL, HOUR, TEN_SECONDS, Settings(steady=30)


def sides() -> tuple[Run, ...]:
    """Run with few records: Spark at R = 1, ours, and the stages of ours without any work."""
    return beside_spark(TEN_SECONDS, SMALLEST[-1], Side(Ours(), *SMALLEST), Side(Floor(0), *SMALLEST))


BENCHMARKS = (
    Comparison(
        "FixedCost",
        "fixed cost: 1,000 records per micro-batch, R = 360 / Spark tumbling",
        sides=lambda: sides()[:2],
        checks=(dense(),),
        goal=1.6,
        measure=TIME,
    ),
)
