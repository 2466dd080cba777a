"""A comparison of a baseline with ours: two runs, checks for equal rows, and a goal for the ratio.

Both sides run in one process, each after a warm-up run unless a note says that it was cold. If a few percent matter,
the micro-batches of both sides, or of several queries of ours, alternate; otherwise one side runs after the other. A
ratio is given only if the same queries, on the same workload or a cut of it, write equal rows to Parquet.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

from benchmarks.baselines import polars
from benchmarks.baselines.query import Query
from benchmarks.report import results
from benchmarks.running import written
from benchmarks.running.run import Run
from benchmarks.running.side import CORES, MASTER
from benchmarks.workloads.rows import difference
from benchmarks.workloads.workload import Workload

STREAMS, BOUNDED, CLOSED = "streams", "bounded", "closed"


class Benchmark(Protocol):
    """The interface of the entries of `BENCHMARKS`."""

    @property
    def name(self) -> str:
        """A unique name."""

    def measured(self) -> results.Kept:
        """Run the benchmark and return its result."""


@dataclass(frozen=True)
class Measure:
    """The ratio of two runs, its unit, and whether a larger ratio is better."""

    unit: str
    more_is_better: bool
    ratio: Callable[[Run, Run], float]


FASTER = Measure("times faster", True, lambda baseline, ours: baseline.per_record / ours.per_record)
TIME = Measure("x its time", False, lambda baseline, ours: ours.per_record / baseline.per_record)
MEMORY = Measure(
    "x its memory",
    False,
    lambda baseline, ours: (ours.worker_mib - ours.idle_mib) / (baseline.worker_mib - baseline.idle_mib),
)
"""The memory of the largest Python worker, minus that of an idle worker."""
PROCESSOR = Measure(
    "times fewer processor seconds",
    True,
    lambda baseline, ours: baseline.processor / baseline.records / (ours.processor / ours.records),
)
"""Processor seconds per record, for sides that use their cores in different ways."""
BYTES_READ = Measure("x its bytes", False, lambda baseline, ours: ours.read_bytes / baseline.read_bytes)
"""Bytes read from the state store in a micro-batch."""


class Checked(Protocol):
    """A condition for a meaningful ratio."""

    def difference(self) -> str | None:
        """Return how the rows differ, or None."""


@dataclass(frozen=True)
class Check:
    """Two queries that must return equal rows on a workload; `theirs` is None for Polars, which is bounded.

    `how` is STREAMS if both are streams, BOUNDED if both are bounded, or CLOSED if ours is a stream and theirs is
    bounded; then the windows that are closed at the end of the stream must be equal.
    Streams run on `master`.
    """

    ours: Query
    theirs: Query | None
    workload: Workload
    size: str
    advance: str
    how: str = STREAMS
    mode: str = "append"
    master: str = MASTER

    def difference(self) -> str | None:
        """Return how the rows differ, or None."""
        return _difference(self)


@cache
def _difference(check: Check) -> str | None:
    window = (check.workload, check.size, check.advance)
    if check.theirs is None:
        with written.of_bounded(check.ours, *window) as ours, polars.written(*window) as theirs:
            return difference(ours, theirs)
    of_stream = partial(written.of_stream, mode=check.mode, master=check.master)
    write_ours = written.of_bounded if check.how == BOUNDED else of_stream
    write_theirs = of_stream if check.how == STREAMS else written.of_bounded
    with write_ours(check.ours, *window) as ours, write_theirs(check.theirs, *window) as theirs:
        return difference(ours, written.closed(theirs, check.workload) if check.how == CLOSED else theirs)


@dataclass(frozen=True)
class Comparison:
    """A comparison: `title` is "workload / baseline", `sides` runs the baseline, then ours; `checks` compare rows."""

    name: str
    title: str
    sides: Callable[[], tuple[Run, Run]]
    checks: tuple[Checked, ...]
    goal: float | None = None
    measure: Measure = FASTER

    def measured(self) -> results.Ratio:
        """Run the checks and both sides; return the ratio."""
        differs = next(filter(None, (check.difference() for check in self.checks)), None)
        return self.ratio_of(*self.sides(), differs)

    def ratio_of(self, baseline: Run, ours: Run, differs: str | None) -> results.Ratio:
        """Return the ratio of two runs, None if a side was stopped or rows differ."""
        known = not (baseline.stopped or ours.stopped or differs)
        return results.Ratio(
            name=self.name,
            title=self.title,
            unit=self.measure.unit,
            goal=self.goal,
            more_is_better=self.measure.more_is_better,
            ratio=self.measure.ratio(baseline, ours) if known else None,
            differs=differs,
            baseline=baseline,
            ours=ours,
            machine=results.machine(CORES),
        )
