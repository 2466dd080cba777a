"""Count windows of 100 records at every tenth: on a stream against time windows with equally many rows, and on bounded
input against Spark's sums over rows.
"""

from benchmarks.baselines.ours import OurCounting, Ours
from benchmarks.baselines.spark import SparkCounting
from benchmarks.comparisons.comparison import BOUNDED, TIME, Check, Comparison
from benchmarks.comparisons.shared import hourly
from benchmarks.running import bounded, turns
from benchmarks.running.run import Run
from benchmarks.running.side import WARM, Side
from benchmarks.workloads.inputs import DAY

RECORDS, ADVANCE = 100, 10
SIZE, EVERY = "8640 seconds", "864 seconds"
"""A key has 100 records in SIZE in this workload, so each time window gives a row per ten records too."""
COUNTED = Check(OurCounting(RECORDS, ADVANCE), SparkCounting(RECORDS, ADVANCE), DAY.cut(0.005), SIZE, EVERY, BOUNDED)


def _streams() -> tuple[Run, Run]:
    hopping, counting = turns.run(
        Side(Ours(), DAY, SIZE, EVERY, WARM), Side(OurCounting(RECORDS, ADVANCE), DAY, SIZE, EVERY, WARM)
    )
    return hopping, counting


BENCHMARKS = (
    Comparison(
        "CountingDay",
        "day, the last 100 records at every tenth / ours in time, R = 10",
        sides=_streams,
        checks=(COUNTED, hourly()),
        goal=3.0,
        measure=TIME,
    ),
    Comparison(
        "CountingBounded",
        "day, the last 100 records at every tenth, bounded / Spark `OVER ROWS`",
        sides=lambda: (
            bounded.run(SparkCounting(RECORDS, ADVANCE), DAY, SIZE, EVERY),
            bounded.run(OurCounting(RECORDS, ADVANCE), DAY, SIZE, EVERY),
        ),
        checks=(COUNTED,),
    ),
)
