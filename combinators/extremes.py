"""The smallest and the largest value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from combinators._common import ATOMIC, CARRIED, Array, constant, enough, require, shown
from combinators._ordered import Ordered, beside, checked_count, gathered
from combinators._tables import Joined
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Input, fieldwise
from slicing.aggregates.fields import FLOATS, INTEGERS, INTERVAL, numpy_type
from slicing.errors import InvalidValue

_CAST = "Choose or compute an atomic column first."


def min(column: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The smallest value of `column`; NaN is larger than every number.

    Fewer than `min_samples` values give null. The result has the column's kind. Not invertible: 4 combines a window
    on average, 2 sqrt(n) at worst. Raises InvalidType for a column that is not atomic. Reference: Spark's `min`.

    >>> smallest = min("x").resolve(("double",)).combine
    >>> smallest((np.array([np.nan, np.nan]), np.array([1, 1])), (np.array([2.0, np.nan]), np.array([1, 1])))
    (array([ 2., nan]), array([2, 2]))
    """
    label = f"min({column})"
    return enough(Bound(partial(_min_of, label), (column,), label), min_samples).where(where)


def max(column: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The largest value of `column`; NaN is larger than every number.

    Fewer than `min_samples` values give null. The result has the column's kind. Not invertible: 4 combines a window
    on average, 2 sqrt(n) at worst. Raises InvalidType for a column that is not atomic. Reference: Spark's `max`.

    >>> largest = max("x").resolve(("double",)).combine
    >>> largest((np.array([np.nan, 1.0]), np.array([1, 1])), (np.array([2.0, 3.0]), np.array([1, 1])))
    (array([nan,  3.]), array([2, 2]))
    """
    label = f"max({column})"
    return enough(Bound(partial(_max_of, label), (column,), label), min_samples).where(where)


def largest(column: Input, k: int, *, with_: str | Sequence[str] = (), where: Condition = None) -> Bound:
    """The `k` largest values of `column` as an array, the largest first; NaN is larger than every number.

    Nulls are left out; no value gives an empty array, never null. `with_` names other columns: the array then has
    structs of the value and of these columns, taken from one record each; ties: the smaller other columns first. The
    partial is a table of at most `k` values, 24 bytes each, more for decimals and other columns. Not invertible: 4
    combines a window on average, 2 sqrt(n) at worst. Raises InvalidType for a column that is not of numbers, booleans,
    dates or times, InvalidValue for a `k` that is not positive. Reference: Python's `heapq.nlargest`. For the most
    frequent values, see `top_k`.

    >>> largest("amount", 3, with_="shop").resolve(("double", "string")).returns
    'array<struct<amount:double,shop:string>>'
    """
    return _several("largest", column, k, with_).where(where)


def smallest(column: Input, k: int, *, with_: str | Sequence[str] = (), where: Condition = None) -> Bound:
    """The `k` smallest values of `column` as an array, the smallest first; NaN is larger than every number.

    No value gives an empty array, never null. `with_`, cost and errors as for `largest`. Reference: Python's
    `heapq.nsmallest`.

    >>> smallest("x", 3).resolve(("date",)).returns
    'array<date>'
    """
    return _several("smallest", column, k, with_).where(where)


def any_value(column: Input, *, where: Condition = None) -> Bound:
    """An arbitrary value of `column`: always the smallest, independent of the order of records.

    Nulls are left out; no value gives null. The result has the column's kind. Cost and errors as for `min`. Reference:
    Spark's `any_value(column, ignoreNulls=True)`.

    >>> any_value("x").label
    'any_value(x)'
    """
    label = f"any_value({column})"
    return Bound(partial(_min_of, label), (column,), label).where(where)


def _several(name: str, column: Input, k: int, with_: str | Sequence[str]) -> Bound:
    others = (with_,) if isinstance(with_, str) else tuple(with_)
    names = [_name(each) for each in (column, *others)]
    if len({name.casefold() for name in names}) < len(names):
        raise InvalidValue(f"the columns of `{name}` have different names; got {', '.join(names)}. Rename one.")
    label = f"{name}({column}, {checked_count('k', k)})"
    return Bound(partial(_ends, label, name, k, names), (column, *others), label, nested=bool(others))


def _name(column: Input) -> str:
    """Return the name of a column in a struct: its own, that of its last part, or "value" if it is computed."""
    return str(column).rpartition(".")[2].strip("`") if isinstance(column, str) else "value"


def _ends(label: str, name: str, k: int, names: Sequence[str], kind: str, *others: str) -> Aggregate:
    kinds = (kind, *others)
    members = ",".join(f"{name}:{kind}" for name, kind in zip(names, kinds, strict=True))
    value = f"struct<{members}>" if others else kind
    ordered = Ordered(label, name, k, (kind,), value, down=name == "largest", skips=True, nulls=False)
    for other in others:
        require(label, CARRIED, other, _CAST)
    gather = partial(beside, ordered, kinds) if others else partial(_alone, ordered)
    return ordered.aggregate(gather, null_inputs=bool(others))


def _alone(ordered: Ordered, joined: Joined, starts: Array, value: Any) -> Array:
    return gathered(ordered, joined, starts, value, value)


def _min_of(label: str, kind: str) -> Aggregate:
    require(label, (*ATOMIC, INTERVAL), kind, _CAST)
    if kind in FLOATS:
        return _extreme("min", kind, np.nan, np.fmin)
    return _extreme("min", kind, True if kind == "boolean" else int(_bounds(kind).max), np.minimum)


def _max_of(label: str, kind: str) -> Aggregate:
    require(label, (*ATOMIC, INTERVAL), kind, _CAST)
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
        partial=f"value {'bigint' if kind == INTERVAL else kind}, n bigint",
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
