"""Long windows by the minute: combinators with a tail and without, distinct values exact and sketched."""

from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame

import combinators as C
from benchmarks.baselines.query import WindowsOf, keys_of
from benchmarks.comparisons.comparison import CLOSED, TIME, Check, Comparison
from benchmarks.running import turns
from benchmarks.running.run import Run
from benchmarks.running.side import Settings, Side
from benchmarks.workloads.inputs import HOUR, MINUTE, SEVEN_DAYS
from benchmarks.workloads.workload import Workload
from slicing import group_by, hopping
from slicing.aggregates.aggregate import Bound

SPARSE_DAYS = Workload("22 hours of sparse keys", 800, 500, 79_200, 12)
"""A key has a record every 14 hours; a micro-batch closes 1,320 windows over 22 tails. The first week is unsteady."""
DAYS = replace(SPARSE_DAYS, name="22 hours of keys", records=8_000)
"""A key has a record every 83 minutes; a micro-batch closes 1,320 windows of each of 500 keys."""
STEADY = Settings(unsteady=8, steady=4, warm_up=0.0)
CUT = replace(SPARSE_DAYS, records=20, keys=2, batches=10)
EXACT: dict[str, Bound] = {
    "Sum": C.sum("v"),
    "Max": C.max("v"),
    "Last": C.last("v"),
    "CountDistinct": C.count_distinct("v", limit=100_000),
    "Mode": C.mode("v", limit=100_000),
    "Percentile": C.percentile("v", 0.5, limit=100_000),
}
OTHERS: dict[str, Bound] = {
    "SumOfDoubles": C.sum("d"),
    "Variance": C.variance("d"),
    "PercentileRelative": C.percentile_relative("v", 0.5),
    "ApproxCountDistinct": C.approx_count_distinct("v"),
    "ApproxPercentile": C.approx_percentile("v", 0.5, 100),
    "TopK": C.top_k("v", 10, exact=False),
}
"""Their results are equal within their bounds, so only the windows are compared."""


@dataclass(frozen=True)
class OfFamily:
    """One result in windows with a tail, or without one."""

    name: str
    tail: str | None = HOUR

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with a column `result`."""
        window = hopping(size, advance) if self.tail is None else hopping(size, advance, tail=self.tail)
        return group_by(frame, *keys_of(frame)).window(window, time="ts").aggregate(result=(EXACT | OTHERS)[self.name])


def _sides(name: str) -> tuple[Run, Run]:
    queries = OfFamily(name, None), OfFamily(name)
    without, with_tail = turns.run(*(Side(query, SPARSE_DAYS, SEVEN_DAYS, MINUTE, STEADY) for query in queries))
    return without, with_tail


def _distinct() -> tuple[Run, Run]:
    queries = OfFamily("ApproxCountDistinct", None), OfFamily("CountDistinct", None)
    sketched, exact = turns.run(*(Side(query, DAYS, SEVEN_DAYS, MINUTE, STEADY) for query in queries))
    return sketched, exact


def _check(name: str) -> Check:
    """A check that a stream, which merges slices, has the same rows as bounded input, which does not."""
    query = OfFamily(name) if name in EXACT else WindowsOf(OfFamily(name))
    return Check(query, query, CUT, SEVEN_DAYS, MINUTE, CLOSED)


BENCHMARKS = (
    Comparison(
        "DistinctDays",
        "count_distinct, 7 days by the minute, exact / approx_count_distinct",
        sides=_distinct,
        checks=(_check("CountDistinct"),),
        goal=1.5,
        measure=TIME,
    ),
    *(
        Comparison(
            f"TailOf{name}",
            f"{bound.label}, 7 days by the minute, sparse keys, with a tail / without one",
            sides=partial(_sides, name),
            checks=(_check(name),),
            goal=1.2,
            measure=TIME,
        )
        for name, bound in (EXACT | OTHERS).items()
    ),
)
