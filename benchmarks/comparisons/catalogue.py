"""Results other than sums: sketches against Spark's, and five results that share fields against one of them."""

from dataclasses import replace

from benchmarks.baselines import polars_results
from benchmarks.baselines.ours import MORE, Ours
from benchmarks.baselines.polars_results import PolarsResults
from benchmarks.baselines.query import Query, WindowsOf
from benchmarks.baselines.spark_results import SparkResults, SparkTopK
from benchmarks.comparisons.comparison import BOUNDED, TIME, Check, Comparison, Measure
from benchmarks.comparisons.shared import DENSE_HOUR
from benchmarks.running import bounded, streams, turns
from benchmarks.running.run import Run
from benchmarks.running.side import WARM, Settings, Side
from benchmarks.workloads.inputs import DAY, DENSE, DENSE_CUT, HOUR, MINUTE, TEN_SECONDS
from benchmarks.workloads.workload import Workload
from slicing.aggregates.fields import numpy_type, width_of

FIVE = "mean, variance, stddev, count and sum"
TENTH = DENSE.cut(0.1)
SLOWEST = Settings(store="default store", unsteady=1, steady=1, warm_up=0, limit=300)


def _ours(name: str) -> Side:
    return Side(Ours(more=name), *DENSE_HOUR, WARM)


def _beside(name: str, theirs: Query) -> tuple[Run, Run]:
    """Run theirs on a tenth of records and keys, because all of them would take minutes per micro-batch, then ours."""
    baseline = streams.run(Side(theirs, TENTH, HOUR, TEN_SECONDS, SLOWEST))
    return replace(baseline, note="default store only; cold, one micro-batch"), streams.run(_ours(name))


def _check(ours: Query, theirs: Query) -> Check:
    return Check(ours, theirs, DENSE_CUT, HOUR, TEN_SECONDS)


def _against(name: str, title: str, result: str, theirs: Query, goal: float, exact: bool = False) -> Comparison:
    ours = Ours(more=result)
    return Comparison(
        name,
        f"dense, R = 360, {title} on a tenth of records and keys, per record",
        sides=lambda: _beside(result, theirs),
        checks=(_check(ours, theirs) if exact else _check(WindowsOf(ours), WindowsOf(theirs)),),
        goal=goal,
    )


def _five() -> tuple[Run, Run]:
    mean, five = turns.run(_ours("mean"), _ours("five"))
    return mean, five


def _bytes(name: str) -> int:
    """The bytes of a partial of the result `name` of a long."""
    (bound,) = MORE[name].values()
    return sum(width_of(f.kind) or numpy_type(f.kind).itemsize for f in bound.resolve(("bigint",)).fields)


PER_BYTE = Measure(
    "x its time per byte of a partial",
    False,
    lambda total, bins: bins.per_record / _bytes("bins") / (total.per_record / _bytes("total")),
)


def _per_byte() -> tuple[Run, Run]:
    total, bins = turns.run(_ours("total"), _ours("bins"))
    return total, bins


def _bounded(name: str, title: str, result: str, exact: bool = False, of: Workload = DENSE) -> Comparison:
    ours, theirs = Ours(more=result), PolarsResults(result)
    if exact:
        check = Check(ours, theirs, DENSE_CUT, HOUR, MINUTE, BOUNDED)
    else:
        check = Check(WindowsOf(ours), WindowsOf(theirs), DENSE_CUT, HOUR, MINUTE, BOUNDED)
    return Comparison(
        name,
        f"{of.name}, bounded, R = 60, {title}",
        sides=lambda: (polars_results.run(result, of, HOUR, MINUTE), bounded.run(ours, of, HOUR, MINUTE)),
        checks=(check,),
        goal=3.0,
        measure=TIME,
    )


BENCHMARKS = (
    Comparison(
        "FiveResults",
        f"dense, R = 360, {FIVE} of a long / mean alone",
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
    Comparison(
        "PercentilesPerByte",
        "dense, R = 360, percentile_relative of three, 1 %, between 1 and 1,000 / sum",
        sides=_per_byte,
        checks=(_check(WindowsOf(Ours(more="bins")), WindowsOf(SparkResults("ranks"))),),
        goal=1.5,
        measure=PER_BYTE,
    ),
    _against("Largest", "largest(10) / Spark's max_by(10)", "largest", SparkResults("largest"), 20.0, True),
    _against("TopK", "top_k(10) / Spark's own two steps with its sketches", "top", SparkTopK(), 10.0),
    _bounded("PolarsFive", f"{FIVE} / rolling sums of Polars", "five", exact=True),
    _bounded("PolarsFiveDay", f"{FIVE} / rolling sums of Polars", "five", exact=True, of=DAY),
    _bounded("PolarsDistinct", "approx_count_distinct, 5 % / approx_n_unique of Polars", "distinct"),
    _bounded("PolarsPercentiles", "percentile_relative of three, 1 % / exact quantiles of Polars", "percentiles"),
    _bounded("PolarsRanks", "approx_percentile of three, 1 % / exact quantiles of Polars", "ranks"),
    _bounded("PolarsTop", "top_k(10) / value_counts of Polars", "top"),
)
