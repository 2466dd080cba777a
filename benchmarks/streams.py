"""Speed against baselines, as ratios in the same run: `track_` benchmarks for asv, rows for `benchmarks.run`.

Every ratio is the baseline's seconds over ours (times faster), unless its unit says "x its time".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache

from benchmarks import measure
from benchmarks.measure import Measured
from benchmarks.workloads import DAY, DAY_TENTH, DENSE, SMALL

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

HOUR, MINUTE = "1 hour", "1 minute"


class _Comparison:
    """Two sides measured one after the other in the same process; `ratio` says how they compare."""

    timeout = 1800
    unit = "times faster"
    goal = ""

    def sides(self) -> tuple[Measured, Measured]:
        """The baseline, then ours."""
        raise NotImplementedError

    def ratio(self, baseline: Measured, ours: Measured) -> float:
        """How many times faster per record."""
        return baseline.per_record / ours.per_record

    def track_ratio(self) -> float:
        """What asv records."""
        return self.ratio(*self.sides())


class _Slower(_Comparison):
    """Comparisons whose goal is a bound on our time, as a multiple of the baseline's."""

    unit = "x its time"

    def ratio(self, baseline: Measured, ours: Measured) -> float:
        """Our time as a multiple of the baseline's."""
        return ours.per_record / baseline.per_record


def _day(query: Callable[..., object], size: str, advance: str = MINUTE, batches: int = 6) -> Measured:
    return measure.stream(query, DAY, size, advance, files=2, batches=batches)  # type: ignore[arg-type]


@cache
def _tumbling() -> Measured:
    return _day(measure.spark_window, MINUTE, batches=4)


@cache
def _hour(column: str) -> Measured:
    return _day(measure.ours(column), HOUR)


class DayLong(_Comparison):
    """day, R = 60, count and sum of a long / Spark tumbling (R = 1)."""

    goal = ">= 5"

    def sides(self) -> tuple[Measured, Measured]:
        return _tumbling(), _hour("v")


class DayDouble(_Comparison):
    """day, R = 60, count and sum of a double (three-layer) / Spark tumbling (R = 1)."""

    goal = ">= 4"

    def sides(self) -> tuple[Measured, Measured]:
        return _tumbling(), _hour("d")


class DayWideLong(_Slower):
    """day, R = 1440, long / ours at R = 60."""

    goal = "<= 1.3"

    def sides(self) -> tuple[Measured, Measured]:
        return _hour("v"), _day(measure.ours("v"), "24 hours")


class DayWideDouble(_Slower):
    """day, R = 1440, double / ours at R = 60."""

    goal = "<= 1.3"

    def sides(self) -> tuple[Measured, Measured]:
        return _hour("d"), _day(measure.ours("d"), "24 hours")


class Dense(_Comparison):
    """dense, R = 360 / Spark `window()`."""

    goal = ">= 20"

    def sides(self) -> tuple[Measured, Measured]:
        size, advance = HOUR, "10 seconds"
        baseline = measure.stream(measure.spark_window, DENSE, size, advance, batches=3)
        return baseline, measure.stream(measure.ours(), DENSE, size, advance)


class DenseTwoStep(_Comparison):
    """dense, R = 360 / Spark's own two steps."""

    goal = ">= 8"

    def sides(self) -> tuple[Measured, Measured]:
        size, advance = HOUR, "10 seconds"
        baseline = measure.stream(measure.spark_two_step, DENSE, size, advance)
        return baseline, measure.stream(measure.ours(), DENSE, size, advance)


class FixedCost(_Slower):
    """dense, 1,000 records per micro-batch, R = 360 / Spark tumbling."""

    goal = "<= 1.5"

    def sides(self) -> tuple[Measured, Measured]:
        baseline = measure.stream(measure.spark_window, SMALL, "10 seconds", "10 seconds", batches=30)
        return baseline, measure.stream(measure.ours(), SMALL, HOUR, "10 seconds", batches=30)


class Bounded(_Comparison):
    """day, bounded, R = 60 / Spark batch `groupBy(window)` on a tenth, per record."""

    goal = ">= 15"

    def sides(self) -> tuple[Measured, Measured]:
        baseline = measure.bounded(measure.spark_window, DAY_TENTH, HOUR, MINUTE)
        return baseline, measure.bounded(measure.ours(), DAY, HOUR, MINUTE)


class FourFunctions(_Slower):
    """day, R = 60, four functions row by row / columnar sum."""

    goal = "<= 3"

    def sides(self) -> tuple[Measured, Measured]:
        return _hour("v"), _day(measure.four_functions, HOUR)


ALL: tuple[type[_Comparison], ...] = (
    DayLong,
    DayDouble,
    DayWideLong,
    DayWideDouble,
    Dense,
    DenseTwoStep,
    FixedCost,
    Bounded,
    FourFunctions,
)
QUICK: tuple[type[_Comparison], ...] = (DenseTwoStep, FixedCost, Bounded)
