"""Quantiles: exact, by a table of the values; within a relative error, by bins; within an error of rank, by samples.

The bins are those of DDSketch without collapsing: C. Masson, J. E. Rim, H. K. Lee, "DDSketch: a fast and
fully-mergeable quantile sketch with relative-error guarantees" (2019). They are counts, so they add and subtract
exactly. The samples are those of Z. Karnin, K. Lang, E. Liberty, "Optimal quantile approximation in streams" (2016), as
implemented by Apache DataSketches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from combinators._common import AS_NUMBER, NUMBERS, SUMMED, Array, checked_samples, constant, require, shown
from combinators._counted import Lower, checked_limit, counted, lowered
from combinators._items import Items, as_doubles
from combinators._packed import counters, tallied, unpacked
from combinators._samples import Merged, check_installed, gathered, quantiles, samples_for
from combinators._tables import Joined, Layout, Limit, Tables, parted
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Gathered, Growth, Input
from slicing.aggregates.fields import FLOATS, INTEGERS, INTERVAL, numpy_type
from slicing.errors import InvalidValue, excerpt

Share = float | Sequence[float]
Interpolation: TypeAlias = Literal["linear", "lower", "higher", "nearest", "midpoint"]

_SAMPLED = (*INTEGERS, *FLOATS, "date", "timestamp", "timestamp_ntz")
_FINEST = 1e-5
_ZERO, _OFFSET, _INFINITE, _NAN = 0, 1 << 40, 1 << 41, 1 << 42
_MOST_BINS = 1 << 16


def percentile(
    column: Input,
    percentage: Share,
    *,
    interpolation: Interpolation = "linear",
    limit: int | None = None,
    min_samples: int = 1,
    where: Condition = None,
) -> Bound:
    """The exact percentile of `column`, by default interpolated linearly between the two nearest values.

    `percentage` is a number from 0 to 1; a list of numbers gives an array. Between two values, `interpolation`
    takes the "lower" or the "higher" one, the "nearest" one (of two equally near, the one of even rank), or their
    "midpoint". Fewer than `min_samples` values give null. Returns double, or array<double>. The partial is a table
    of the values and their counts: 16 bytes per different value of a slice, 24 for decimals; invertible: 2 combines
    a window. More different values in a window than `limit` raise TooLarge; streams whose windows overlap need a
    `limit`. Raises InvalidType for a column that is not numeric, InvalidValue for a percentage out of range.
    Reference: Spark's `percentile`, and `numpy.quantile` with this `method`.

    >>> percentile("x", [0.5, 0.9]).resolve(("int",)).returns
    'array<double>'
    """
    asked = _asked(percentage, min_samples)
    if interpolation not in get_args(Interpolation):
        raise InvalidValue(
            f"`interpolation` must be one of {', '.join(get_args(Interpolation))}; got {excerpt(interpolation)}."
        )
    lower = partial(_interpolated, asked, interpolation)
    return _exact(f"percentile({column}, {_shown(percentage)})", column, lower, asked.returns, limit).where(where)


def median(column: Input, *, limit: int | None = None, min_samples: int = 1, where: Condition = None) -> Bound:
    """The exact median of `column`: the middle value, or the mean of the two in the middle.

    Fewer than `min_samples` values give null. Returns double; an interval for intervals of days to seconds. Cost
    and errors as for `percentile`. Reference: Spark's `median`.

    >>> median("x").label
    'median(x)'
    """
    lower = partial(_interpolated, _asked(0.5, min_samples), "linear")
    return _exact(f"median({column})", column, lower, "{mean}", limit, SUMMED).where(where)


def approx_percentile(
    column: Input,
    percentage: Share,
    accuracy: int = 10_000,
    *,
    min_samples: int = 1,
    where: Condition = None,
) -> Bound:
    """A value of `column` whose rank is that of the percentile, within 1 / `accuracy` of the number of values.

    `percentage` is a number from 0 to 1; a list of numbers gives an array. Fewer than `min_samples` values give
    null; NaN is the largest. The result has the column's kind, or is an array of it. The error is exceeded in at
    most one of fifty windows; it is zero while a window has few values. A partial has at most about 3 k samples of
    8 bytes, with k = (2.3 `accuracy`)^1.11: 10 KB for an accuracy of 100. The samples are chosen at random, so
    results may differ within the error if a task is repeated. Not invertible: 4 combines a window on average, 2
    sqrt(n) at worst. Integers beyond 2^53 are rounded to doubles. Needs `datasketches`, in the extra `sketches`, or
    raises MissingRequirement. Raises InvalidType for a column that is not of integers, floats, dates or times,
    InvalidValue for an argument out of range. Reference: Spark's `approx_percentile`.

    >>> approx_percentile("x", 0.5, 100).label
    'approx_percentile(x, 0.5)'
    """
    asked = _asked(percentage, min_samples, "{kind}")
    if not isinstance(accuracy, int) or isinstance(accuracy, bool) or not 1 <= accuracy <= 10_000:
        raise InvalidValue(f"`accuracy` must be an integer from 1 to 10,000; got {excerpt(accuracy)}.")
    label = f"approx_percentile({column}, {_shown(percentage)})"
    return Bound(partial(_sampled, label, asked, accuracy), (column,), label).where(where)


def percentile_relative(
    column: Input,
    percentage: Share,
    error: float = 0.01,
    *,
    between: tuple[float, float] | None = None,
    min_samples: int = 1,
    where: Condition = None,
) -> Bound:
    """The percentile of `column` within a relative error: at most `error` times the value at that rank.

    `percentage` is a number from 0 to 1; a list of numbers gives an array. The result is near the value at rank
    floor(p (n - 1)), counted from 0; NaN is the largest. Fewer than `min_samples` values give null. Returns double,
    or array<double>. Invertible: 2 combines a window. A partial is a table of the bins that have values, 16 bytes
    each, at most 36,000 bins for 1 %. With `between=(low, high)`, both positive, it is an array of all bins from
    low to high, 8 bytes each: faster if most bins are filled. At 1 % there are 349 bins per factor of 1,000. A
    percentile outside is returned as `low` or `high`. Raises InvalidType for a column that is not numeric,
    InvalidValue for an argument out of range. Reference: numpy's `numpy.quantile(method="lower")`.

    >>> percentile_relative("x", 0.99, between=(1, 1e6)).resolve(("double",)).partial
    'counts binary(5552)'
    """
    asked = _asked(percentage, min_samples)
    known = isinstance(error, (int, float)) and not isinstance(error, bool)
    if not (known and _FINEST <= error < 1):
        raise InvalidValue(f"`error` must be at least {_FINEST}, and less than 1; got {excerpt(error)}.")
    label = f"percentile_relative({column}, {_shown(percentage)})"
    bins = _Bins(error)
    if between is None:
        source = partial(_sparse, label, asked, bins)
    else:
        source = partial(_dense, label, asked, bins, *_checked_range(bins, between))
    return Bound(source, (column,), label).where(where)


@dataclass(frozen=True)
class _Asked:
    """What is asked for: percentages, the kind of the result, and how many values it needs."""

    shares: tuple[float, ...]
    returns: str
    least: int

    def results(self, columns: list[Array], few: Array) -> Array:
        """Return the result from one column per percentage; null for windows with few values."""
        if not self.returns.startswith("array<"):
            return shown(columns[0], few)
        grid = np.column_stack(columns)
        parts = np.empty(len(grid), object)
        for at, (row, nothing) in enumerate(zip(grid, few.tolist(), strict=True)):
            parts[at] = None if nothing else row
        return parts


def _asked(percentage: Share, least: int, kind: str = "double") -> _Asked:
    """Return what is asked for. Raises InvalidValue."""
    several = isinstance(percentage, Sequence) and not isinstance(percentage, str)
    shares: tuple[Any, ...] = tuple(percentage) if several else (percentage,)  # type: ignore[arg-type]
    for share in shares:
        if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= 1:
            raise InvalidValue(f"a percentage must be a number from 0 to 1; got {excerpt(share)}. 0.99 is 99 %.")
    if not shares:
        raise InvalidValue("give one percentage at least, such as 0.5; got an empty list.")
    return _Asked(tuple(map(float, shares)), f"array<{kind}>" if several else kind, checked_samples(least))


def _shown(percentage: Share) -> str:
    return str(percentage if isinstance(percentage, (int, float)) else list(percentage))


def _at(tables: Tables, ranks: Array) -> Array:
    """Return the row of each table with the value of a rank, counted from 0; any row for an empty table."""
    running, starts = np.cumsum(tables.counts), tables.starts()
    before = np.concatenate([np.zeros(1, np.int64), running])[starts[:-1]]
    found = np.searchsorted(running, before + ranks, side="right")
    rows: Array = np.minimum(found, max(0, len(running) - 1))
    return rows


# Exact


def _exact(
    label: str, column: str, lower: Lower, returns: str, limit: int | None, kinds: tuple[str, ...] = NUMBERS
) -> Bound:
    limits = Limit(label, "every value", checked_limit(limit))
    return counted(label, column, limits, kinds, AS_NUMBER, lower, returns)


def _interpolated(asked: _Asked, how: Interpolation, items: Items, tables: Tables) -> Array:
    totals = tables.totals()
    if not len(tables.cells):
        return asked.results([np.zeros(tables.count, np.int64)] * len(asked.shares), totals < asked.least)
    values = items.values(tables.numbers, tables.texts).astype(np.float64)
    columns = []
    for share in asked.shares:
        position = _MOVED[how](np.maximum(totals - 1, 0) * share)
        lower, upper = np.floor(position), np.ceil(position)
        below, above = (values[_at(tables, rank.astype(np.int64))] for rank in (lower, upper))
        with np.errstate(all="ignore"):
            between = (upper - position) * below + (position - lower) * above
        columns.append(np.where((lower == upper) | (below == above), below, between))
    if items.kind == INTERVAL:
        columns = [column.astype(np.int64) for column in columns]
    return asked.results(columns, totals < asked.least)


def _middle(position: Array) -> Array:
    return (np.floor(position) + np.ceil(position)) / 2


_MOVED: dict[str, Callable[[Array], Array]] = {
    "linear": np.asarray,
    "lower": np.floor,
    "higher": np.ceil,
    "nearest": np.rint,
    "midpoint": _middle,
}
"""Where between two ranks each interpolation goes; there it is linear."""


# Within an error of rank


def _sampled(label: str, asked: _Asked, accuracy: int, kind: str) -> Aggregate:
    require(label, _SAMPLED, kind, AS_NUMBER)
    check_installed(label)
    return Aggregate(
        constant(b""),
        Gathered(partial(gathered, samples_for(accuracy))),
        Merged(f"samples of {kind} {samples_for(accuracy)}"),
        lower=partial(_ranked, asked, kind),
        partial="samples binary",
        returns=asked.returns.replace("{kind}", kind),
        columns=True,
        view="limbs",
        approximate=True,
        meanings=(f"samples {samples_for(accuracy)}",),
        growth=Growth(8, "sample", 3 * samples_for(accuracy)),
    )


def _ranked(asked: _Asked, kind: str, partials: Array) -> Array:
    few, found = quantiles(partials.ravel(), asked.shares, asked.least)
    if kind not in FLOATS:
        # The largest int64 is not a double, and the next double is out of range.
        found = np.minimum(np.rint(found), np.nextafter(2.0**63, 0))
    typed = found.astype(numpy_type(kind) if kind in (*INTEGERS, *FLOATS) else np.int64)
    return asked.results(list(typed.T), few).reshape(partials.shape)


# Within a relative error


class _Bins:
    """Bins of numbers, each within `error` of the middle of its bin: bin i holds (g^(i - 1), g^i]."""

    def __init__(self, error: float):
        self.error = error
        # A millionth of the error is reserved for the rounding of logarithms.
        within = error * (1 - 1e-6)
        self.log_growth = math.log1p(2 * within / (1 - within))
        self.middle = math.log1p(-within)

    def number(self, positive: Array) -> Array:
        """Return the bins of positive finite numbers."""
        return np.ceil(np.log(positive) / self.log_growth).astype(np.int64)

    def value(self, number: Array) -> Array:
        """Return the middle of bins: 2 g^i / (g + 1)."""
        with np.errstate(over="ignore"):
            middles: Array = np.exp(number * self.log_growth + self.middle)
        return np.minimum(middles, np.finfo(np.float64).max)


def _sparse(label: str, asked: _Asked, bins: _Bins, kind: str) -> Aggregate:
    require(label, NUMBERS, kind, AS_NUMBER)
    joined = Joined(Layout(1), f"bins {bins.error!r}")
    return Aggregate(
        constant(b""),
        Gathered(partial(_binned, joined, bins, kind)),
        joined,
        joined.inverse,
        partial(lowered, joined.layout, None, Tables.sizes, partial(_of_bins, asked, bins)),
        partial="bins binary",
        returns=asked.returns,
        columns=True,
        view="limbs",
        meanings=(joined.meaning,),
        growth=joined.layout.growth("bin with values", None),
    )


def _binned(joined: Joined, bins: _Bins, kind: str, starts: Array, value: Any) -> Array:
    return parted(joined, Items("bigint"), starts, _signed(bins, as_doubles(kind, value)))


def _signed(bins: _Bins, values: Array) -> Array:
    """Return bin numbers in the order of the values, for both signs, zero, infinities and NaN."""
    size = np.abs(values)
    finite = np.isfinite(size) & (size > 0)
    own = np.where(np.isnan(values), _NAN, np.where(size == 0, _ZERO, _INFINITE))
    own[finite] = bins.number(size[finite]) + _OFFSET
    return np.where(values < 0, -own, own)


def _of_bins(asked: _Asked, bins: _Bins, tables: Tables) -> Array:
    totals, (number,) = tables.totals(), tables.numbers
    size = np.abs(number)
    finite = bins.value(np.where((size == 0) | (size >= _INFINITE), 0, size - _OFFSET))
    special = np.where(size == _ZERO, 0.0, np.where(size == _NAN, np.nan, np.inf))
    values = np.sign(number) * np.where((size == _ZERO) | (size >= _INFINITE), special, finite)
    if not len(values):
        return asked.results([np.zeros(tables.count)] * len(asked.shares), totals < asked.least)
    ranks = [np.floor(np.maximum(totals - 1, 0) * share).astype(np.int64) for share in asked.shares]
    return asked.results([values[_at(tables, rank)] for rank in ranks], totals < asked.least)


def _checked_range(bins: _Bins, between: tuple[float, float]) -> tuple[float, float]:
    pair = tuple(between) if isinstance(between, (tuple, list)) else ()
    if not (len(pair) == 2 and all(isinstance(x, (int, float)) for x in pair) and 0 < pair[0] < pair[1] < math.inf):
        raise InvalidValue(
            f"`between` must be two positive numbers, the smaller first; got {excerpt(between)}. Leave it out for "
            "numbers of any size and sign."
        )
    low, high = pair
    if (count := int(np.ptp(bins.number(np.array([low, high]))))) > _MOST_BINS:
        raise InvalidValue(
            f"`between` makes {count:,} bins; the most are {_MOST_BINS:,}. Allow a larger `error`, or leave "
            "`between` out: then only bins with values are kept."
        )
    return float(low), float(high)


def _dense(label: str, asked: _Asked, bins: _Bins, low: float, high: float, kind: str) -> Aggregate:
    require(label, NUMBERS, kind, AS_NUMBER)
    first, last = bins.number(np.array([low, high])).tolist()
    # One more bin at either end, for values outside.
    width = last - first + 3
    return counters(
        width,
        f"bins {bins.error!r} from {low!r} to {high!r}",
        partial(_placed, bins, kind, low, high, first, width),
        partial(_of_counts, asked, bins, low, high, first),
        asked.returns,
    )


def _placed(
    bins: _Bins, kind: str, low: float, high: float, first: int, width: int, starts: Array, value: Any
) -> Array:
    values = as_doubles(kind, value)
    inside = (values >= low) & (values <= high)
    places = np.where(values < low, 0, width - 1)
    places[inside] = bins.number(values[inside]) - (first - 1)
    return tallied(starts, places, width)


def _of_counts(asked: _Asked, bins: _Bins, low: float, high: float, first: int, partials: Array) -> Array:
    running = np.cumsum(unpacked(partials, np.int64), axis=-1)
    totals = running[..., -1]
    middles = np.clip(bins.value(np.arange(running.shape[-1]) + (first - 1)), low, high)
    middles[0], middles[-1] = low, high
    columns = []
    for share in asked.shares:
        rank = np.floor(np.maximum(totals - 1, 0) * share).astype(np.int64)
        columns.append(middles[np.minimum((running <= rank[..., None]).sum(axis=-1), len(middles) - 1)].ravel())
    return asked.results(columns, (totals < asked.least).ravel()).reshape(partials.shape)
