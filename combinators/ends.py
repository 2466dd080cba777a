"""The value at an end of an order: first or last by event time, or where another column is smallest or largest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from combinators._common import ATOMIC, CARRIED, Array, checked_flag, constant, require, shown
from combinators._ordered import Ordered, checked_count, gathered
from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound, Condition, Input
from slicing.aggregates.fields import FLOATS, INTEGERS, Field, numpy_type

_INT64 = np.iinfo(np.int64)
# The state of the value in a partial, in the order in which ties are decided.
_NULL, _VALUE, _NOTHING = 0, 1, 2
Orders: TypeAlias = tuple[Any, ...]
_CAST = "Choose or compute a column of one of these first."
_ORDER = "Order by one of these: cast it, or take a field of it."


def first(column: Input, *, by: Input | None = None, ignore_nulls: bool = False, where: Condition = None) -> Bound:
    """The value of `column` in the record with the smallest event time; ties: the smaller value.

    Among records of one time, that with the smallest `by` is taken, if it is given; one in which it is null only if
    there is no other. Null is the smallest value and NaN the largest. Structs are ordered field by field, arrays
    element by element, maps as the arrays of their entries: `first(F.struct("a", "b"))` takes both from one record. A
    null at the smallest time gives null; with `ignore_nulls`, records with null are left out. No record gives null. The
    result has the column's kind. Not invertible: 4 combines a window on average, 2 sqrt(n) at worst. Raises InvalidType
    for a column of intervals or variants, or a `by` that is not atomic. Reference: Spark's `min_by(column, time)`,
    which does not define ties.

    >>> first("x").resolve(("string", "bigint")).partial
    'time bigint, level tinyint, value string'
    """
    return _at_end("first", column, by, ignore_nulls, latest=False).where(where)


def last(column: Input, *, by: Input | None = None, ignore_nulls: bool = False, where: Condition = None) -> Bound:
    """The value of `column` in the record with the largest event time; ties: the smaller value.

    Among records of one time, that with the largest `by` is taken, if it is given; one in which it is null only if
    there is no other. A null at the largest time gives null; with `ignore_nulls`, records with null are left out. No
    record gives null. The result has the column's kind. Order of values, cost and errors as for `first`. Reference:
    Spark's `max_by(column, time)`, which does not define ties.

    >>> last("x").resolve(("double", "bigint")).returns
    'double'
    """
    return _at_end("last", column, by, ignore_nulls, latest=True).where(where)


def min_by(column: Input, by: Input, k: int | None = None, *, where: Condition = None) -> Bound:
    """The value of `column` in the record with the smallest `by`; ties: the smaller value.

    Records in which `by` is null are left out; NaN is the largest. A null at the smallest `by` gives null; no record
    gives null. The result has the column's kind. With `k`, an array of the values in the `k` records with the smallest
    `by`, in its order; no record gives an empty array. Arrays, maps and structs are ordered as for `first`, if `by` is
    equal: `min_by(F.struct("a", "b"), "by")` takes both from one record. Not invertible: 4 combines a window on
    average, 2 sqrt(n) at worst. Raises InvalidType for a column of intervals or variants, or for `by` that is not
    atomic, with `k` also for text. Reference: Spark's `min_by`, which does not define ties.

    >>> min_by("x", "y").resolve(("string", "double")).partial
    'by double, level tinyint, value string'
    """
    return _by("min_by", column, by, k, latest=False).where(where)


def max_by(column: Input, by: Input, k: int | None = None, *, where: Condition = None) -> Bound:
    """The value of `column` in the record with the largest `by`; ties: the smaller value.

    Records in which `by` is null are left out; NaN is the largest. A null at the largest `by` gives null; no record
    gives null. The result has the column's kind. With `k`, an array of the values in the `k` records with the largest
    `by`, the largest first; no record gives an empty array. Cost and errors as for `min_by`. Reference: Spark's
    `max_by`, which does not define ties.

    >>> max_by("x", "y").resolve(("double", "int")).partial
    'by int, level tinyint, value double'
    """
    return _by("max_by", column, by, k, latest=True).where(where)


def _at_end(name: str, column: Input, by: Input | None, ignore_nulls: bool, latest: bool) -> Bound:
    label = f"{name}({column})"
    columns = (column, EVENT_TIME) if by is None else (column, EVENT_TIME, by)
    skips = checked_flag("ignore_nulls", ignore_nulls)
    return Bound(partial(_by_time, label, latest, skips), columns, label, nested=True)


def _by(name: str, column: Input, by: Input, k: int | None, latest: bool) -> Bound:
    if k is None:
        label = f"{name}({column}, {by})"
        return Bound(partial(_end_of, label, latest), (column, by), label, nested=True)
    label = f"{name}({column}, {by}, {checked_count('k', k)})"
    return Bound(partial(_several, label, name, k, latest), (column, by), label, nested=True)


def _several(label: str, name: str, k: int, latest: bool, kind: str, by: str) -> Aggregate:
    ordered = Ordered(label, name, k, (by,), kind, down=latest, skips=True)
    return ordered.aggregate(partial(gathered, ordered), null_inputs=True)


def _by_time(label: str, latest: bool, skips: bool, kind: str, _time: str = "bigint", *by: str) -> Aggregate:
    for each in by:
        require(label, ATOMIC, each, _ORDER)
    orders = [
        Field("time", "bigint"),
        *(field for each in by for field in (Field("given", "boolean"), Field("by", each))),
    ]
    version = " of values" if skips else ""
    return _end(orders, label, latest, kind, partial(_add_by_time, latest, skips), version)


def _end_of(label: str, latest: bool, kind: str, by: str) -> Aggregate:
    require(label, ATOMIC, by, _ORDER)
    return _end([Field("by", by)], label, latest, kind, partial(_add, latest))


def _end(
    orders: Sequence[Field], label: str, latest: bool, kind: str, add: Callable[..., Any], version: str = ""
) -> Aggregate:
    require(label, CARRIED, kind, _CAST)
    filler, never = _filler(kind), tuple(_never(order.kind, latest) for order in orders)
    return Aggregate(
        constant((*never, _NOTHING, filler)),
        partial(add, never, filler),
        partial(_choose, latest),
        lower=_lower,
        partial=f"{', '.join(map(str, orders))}, level tinyint, value {kind}",
        returns=kind,
        columns=True,
        nulls=True,
        view="ranks",
        version=f"combinators.{'max' if latest else 'min'}_by{version}",
    )


def _filler(kind: str) -> Any:
    if kind == "boolean":
        return False
    if kind in FLOATS:
        return 0.0
    # For values that are ranks, only this one is outside every dictionary.
    return 0 if kind in (*INTEGERS, "date", "timestamp", "timestamp_ntz") else int(_INT64.max)


def _never(kind: str, latest: bool) -> Any:
    """Return the `by` of an empty partial: every other one is preferred to it, or equal and preferred by its level."""
    if kind in FLOATS:
        return -np.inf if latest else np.nan
    if kind == "boolean":
        return not latest
    # Days are stored as int32, although functions get them as int64.
    bounds = np.iinfo(np.int32 if kind == "date" else numpy_type(kind) if kind in INTEGERS else np.int64)
    return int(bounds.min if latest else bounds.max)


def _add(latest: bool, never: Orders, filler: Any, acc: Any, value: Array, by: Array) -> Any:
    return _added(latest, filler, acc, value, np.ma.getmaskarray(by), (_filled(by, never[0]),))


def _add_by_time(
    latest: bool, skips: bool, never: Orders, filler: Any, acc: Any, value: Array, time: Array, *by: Array
) -> Any:
    left_out = np.ma.getmaskarray(value) if skips else np.zeros(value.shape, dtype=bool)
    # Without a value of `by`, those of no record: every other one is preferred to them.
    given = ((np.ma.MaskedArray(np.full(each.shape, latest), np.ma.getmaskarray(each)), each) for each in by)
    orders = map(_filled, (np.ma.MaskedArray(time, left_out), *chain.from_iterable(given)), never)
    return _added(latest, filler, acc, value, left_out, tuple(orders))


def _filled(column: Array, never: Any) -> Array:
    return np.where(np.ma.getmaskarray(column), never, np.ma.getdata(column))


def _added(latest: bool, filler: Any, acc: Any, value: Array, left_out: Array, orders: tuple[Array, ...]) -> Any:
    null = np.ma.getmaskarray(value)
    level = np.where(left_out, np.int8(_NOTHING), np.where(null, np.int8(_NULL), np.int8(_VALUE)))
    return _choose(latest, acc, (*orders, level, np.where(null | left_out, filler, np.ma.getdata(value))))


def _choose(latest: bool, a: Any, b: Any) -> Any:
    *orders_a, level_a, value_a = a
    *orders_b, level_b, value_b = b
    taken = (level_b < level_a) | ((level_b == level_a) & _less(value_b, value_a))
    for one, other in zip(reversed(orders_a), reversed(orders_b), strict=True):
        taken = (_less(one, other) if latest else _less(other, one)) | (_same(one, other) & taken)
    return tuple(np.where(taken, y, x) for x, y in zip(a, b, strict=True))


def _less(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return (x < y) | (np.isnan(y) & ~np.isnan(x))
    return x < y


def _same(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        equal: Array = (x == y) | (np.isnan(x) & np.isnan(y))
        return equal
    return np.equal(x, y)


def _lower(acc: Any) -> Array:
    *_, level, value = acc
    return shown(value, level != _VALUE)
