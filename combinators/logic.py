"""Boolean conditions: the number of records for which one is true, and whether it is true for all or for any."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from combinators._common import Array, constant, require, shown
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Input, fieldwise

_CAST = "Compute a boolean column first, for example with `withColumn`."


def count_if(column: Input, *, where: Condition = None) -> Bound:
    """The number of records in which the boolean `column` is true.

    If nothing is counted the result is 0, never null. Returns bigint. Exact; invertible: 2 combines a window. Raises
    InvalidType for a column that is not boolean. Reference: Spark's `count_if`.

    >>> count_if("x").resolve(("boolean",)).agg(np.zeros(3, np.int64), np.array([True, False, True]))
    array([1, 0, 1])
    """
    label = f"count_if({column})"
    return Bound(partial(_count_if, label), (column,), label).where(where)


def bool_and(column: Input, *, where: Condition = None) -> Bound:
    """Whether the boolean `column` is true in all records that have a value.

    No value gives null. Returns boolean. Exact; invertible, because both outcomes are counted: 2 combines a window.
    Raises InvalidType for a column that is not boolean. Reference: Spark's `bool_and`.

    >>> bool_and("x").resolve(("boolean",)).lower((np.array([2, 1]), np.array([0, 1]))).tolist()
    [True, False]
    """
    return _of_counts("bool_and", column, _all).where(where)


def bool_or(column: Input, *, where: Condition = None) -> Bound:
    """Whether the boolean `column` is true in at least one record.

    No value gives null. Returns boolean. Exact; invertible, because both outcomes are counted: 2 combines a window.
    Raises InvalidType for a column that is not boolean. Reference: Spark's `bool_or`.

    >>> bool_or("x").resolve(("boolean",)).lower((np.array([1, 0]), np.array([2, 2]))).tolist()
    [True, False]
    """
    return _of_counts("bool_or", column, _any).where(where)


def _count_if(label: str, kind: str) -> Aggregate:
    require(label, ("boolean",), kind, _CAST)
    return Aggregate(
        constant(0),
        _add,
        fieldwise(np.add),
        fieldwise(np.subtract),
        partial="n bigint",
        columns=True,
        version="combinators.count_if",
        meanings=("true",),
    )


def _add(n: Array, value: Array) -> Array:
    return n + value


def _of_counts(name: str, column: str, lower: Callable[[Any], Array]) -> Bound:
    label = f"{name}({column})"
    return Bound(partial(_counts, label, lower), (column,), label)


def _counts(label: str, lower: Callable[[Any], Array], kind: str) -> Aggregate:
    require(label, ("boolean",), kind, _CAST)
    return Aggregate(
        constant((0, 0)),
        _add_outcome,
        fieldwise(np.add, np.add),
        fieldwise(np.subtract, np.subtract),
        lower,
        partial="true bigint, false bigint",
        returns="boolean",
        columns=True,
        version="combinators.outcomes",
        meanings=("true", "false"),
    )


def _add_outcome(acc: Any, value: Array) -> Any:
    true, false = acc
    return true + value, false + ~value


def _all(acc: Any) -> Array:
    true, false = acc
    return shown(false == 0, true + false == 0)


def _any(acc: Any) -> Array:
    true, false = acc
    return shown(true > 0, true + false == 0)
