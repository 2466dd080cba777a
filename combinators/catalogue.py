"""The combinators with their references; tests, benchmarks and the table in the docs are derived from it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import combinators
from combinators._common import ANY_DECIMAL, ANY_NESTED, ATOMIC, CARRIED, NUMBERS, accepts
from combinators._ordered import ORDERING
from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound
from slicing.aggregates.fields import decimal_of


@dataclass(frozen=True)
class Entry:
    """A combinator, the name of the Spark function that it equals, and the kinds of column that it takes.

    In `kinds`, "decimal(p,s)" stands for every decimal, "array, map, struct" for every nested kind. `others` are the
    kinds of the columns after the first in tests, one each, and `aliases` its other names. `options` are additional
    arguments in tests. If it is `approximate`, its partials depend on how they are merged, and its results are correct
    only within its error bound.
    """

    function: Callable[..., Bound]
    reference: str
    kinds: tuple[str, ...]
    others: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def name(self) -> str:
        """The name under which `combinators` exports it."""
        return self.function.__name__

    @property
    def names(self) -> tuple[str, ...]:
        """The name and the aliases."""
        return (self.name, *self.aliases)

    def of(self, *columns: str) -> Bound:
        """Return the combinator bound to the first of these columns, one or more as it takes."""
        return self.function(*columns[: 1 + len(self.others)], **self.options)

    @property
    def by_time(self) -> bool:
        """Whether the reference takes the event time as its second argument."""
        return EVENT_TIME in self.of("x", "y").columns

    @property
    def approximate(self) -> bool:
        """Whether its partials depend on how they are merged, and its results are correct only within a bound."""
        return self.resolved(sample_kinds(self)[0]).approximate

    def resolved(self, kind: str) -> Aggregate:
        """Return the aggregate for a first column of this kind."""
        bound = self.of("x", "y")
        others = iter(self.others)
        return bound.resolve((kind, *("bigint" if c == EVENT_TIME else next(others) for c in bound.columns[1:])))

    def accepts(self, kind: str) -> bool:
        """Return whether it takes a column of this kind."""
        return accepts(self.kinds, kind)


_SUMS = "floats: 1e-12 of the sum of absolute values"
_POWERS = "1e-10, relative to powers of the distances from the mean"

CATALOGUE = (
    Entry(combinators.count, "count", ATOMIC),
    Entry(combinators.sum, "sum", NUMBERS, error=_SUMS),
    Entry(combinators.mean, "avg", NUMBERS, aliases=("avg",), error=_SUMS),
    Entry(combinators.min, "min", ATOMIC),
    Entry(combinators.max, "max", ATOMIC),
    Entry(combinators.variance, "var_samp", NUMBERS, aliases=("var_samp",), error=_POWERS),
    Entry(combinators.variance_pop, "var_pop", NUMBERS, aliases=("var_pop",), error=_POWERS),
    Entry(combinators.stddev, "stddev_samp", NUMBERS, aliases=("stddev_samp", "std"), error=_POWERS),
    Entry(combinators.stddev_pop, "stddev_pop", NUMBERS, error=_POWERS),
    Entry(combinators.first, "min_by", CARRIED),
    Entry(combinators.last, "max_by", CARRIED),
    Entry(combinators.min_by, "min_by", CARRIED, ("double",)),
    Entry(combinators.max_by, "max_by", CARRIED, ("double",)),
    Entry(combinators.count_if, "count_if", ("boolean",)),
    Entry(combinators.bool_and, "bool_and", ("boolean",), aliases=("every",)),
    Entry(combinators.bool_or, "bool_or", ("boolean",), aliases=("some", "any")),
    Entry(combinators.skewness, "skewness", NUMBERS, error=_POWERS),
    Entry(combinators.kurtosis, "kurtosis", NUMBERS, error=_POWERS),
    Entry(combinators.covar_samp, "covar_samp", NUMBERS, ("double",), error=_POWERS),
    Entry(combinators.covar_pop, "covar_pop", NUMBERS, ("double",), error=_POWERS),
    Entry(combinators.corr, "corr", NUMBERS, ("double",), error=_POWERS),
    Entry(combinators.regr_slope, "regr_slope", NUMBERS, ("double",), error=_POWERS),
    Entry(combinators.regr_intercept, "regr_intercept", NUMBERS, ("double",), error=_POWERS),
    Entry(combinators.regr_r2, "regr_r2", NUMBERS, ("double",), error=_POWERS),
)

_INTEGERS_AND_FLOATS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_SAMPLED = (*_INTEGERS_AND_FLOATS, "date", "timestamp", "timestamp_ntz")
_ROUNDED = "floating-point rounding"
_QUARTERS = {"percentage": [0.0, 0.25, 0.5, 1.0]}

MORE = (
    Entry(combinators.any_value, "any_value", ATOMIC),
    Entry(combinators.count_distinct, "count_distinct", CARRIED),
    Entry(
        combinators.approx_count_distinct,
        "approx_count_distinct",
        CARRIED,
        error="standard deviation `rsd` of the count",
    ),
    Entry(combinators.percentile, "percentile", NUMBERS, options=_QUARTERS, error=_ROUNDED),
    Entry(combinators.median, "median", NUMBERS, error=_ROUNDED),
    Entry(
        combinators.percentile_relative,
        'numpy.quantile(method="lower")',
        NUMBERS,
        options=_QUARTERS,
        error="`error` of the value, guaranteed",
    ),
    Entry(
        combinators.approx_percentile,
        "approx_percentile",
        _SAMPLED,
        aliases=("percentile_approx",),
        options={"percentage": 0.5, "accuracy": 100},
        error="rank within 1 / `accuracy`, in 49 windows of 50",
    ),
    Entry(combinators.mode, "mode", ATOMIC),
    Entry(
        combinators.top_k,
        "collections.Counter",
        ATOMIC,
        options={"k": 3},
        error="with `exact=False`: in the result, at most `error` of all values",
    ),
    Entry(combinators.histogram, "numpy.histogram", NUMBERS, options={"edges": [-1.0, 0.0, 0.5, 100.0]}),
    Entry(combinators.collect_list, "collect_list", CARRIED, aliases=("array_agg",)),
    Entry(combinators.collect_set, "collect_set", ATOMIC),
    Entry(combinators.string_agg, "string_agg", ("string",), aliases=("listagg",)),
    Entry(combinators.first_n, "sorted", CARRIED, options={"n": 3}),
    Entry(combinators.last_n, "sorted", CARRIED, options={"n": 3}),
    Entry(combinators.largest, "heapq.nlargest", ORDERING, options={"k": 3}),
    Entry(combinators.smallest, "heapq.nsmallest", ORDERING, options={"k": 3}),
    Entry(combinators.delta, "max_by", NUMBERS, error=_ROUNDED),
    Entry(combinators.counter_rate, "TimescaleDB", NUMBERS, error=_ROUNDED),
    Entry(combinators.time_weighted_mean, "TimescaleDB", NUMBERS, error=_ROUNDED),
    Entry(combinators.time_in_state, "TimescaleDB", ATOMIC),
    Entry(combinators.ewma, "pandas", NUMBERS, options={"half_life": "10 seconds"}, error=_ROUNDED),
)
"""Combinators that take more than columns, or whose results Spark does not define or does not have. `ohlc`, `reduce`
and `struct` are not here: they are made of other combinators, or of a user's function."""

