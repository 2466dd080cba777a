"""Convert Python values that users return to Arrow arrays of the declared types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError)
"""The errors of values that do not fit a type."""


def typed(items: list[Any], type_: pa.DataType) -> pa.Array:
    """Return an array of a type. Raises an error of Arrow or of Python for values that do not fit."""
    # Given a type with whole numbers, pyarrow would truncate 2.5 to 2, also inside lists and structs.
    if not _has_integers(type_):
        return pa.array(items, type_)
    if pa.types.is_list(type_):
        return _lists(items, type_)
    if pa.types.is_struct(type_):
        return _structs(items, type_)
    array = pa.array(items)
    if pa.types.is_string(array.type):
        raise pa.ArrowInvalid("text is not a number")
    return array.cast(type_)


def _has_integers(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or any(_has_integers(type_.field(at).type) for at in range(type_.num_fields))


def _lists(items: list[Any], type_: pa.DataType) -> pa.Array:
    if wrong := [item for item in items if isinstance(item, (str, bytes, dict))]:
        raise TypeError(f"{type(wrong[0]).__name__} is not a list")
    lists = [None if item is None else list(item) for item in items]
    ends = np.cumsum([0, *(len(each or ()) for each in lists)]).tolist()
    starts = [None if each is None else at for each, at in zip(lists, ends[:-1], strict=True)]
    values = typed([value for each in lists for value in each or ()], type_.value_type)
    return pa.ListArray.from_arrays(pa.array([*starts, ends[-1]], pa.int32()), values, type_)


def _structs(items: list[Any], type_: pa.DataType) -> pa.Array:
    """Return structs of dicts; a tuple has the values in the order of the fields."""
    fields = [type_.field(at) for at in range(type_.num_fields)]
    names = [field.name for field in fields]
    rows = [dict(zip(names, item, strict=True)) if isinstance(item, tuple) else item for item in items]
    columns = [typed([None if row is None else row.get(field.name) for row in rows], field.type) for field in fields]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array([row is None for row in rows], pa.bool_()))


def fits(item: Any, type_: pa.DataType) -> bool:
    """Whether a value fits a type."""
    try:
        typed([item], type_)
    except UNFIT:
        return False
    return True
