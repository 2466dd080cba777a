"""The ready-made aggregates. Each is a function of a column's name and returns a bound `Aggregate`."""

from combinators.counts import count
from combinators.ends import first, last
from combinators.extremes import max, min
from combinators.moments import stddev, stddev_pop, variance, variance_pop
from combinators.sums import mean, sum

__all__ = [
    "count",
    "first",
    "last",
    "max",
    "mean",
    "min",
    "stddev",
    "stddev_pop",
    "sum",
    "variance",
    "variance_pop",
]
