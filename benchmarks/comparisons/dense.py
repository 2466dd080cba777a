"""Many windows of few keys, R = 360 and more, against Spark's alternatives."""

from dataclasses import replace

from benchmarks.baselines.by_hand import ByHand
from benchmarks.baselines.ours import Ours
from benchmarks.baselines.query import Query
from benchmarks.baselines.spark import SparkTwoStep, SparkWindow
from benchmarks.comparisons.comparison import CLOSED, Check, Comparison
from benchmarks.comparisons.shared import DENSE_HOUR, dense
from benchmarks.running import streams
from benchmarks.running.run import Run
from benchmarks.running.side import SLOWER, WARM, Settings, Side
from benchmarks.workloads.inputs import DENSE, DENSE_MILLION, HOUR, SECOND, TEN_SECONDS

MILLION_HOUR = DENSE_MILLION, HOUR, TEN_SECONDS


def ours() -> Run:
    """Run ours at R = 360."""
    return streams.run(Side(Ours(), *DENSE_HOUR, WARM))


def _sparks(query: Query) -> Run:
    return streams.faster(Side(query, *DENSE_HOUR, SLOWER))


def _limited(query: Query, **changes: int) -> Run:
    return streams.run(Side(query, *DENSE_HOUR, SLOWER).but(limit=120, **changes))


def _million() -> tuple[Run, Run]:
    # Minutes per micro-batch, so only one, on the store that was faster with fewer records.
    store = _sparks(SparkWindow()).store
    slowest = Settings(store=store, unsteady=1, steady=1, warm_up=0, limit=300)
    baseline = streams.run(Side(SparkWindow(), *MILLION_HOUR, slowest))
    note = f"{store} only, the faster at 200,000 records; cold, one micro-batch"
    return replace(baseline, note=note), streams.run(Side(Ours(), *MILLION_HOUR, WARM))


def _fine() -> tuple[Run, Run]:
    # Any micro-batch takes Spark minutes: 3,600 projections exceed the limits of its code generator.
    once = Settings(store="default store", unsteady=0, steady=1, warm_up=0, limit=400)
    baseline = streams.run(Side(SparkWindow(), DENSE.cut(0.05), HOUR, SECOND, once))
    note = "default store only; the first micro-batch, cold, in which no window closes"
    return replace(baseline, note=note), streams.run(Side(Ours(), DENSE, HOUR, SECOND, WARM))


BENCHMARKS = (
    Comparison(
        "Dense",
        "dense, R = 360, 200,000 records / Spark `window()`",
        sides=lambda: (_sparks(SparkWindow()), ours()),
        checks=(dense(),),
        goal=33.0,
    ),
    Comparison(
        "DenseMillion",
        "dense, R = 360, 1,000,000 records / Spark `window()`",
        sides=_million,
        checks=(dense(),),
        goal=60.0,
    ),
    Comparison(
        "DenseFine",
        "dense, R = 3600 / Spark `window()` on a 20th of records and keys, per record",
        sides=_fine,
        checks=(Check(Ours(), SparkWindow(), DENSE.cut(0.001), HOUR, SECOND, CLOSED),),
        goal=200.0,
    ),
    Comparison(
        "DenseTwoStep",
        "dense, R = 360, 200,000 records / Spark's own two steps",
        sides=lambda: (_sparks(SparkTwoStep()), ours()),
        checks=(dense(SparkTwoStep()),),
    ),
    Comparison(
        "DenseEager",
        "dense, R = 360, 200,000 records / our eager strategy",
        sides=lambda: (_limited(Ours(tree="eager")), ours()),
        checks=(dense(Ours(tree="eager")),),
    ),
    Comparison(
        "DenseByHand",
        "dense, R = 360, 200,000 records / `transformWithStateInPandas` by hand, per key",
        sides=lambda: (_limited(ByHand(), steady=1), ours()),
        checks=(dense(ByHand()),),
    ),
)
