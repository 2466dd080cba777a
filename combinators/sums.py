"""Sums and means: exact for integers and decimals, in limbs of 32 bits that add and subtract exactly.

Whenever partials are combined, the part of a limb beyond 32 bits is carried into the next limb. Sums of up to 95 bits
are therefore exact (159 for decimals), for any number of records: 2^32 of the largest integers, 2^63 of 32 bits.
Running totals of limbs may wrap around int64: the difference of two is correct modulo 2^64, which suffices for the
limbs of a window, because each slice has at most 32 bits per limb.
"""

from __future__ import annotations

from decimal import Context, Decimal
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from combinators._common import AS_NUMBER, SUMMED, Array, constant, enough, require, shown
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Fieldwise, Input, fieldwise
from slicing.aggregates.fields import FLOATS, INTERVAL, decimal_of
from slicing.errors import InvalidValue, ResultOverflow

_VERSION = "combinators.sum"
_LOW = 0xFFFFFFFF
_BELOW = 1 << 59
"""How far a limb may be below zero: at most 2^27 slices leave a running total, and their limbs have been carried."""
Overflow: TypeAlias = Literal["error", "null"]
"""The result of a window that exceeds the result type."""
_ERROR: Final = "error"
_NULL: Final = "null"
_MAX_DIGITS = 38
_ROOMY = Context(prec=80)


def sum(column: Input, *, overflow: Overflow = _ERROR, min_samples: int = 1, where: Condition = None) -> Bound:
    """The sum of the values of `column`.

    Fewer than `min_samples` values give null. Integers give bigint, float and double give double, intervals of days
    to seconds give intervals, decimal(p,s) gives decimal(p+10,s) with at most 38 digits. Integers and decimals are
    exact, for 2^32 records of the largest values, and invertible: 2 combines a window; floats are not inverted: 4 on
    average, 2 sqrt(n) at worst. A sum that exceeds the result type raises ResultOverflow, or gives null with
    `overflow="null"`. This option is not part of the state: a running query may change it. Raises InvalidType for a
    column that is not numeric, InvalidValue for another `overflow`. Reference: Spark's `sum` in ANSI mode.

    >>> [sum("x").resolve((kind,)).returns for kind in ("tinyint", "float", "decimal(10,2)", "decimal(38,4)")]
    ['bigint', 'double', 'decimal(20,2)', 'decimal(38,4)']
    """
    label = f"sum({column})"
    return enough(Bound(partial(_sum_of, label, _checked(overflow)), (column,), label), min_samples).where(where)


def mean(column: Input, *, overflow: Overflow = _ERROR, min_samples: int = 1, where: Condition = None) -> Bound:
    """The arithmetic mean of the values of `column`.

    Fewer than `min_samples` values give null. Integers, float and double give double, intervals of days to seconds
    give intervals, decimal(p,s) gives decimal(p+4,s+4), both at most 38, rounded half up. Integers are summed
    exactly and divided once: the mean is within 2 ulp of the true one, even if their sum exceeds bigint. Cost and
    errors as for `sum`. Only a decimal mean can exceed its type; it is null then with `overflow="null"`. Reference:
    Spark's `avg`, which adds integers as doubles.

    >>> [mean("x").resolve((kind,)).returns for kind in ("bigint", "decimal(10,2)", "decimal(38,36)")]
    ['double', 'decimal(14,6)', 'decimal(38,38)']
    """
    label = f"mean({column})"
    return enough(Bound(partial(_mean_of, label, _checked(overflow)), (column,), label), min_samples).where(where)


def _checked(overflow: Overflow) -> str:
    if overflow not in (_ERROR, _NULL):
        raise InvalidValue(
            f"`overflow` must be {_ERROR!r} or {_NULL!r}: what a window shows whose result leaves its type; "
            f"got {overflow!r}."
        )
    return overflow


def _sum_of(label: str, overflow: str, kind: str) -> Aggregate:
    require(label, SUMMED, kind, AS_NUMBER)
    if decimal := decimal_of(kind):
        precision, scale = min(decimal[0] + 10, _MAX_DIGITS), decimal[1]
        return _limbs(partial(_decimal_sum, label, overflow, precision, scale), f"decimal({precision},{scale})")
    if kind in FLOATS:
        return _floats(_float_sum)
    return _integers(partial(_integer_sum, label, overflow), INTERVAL if kind == INTERVAL else "bigint")


def _mean_of(label: str, overflow: str, kind: str) -> Aggregate:
    require(label, SUMMED, kind, AS_NUMBER)
    if decimal := decimal_of(kind):
        precision, scale = min(decimal[0] + 4, _MAX_DIGITS), min(decimal[1] + 4, _MAX_DIGITS)
        lower = partial(_decimal_mean, label, overflow, decimal[1], precision, scale)
        return _limbs(lower, f"decimal({precision},{scale})")
    if kind in FLOATS:
        return _floats(_float_mean)
    if kind == INTERVAL:
        return _integers(_interval_mean, INTERVAL)
    return _integers(_integer_mean, "double")


def _fieldwise(ufunc: np.ufunc, count: int, then: Any = None) -> Fieldwise:
    return fieldwise(*[ufunc] * count, then=then)


def _floats(lower: Any) -> Aggregate:
    fields = "total double, n bigint"
    combine = _fieldwise(np.add, 2)
    return Aggregate(
        constant((0.0, 0)),
        _add_float,
        combine,
        lower=lower,
        partial=fields,
        returns="double",
        columns=True,
        version=_VERSION,
        meanings=("total", "n"),
    )


def _add_float(acc: Any, value: Array) -> Any:
    total, n = acc
    with np.errstate(all="ignore"):
        return total + value, n + 1


