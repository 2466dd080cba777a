"""The cost of Spark's default byte limit for Arrow batches."""

from benchmarks.baselines.ours import Ours
from benchmarks.comparisons.comparison import TIME, Comparison
from benchmarks.comparisons.dense import MILLION_HOUR
from benchmarks.comparisons.shared import dense
from benchmarks.running import turns
from benchmarks.running.run import Run
from benchmarks.running.side import WARM, Side


def _sides() -> tuple[Run, Run]:
    ours = Side(Ours(), *MILLION_HOUR, WARM)
    limited, unlimited = turns.run(ours.but(batch_bytes="64MB"), ours)
    return limited, unlimited


BENCHMARKS = (
    Comparison(
        "BatchBytes",
        "dense, R = 360, 1,000,000 records, Arrow batches limited by records only / also by bytes, Spark's default",
        sides=_sides,
        checks=(dense(),),
        measure=TIME,
    ),
)