COMPOSED = {"by": "result", "ohlc": "TimescaleDB", "reduce": "functools.reduce", "struct": "struct"}
"""The combinators made of others or of a user's function, with their references."""

_SAMPLES: dict[str, tuple[Any, ...]] = {
    "boolean": (False, True),
    "tinyint": (0, 1, -1, 127, -128),
    "smallint": (0, 1, -1, 2**15 - 1, -(2**15)),
    "int": (0, 1, -1, 2**31 - 1, -(2**31)),
    "bigint": (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)),
    "float": (0.0, -0.0, 1.5, -2.25, 2.0**24, 2.0**-149, float("nan"), float("inf"), float("-inf")),
    "double": (0.0, -0.0, 0.1, -2.25, 2.0**53 + 2, 1e16, 5e-324, float("nan"), float("inf"), float("-inf")),
    "string": ("", "a", "B", "é", "z\0", "\U0001f600", "\uffff"),
    "binary": (b"", b"\0", b"\x7f", b"\x80", b"\xff\xff"),
    "date": (dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "timestamp": (
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC),
        dt.datetime(2262, 4, 12, tzinfo=dt.UTC),
        dt.datetime(1, 1, 2, tzinfo=dt.UTC),
    ),
}
_SAMPLES["timestamp_ntz"] = tuple(time.replace(tzinfo=None) for time in _SAMPLES["timestamp"])
_DECIMALS = ("decimal(10,2)", "decimal(38,18)")


def sample_kinds(entry: Entry) -> tuple[str, ...]:
    """Return the atomic kinds on which an entry is tested: those it takes, with two decimals instead of all of them."""
    plain = tuple(kind for kind in entry.kinds if kind not in (ANY_DECIMAL, ANY_NESTED))
    return plain + (_DECIMALS if ANY_DECIMAL in entry.kinds else ())


def samples(kind: str) -> tuple[Any, ...]:
    """Return extreme values of a kind: limits, zeros of both signs, integers that floats cannot tell apart, NaN."""
    decimal = decimal_of(kind)
    if decimal is None:
        return _SAMPLES[kind]
    precision, scale = decimal
    unscaled = (0, 1, -1, 2**33 + 5, 10**precision - 1, 1 - 10**precision)
    return tuple(Decimal(number).scaleb(-scale, Context(prec=80)) for number in unscaled)
