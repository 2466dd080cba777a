"""Ours with long windows against R = 60, on the same workload with equally many rows: time, and state bytes read.

The floor of the bytes is what any store of slices reads of the same partials in the same encoding, see
`benchmarks.report.floors`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.baselines.ours import Ours
from benchmarks.baselines.spark import SparkExploded
from benchmarks.comparisons.comparison import BYTES_READ, CLOSED, TIME, Check, Comparison, Measure
from benchmarks.comparisons.shared import hourly
from benchmarks.running import encoded, turns
from benchmarks.running.run import Run
from benchmarks.running.side import Settings, Side
from benchmarks.workloads.inputs import DAYS, HOUR, MINUTE, ONE_DAY, SEVEN_DAYS, TWO_WEEKS, Workload


@dataclass(frozen=True)
class Span:
    """A long window; rows are compared on a `share` of its workload."""

    name: str
    title: str
    workload: Workload
    size: str
    share: float
    settings: Settings

    def sides(self) -> dict[str, tuple[Run, Run]]:
        """Run ours at R = 60 and with the long window; the runs are returned by the summed column."""
        sizes = (HOUR, self.size)
        sides = (Side(Ours(column), self.workload, size, MINUTE, self.settings) for column in "vd" for size in sizes)
        long, wide_long, double, wide_double = turns.run(*sides)
        return {"v": (long, wide_long), "d": (double, wide_double)}

    def check(self, column: str) -> Check:
        """Return the check of the long window's rows."""
        cut = self.workload.cut(self.share)
        return Check(Ours(column), SparkExploded(column), cut, self.size, MINUTE, CLOSED)


READS = 3
"""How often each partial of a long window is read, see `benchmarks.report.floors`."""


def _least(span: Span, column: str) -> tuple[Run, Run]:
    """Return the run at R = 60 with the bytes that the long window has to read, and the run of the long window."""
    hour, ours = span.sides()[column]
    least = READS * encoded.size(span.workload, HOUR, MINUTE, column)
    return replace(hour, read_bytes=least, note="bytes as computed; the time is that of R = 60"), ours


DAY = Span("Day", "day, R = 1440", DAYS, ONE_DAY, 0.0002, Settings())
WEEK = Span("Week", "two weeks, R = 10,080", TWO_WEEKS, SEVEN_DAYS, 0.0001, Settings(unsteady=1, steady=6))


SUMMED = tuple((span, column, kind) for span in (DAY, WEEK) for column, kind in (("v", "long"), ("d", "double")))


def _floors() -> Iterator[Comparison]:
    for span, column, kind in SUMMED:
        yield Comparison(
            f"Read{span.name}{kind.title()}Floor",
            f"state read: {span.title}, {kind} / what any slices read",
            sides=partial(_least, span, column),
            checks=(),
            measure=BYTES_READ,
        )


def _family(name: str, title: str, goal: float, measure: Measure) -> Iterator[Comparison]:
    for span, column, kind in SUMMED:
        yield Comparison(
            f"{name}{span.name}{kind.title()}",
            f"{title}{span.title}, {kind} / ours at R = 60",
            sides=lambda span=span, column=column: span.sides()[column],
            checks=(hourly(column), span.check(column)),
            goal=goal,
            measure=measure,
        )


BENCHMARKS = (*_family("Wide", "", 1.15, TIME), *_family("Read", "state read: ", 1.2, BYTES_READ), *_floors())
