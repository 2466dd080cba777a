"""The value at an end of an order: first or last by event time, or where another column is smallest or largest."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from combinators._common import ATOMIC, CARRIED, Array, constant, require, shown
from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound, Condition, Input
from slicing.aggregates.fields import FLOATS, INTEGERS, numpy_type

_INT64 = np.iinfo(np.int64)
# The state of the value in a partial, in the order in which ties are decided.
_NULL, _VALUE, _NOTHING = 0, 1, 2
_CAST = "Choose or compute a column of one of these first."
_ORDER = "Order by one of these: cast it, or take a field of it."


def first(column: Input, *, where: Condition = None) -> Bound:
    """The value of `column` in the record with the smallest event time; ties: the smaller value.

    Null is the smallest value and NaN the largest. Structs are ordered field by field, arrays element by element, maps
    as the arrays of their entries: `first(F.struct("a", "b"))` takes both from one record. A null at the smallest
    time gives null; no record gives null. The result has the column's kind. Not invertible: 4 combines a window on
    average, 2 sqrt(n) at worst. Raises InvalidType for a column of intervals or variants. Reference: Spark's
    `min_by(column, time)`, which does not define ties.

    >>> first("x").resolve(("string", "bigint")).partial
    'time bigint, level tinyint, value string'
    """
    label = f"first({column})"
    return Bound(partial(_by_time, label, False), (column, EVENT_TIME), label, nested=True).where(where)


def last(column: Input, *, where: Condition = None) -> Bound:
    """The value of `column` in the record with the largest event time; ties: the smaller value.

    Null is the smallest value and NaN the largest. Structs are ordered field by field, arrays element by element, maps
    as the arrays of their entries: `last(F.struct("a", "b"))` takes both from one record. A null at the largest
    time gives null; no record gives null. The result has the column's kind. Not invertible: 4 combines a window on
    average, 2 sqrt(n) at worst. Raises InvalidType for a column of intervals or variants. Reference: Spark's
    `max_by(column, time)`, which does not define ties.

    >>> last("x").resolve(("double", "bigint")).returns
    'double'
    """
    label = f"last({column})"
    return Bound(partial(_by_time, label, True), (column, EVENT_TIME), label, nested=True).where(where)


def min_by(column: Input, by: Input, *, where: Condition = None) -> Bound:
    """The value of `column` in the record with the smallest `by`; ties: the smaller value.

    Records in which `by` is null are left out; NaN is the largest. A null at the smallest `by` gives null; no record
    gives null. The result has the column's kind. Arrays, maps and structs are ordered as for `first`, if `by` is equal:
    `min_by(F.struct("a", "b"), "by")` takes both from one record. Not invertible: 4 combines a window on average,
    2 sqrt(n) at worst. Raises InvalidType for a column of intervals or variants, or for `by` that is not atomic.
    Reference: Spark's `min_by`, which does not define ties.

    >>> min_by("x", "y").resolve(("string", "double")).partial
    'by double, level tinyint, value string'
    """
    label = f"min_by({column}, {by})"
    return Bound(partial(_end_of, label, False), (column, by), label, nested=True).where(where)


def max_by(column: Input, by: Input, *, where: Condition = None) -> Bound:
    """The value of `column` in the record with the largest `by`; ties: the smaller value.

    Records in which `by` is null are left out; NaN is the largest. A null at the largest `by` gives null; no record
    gives null. The result has the column's kind. Cost and errors as for `min_by`. Reference: Spark's `max_by`, which
    does not define ties.

    >>> max_by("x", "y").resolve(("double", "int")).partial
    'by int, level tinyint, value double'
    """
    label = f"max_by({column}, {by})"
    return Bound(partial(_end_of, label, True), (column, by), label, nested=True).where(where)


def _by_time(label: str, latest: bool, kind: str, _time: str = "bigint") -> Aggregate:
    return _end("time", label, latest, kind, "bigint")


def _end_of(label: str, latest: bool, kind: str, by: str) -> Aggregate:
    require(label, ATOMIC, by, _ORDER)
    return _end("by", label, latest, kind, by)


def _end(name: str, label: str, latest: bool, kind: str, by: str) -> Aggregate:
    require(label, CARRIED, kind, _CAST)
    filler = _filler(kind)
    return Aggregate(
        constant((_never(by, latest), _NOTHING, filler)),
        partial(_add, latest, filler),
        partial(_choose, latest),
        lower=_lower,
        partial=f"{name} {by}, level tinyint, value {kind}",
        returns=kind,
        columns=True,
        nulls=True,
        view="ranks",
        version=f"combinators.{'max' if latest else 'min'}_by",
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


def _add(latest: bool, filler: Any, acc: Any, value: Array, by: Array) -> Any:
    null, left_out = np.ma.getmaskarray(value), np.ma.getmaskarray(by)
    level = np.where(left_out, np.int8(_NOTHING), np.where(null, np.int8(_NULL), np.int8(_VALUE)))
    place = np.where(left_out, acc[0], np.ma.getdata(by))
    return _choose(latest, acc, (place, level, np.where(null | left_out, filler, np.ma.getdata(value))))


def _choose(latest: bool, a: Any, b: Any) -> Any:
    by_a, level_a, value_a = a
    by_b, level_b, value_b = b
    ahead = _less(by_a, by_b) if latest else _less(by_b, by_a)
    smaller = (level_b < level_a) | ((level_b == level_a) & _less(value_b, value_a))
    taken = ahead | (_same(by_a, by_b) & smaller)
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
    _, level, value = acc
    return shown(value, level != _VALUE)
