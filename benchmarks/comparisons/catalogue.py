"""Results beyond sums: sketches against Spark's, and five results that share fields against one of them."""

from dataclasses import replace

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.query import Query, WindowsOf
from benchmarks.baselines.spark_results import SparkResults, SparkTopK
from benchmarks.comparisons.comparison import TIME, Check, Comparison
from benchmarks.comparisons.shared import DENSE_HOUR
from benchmarks.running import streams, turns
from benchmarks.running.run import Run
from benchmarks.running.side import WARM, Settings, Side
from benchmarks.workloads.inputs import DENSE, DENSE_CUT, HOUR, TEN_SECONDS

TENTH = DENSE.cut(0.1)
SLOWEST = Settings(store="default store", unsteady=1, steady=1, warm_up=0, limit=300)


def _ours(name: str) -> Side:
    return Side(Ours(more=name), *DENSE_HOUR, WARM)


def _beside(name: str, theirs: Query) -> tuple[Run, Run]:
    """Theirs on a tenth of records and keys: all of them would take minutes for a micro-batch."""
    baseline = streams.run(Side(theirs, TENTH, HOUR, TEN_SECONDS, SLOWEST))
    return replace(baseline, note="default store only; cold, one micro-batch"), streams.run(_ours(name))


def _check(ours: Query, theirs: Query) -> Check:
    return Check(ours, theirs, DENSE_CUT, HOUR, TEN_SECONDS)


def _against(name: str, title: str, result: str, theirs: Query, goal: float) -> Comparison:
    return Comparison(
        name,
        f"dense, R = 360, {title} on a tenth of records and keys, per record",
        sides=lambda: _beside(result, theirs),
        checks=(_check(WindowsOf(Ours(more=result)), WindowsOf(theirs)),),
        goal=goal,
    )


def _five() -> tuple[Run, Run]:
    mean, five = turns.run(_ours("mean"), _ours("five"))
    return mean, five


BENCHMARKS = (
    Comparison(
        "FiveResults",
        "dense, R = 360, mean, variance, stddev, count and sum of a long / mean alone",
        sides=_five,
        checks=(_check(Ours(more="mean"), SparkResults("mean")), _check(Ours(more="five"), SparkResults("five"))),
        goal=1.5,
        measure=TIME,
    ),
    _against("Distinct", "approx_count_distinct, 5 % / Spark `window()`", "distinct", SparkResults("distinct"), 20.0),
    _against(
        "PercentilesOfRank",
        "approx_percentile of three, 1 % / Spark `window()`",
        "ranks",
        SparkResults("ranks"),
        20.0,
    ),
    _against(
        "PercentilesRelative",
        "percentile_relative of three, 1 % / Spark `window()` with approx_percentile",
        "percentiles",
        SparkResults("ranks"),
        20.0,
    ),
    _against("TopK", "top_k(10) / Spark's own two steps with its sketches", "top", SparkTopK(), 10.0),
)
