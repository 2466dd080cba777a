"""The smallest and the largest value."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from combinators._common import ATOMIC, Array, constant, require, shown
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Input, fieldwise
from slicing.aggregates.fields import FLOATS, INTEGERS, numpy_type

_CAST = "Choose or compute an atomic column first."


def min(column: Input, *, where: Condition = None) -> Bound:
    """The smallest value of `column`; NaN is larger than every number.

    No value gives null. The result has the column's kind. Not invertible: 4 combines a window on average, 2 sqrt(n) at
    worst. Raises InvalidType for a column that is not atomic. Reference: Spark's `min`.

    >>> smallest = min("x").resolve(("double",)).combine
    >>> smallest((np.array([np.nan, np.nan]), np.array([1, 1])), (np.array([2.0, np.nan]), np.array([1, 1])))
    (array([ 2., nan]), array([2, 2]))
    """
    label = f"min({column})"
    return Bound(partial(_min_of, label), (column,), label).where(where)


def max(column: Input, *, where: Condition = None) -> Bound:
    """The largest value of `column`; NaN is larger than every number.

    No value gives null. The result has the column's kind. Not invertible: 4 combines a window on average, 2 sqrt(n) at
    worst. Raises InvalidType for a column that is not atomic. Reference: Spark's `max`.

    >>> largest = max("x").resolve(("double",)).combine
    >>> largest((np.array([np.nan, 1.0]), np.array([1, 1])), (np.array([2.0, 3.0]), np.array([1, 1])))
    (array([nan,  3.]), array([2, 2]))
    """
    label = f"max({column})"
    return Bound(partial(_max_of, label), (column,), label).where(where)


def any_value(column: Input, *, where: Condition = None) -> Bound:
    """An arbitrary value of `column`: always the smallest, independent of the order of records.

    Nulls are left out; no value gives null. The result has the column's kind. Cost and errors as for `min`. Reference:
    Spark's `any_value(column, ignoreNulls=True)`.

    >>> any_value("x").label
    'any_value(x)'
    """
    label = f"any_value({column})"
    return Bound(partial(_min_of, label), (column,), label).where(where)


def _min_of(label: str, kind: str) -> Aggregate:
    require(label, ATOMIC, kind, _CAST)
    if kind in FLOATS:
        return _extreme("min", kind, np.nan, np.fmin)
    return _extreme("min", kind, True if kind == "boolean" else int(_bounds(kind).max), np.minimum)


def _max_of(label: str, kind: str) -> Aggregate:
    require(label, ATOMIC, kind, _CAST)
    if kind in FLOATS:
        return _extreme("max", kind, -np.inf, np.maximum)
    return _extreme("max", kind, False if kind == "boolean" else int(_bounds(kind).min), np.maximum)


def _bounds(kind: str) -> Any:
    if kind in INTEGERS:
        return np.iinfo(numpy_type(kind))
    # Days are stored as int32, although functions get them as int64.
    return np.iinfo(np.int32 if kind == "date" else np.int64)


def _extreme(name: str, kind: str, identity: Any, choose: np.ufunc) -> Aggregate:
    return Aggregate(
        constant((identity, 0)),
        partial(_add, choose),
        fieldwise(choose, np.add),
        lower=_lower,
        partial=f"value {kind}, n bigint",
        returns=kind,
        columns=True,
        view="ranks",
        version=f"combinators.{name}",
        meanings=(name, "n"),
    )


def _add(choose: np.ufunc, acc: Any, value: Array) -> Any:
    extreme, n = acc
    return choose(extreme, value), n + 1


def _lower(acc: Any) -> Array:
    extreme, n = acc
    return shown(extreme, n == 0)
