"""Left sliding windows of ten minutes, of 10,000 keys in an hour: bounded, and as a stream."""

from benchmarks.baselines import polars_rolling
from benchmarks.baselines.ours import OurSliding, OurSlidings
from benchmarks.baselines.polars_rolling import PolarsRolling
from benchmarks.baselines.query import Query
from benchmarks.baselines.spark import SparkOver, SparkOvers
from benchmarks.comparisons.comparison import BOUNDED, TIME, Check, Comparison
from benchmarks.comparisons.several import one_after_the_other
from benchmarks.running import bounded, turns
from benchmarks.running.run import Run
from benchmarks.running.side import Side
from benchmarks.workloads.inputs import SLIDING, SLIDING_MANY, TEN_MINUTES
from benchmarks.workloads.workload import Workload

LENGTHS = "1 minute", TEN_MINUTES, "30 minutes"


def _bounded(theirs: Query, workload: Workload) -> tuple[Run, Run]:
    """The runs of the baseline and of ours. The advance is ignored, as sliding windows have none."""
    ours = bounded.run(OurSliding(), workload, TEN_MINUTES, TEN_MINUTES)
    return bounded.run(theirs, workload, TEN_MINUTES, TEN_MINUTES), ours


def _polars(workload: Workload) -> tuple[Run, Run]:
    ours = bounded.run(OurSliding(), workload, TEN_MINUTES, TEN_MINUTES)
    return polars_rolling.run(workload, TEN_MINUTES), ours


def _lengths() -> tuple[Run, Run]:
    """A query for each length, then one query of all, in turns."""
    sides = [Side(OurSliding(), SLIDING, length, TEN_MINUTES) for length in LENGTHS]
    *alone, together = turns.run(*sides, Side(OurSlidings(LENGTHS), SLIDING, LENGTHS[-1], TEN_MINUTES))
    return one_after_the_other(alone, LENGTHS), together


def _check(theirs: Query, workload: Workload = SLIDING) -> Check:
    return Check(OurSliding(), theirs, workload.cut(20_000 / workload.total), TEN_MINUTES, TEN_MINUTES, BOUNDED)


BENCHMARKS = (
    Comparison(
        "SlidingBounded",
        "sliding 10 minutes, bounded, 1 M records / Spark `OVER (... RANGE ...)`",
        sides=lambda: _bounded(SparkOver(), SLIDING),
        checks=(_check(SparkOver()),),
        goal=3.0,
    ),
    Comparison(
        "SlidingMany",
        "sliding 10 minutes, bounded, 10 M records / Spark `OVER (... RANGE ...)`",
        sides=lambda: _bounded(SparkOver(), SLIDING_MANY),
        checks=(_check(SparkOver(), SLIDING_MANY),),
        goal=3.0,
    ),
    Comparison(
        "SlidingPolars",
        "sliding 10 minutes, bounded, 1 M records / Polars `rolling` in process",
        sides=lambda: _polars(SLIDING),
        checks=(_check(PolarsRolling()),),
        goal=5.0,
        measure=TIME,
    ),
    Comparison(
        "SlidingManyPolars",
        "sliding 10 minutes, bounded, 10 M records / Polars `rolling` in process",
        sides=lambda: _polars(SLIDING_MANY),
        checks=(_check(PolarsRolling(), SLIDING_MANY),),
        goal=3.0,
        measure=TIME,
    ),
    Comparison(
        "SlidingLengths",
        "sliding 1, 10 and 30 minutes, a stream, in one query / a query for each length",
        sides=_lengths,
        checks=(
            Check(OurSlidings(LENGTHS), SparkOvers(LENGTHS), SLIDING.cut(0.05), TEN_MINUTES, TEN_MINUTES, BOUNDED),
        ),
        goal=2.0,
    ),
)
