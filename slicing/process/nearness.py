"""Which numbers of a column are near its last one. Whole numbers and decimals are compared exactly, without overflow.

::

    tinyint, threshold 60.5    100   -41   -128   -100         the last value is -100
    near                        no   yes    yes    yes         from -128, as -160 is no tinyint, up to -40
"""

from __future__ import annotations

import math
import sys
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import FLOATS, INTEGERS, decimal_of

_EXACT = Context(prec=80)
_FURTHER = 10**80
"""More than the distance of any two values of a column, in units of its last digit."""


def is_number(kind: str) -> bool:
    """Return whether values of a kind can be compared here."""
    return kind in INTEGERS or kind in FLOATS or decimal_of(kind) is not None


def near(values: pa.ChunkedArray, last: pa.Scalar, threshold: float) -> Array:
    """Return which values differ by less than a threshold from the last one: `bool[n]`. Null and NaN are near none."""
    if not last.is_valid:
        return np.zeros(len(values), dtype=bool)
    if pa.types.is_floating(values.type):
        found = pc.less(pc.abs(pc.subtract(values, last)), _as_float(threshold))
    else:
        low, high = _bounds(last, threshold)
        found = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return np.asarray(found.fill_null(False).combine_chunks())


def _as_float(threshold: float) -> float:
    return float(threshold) if threshold <= sys.float_info.max else math.inf


def _bounds(last: pa.Scalar, threshold: float) -> tuple[pa.Scalar, pa.Scalar]:
    """Return the least and the greatest value of the type that are near the last value."""
    scale, least, most = _range(last.type)
    place, steps = int(_EXACT.scaleb(Decimal(last.as_py()), scale)), _steps(threshold, scale)
    low, high = max(least, place - steps), min(most, place + steps)
    return _scalar(low, scale, last.type), _scalar(high, scale, last.type)


def _range(type_: Any) -> tuple[int, int, int]:
    """Return the digits after the point, and the least and the greatest value, in units of the last digit."""
    if pa.types.is_decimal(type_):
        most = 10**type_.precision - 1
        return type_.scale, -most, most
    half = 1 << (type_.bit_width - 1)
    return 0, -half, half - 1


def _steps(threshold: float, scale: int) -> int:
    """Return the greatest distance below a threshold, in units of the last digit.

    A float stands for the decimal number as which it is written: a distance of 0.10 is not below 0.1.
    """
    if threshold == math.inf:
        return _FURTHER
    exact = Fraction(threshold) if threshold == int(threshold) else Fraction(repr(float(threshold)))
    above: int = math.ceil(exact * 10**scale)
    return above - 1


def _scalar(number: int, scale: int, type_: Any) -> pa.Scalar:
    return pa.scalar(_EXACT.scaleb(Decimal(number), -scale) if pa.types.is_decimal(type_) else number, type_)
