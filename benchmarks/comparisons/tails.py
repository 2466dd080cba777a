"""Windows of five lengths up to 90 days with tails in one query, against the longest alone, advancing by a minute."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame

import combinators as C
from benchmarks.baselines.ours import OurLengths
from benchmarks.comparisons.comparison import CLOSED, TIME, Check, Comparison, Measure
from benchmarks.long_windows import ALONE, TOGETHER, WINDOWS
from benchmarks.running import turns
from benchmarks.running.bounded import read
from benchmarks.running.run import Run
from benchmarks.running.side import Settings, Side
from benchmarks.workloads.inputs import MINUTE
from benchmarks.workloads.workload import START, Workload
from slicing import group_by
from slicing.windows.window import Window

(LONGEST,), LENGTHS = WINDOWS[ALONE], WINDOWS[TOGETHER]
BEFORE = Workload("six hours", 250_000, 10_000, 3_600, 6)
MINUTES = Workload("by the minute", 10_000, 10_000, 60, 24, history=BEFORE)
"""Each key has a record per minute, and one window of each length closes per micro-batch."""


DAY = 86_400
LONG, SHORT = (
    replace(MINUTES, batches=64, history=Workload(f"{days} days", days * 11_100, 10_000, days * DAY / 40, 40))
    for days in (90, 2)
)
"""Days with 44 records per key each, then one-minute micro-batches."""
WORST = Measure("x the median", False, lambda _, ours: max(seconds for seconds, _ in ours.each) / ours.seconds)


@dataclass(frozen=True)
class AfterHistory:
    """Windows warm-started from a workload's history, whose records the stream then contains once more."""

    windows: tuple[Window, ...]
    workload: Workload

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with columns `records` and `total`; none that ends in the history is emitted."""
        history = self.workload.history
        assert history is not None
        until = datetime.fromtimestamp(START / 1e6 + history.seconds * history.batches, UTC)
        defined = group_by(frame, "key").window(*self.windows, time="ts").define(records=C.count(), total=C.sum("v"))
        return defined.warm(read(self.workload), until=until).dataframe()


def _by_day() -> tuple[Run, Run]:
    early, late = turns.run(*(_after(workload, (LONGEST,), steady=60) for workload in (SHORT, LONG)))
    return early, late


def _worst() -> tuple[Run, Run]:
    _, late = _by_day()
    return late, late


def _after(workload: Workload, windows: tuple[Window, ...], steady: int) -> Side:
    settings = Settings(unsteady=4, steady=steady, warm_up=0.0, limit=600)
    return Side(AfterHistory(windows, workload), workload, "90 days", MINUTE, settings)


def _sides() -> tuple[Run, Run]:
    queries = OurLengths((LONGEST,)), OurLengths(LENGTHS)
    sides = (Side(query, MINUTES, "90 days", MINUTE, Settings(unsteady=4, steady=20)) for query in queries)
    alone, together = turns.run(*sides)
    return alone, together


def _check() -> Check:
    """A check that a stream, which merges slices, has the same rows as bounded input, which does not."""
    short = replace(MINUTES, records=1, keys=1, batches=3, history=replace(BEFORE, records=60, keys=1, batches=2))
    return Check(OurLengths(LENGTHS), OurLengths(LENGTHS), short, "90 days", MINUTE, CLOSED)


BENCHMARKS = (
    Comparison(
        "FiveLengths",
        "five lengths to 90 days with tails, by the minute / 90 days with a tail alone",
        sides=_sides,
        checks=(_check(),),
        goal=2.0,
        measure=TIME,
    ),
    Comparison(
        "TailDays",
        "90 days with a tail, by the minute, a micro-batch after 90 days / after 2 days",
        sides=_by_day,
        checks=(_check(),),
        goal=1.1,
        measure=TIME,
    ),
    Comparison(
        "TailWorst",
        "90 days with a tail, by the minute, the longest of 60 micro-batches after 90 days / their median",
        sides=_worst,
        checks=(_check(),),
        goal=2.0,
        measure=WORST,
    ),
)
