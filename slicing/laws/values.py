"""Values for the laws: records as arrays of one item, nested tuples compared, and the place where two values differ."""

from __future__ import annotations

import copy
import datetime as dt
import math
import operator
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from slicing.aggregates.aggregate import EVENT_TIME, Aggregate
from slicing.aggregates.arrow import to_numpy
from slicing.aggregates.fields import arrow_type, decimal_of, is_nested, numpy_type
from slicing.aggregates.ordered_bytes import encoded
from slicing.aggregates.ranks import ranks, sorted_dictionary
from slicing.errors import MOST_SHOWN, excerpt

Record: TypeAlias = tuple[Any, ...]
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
FLOAT = (float, np.floating)
_SHOWN = 16
"""The number of items that are shown of each value from the first difference on."""
_ITEMS = ((bytes, "byte"), (str, "character"), (tuple, "field"), (list, "item"))


def quietly(function: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the result of a function call without numpy's warnings."""
    with np.errstate(all="ignore"):
        return function(*arguments)


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return nested tuples with `function` applied to each leaf."""
    return tuple(mapped(item, function) for item in value) if isinstance(value, tuple) else function(value)


def unshared(value: Any) -> Any:
    """Return a copy that shares nothing with `value`; much faster on tuples of arrays than `deepcopy` alone."""
    return mapped(value, lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else copy.deepcopy(leaf))


def leaves_of(value: Any) -> list[Any]:
    """Return the leaves of nested tuples, in order."""
    return [leaf for item in value for leaf in leaves_of(item)] if isinstance(value, tuple) else [value]


def plain_value(value: Any) -> Any:
    """Return a value with Python's own types instead of arrays of one item, and None for masked items."""
    return mapped(value, _plain_leaf)


def _plain_leaf(leaf: Any) -> Any:
    items = leaf.tolist() if isinstance(leaf, np.ndarray | np.generic) else leaf
    return items[0] if isinstance(leaf, np.ndarray) and leaf.ndim else items


def listed(value: Any) -> Any:
    """Return a result with a tuple for each array that represents a list."""
    return mapped(value, _listed_leaf)


def _listed_leaf(leaf: Any) -> Any:
    in_arrow = isinstance(leaf, pa.Array)
    return tuple(leaf.tolist()) if in_arrow or (isinstance(leaf, np.ndarray) and leaf.ndim) else leaf


def plain_items(value: Any) -> tuple[Any, ...]:
    """Return a plain value as a tuple of its parts."""
    plain = plain_value(value)
    return plain if isinstance(plain, tuple) else (plain,)


def alike(x: Any, y: Any, within: float = 0.0) -> bool:
    """Return whether nested values are equal, floats within this share of them or this distance; NaN equals NaN."""
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(alike(x[name], y[name], within) for name in x)
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and all(alike(a, b, within) for a, b in zip(x, y, strict=True))
    if isinstance(x, FLOAT) and isinstance(y, FLOAT):
        return (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=within, abs_tol=within)
    return bool(x == y)


def stack_of(many: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return many trees of one-item arrays as one tree of arrays of this shape; all rows are equal."""
    if isinstance(many[0], tuple):
        return tuple(stack_of(parts, shape) for parts in zip(*many, strict=True))
    joined = (np.ma.concatenate if isinstance(many[0], np.ma.MaskedArray) else np.concatenate)(many)
    return joined if len(shape) == 1 else joined[np.newaxis].repeat(shape[0], axis=0)


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


def difference(left: Any, right: Any) -> str:
    """Return where two values differ, with what is there in each; "" if both are short enough to be shown.

    >>> difference((1, b"a" * 300 + b"left"), (1, b"a" * 300 + b"right"))
    "byte 300 of field 1: b'left' and b'right', of 304 and 305"
    """
    if max(len(repr(left)), len(repr(right))) <= MOST_SHOWN:
        return ""
    return _within(left, right, "")


def _within(left: Any, right: Any, place: str) -> str:
    known = (word for type_, word in _ITEMS if isinstance(left, type_) and isinstance(right, type_))
    if (word := next(known, None)) is None:
        return f"{place.removeprefix(' of ')}: {excerpt(left)} and {excerpt(right)}" if place else ""
    at = _first(left, right)
    inside = at < min(len(left), len(right)) and isinstance(left, tuple | list)
    if inside:
        return _within(left[at], right[at], f" of {word} {at:,}{place}")
    ends = (repr(side[at : at + _SHOWN]) for side in (left, right))
    return f"{word} {at:,}{place}: {' and '.join(ends)}, of {len(left):,} and {len(right):,}"


def _first(left: Sequence[Any], right: Sequence[Any]) -> int:
    """The index of the first item that differs; the length of the shorter one if it is how the longer one begins."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (x, y) in pairs if not alike(x, y)), min(len(left), len(right)))
