"""Windows of five lengths up to 90 days with tails, in one query, against the longest alone, by the minute."""

from dataclasses import replace

from benchmarks.baselines.ours import OurLengths
from benchmarks.comparisons.comparison import CLOSED, TIME, Check, Comparison
from benchmarks.running import turns
from benchmarks.running.run import Run
from benchmarks.running.side import Settings, Side
from benchmarks.workloads.inputs import MINUTE
from benchmarks.workloads.workload import Workload
from slicing import hopping

LONGEST = hopping("90 days", MINUTE, tail="1 hour")
LENGTHS = (
    hopping("5 minutes", MINUTE),
    hopping("1 hour", MINUTE),
    hopping("1 day", MINUTE, tail="5 minutes"),
    hopping("7 days", MINUTE, tail="1 hour"),
    LONGEST,
)
BEFORE = Workload("six hours", 250_000, 10_000, 3_600, 6)
MINUTES = Workload("by the minute", 10_000, 10_000, 60, 24, history=BEFORE)
"""Every key has a record a minute, and one window of each length closes in a micro-batch."""


def _sides() -> tuple[Run, Run]:
    queries = OurLengths((LONGEST,)), OurLengths(LENGTHS)
    sides = (Side(query, MINUTES, "90 days", MINUTE, Settings(unsteady=4, steady=20)) for query in queries)
    alone, together = turns.run(*sides)
    return alone, together


def _check() -> Check:
    """The rows of a stream, which merges slices, are those of bounded input, which does not."""
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
)
