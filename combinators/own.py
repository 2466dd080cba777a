"""Aggregates of your own: a function of two values, and several results as one struct."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from combinators._common import ATOMIC, constant, require
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Input, Struct
from slicing.errors import InvalidType, excerpt

_CAST = "Choose or compute an atomic column first."


def reduce(function: Callable[[Any, Any], Any], column: Input, *, where: Condition = None) -> Bound:
    """The values of `column`, reduced by an associative and commutative `function` of two values.

    No value gives null; a single value gives that value. The result has the column's kind. The function is called row
    by row. Whether it is associative and commutative is checked on samples when a query is built. Not invertible: 4
    combines a window on average, 2 sqrt(n) at worst. Raises InvalidType if `function` is not callable or the column is
    not atomic. Reference: Python's `functools.reduce`.

    >>> reduce(max, "x").resolve(("int",)).partial
    'value int'
    """
    if not callable(function):
        raise InvalidType(f"`reduce` takes a function of two values, then a column; got {excerpt(function)}.")
    label = f"reduce({column})"
    return Bound(partial(_reduced, label, function), (column,), label, own=True).where(where)


def struct(*, where: Condition = None, **results: Bound | Struct) -> Struct:
    """Several results as one struct, with these names: `candle=C.struct(low=C.min("x"), high=C.max("x"))`.

    Each result keeps its own partial and tree, so its fields may be of different records, also of records at one time:
    `C.last(F.struct("n", "s"))` takes both from one. A result that is null makes its field null, never the struct.
    `where` is a condition on all results, so no field can have this name. Raises InvalidType for an argument that is
    not a result, InvalidValue for no argument. Reference: Spark's `struct`.

    >>> list(struct(low=reduce(min, "x"), high=reduce(max, "x")).results)
    ['low', 'high']
    """
    return Struct(results).where(where)


def _reduced(label: str, function: Callable[[Any, Any], Any], kind: str) -> Aggregate:
    require(label, ATOMIC, kind, _CAST)
    joined = _Joined(function)
    return Aggregate(constant(None), joined, joined, partial=f"value {kind}")


@dataclass(frozen=True)
class _Joined:
    """`agg` and `combine` by a user's function of two values, where None is no value."""

    of_user: Callable[[Any, Any], Any]  # the digest of the code is of the function by this name
    stored_as = "reduce"

    def __call__(self, a: Any, b: Any) -> Any:
        if a is None:
            return b
        return a if b is None else self.of_user(a, b)
