"""A comparison: a baseline and ours, what must give equal rows, and the ratio that is wanted.

Both sides run in one process, each after a run that warms it up unless a note says that it was cold. Where a few
percent matter, the micro-batches of both take turns, or those of ours with others of ours; elsewhere one side runs
after the other. A ratio is given only if the same queries, on the same workload or a cut of it, write equal rows into
Parquet.
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
from benchmarks.running.side import CORES
from benchmarks.workloads.rows import difference
from benchmarks.workloads.workload import Workload

STREAMS, BOUNDED, CLOSED = "streams", "bounded", "closed"


class Benchmark(Protocol):
    """What a file of this room lists in `BENCHMARKS`."""

    @property
    def name(self) -> str:
        """A name that no other has."""

    def measured(self) -> results.Kept:
        """Run it."""


@dataclass(frozen=True)
class Measure:
    """What the ratio of two runs is, and whether more of it is better."""

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
"""Of the largest Python worker, above one that is idle."""
PROCESSOR = Measure(
    "times fewer processor seconds",
    True,
    lambda baseline, ours: baseline.processor / baseline.records / (ours.processor / ours.records),
)
"""Per record, where the sides use their cores in different ways."""
BYTES_READ = Measure("x its bytes", False, lambda baseline, ours: ours.read_bytes / baseline.read_bytes)
"""Of the state store, in a micro-batch."""


class Checked(Protocol):
    """What must hold for a ratio to mean something."""

    def difference(self) -> str | None:
        """What differs, or None."""


@dataclass(frozen=True)
class Check:
    """Two queries that must give equal rows on a workload; `theirs` is None for Polars, which is bounded.

    `how`: both are streams, both are bounded, or ours is a stream and theirs is bounded, where all windows that are
    closed at the end of the stream must be equal.
    """

    ours: Query
    theirs: Query | None
    workload: Workload
    size: str
    advance: str
    how: str = STREAMS
    mode: str = "append"

    def difference(self) -> str | None:
        """What differs, or None."""
        return _difference(self)


@cache
def _difference(check: Check) -> str | None:
    window = (check.workload, check.size, check.advance)
    if check.theirs is None:
        with written.of_bounded(check.ours, *window) as ours, polars.written(*window) as theirs:
            return difference(ours, theirs)
    of_stream = partial(written.of_stream, mode=check.mode)
    write_ours = written.of_bounded if check.how == BOUNDED else of_stream
    write_theirs = of_stream if check.how == STREAMS else written.of_bounded
    with write_ours(check.ours, *window) as ours, write_theirs(check.theirs, *window) as theirs:
        return difference(ours, written.closed(theirs, check.workload) if check.how == CLOSED else theirs)


@dataclass(frozen=True)
class Comparison:
    """`title` is workload / baseline, `sides` runs the baseline, then ours; `checks` make the ratio mean something."""

    name: str
    title: str
    sides: Callable[[], tuple[Run, Run]]
    checks: tuple[Checked, ...]
    goal: float | None = None
    measure: Measure = FASTER

    def measured(self) -> results.Ratio:
        """Both sides and their ratio."""
        differs = next(filter(None, (check.difference() for check in self.checks)), None)
        return self.judged(*self.sides(), differs)

    def judged(self, baseline: Run, ours: Run, differs: str | None) -> results.Ratio:
        """What two runs make of it."""
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
