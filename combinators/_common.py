"""Shared helpers of the combinators: the kinds that they accept, an `init` that pickles, results with nulls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from slicing.aggregates.aggregate import Aggregate, Bound, Struct
from slicing.aggregates.conversions import as_number
from slicing.aggregates.fields import FLOATS, INTEGERS, INTERVAL, decimal_of, is_nested
from slicing.column_names import written
from slicing.errors import InvalidType, InvalidValue, Remedy, Topic, excerpt, hinted

Array: TypeAlias = npt.NDArray[Any]
P = ParamSpec("P")
R = TypeVar("R")

ANY_DECIMAL = "decimal(p,s)"
"""Stands for decimals of every precision and scale in lists of kinds."""

ANY_NESTED = "array, map, struct"
"""Stands for arrays, maps and structs of every kind in lists of kinds."""

NUMBERS = (*INTEGERS, *FLOATS, ANY_DECIMAL)
SUMMED = (*NUMBERS, INTERVAL)
ATOMIC = ("boolean", *NUMBERS, "string", "binary", "date", "timestamp", "timestamp_ntz")
CARRIED = (*ATOMIC, ANY_NESTED)
"""The kinds of values that are only kept and put in order."""


AS_NUMBER = "number"
"""The remedy of `require` for a column that must hold numbers: it depends on the column's kind."""


def accepts(kinds: tuple[str, ...], kind: str) -> bool:
    """Return whether `kind` is one of `kinds`.

    >>> accepts(NUMBERS, "decimal(10,2)"), accepts(NUMBERS, "string")
    (True, False)
    """
    by_kind = (ANY_DECIMAL in kinds and decimal_of(kind) is not None) or (ANY_NESTED in kinds and is_nested(kind))
    return kind in kinds or by_kind


def require(label: str, kinds: tuple[str, ...], kind: str, remedy: str) -> None:
    """Raise InvalidType with this remedy unless `kind` is one of `kinds`."""
    if not accepts(kinds, kind):
        topic = Topic.NUMBERS if kinds in (NUMBERS, SUMMED) or kind == INTERVAL else Topic.COLUMN
        said = (as_number(kind), (kind,)) if remedy == AS_NUMBER or kind == INTERVAL else (remedy,)
        rule = f"`{label}` takes a column of one of {', '.join(kinds)}; got {kind}. "
        raise InvalidType(rule, Remedy(topic, *said))


def constant(value: Any) -> Callable[[], Any]:
    """Return an `init` that returns this value and can be pickled."""
    return partial(_same, value)


def _same(value: Any) -> Any:
    return value


def shown(value: Array, hidden: Array) -> Array:
    """Return the result `value`, null where `hidden`."""
    return np.ma.MaskedArray(value, mask=hidden) if hidden.any() else value


def unless_empty(n_a: Array, n_b: Array, a: Array, b: Array, merged: Array) -> Array:
    """Return a field of two merged partials; if one side is empty, the other one unchanged to the last bit."""
    return np.where(n_a == 0, b, np.where(n_b == 0, a, merged))


def enough(bound: Bound, least: int) -> Bound:
    """Return an aggregate whose result is null for fewer than `least` values. Raises InvalidValue.

    Its partial must have a field `n`, the number of values.
    """
    if checked_samples(least) == 1:
        return bound
    return replace(bound, source=partial(_if_enough, bound, least))


def checked_flag(name: str, flag: bool) -> bool:
    """Return a flag if it is one. Raises InvalidType."""
    if not isinstance(flag, bool):
        raise InvalidType(f"`{name}` is True or False; got {excerpt(flag)}.")
    return flag


def checked_samples(least: int) -> int:
    """Return `min_samples` if it is valid. Raises InvalidValue."""
    if not isinstance(least, int) or isinstance(least, bool) or least < 1:
        raise InvalidValue(
            f"`min_samples` must be a positive integer: how many values a result needs; got {excerpt(least)}."
        )
    return least


def _if_enough(bound: Bound, least: int, *kinds: str) -> Aggregate:
    found = bound.resolve(kinds)
    at = [field.name for field in found.fields].index("n")
    return replace(found, lower=partial(_unless_few, least, at, found.lower))


def _unless_few(least: int, at: int, lower: Any, acc: Any) -> Array:
    result = lower(acc)
    return shown(np.ma.getdata(result), np.ma.getmaskarray(result) | (acc[at] < least))


def printed(combinator: Callable[P, R]) -> Callable[P, R]:
    """Return a combinator whose results have the call that made them as their repr.

    >>> printed(lambda *columns, **options: Bound(max, columns))("x", limit=3)
    C.<lambda>('x', limit=3)
    """

    @wraps(combinator)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = [*map(written, args), *(f"{name}={written(value)}" for name, value in kwargs.items())]
        made = combinator(*args, **kwargs)
        return (
            replace(made, call=f"C.{combinator.__name__}({', '.join(given)})")
            if isinstance(made, (Bound, Struct))
            else made
        )

    return hinted(call, "C.")
