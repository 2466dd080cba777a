"""Arrays of partials, and cells of Python objects in them: copies and sizes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from copy import deepcopy
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicing.aggregates.fields import (
    Field,
)

Array = NDArray[Any]
Partials = list[Array]
_IMMUTABLE = frozenset({type(None), bool, int, float, str, bytes, dt.date, dt.datetime, Decimal})
OBJECT_BYTES = 48.0
"""Approximate bytes of a Python object without its content; applies to a small number and to a tuple of fields."""


def is_immutable(value: Any) -> bool:
    """Return whether cells may share a value because no function can change it."""
    kind = type(value)
    return kind in _IMMUTABLE or (kind is tuple and all(map(is_immutable, value))) or isinstance(value, np.number)


def fresh(partials: Partials) -> Partials:
    """Return copies that a function may change."""
    return [copied(column) if column.dtype == np.object_ else column.copy() for column in partials]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return a value as a tuple of its parts."""
    return value if isinstance(value, tuple) else (value,)


def object_array(items: Iterable[Any], shape: tuple[int, ...]) -> Array:
    """Return an array of Python objects, one per item."""
    return np.fromiter(items, dtype=object).reshape(shape)


def copied(items: Array) -> Array:
    """Return an array with copies of all mutable items."""
    return object_array((i if is_immutable(i) else deepcopy(i) for i in items.ravel().tolist()), items.shape)


def shared_objects(partials: Partials) -> tuple[Array, Array] | None:
    """Return the first row of each object in order, and which of them each row has; None if few objects are shared.

    A window shares its object with the window before if no record of its key has entered or left in between.
    """
    if len(partials) != 1 or partials[0].dtype != np.object_:
        return None
    count = len(partials[0])
    places = np.fromiter(map(id, partials[0]), np.int64, count)
    if 2 * len(set(places.tolist())) > count:
        return None
    _, rows, numbers = np.unique(places, return_index=True, return_inverse=True)
    order = np.argsort(rows)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return rows[order], place[numbers]


def is_varying(field: Field) -> bool:
    """Return whether the values of a field differ in length."""
    return field.kind in ("string", "binary")


def text_bytes(items: Sequence[Any]) -> Array:
    """Return 4 plus the length in bytes of each value, `float64[n]`; an upper bound for non-ASCII text."""
    try:
        if isinstance(items[0] if len(items) else b"", bytes) or all(map(str.isascii, items)):
            return 4.0 + np.fromiter(map(len, items), dtype=np.float64, count=len(items))
    except TypeError:
        pass  # nulls, or values of a wrong type: these are refused when they are converted to Arrow
    return np.array([_length(item) for item in items])


def _length(item: Any) -> float:
    length = len(item) if isinstance(item, (str, bytes, bytearray, memoryview)) else 0
    return 4.0 + length * (4 if isinstance(item, str) and not item.isascii() else 1)
