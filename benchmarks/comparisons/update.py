"""Updates of open windows against Spark's update mode, and `on_close()` against updates that are suppressed later."""

from dataclasses import replace

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkWindow
from benchmarks.comparisons import dense as closes
from benchmarks.comparisons.comparison import Check, Comparison
from benchmarks.comparisons.shared import DENSE_HOUR, beside_spark, dense
from benchmarks.running import streams
from benchmarks.running.run import Run
from benchmarks.running.side import SLOWER, WARM, Side
from benchmarks.workloads.inputs import DENSE, DENSE_CUT, HOUR, MINUTE, TEN_SECONDS
from slicing import on_update

OURS = Ours(emission=on_update())
UPDATES = replace(WARM, mode="update")
SLOW_UPDATES = replace(SLOWER, mode="update")


def _hour() -> tuple[Run, Run]:
    spark, ours = beside_spark(HOUR, SLOW_UPDATES, Side(OURS, DENSE, HOUR, MINUTE, UPDATES))
    return spark, ours


def _ours() -> Run:
    return streams.run(Side(OURS, *DENSE_HOUR, UPDATES))


def _sparks() -> Run:
    return streams.faster(Side(SparkWindow(), *DENSE_HOUR, SLOW_UPDATES))


def _check(advance: str) -> Check:
    return Check(OURS, SparkWindow(), DENSE_CUT, HOUR, advance, mode="update")


BENCHMARKS = (
    Comparison(
        "UpdateHour",
        "on_update, dense, R = 60 / Spark's update mode",
        sides=_hour,
        checks=(_check(MINUTE),),
        goal=6.0,
    ),
    Comparison(
        "UpdateFine",
        "on_update, dense, R = 360 / Spark's update mode",
        sides=lambda: (_sparks(), _ours()),
        checks=(_check(TEN_SECONDS),),
        goal=12.0,
    ),
    Comparison(
        "Suppressed",
        "on_close, dense, R = 360 / Spark's update mode, as it runs before a suppression of updates downstream",
        sides=lambda: (_sparks(), closes.ours()),
        checks=(dense(),),
    ),
    Comparison(
        "SuppressedOurs",
        "on_close, dense, R = 360 / our on_update, as it runs before a suppression of updates downstream",
        sides=lambda: (_ours(), closes.ours()),
        checks=(dense(),),
    ),
)
