"""Arrays of partials, and cells of Python objects in them: copies, and what they take."""

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
"""About the bytes of a Python object without its content; a small number is one, and so is a tuple of fields."""


def is_immutable(value: Any) -> bool:
    """Whether many cells may share a value, since no function can change it."""
    kind = type(value)
    return kind in _IMMUTABLE or (kind is tuple and all(map(is_immutable, value))) or isinstance(value, np.number)


def fresh(partials: Partials) -> Partials:
    """Copies that a function may change."""
    return [copied(column) if column.dtype == np.object_ else column.copy() for column in partials]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A value as a tuple of its parts."""
    return value if isinstance(value, tuple) else (value,)


def object_array(items: Iterable[Any], shape: tuple[int, ...]) -> Array:
    """An array of Python objects, one for each item."""
    return np.fromiter(items, dtype=object).reshape(shape)


def copied(items: Array) -> Array:
    """Copies of the items that could be changed."""
    return object_array((i if is_immutable(i) else deepcopy(i) for i in items.ravel().tolist()), items.shape)


def is_varying(field: Field) -> bool:
    """Whether values of a field have a length each."""
    return field.kind in ("string", "binary")


def text_bytes(items: Sequence[Any]) -> Array:
    """4 and the bytes of each value; of text that is not ASCII the most that it may take."""
    try:
        if isinstance(items[0] if len(items) else b"", bytes) or all(map(str.isascii, items)):
            return 4.0 + np.fromiter(map(len, items), dtype=np.float64, count=len(items))
    except TypeError:
        pass  # nulls, or what is of a wrong type: that is refused where it becomes a column of Arrow
    return np.array([_length(item) for item in items])


def _length(item: Any) -> float:
    length = len(item) if isinstance(item, (str, bytes, bytearray, memoryview)) else 0
    return 4.0 + length * (4 if isinstance(item, str) and not item.isascii() else 1)
