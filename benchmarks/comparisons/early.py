"""Early firings by record count or delay, whichever comes first, against updates in every micro-batch."""

from dataclasses import replace

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons.comparison import TIME, Check, Comparison
from benchmarks.running import turns
from benchmarks.running.run import Run
from benchmarks.running.side import WARM, Side
from benchmarks.workloads.inputs import DENSE_CUT, DENSE_MILLION, MINUTE
from slicing import early, on_update

UPDATES = Side(Ours(emission=on_update()), DENSE_MILLION, MINUTE, MINUTE, WARM)
FIRST = replace(UPDATES, query=Ours(emission=early(records=5, after="10 seconds")))


def _sides() -> tuple[Run, ...]:
    return turns.run(UPDATES, FIRST)


BENCHMARKS = (
    Comparison(
        "EarlyFirst",
        "5 records or 10 s, whichever comes first, tumbling / on_update",
        sides=_sides,
        checks=(Check(UPDATES.query, SparkWindow(), DENSE_CUT, MINUTE, MINUTE, mode="update"),),
        goal=1.3,
        measure=TIME,
    ),
)
