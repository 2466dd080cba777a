"""Ours by kind of value: sums of doubles, which cannot be subtracted, against those of longs."""

from benchmarks.comparisons import day, wide
from benchmarks.comparisons.comparison import TIME, Comparison
from benchmarks.comparisons.shared import hourly
from benchmarks.running.run import Run


def _wide() -> tuple[Run, Run]:
    runs = wide.DAY.sides()
    return runs["v"][1], runs["d"][1]


BENCHMARKS = (
    Comparison(
        "DoubleHour",
        "sum of a double, n = 60 / sum of a long",
        sides=lambda: day.ours(),
        checks=(hourly("v"), hourly("d")),
        goal=1.2,
        measure=TIME,
    ),
    Comparison(
        "DoubleDay",
        "sum of a double, n = 1440 / sum of a long",
        sides=_wide,
        checks=(wide.DAY.check("v"), wide.DAY.check("d")),
        goal=1.2,
        measure=TIME,
    ),
)
