"""The ready-made aggregates. Each is a function of a column's name and returns a bound `Aggregate`.

Some have several names, those of Spark's functions of the same meaning: `avg` is `mean`.
"""

from combinators.counts import count
from combinators.ends import first, last, max_by, min_by
from combinators.extremes import max, min
from combinators.logic import bool_and, bool_or, count_if
from combinators.moments import kurtosis, skewness, stddev, stddev_pop, variance, variance_pop
from combinators.pairs import corr, covar_pop, covar_samp, regr_intercept, regr_r2, regr_slope
from combinators.sums import mean, sum

avg = mean
every = bool_and
some = bool_or
std = stddev_samp = stddev
var_pop = variance_pop
var_samp = variance

__all__ = [
    "avg",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "count_if",
    "covar_pop",
    "covar_samp",
    "every",
    "first",
    "kurtosis",
    "last",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "skewness",
    "some",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
    "variance_pop",
]
