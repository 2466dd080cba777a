"""Plain functions of a user: traced, against built-in columnar aggregates; by rows; and the time that tracing takes."""

import statistics
import time
from dataclasses import dataclass

from benchmarks.baselines.functions import FourFunctions, Untraceable, Welford
from benchmarks.baselines.ours import Ours
from benchmarks.baselines.query import Query
from benchmarks.baselines.spark import SparkWindow
from benchmarks.baselines.spark_results import SparkResults
from benchmarks.comparisons.comparison import BOUNDED, FASTER, MEMORY, TIME, Check, Comparison, Measure
from benchmarks.comparisons.shared import hourly
from benchmarks.comparisons.since import Since
from benchmarks.report import results
from benchmarks.running import bounded, turns
from benchmarks.running.run import Run
from benchmarks.running.side import CORES, WARM, Side
from benchmarks.workloads.inputs import DAY, DAY_CUT, HOUR, MINUTE

_TIMES = 15
BEFORE = "1cbd9b4"
"""The commit before functions were traced; then partials of functions by rows were Python objects between calls too."""
BY_ROWS = Since(BEFORE, DAY, HOUR, MINUTE, "rows")
BOUNDED_PLAIN = Since(BEFORE, DAY, HOUR, MINUTE, "plain", bounded=True)


def _sides(*queries: Query) -> tuple[Run, Run]:
    baseline, ours = turns.run(*(Side(query, DAY, HOUR, MINUTE, WARM) for query in queries))
    return baseline, ours


def _bounded(baseline: Query, ours: Query) -> tuple[Run, Run]:
    return bounded.run(baseline, DAY, HOUR, MINUTE), bounded.run(ours, DAY, HOUR, MINUTE)


def _check(ours: Query, theirs: Query | None = None, how: str = "streams") -> Check:
    return Check(ours, theirs or SparkWindow(), DAY_CUT, HOUR, MINUTE, how)


def _since(name: str, title: str, since: Since, goal: float, measure: Measure = FASTER) -> Comparison:
    return Comparison(name, f"{title} / the same at {BEFORE}", since.sides, (since,), goal, measure)


@dataclass(frozen=True)
class Building:
    """The benchmark of the additional milliseconds that building a query takes with tracing, per aggregate."""

    query: Query
    rows: Query
    name: str
    title: str

    def measured(self) -> results.Figure:
        """Return the difference of the medians of both, built in turns."""
        frame = bounded.read(DAY_CUT)
        durations: list[list[float]] = [[], []]
        for _ in range(_TIMES):
            for query, seconds in zip((self.rows, self.query), durations, strict=True):
                start = time.perf_counter()
                query(frame, HOUR, MINUTE)
                seconds.append(time.perf_counter() - start)
        rows, traced = map(statistics.median, durations)
        return results.Figure(self.name, self.title, 1000 * (traced - rows), "ms", 50.0, results.machine(CORES))


BENCHMARKS = (
    Comparison(
        "FourFunctions",
        "day, R = 60, four plain functions, traced / columnar sum",
        sides=lambda: _sides(Ours(), FourFunctions()),
        checks=(hourly(), _check(FourFunctions())),
        goal=1.15,
        measure=TIME,
    ),
    Comparison(
        "Welford",
        "day, R = 60, variance in plain Python, traced / columnar variance",
        sides=lambda: _sides(Ours(more="variance"), Welford()),
        checks=(_check(Welford(), SparkResults("variance")), _check(Ours(more="variance"), SparkResults("variance"))),
        goal=1.3,
        measure=TIME,
    ),
    Comparison(
        "FourFunctionsByRow",
        "day, R = 60, four functions that are not traceable / columnar sum",
        sides=lambda: _sides(Ours(), Untraceable()),
        checks=(hourly(), _check(Untraceable())),
        goal=1.7,
        measure=TIME,
    ),
    Comparison(
        "FourFunctionsBounded",
        "day, bounded, R = 60, four plain functions, traced / row by row",
        sides=lambda: _bounded(FourFunctions(columns=False), FourFunctions()),
        checks=(_check(FourFunctions(), how=BOUNDED), _check(FourFunctions(columns=False), how=BOUNDED)),
        goal=5.0,
    ),
    Comparison(
        "FourFunctionsBoundedSum",
        "day, bounded, R = 60, four plain functions, traced / columnar sum",
        sides=lambda: _bounded(Ours(), FourFunctions()),
        checks=(_check(FourFunctions(), how=BOUNDED), _check(Ours(), how=BOUNDED)),
        measure=TIME,
    ),
    _since("ByRowSince", "day, R = 60, four functions that are not traceable", BY_ROWS, 2.0),
    _since(
        "ByRowMemory", "memory of a worker: day, R = 60, four functions that are not traceable", BY_ROWS, 0.5, MEMORY
    ),
    _since("BoundedSince", "day, bounded, R = 60, four plain functions, traced", BOUNDED_PLAIN, 5.0),
    Building(FourFunctions(), FourFunctions(columns=False), "Building", "building a query, more by tracing"),
)
