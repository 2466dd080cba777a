"""Convert records to the arguments of a function on columns, by view: values, ranks or limbs."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Sequence
from decimal import Context, Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import EVENT_TIME, Aggregate
from slicing.aggregates.arrow import to_numpy
from slicing.aggregates.fields import arrow_type, decimal_of, is_nested, numpy_type
from slicing.aggregates.nested import mapped
from slicing.aggregates.ordered_bytes import encoded
from slicing.aggregates.ranks import ranks, sorted_dictionary

Record: TypeAlias = tuple[Any, ...]
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def as_arrays(
    rows: Sequence[Record], kinds: tuple[str, ...], names: tuple[str, ...], aggregate: Aggregate
) -> list[Record]:
    """Return records as tuples of the arguments of `agg` with `columns=True`: arrays of one item."""
    columns = list(zip(*rows, strict=True))
    arrays = []
    for values, kind, name in zip(columns, kinds, names, strict=True):
        same = [other for other, own in zip(columns, kinds, strict=True) if own == kind]
        array = _view(values, kind, "ranks" if name == EVENT_TIME else aggregate.view, same)
        if aggregate.nulls:
            array = mapped(array, partial(np.ma.MaskedArray, mask=[value is None for value in values]))
        arrays.append(array)
    single = [operator.itemgetter(slice(row, row + 1)) for row in range(len(rows))]
    return [tuple(mapped(array, take) for array in arrays) for take in single]


def _view(values: Sequence[Any], kind: str, view: str, same: Sequence[Sequence[Any]]) -> Any:
    """Return a column of values in the form of the view; cells of nulls have undefined values.

    `same` are the columns whose values are in one dictionary with it.
    """
    if is_nested(kind):
        array = pa.array(values, arrow_type(kind))
        ranked = view == "ranks"
        return ranks(array, sorted_dictionary([array])) if ranked else to_numpy(encoded(array), np.dtype(np.object_))
    decimal = decimal_of(kind)
    if view == "limbs" and decimal:
        return _limbs([0 if value is None else _unscaled(value, decimal[1]) for value in values])
    if view == "ranks" and (decimal or kind in ("string", "binary")):
        known = sorted({item for column in same for item in column} - {None})
        return array_of([-1 if value is None else known.index(value) for value in values], "bigint", False)
    if view != "values":
        values = [_number(value) for value in values]
    as_numbers = view == "ranks" or kind in ("date", "timestamp", "timestamp_ntz")
    physical = (view != "values" and as_numbers) or numpy_type(kind) != np.object_
    return array_of(
        [0 if physical and value is None else value for value in values], kind, view != "values" and physical
    )


def _number(value: Any) -> Any:
    """Return the days of a date, the microseconds of a timestamp, and other values unchanged."""
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - (value.utcoffset() or dt.timedelta()) - _EPOCH) // _MICROSECOND
    return value.toordinal() - _EPOCH.toordinal() if isinstance(value, dt.date) else value


def _unscaled(value: Decimal, scale: int) -> int:
    return int(value.scaleb(scale, Context(prec=80)))


def _limbs(unscaled: Sequence[int]) -> tuple[Any, ...]:
    low = [[number >> 32 * limb & 0xFFFFFFFF for number in unscaled] for limb in range(3)]
    return tuple(np.array(limb, np.int64) for limb in (*low, [number >> 96 for number in unscaled]))


def array_of(items: Sequence[Any], kind: str, ranks: bool) -> Any:
    """Return items as an array of a kind, or of ranks."""
    dtype = numpy_type(kind)
    array = np.empty(len(items), np.dtype(np.int64) if ranks and dtype == np.object_ else dtype)
    array[:] = items
    return array