def _float_sum(acc: Any) -> Array:
    total, n = acc
    return shown(total, n == 0)


def _float_mean(acc: Any) -> Array:
    total, n = acc
    return shown(total / np.maximum(n, 1), n == 0)


def _integers(lower: Any, returns: str) -> Aggregate:
    return Aggregate(
        constant((0, 0, 0)),
        _add_integer,
        _fieldwise(np.add, 3, _carried_integers),
        _fieldwise(np.subtract, 3, _carried_integers),
        lower,
        partial="high bigint, low bigint, n bigint",
        returns=returns,
        columns=True,
        version=_VERSION,
        meanings=("high", "low", "n"),
    )


def _add_integer(acc: Any, value: Array) -> Any:
    high, low, n = acc
    wide = np.asarray(value, np.int64)
    return high + (wide >> 32), low + (wide & _LOW), n + 1


def _carried_integers(acc: Any) -> Any:
    high, low, n = acc
    low, high = _carried(low, high)
    return high, low, n


def _carried(*limbs: Array) -> tuple[Array, ...]:
    """Return the same sum with 32 bits in every limb but the last, the top one.

    A limb may be as low as -2^59, as in a running total after slices have left. It may be as high as 2^64 - 2^59, which
    2^32 - 2^27 records reach if nothing was carried: int64 has wrapped around then.
    """
    carried, full = [], np.asarray(limbs[0])
    for above in limbs[1:]:
        carry = (np.add(full, _BELOW).view(np.uint64) >> np.uint64(32)).view(np.int64) - (_BELOW >> 32)
        carried.append(full & _LOW)
        full = above + carry
    return (*carried, full)


def _integer_sum(label: str, overflow: str, acc: Any) -> Array:
    top, low, n = _carried_integers(acc)
    outside = top != top.astype(np.int32)
    if overflow == _ERROR and outside.any():
        _overflow(label, (int(top[outside][0]) << 32) + int(low[outside][0]), "bigint", "decimal(38,0)")
    return shown((top << 32) | low, (n == 0) | outside)


def _integer_mean(acc: Any) -> Array:
    top, low, n = _carried_integers(acc)
    return shown((top * 2.0**32 + low) / np.maximum(n, 1), n == 0)


def _interval_mean(acc: Any) -> Array:
    top, low, n = _carried_integers(acc)
    total = top.astype(object) * (1 << 32) + low
    return shown(np.frompyfunc(_half_up, 2, 1)(total, np.maximum(n, 1)).astype(np.int64), n == 0)


def _limbs(lower: Any, returns: str) -> Aggregate:
    return Aggregate(
        constant((0, 0, 0, 0, 0)),
        _add_limbs,
        _fieldwise(np.add, 5, _carried_limbs),
        _fieldwise(np.subtract, 5, _carried_limbs),
        lower,
        partial="limb0 bigint, limb1 bigint, limb2 bigint, limb3 bigint, n bigint",
        returns=returns,
        columns=True,
        view="limbs",
        version=_VERSION,
        meanings=("limb0", "limb1", "limb2", "limb3", "n"),
    )


def _add_limbs(acc: Any, value: tuple[Array, ...]) -> Any:
    return tuple(limb + more for limb, more in zip(acc, (*value, 1), strict=True))


def _carried_limbs(acc: Any) -> Any:
    *limbs, n = acc
    return (*_carried(*limbs), n)


def _decimal_sum(label: str, overflow: str, precision: int, scale: int, acc: Any) -> Array:
    total, n = _joined(acc)
    return _decimals(label, overflow, precision, scale, total, n == 0)


def _decimal_mean(label: str, overflow: str, from_scale: int, precision: int, scale: int, acc: Any) -> Array:
    total, n = _joined(acc)
    average = np.frompyfunc(partial(_quotient, scale - from_scale), 2, 1)(total, np.maximum(n, 1))
    return _decimals(label, overflow, precision, scale, average, n == 0)


def _joined(acc: Any) -> tuple[Any, Array]:
    """Return the unscaled sums as Python integers, and the counts."""
    *limbs, n = _carried_limbs(acc)
    return np.frompyfunc(_join, 4, 1)(*limbs), n


def _join(limb0: int, limb1: int, limb2: int, limb3: int) -> int:
    return limb0 + (limb1 << 32) + (limb2 << 64) + (limb3 << 96)


def _quotient(raised: int, total: int, n: int) -> int:
    return _half_up(total * 10**raised, n)


def _half_up(numerator: int, denominator: int) -> int:
    rounded = (2 * abs(numerator) + denominator) // (2 * denominator)
    return -rounded if numerator < 0 else rounded


def _decimals(label: str, overflow: str, precision: int, scale: int, unscaled: Any, hidden: Array) -> Array:
    outside = np.asarray(abs(unscaled) >= 10**precision, np.bool_)
    if overflow == _ERROR and outside.any():
        found = _decimal(scale, unscaled[outside][0])
        _overflow(label, found, f"decimal({precision},{scale})", "double or a decimal of smaller scale")
    return shown(np.asarray(np.frompyfunc(partial(_decimal, scale), 1, 1)(unscaled), np.object_), hidden | outside)


def _decimal(scale: int, unscaled: int) -> Decimal:
    return Decimal(unscaled).scaleb(-scale, _ROOMY)


def _overflow(label: str, found: Any, kind: str, remedy: str) -> None:
    raise ResultOverflow(
        f"`{label}` of a window must fit {kind}; got {found}. Cast the column to {remedy} first. A query that has a "
        f'checkpoint continues with `overflow="{_NULL}"`, which shows null instead.'
    )
