"""Windows of ten minutes that end with each record: a million records of 10,000 keys in an hour, and as a stream."""

from dataclasses import replace

from benchmarks.baselines import polars_rolling
from benchmarks.baselines.floor import Floor
from benchmarks.baselines.ours import OurSliding
from benchmarks.baselines.polars_rolling import PolarsRolling
from benchmarks.baselines.query import Query
from benchmarks.baselines.spark import SparkOver
from benchmarks.comparisons.comparison import BOUNDED, TIME, Check, Comparison
from benchmarks.running import bounded, streams, turns
from benchmarks.running.run import Run
from benchmarks.running.side import WARM, Side
from benchmarks.workloads.inputs import SLIDING, TEN_MINUTES

_WINDOW = SLIDING, TEN_MINUTES, TEN_MINUTES
"""There is no advance, and nobody asks for it."""


def _check(theirs: Query) -> Check:
    return Check(OurSliding(), theirs, SLIDING.cut(0.02), TEN_MINUTES, TEN_MINUTES, BOUNDED)


def _ours() -> Run:
    return bounded.run(OurSliding(), *_WINDOW)


def _stream() -> tuple[Run, Run]:
    """The same stages with as many rows and no work, then ours, by turns."""
    ours = Side(OurSliding(), *_WINDOW, WARM)
    rows = streams.run(ours).rows  # which warms ours up too
    floor, found = turns.run(replace(ours, query=Floor(rows)), ours.but(warm_up=0.0))
    return floor, found


BENCHMARKS = (
    Comparison(
        "SlidingBounded",
        "sliding 10 minutes, bounded / Spark `OVER (... RANGE ...)`",
        sides=lambda: (bounded.run(SparkOver(), *_WINDOW), _ours()),
        checks=(_check(SparkOver()),),
        goal=3.0,
    ),
    Comparison(
        "SlidingPolars",
        "sliding 10 minutes, bounded / Polars `rolling` in process",
        sides=lambda: (polars_rolling.run(SLIDING, TEN_MINUTES), _ours()),
        checks=(_check(PolarsRolling()),),
        goal=3.0,
        measure=TIME,
    ),
    Comparison(
        "SlidingFloor",
        "sliding 10 minutes, a stream / the same stages and as many rows without any work",
        sides=_stream,
        checks=(),
        measure=TIME,
    ),
)
