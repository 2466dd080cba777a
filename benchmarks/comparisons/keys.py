"""Many keys with few records each."""

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons.comparison import Check, Comparison
from benchmarks.running import streams
from benchmarks.running.run import Run
from benchmarks.running.side import SLOW, WARM, Side
from benchmarks.workloads.inputs import HOUR, KEYS, MINUTE


def _sides() -> tuple[Run, Run]:
    baseline = streams.faster(Side(SparkWindow(), KEYS.cut(0.1), HOUR, MINUTE, SLOW))
    return baseline, streams.run(Side(Ours(), KEYS, HOUR, MINUTE, WARM))


BENCHMARKS = (
    Comparison(
        "ManyKeys",
        "keys, 100,000 keys, R = 60 / Spark `window()` on a tenth of records and keys, per record",
        sides=_sides,
        checks=(Check(Ours(), SparkWindow(), KEYS.cut(0.01), HOUR, MINUTE),),
        goal=50.0,
    ),
)
