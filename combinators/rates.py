"""Changes in time: differences, rates of counters, means and durations weighted by time, prices, decaying means.

All of them use event time, independent of the order of arrival; of equal times the smaller value comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from combinators._common import AS_NUMBER, ATOMIC, NUMBERS, Array, constant, require, shown, unless_empty
from combinators._counted import by_time, checked_limit, timed
from combinators._items import Items, as_doubles
from combinators._tables import Joined, Layout, Limit, Tables, lists
from combinators.ends import first, last
from combinators.extremes import max, min
from combinators.own import struct
from combinators.sums import sum
from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound, Condition, Input, Struct
from slicing.aggregates.ordered_bytes import floats
from slicing.errors import InvalidValue, excerpt
from slicing.windows.time.durations import Duration, microseconds

_ATOMIC = "Choose or compute an atomic column first."
_SECOND = 1e6
_METHODS = ("last", "linear")


def delta(column: Input, *, where: Condition = None) -> Bound:
    """The last value of `column` minus the first value, by event time.

    No value gives null; one value gives 0. Returns double. Not invertible: 4 combines a window on average, 2 sqrt(n) at
    worst. Raises InvalidType for a column that is not numeric. Reference: `max_by(x, time) - min_by(x, time)` in Spark.

    >>> delta("x").label
    'delta(x)'
    """
    label = f"delta({column})"
    return Bound(partial(_delta, label), (column, EVENT_TIME), label).where(where)


def counter_rate(column: Input, *, limit: int | None = None, where: Condition = None) -> Bound:
    """The increase of a counter per second, from the first to the last record; a decrease is a restart at zero.

    Fewer than two different times give null. Returns double. The partial is a table of times and values, 24 bytes per
    record; invertible: 2 combines a window. More records in a window than `limit` raise TooLarge; streams whose windows
    overlap need a `limit`. Raises InvalidType for a column that is not numeric. Reference: TimescaleDB's
    `rate(counter_agg(...))`.

    >>> counter_rate("x", limit=100).label
    'counter_rate(x)'
    """
    return _points(f"counter_rate({column})", column, limit, _rate).where(where)


def time_weighted_mean(
    column: Input, method: str = "last", *, limit: int | None = None, where: Condition = None
) -> Bound:
    """The mean of `column` from the first to the last record, each value weighted by its duration.

    With `method="last"` a value lasts until the next record; with "linear" it changes to the next value in a straight
    line. No value gives null; values of a single time give their mean. Returns double. Cost, `limit` and errors as for
    `counter_rate`; raises InvalidValue for another method. Reference: TimescaleDB's `average(time_weight(...))`.

    >>> time_weighted_mean("x", limit=100).label
    'time_weighted_mean(x)'
    """
    if method not in _METHODS:
        raise InvalidValue(f"`method` must be one of {', '.join(_METHODS)}; got {excerpt(method)}.")
    label = f"time_weighted_mean({column})"
    return _points(label, column, limit, partial(_weighted, method == "linear")).where(where)


def time_in_state(column: Input, *, limit: int | None = None, where: Condition = None) -> Bound:
    """The duration of each value of `column` in seconds: from its record to the next one; the last record has none.

    Returns array<struct<state, seconds>>, by state, ascending; no value gives an empty array, never null. Of several
    records at one time, only the largest value has a duration. Cost and `limit` as for `counter_rate`, more for
    decimals and text. Raises InvalidType for a column that is not atomic. Reference: TimescaleDB's `state_agg`.

    >>> time_in_state("x", limit=100).resolve(("string", "bigint")).returns
    'array<struct<state:string,seconds:double>>'
    """
    label = f"time_in_state({column})"
    limits = Limit(label, "every record", checked_limit(limit))
    returns = "array<struct<state:{kind},seconds:double>>"
    source = partial(_timed, limits, ATOMIC, _ATOMIC, _lasting, returns)
    return Bound(source, (column, EVENT_TIME), label, unlimited="" if limits.most else limits.what).where(where)


def ewma(column: Input, half_life: Duration, *, where: Condition = None) -> Bound:
    """The exponentially weighted mean of `column`; weights halve with each `half_life` before the last record.

    No value gives null. Returns double. `half_life` is a duration, such as "10 minutes". Not invertible: 4 combines a
    window on average, 2 sqrt(n) at worst. Raises InvalidType for a column that is not numeric, InvalidValue for a
    `half_life` that is not positive. Reference: pandas' `ewm(halflife=..., times=...).mean()`.

    >>> ewma("x", "1 minute").label
    'ewma(x)'
    """
    length = microseconds(half_life, "half_life")
    if length <= 0:
        raise InvalidValue(f"`half_life` must be positive; got {half_life!r}.")
    label = f"ewma({column})"
    return Bound(partial(_decaying, label, length), (column, EVENT_TIME), label).where(where)


def ohlc(price: Input, volume: Input | None = None, *, where: Condition = None) -> Struct:
    """The prices of a candlestick as a struct of open, high, low and close; with `volume` also its sum.

    Open and close are chosen by event time, as in `first` and `last`; no record gives a struct of nulls. Cost, kinds
    and errors are those of `first`, `max`, `min`, `last` and `sum`. Reference: TimescaleDB's `candlestick_agg`.

    >>> list(ohlc("price", "volume").results)
    ['open', 'high', 'low', 'close', 'volume']
    """
    parts = {
        "open": first(price, where=where),
        "high": max(price, where=where),
        "low": min(price, where=where),
        "close": last(price, where=where),
    }
    return struct(**parts, **({} if volume is None else {"volume": sum(volume, where=where)}))


# The difference of two ends


def _delta(label: str, kind: str, _time: str = "bigint") -> Aggregate:
    require(label, NUMBERS, kind, AS_NUMBER)
    most = 2**63 - 1
    return Aggregate(
        constant((most, np.inf, -most, np.inf, 0)),
        partial(_add_ends, kind),
        _join_ends,
        lower=_difference,
        partial="first_time bigint, first double, last_time bigint, last double, n bigint",
        version="combinators.delta",
        returns="double",
        columns=True,
        view="limbs",
    )


def _add_ends(kind: str, acc: Any, value: Any, time: Array) -> Any:
    values = as_doubles(kind, value).reshape(time.shape)
    return _join_ends(acc, (time, values, time, values, np.ones(time.shape, np.int64)))


def _join_ends(a: Any, b: Any) -> Any:
    time_a, first_a, end_a, last_a, n_a = a
    time_b, first_b, end_b, last_b, n_b = b
    earlier = (n_a == 0) | ((n_b > 0) & ((time_b < time_a) | ((time_b == time_a) & _less(first_b, first_a))))
    later = (n_a == 0) | ((n_b > 0) & ((end_b > end_a) | ((end_b == end_a) & _less(last_b, last_a))))
    ends = ((earlier, time_a, time_b), (earlier, first_a, first_b), (later, end_a, end_b), (later, last_a, last_b))
    return (*(np.where(taken, y, x) for taken, x, y in ends), n_a + n_b)


def _less(x: Array, y: Array) -> Array:
    smaller: Array = (x < y) | (np.isnan(y) & ~np.isnan(x))
    return smaller


def _difference(acc: Any) -> Array:
    _, first_value, _, last_value, n = acc
    return shown(last_value - first_value, n == 0)


# All points of a window


def _points(label: str, column: str, limit: int | None, lower: Callable[[Array, Array, Array], Array]) -> Bound:
    limits = Limit(label, "every record", checked_limit(limit))
    source = partial(_timed, limits, NUMBERS, AS_NUMBER, partial(_of_points, lower), "double")
    return Bound(source, (column, EVENT_TIME), label, unlimited="" if limits.most else limits.what)


def _timed(
    limit: Limit,
    kinds: tuple[str, ...],
    remedy: str,
    lower: Callable[[Items, Tables], Array],
    returns: str,
    kind: str,
    _time: str = "bigint",
) -> Aggregate:
    require(limit.label, kinds, kind, remedy)
    items = Items(kind) if kinds is ATOMIC else Items("double", equal_zeros=False)
    joined = Joined(Layout(1 + items.width, items.varied), f"points {items.kind}", limit=limit, measure=Tables.totals)
    gather = partial(by_time, joined, items) if kinds is ATOMIC else partial(_gather_doubles, joined, items, kind)
    meaning = f"{joined.meaning} {items.equal_zeros}"
    return timed(joined, gather, partial(lower, items), returns.replace("{kind}", kind), meaning, limit.most)


def _gather_doubles(joined: Joined, items: Items, kind: str, starts: Array, value: Any, time: Array) -> Array:
    return by_time(joined, items, starts, as_doubles(kind, value), time)


def _of_points(lower: Callable[[Array, Array, Array], Array], _items: Items, tables: Tables) -> Array:
    time, number = (np.repeat(column, tables.counts) for column in tables.numbers)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(tables.totals())])
    return lower(time, floats(number), starts)


def _summed(steps: Array, starts: Array) -> Array:
    """Return the sum of the steps between neighbouring points of each table; steps between tables are left out."""
    count = len(starts) - 1
    cells = np.repeat(np.arange(count), np.diff(starts))
    inside = cells[1:] == cells[:-1]
    return np.bincount(cells[1:][inside], steps[inside], count)


def _span(time: Array, starts: Array) -> tuple[Array, Array]:
    """Return whether each table is empty, and the seconds from its first point to its last."""
    empty = starts[1:] == starts[:-1]
    if not len(time):
        return empty, np.zeros(len(empty))
    ends = np.minimum(starts, len(time) - 1)
    seconds = (time[np.maximum(starts[1:] - 1, 0)] - time[ends[:-1]]) / _SECOND
    return empty, np.where(empty, 0.0, seconds)


def _rate(time: Array, value: Array, starts: Array) -> Array:
    _, seconds = _span(time, starts)
    with np.errstate(invalid="ignore"):
        steps = np.diff(value)
    grown = _summed(np.where(steps < 0, value[1:], steps), starts)
    return shown(grown / np.where(seconds == 0, 1.0, seconds), seconds == 0)


def _weighted(linear: bool, time: Array, value: Array, starts: Array) -> Array:
    empty, seconds = _span(time, starts)
    lasting = np.diff(time) / _SECOND
    with np.errstate(invalid="ignore"):
        heights = (value[1:] + value[:-1]) / 2 if linear else value[:-1]
        # A value without duration does not count, even if it is infinite.
        area = _summed(np.where(lasting > 0, heights * lasting, 0.0), starts)
    cells = np.repeat(np.arange(len(empty)), np.diff(starts))
    mean = np.bincount(cells, value, len(empty)) / np.maximum(np.diff(starts), 1)
    return shown(np.where(seconds > 0, area / np.where(seconds == 0, 1.0, seconds), mean), empty)


def _lasting(items: Items, tables: Tables) -> Array:
    time, *state = tables.numbers
    lasts = np.zeros(len(time), np.int64)
    if len(time):
        inside = tables.cells[1:] == tables.cells[:-1]
        lasts[:-1] = np.where(inside, np.diff(time), 0)
    durations = Tables(tables.count, tables.cells, tuple(state), lasts + 1, tables.texts)
    # Each count is one more than the duration, so that states without duration are not removed.
    rows = Tables(tables.count, tables.cells, tuple(state), np.ones(len(time), np.int64), tables.texts).folded()
    summed = durations.folded()
    seconds = (summed.counts - rows.counts) / _SECOND
    return lists([items.values(summed.numbers, summed.texts), seconds], summed.starts())


# Decaying


def _decaying(label: str, half_life: int, kind: str, _time: str = "bigint") -> Aggregate:
    require(label, NUMBERS, kind, AS_NUMBER)
    return Aggregate(
        constant((-(2**63), 0.0, 0.0)),
        partial(_add_decaying, kind),
        partial(_join_decaying, half_life),
        lower=_decayed,
        partial="time bigint, mean double, weight double",
        version=f"combinators.ewma {half_life}",
        returns="double",
        columns=True,
        view="limbs",
    )


def _add_decaying(kind: str, _acc: Any, value: Any, time: Array) -> Any:
    return time, as_doubles(kind, value).reshape(time.shape), np.ones(time.shape)


def _join_decaying(half_life: int, a: Any, b: Any) -> Any:
    time_a, mean_a, weight_a = a
    time_b, mean_b, weight_b = b
    time = np.maximum(time_a, time_b)
    with np.errstate(all="ignore"):
        # As doubles: the difference to the time of an empty partial exceeds int64.
        own, other = (
            weight * np.exp2((np.asarray(at, np.float64) - time) / half_life)
            for weight, at in ((weight_a, time_a), (weight_b, time_b))
        )
        weight = own + other
        share = other / weight
        # Means instead of sums: a weight that has decayed to zero makes no NaN.
        mean = np.where(share == 0, mean_a, np.where(own == 0, mean_b, mean_a + (mean_b - mean_a) * share))
        # The difference of finite means, too, may be infinite.
        far = ~np.isfinite(mean_b - mean_a) & (own > 0) & (other > 0)
        finite = np.isfinite(mean_a) & np.isfinite(mean_b)
        weighted = np.where(finite, mean_a * (own / weight) + mean_b * share, mean_a + mean_b)
        mean = np.where(far, weighted, mean)
    fields = ((weight_a, weight_b, weight), (mean_a, mean_b, mean))
    weights, means = (unless_empty(weight_a, weight_b, *parts) for parts in fields)
    return time, means, weights


def _decayed(acc: Any) -> Array:
    _, mean, weight = acc
    return shown(mean, weight == 0)
