"""Windows of sparse keys with `on_change()`, which emits only changed windows."""

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons.comparison import TIME, Check, Comparison
from benchmarks.running import streams, turns
from benchmarks.running.run import Run
from benchmarks.running.side import SLOW, Side
from benchmarks.workloads.inputs import HOUR, MINUTE, SPARSE
from slicing import on_change

CHECK = Check(Ours(), SparkWindow(), SPARSE.cut(0.002), HOUR, MINUTE)


def _closes_and_changes() -> tuple[Run, Run]:
    """Run on_close and on_change at R = 60; not in turns with Spark, which leaves garbage to collect."""
    queries = (Ours(emission=on_change()), Ours())
    changes, closes = turns.run(*(Side(query, SPARSE, HOUR, MINUTE, SLOW) for query in queries))
    return closes, changes


def _tumbling() -> Run:
    return streams.faster(Side(SparkWindow(), SPARSE, MINUTE, MINUTE, SLOW))


BENCHMARKS = (
    Comparison(
        "ChangeSparse",
        "on_change, 1 M sparse keys, R = 60 / Spark tumbling (R = 1)",
        sides=lambda: (_tumbling(), _closes_and_changes()[1]),
        checks=(CHECK,),
        goal=2.0,
        measure=TIME,
    ),
    Comparison(
        "ChangeClose",
        "on_change, 1 M sparse keys, R = 60 / our on_close",
        sides=_closes_and_changes,
        checks=(CHECK,),
        measure=TIME,
    ),
)
