"""Sums and means: exact for integers and decimals, in limbs of 32 bits that can be added and subtracted freely."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import partial
from typing import Any

import numpy as np

from combinators._common import NUMBERS, Array, constant, require, shown
from slicing.aggregate import Aggregate, Bound, Fieldwise, fieldwise
from slicing.errors import ResultOverflow
from slicing.kinds import FLOATS, decimal_of

_LOW = 0xFFFFFFFF
_MAX_DIGITS = 38
_ROOMY = Context(prec=80)
_CAST = 'Cast it first, for example `withColumn("x", F.col("x").cast("double"))`.'


def sum(column: str) -> Bound:
    """The sum of the values of `column`.

    No value gives null. Integers give bigint, float and double give double, decimal(p,s) gives decimal(p+10,s) with at
    most 38 digits. Integers and decimals are exact for 2^31 records and invertible: 2 combines a window; floats are not
    inverted: 4 on average, 2 sqrt(n) at worst. Raises ResultOverflow when the sum of a window leaves the result type,
    InvalidType for a column that is not numeric. Reference: Spark's `sum` in ANSI mode.

    >>> [sum("x").resolve((kind,)).returns for kind in ("tinyint", "float", "decimal(10,2)", "decimal(38,4)")]
    ['bigint', 'double', 'decimal(20,2)', 'decimal(38,4)']
    """
    label = f"sum({column})"
    return Bound(partial(_sum_of, label), (column,), label)


def mean(column: str) -> Bound:
    """The arithmetic mean of the values of `column`.

    No value gives null. Integers, float and double give double, decimal(p,s) gives decimal(p+4,s+4), both at most 38,
    rounded half up. Integers are summed exactly and divided once: the mean is within 2 ulp of the true one, even where
    their sum leaves bigint. Cost as for `sum`. Raises ResultOverflow when a decimal mean does not fit its type,
    InvalidType for a column that is not numeric. Reference: Spark's `avg`, which adds integers as doubles.

    >>> [mean("x").resolve((kind,)).returns for kind in ("bigint", "decimal(10,2)", "decimal(38,36)")]
    ['double', 'decimal(14,6)', 'decimal(38,38)']
    """
    label = f"mean({column})"
    return Bound(partial(_mean_of, label), (column,), label)


def _sum_of(label: str, kind: str) -> Aggregate:
    require(label, NUMBERS, kind, _CAST)
    if decimal := decimal_of(kind):
        precision, scale = min(decimal[0] + 10, _MAX_DIGITS), decimal[1]
        return _limbs(partial(_decimal_sum, label, precision, scale), f"decimal({precision},{scale})")
    if kind in FLOATS:
        return _floats(_float_sum)
    return _integers(partial(_integer_sum, label), "bigint")


def _mean_of(label: str, kind: str) -> Aggregate:
    require(label, NUMBERS, kind, _CAST)
    if decimal := decimal_of(kind):
        precision, scale = min(decimal[0] + 4, _MAX_DIGITS), min(decimal[1] + 4, _MAX_DIGITS)
        return _limbs(partial(_decimal_mean, label, decimal[1], precision, scale), f"decimal({precision},{scale})")
    if kind in FLOATS:
        return _floats(_float_mean)
    return _integers(_integer_mean, "double")


def _fieldwise(ufunc: np.ufunc, count: int) -> Fieldwise:
    return fieldwise(*[ufunc] * count)


def _floats(lower: Any) -> Aggregate:
    fields = "total double, n bigint"
    combine = _fieldwise(np.add, 2)
    return Aggregate(
        constant((0.0, 0)), _add_float, combine, lower=lower, partial=fields, returns="double", columns=True
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
        _fieldwise(np.add, 3),
        _fieldwise(np.subtract, 3),
        lower,
        partial="high bigint, low bigint, n bigint",
        returns=returns,
        columns=True,
    )


def _add_integer(acc: Any, value: Array) -> Any:
    high, low, n = acc
    wide = np.asarray(value, np.int64)
    return high + (wide >> 32), low + (wide & _LOW), n + 1


def _integer_sum(label: str, acc: Any) -> Array:
    high, low, n = acc
    top = high + (low >> 32)
    outside = top != top.astype(np.int32)
    if outside.any():
        _overflow(label, (int(top[outside][0]) << 32) + int(low[outside][0] & _LOW), "bigint", "decimal(38,0)")
    return shown((top << 32) | (low & _LOW), n == 0)


def _integer_mean(acc: Any) -> Array:
    high, low, n = acc
    total = (high + (low >> 32)) * 2.0**32 + (low & _LOW)
    return shown(total / np.maximum(n, 1), n == 0)


def _limbs(lower: Any, returns: str) -> Aggregate:
    return Aggregate(
        constant((0, 0, 0, 0, 0)),
        _add_limbs,
        _fieldwise(np.add, 5),
        _fieldwise(np.subtract, 5),
        lower,
        partial="limb0 bigint, limb1 bigint, limb2 bigint, limb3 bigint, n bigint",
        returns=returns,
        columns=True,
        view="limbs",
    )


def _add_limbs(acc: Any, value: tuple[Array, ...]) -> Any:
    return tuple(limb + more for limb, more in zip(acc, (*value, 1), strict=True))


def _decimal_sum(label: str, precision: int, scale: int, acc: Any) -> Array:
    *limbs, n = acc
    total = np.frompyfunc(_join, 4, 1)(*limbs)
    return shown(_decimals(label, total, precision, scale), n == 0)


def _decimal_mean(label: str, from_scale: int, precision: int, scale: int, acc: Any) -> Array:
    *limbs, n = acc
    total = np.frompyfunc(_join, 4, 1)(*limbs)
    average = np.frompyfunc(partial(_quotient, scale - from_scale), 2, 1)(total, np.maximum(n, 1))
    return shown(_decimals(label, average, precision, scale), n == 0)


def _join(limb0: int, limb1: int, limb2: int, limb3: int) -> int:
    return limb0 + (limb1 << 32) + (limb2 << 64) + (limb3 << 96)


def _quotient(raised: int, total: int, n: int) -> int:
    return _half_up(total * 10**raised, n)


def _half_up(numerator: int, denominator: int) -> int:
    rounded = (2 * abs(numerator) + denominator) // (2 * denominator)
    return -rounded if numerator < 0 else rounded


def _decimals(label: str, unscaled: Any, precision: int, scale: int) -> Array:
    place = partial(_place, label, precision, scale)
    return np.asarray(np.frompyfunc(place, 1, 1)(unscaled), np.object_)


def _place(label: str, precision: int, scale: int, unscaled: int) -> Decimal:
    value = Decimal(unscaled).scaleb(-scale, _ROOMY)
    if abs(unscaled) >= 10**precision:
        _overflow(label, value, f"decimal({precision},{scale})", "double or a decimal of smaller scale")
    return value


def _overflow(label: str, found: Any, kind: str, remedy: str) -> None:
    raise ResultOverflow(f"`{label}` of a window must fit {kind}; got {found}. Cast the column to {remedy} first.")
