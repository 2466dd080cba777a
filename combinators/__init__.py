"""The ready-made aggregates. Each is a function of a column's name and returns a bound `Aggregate`.

Some have several names, like Spark's functions of the same meaning: `avg` is `mean`. A column is given by name, or as a
Spark Column: `sum(F.col("amount") * 2)`.
"""

from typing import Any

from combinators import _common
from combinators.collected import collect_list, collect_set, first_n, last_n, string_agg
from combinators.counts import count
from combinators.distinct import approx_count_distinct, count_distinct
from combinators.ends import first, last, max_by, min_by
from combinators.extremes import any_value, largest, max, min, smallest
from combinators.frequent import histogram, mode, top_k
from combinators.keyed import by
from combinators.logic import bool_and, bool_or, count_if
from combinators.moments import kurtosis, skewness, stddev, stddev_pop, variance, variance_pop
from combinators.own import reduce, struct
from combinators.pairs import corr, covar_pop, covar_samp, regr_intercept, regr_r2, regr_slope
from combinators.quantiles import approx_percentile, median, percentile, percentile_relative
from combinators.rates import counter_rate, delta, ewma, ohlc, time_in_state, time_weighted_mean
from combinators.sums import mean, sum

# The public functions are wrapped to print as their call; the originals stay in their modules for doctests.
for _each in [name for name, value in globals().items() if callable(value) and name != "struct"]:
    globals()[_each] = _common.printed(globals()[_each])

any = bool_or
array_agg = collect_list
avg = mean
every = bool_and
listagg = string_agg
percentile_approx = approx_percentile
some = bool_or
std = stddev_samp = stddev
var_pop = variance_pop
var_samp = variance

__all__ = [
    "any",
    "any_value",
    "approx_count_distinct",
    "approx_percentile",
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "by",
    "collect_list",
    "collect_set",
    "corr",
    "count",
    "count_distinct",
    "count_if",
    "counter_rate",
    "covar_pop",
    "covar_samp",
    "delta",
    "every",
    "ewma",
    "first",
    "first_n",
    "histogram",
    "kurtosis",
    "largest",
    "last",
    "last_n",
    "listagg",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "mode",
    "ohlc",
    "percentile",
    "percentile_approx",
    "percentile_relative",
    "reduce",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "skewness",
    "smallest",
    "some",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "struct",
    "sum",
    "time_in_state",
    "time_weighted_mean",
    "top_k",
    "var_pop",
    "var_samp",
    "variance",
    "variance_pop",
]

_MEANT = {
    "quantile": 'It is `C.percentile("x", 0.5)`; of many values, `C.approx_percentile("x", 0.5)`.',
    "approx_quantile": 'It is `C.approx_percentile("x", 0.5)`.',
    "nunique": 'It is `C.count_distinct("x")`; of many values, `C.approx_count_distinct("x")`.',
    "size": "It is `C.count()`.",
    "try_sum": 'It is `C.sum("x", overflow="null")`.',
    "try_avg": 'It is `C.avg("x", overflow="null")`.',
    "product": 'It is `C.reduce(lambda a, b: a * b, "x")`.',
    "bit_and": 'It is `C.reduce(operator.and_, "x")`.',
    "bit_or": 'It is `C.reduce(operator.or_, "x")`.',
    "bit_xor": 'It is `C.reduce(operator.xor, "x")`.',
    "sum_distinct": 'There is none; `C.collect_set("x")` has the values.',
    "first_value": 'It is `C.first("x")`.',
    "last_value": 'It is `C.last("x")`.',
    "arg_max": 'It is `C.max_by("x", "by")`.',
    "arg_min": 'It is `C.min_by("x", "by")`.',
    "quantile_cont": 'It is `C.percentile("x", 0.5)`.',
    "quantile_disc": 'It is `C.percentile("x", 0.5, interpolation="lower")`.',
    "percentile_cont": 'It is `C.percentile("x", 0.5)`.',
    "percentile_disc": 'It is `C.percentile("x", 0.5, interpolation="lower")`.',
    "nlargest": 'It is `C.largest("x", 3)`.',
    "nsmallest": 'It is `C.smallest("x", 3)`.',
    "topk": 'The largest values are `C.largest("x", 3)`, the most frequent ones `C.top_k("x", 3)`.',
    "approx_top_k": 'It is `C.top_k("x", 3, exact=False)`.',
    "head": 'It is `C.first_n("x", 3)`.',
    "tail": 'It is `C.last_n("x", 3)`.',
    "map_agg": 'A result for each key is `C.by("key", C.last("x"), limit=100)`.',
    "value_counts": 'It is `C.by("x", C.count(), limit=100)`; the most frequent values are `C.top_k("x", 3)`.',
    "n_unique": 'It is `C.count_distinct("x")`; of many values, `C.approx_count_distinct("x")`.',
    "len": "It is `C.count()`.",
    "implode": 'It is `C.collect_list("x")`.',
    "list": 'It is `C.collect_list("x")`.',
    "set": 'It is `C.collect_set("x")`.',
    "lag": 'A window has all its records: `C.last_n("x", 2)` has the last two values, `C.delta("x")` their difference.',
}
"""Names in other libraries, each with the call here."""


def __getattr__(name: str) -> Any:
    from slicing.hints import no_name

    raise no_name("combinators", name, _MEANT, __all__)
