"""The first and the last value by event time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from combinators._common import ATOMIC, Array, constant, require, shown
from slicing.aggregate import EVENT_TIME, Aggregate, Bound
from slicing.kinds import FLOATS, INTEGERS

_INT64 = np.iinfo(np.int64)
# What a partial holds at its time, in the order in which ties are decided.
_NULL, _VALUE, _NOTHING = 0, 1, 2
_CAST = "Choose or compute an atomic column first."


def first(column: str) -> Bound:
    """The value of `column` in the record with the smallest event time; of equal times the smaller value.

    Null is the smallest value and NaN the largest; a null at the smallest time gives null, and so do no records. The
    result has the column's kind. Not invertible: 4 combines a window on average, 2 sqrt(n) at worst. Raises InvalidType
    for a column that is not atomic. Reference: Spark's `min_by(column, time)`, which leaves ties open.

    >>> first("x").resolve(("string", "bigint")).partial
    'time bigint, level tinyint, value string'
    """
    label = f"first({column})"
    return Bound(partial(_end_of, label, False), (column, EVENT_TIME), label)


def last(column: str) -> Bound:
    """The value of `column` in the record with the largest event time; of equal times the smaller value.

    Null is the smallest value and NaN the largest; a null at the largest time gives null, and so do no records. The
    result has the column's kind. Not invertible: 4 combines a window on average, 2 sqrt(n) at worst. Raises InvalidType
    for a column that is not atomic. Reference: Spark's `max_by(column, time)`, which leaves ties open.

    >>> last("x").resolve(("double", "bigint")).returns
    'double'
    """
    label = f"last({column})"
    return Bound(partial(_end_of, label, True), (column, EVENT_TIME), label)


def _end_of(label: str, latest: bool, kind: str, _time: str = "bigint") -> Aggregate:
    require(label, ATOMIC, kind, _CAST)
    filler = _filler(kind)
    never = int(_INT64.min if latest else _INT64.max)
    return Aggregate(
        constant((never, _NOTHING, filler)),
        partial(_add, latest, filler),
        partial(_choose, latest),
        lower=_lower,
        partial=f"time bigint, level tinyint, value {kind}",
        returns=kind,
        columns=True,
        nulls=True,
        view="ranks",
    )


def _filler(kind: str) -> Any:
    if kind == "boolean":
        return False
    if kind in FLOATS:
        return 0.0
    # Of what is seen as a rank, nothing else is outside every dictionary.
    return 0 if kind in (*INTEGERS, "date", "timestamp", "timestamp_ntz") else int(_INT64.max)


def _add(latest: bool, filler: Any, acc: Any, value: Array, time: Array) -> Any:
    null = np.ma.getmaskarray(value)
    level = np.where(null, np.int8(_NULL), np.int8(_VALUE))
    return _choose(latest, acc, (np.ma.getdata(time), level, np.where(null, filler, np.ma.getdata(value))))


def _choose(latest: bool, a: Any, b: Any) -> Any:
    time_a, level_a, value_a = a
    time_b, level_b, value_b = b
    ahead = time_b > time_a if latest else time_b < time_a
    smaller = (level_b < level_a) | ((level_b == level_a) & _less(value_b, value_a))
    taken = ahead | ((time_b == time_a) & smaller)
    return tuple(np.where(taken, y, x) for x, y in zip(a, b, strict=True))


def _less(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return (x < y) | (np.isnan(y) & ~np.isnan(x))
    return x < y


def _lower(acc: Any) -> Array:
    _, level, value = acc
    return shown(value, level != _VALUE)
