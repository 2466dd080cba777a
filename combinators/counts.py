"""Counting records and values."""

from __future__ import annotations

import numpy as np

from combinators._common import Array, constant
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Input, fieldwise


def count(column: Input | None = None, *, where: Condition = None) -> Bound:
    """The number of records in a window, as with "*", or of those with a value in `column`.

    If nothing is counted the result is 0, never null. Returns bigint; the column may have any kind. Exact; invertible:
    2 combines a window. Reference: Spark's `count`.

    >>> count().label, count("fee").label
    ('count()', 'count(fee)')
    >>> count().resolve(()).agg(np.zeros(3, np.int64))
    array([1, 1, 1])
    """
    if column is None or (isinstance(column, str) and column == "*"):
        return Bound(_count, (), "count()").where(where)
    return Bound(_count, (column,), f"count({column})").where(where)


def _count(*_kinds: str) -> Aggregate:
    # Only nulls matter, not values; as ranks, values need not become Python objects.
    add, subtract = fieldwise(np.add), fieldwise(np.subtract)
    return Aggregate(
        constant(0),
        _add_one,
        add,
        subtract,
        partial="n bigint",
        columns=True,
        view="ranks",
        version="combinators.count",
        meanings=("n",),
    )


def _add_one(n: Array, *_values: Array) -> Array:
    return n + 1
