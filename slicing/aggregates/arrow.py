"""Convert columns between Arrow and numpy, and report values that do not fit their type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import (
    INTEGERS,
    Field,
    arrow_type,
    element_of,
    entry_of,
    members_of,
)
from slicing.errors import InvalidType, RowFailure, excerpt, shortened


def to_numpy(array: pa.Array, dtype: np.dtype[Any]) -> Array:
    """Return an Arrow array as a writable numpy array of a physical dtype; null cells have undefined values."""
    if dtype == np.object_:
        return np.fromiter(array.to_pylist(), dtype=object, count=len(array))
    if dtype.kind == "V":
        return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)].copy()
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        array = array.cast(pa.int64())
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    return np.array(array.to_numpy(zero_copy_only=False), dtype=dtype)


def cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return an array in the type in which the state stores its kind; times are the same in every zone."""
    return array if array.type == type_ else array.cast(type_)


_UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError)


def column_to_arrow(column: Array, field: Field, label: str) -> pa.Array:
    """Return a column of partials or results as an Arrow array; RowFailure names the first item that does not fit."""
    mask = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    data = np.ma.getdata(column)
    if data.dtype == np.object_:
        if mask is not None:
            data = data.copy()
            data[mask] = None
        if entry_of(field.kind) and any(isinstance(item, pa.Array) for item in data.tolist()):
            return _maps_to_arrow(data.tolist())
        if element_of(field.kind):
            return _lists_to_arrow(data.tolist(), field, label)
        return objects_to_arrow(data, field, label)
    target = arrow_type(field.kind)
    if data.dtype.kind == "V":
        return pa.FixedSizeBinaryArray.from_buffers(target, len(data), [None, pa.py_buffer(data.tobytes())])
    if pa.types.is_date32(target):
        return pa.array(data.astype(np.int32), mask=mask).cast(target)
    array = pa.array(data, mask=mask)
    if array.type == target:
        return array
    try:
        return array.cast(target)
    except _UNFIT as error:
        singles = (array.slice(at, 1) for at in range(len(array)))
        raise _wrong_type(field, label, error, data, singles, lambda single: single.cast(target)) from None


def _lists_to_arrow(items: list[Any], field: Field, label: str) -> pa.Array:
    """Return an Arrow array of lists; an item is an array, or for structs a tuple of equally long arrays per field.

    Items may be Arrow arrays of the elements instead.
    """
    element, members = str(element_of(field.kind)), members_of(str(element_of(field.kind)))
    null = np.array([item is None for item in items], dtype=bool)
    known = [item for item in items if item is not None]
    in_arrow = bool(known) and isinstance(known[0], pa.Array)
    lengths = np.zeros(len(items), np.int32)
    lengths[~null] = [len(item) if in_arrow or not members else len(item[0]) for item in known]
    if in_arrow:
        flat = cast(pa.concat_arrays(known), arrow_type(element))
    elif members:
        columns = [
            _flat_to_arrow([item[at] for item in known], Field(f"{field.name}.{member.name}", member.kind), label)
            for at, member in enumerate(members)
        ]
        flat = pa.StructArray.from_arrays(columns, [member.name for member in members])
    else:
        flat = _flat_to_arrow(known, Field(field.name, element), label)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, flat, mask=pa.array(null) if null.any() else None)


def _maps_to_arrow(items: list[Any]) -> pa.Array:
    """Return an Arrow array of maps; an item is an Arrow array of its entries, keys and values, or None."""
    known = [item for item in items if item is not None]
    keys, values = pa.concat_arrays(known).flatten()
    sizes = [None if item is None else len(item) for item in items]
    ends = np.cumsum([size or 0 for size in sizes])
    offsets = pa.array(np.append(0, ends), pa.int32(), mask=np.array([*(size is None for size in sizes), False]))
    return pa.MapArray.from_arrays(offsets, keys, values)


def _flat_to_arrow(pieces: list[Any], field: Field, label: str) -> pa.Array:
    if not pieces:
        return pa.array([], arrow_type(field.kind))
    return column_to_arrow(np.concatenate(pieces), field, label)


def objects_to_arrow(column: Array, field: Field, label: str) -> pa.Array:
    """Return Python objects as an Arrow array; RowFailure names the first item that does not fit."""
    items = column.tolist()
    try:
        return _typed_array(items, field)
    except _UNFIT as error:
        singles = ([item] for item in items)
        raise _wrong_type(field, label, error, items, singles, lambda single: _typed_array(single, field)) from None


def _typed_array(items: list[Any], field: Field) -> pa.Array:
    target = arrow_type(field.kind)
    if field.kind not in INTEGERS:
        return pa.array(items, type=target)
    # With the type given, pyarrow would truncate 2.5 to 2; without it, the cast would parse text.
    try:
        array = pa.array(items)
    except _UNFIT:  # perhaps Booleans beside integers, which are integers too
        array = pa.array([int(item) if type(item) is bool else item for item in items])
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        raise pa.ArrowInvalid("text is not a number")
    return array.cast(target)


def _wrong_type(
    field: Field,
    label: str,
    error: Exception,
    items: Array | list[Any],
    singles: Iterable[Any],
    fit: Callable[[Any], Any],
) -> RowFailure:
    """Return the failure of the first item that does not fit by itself, or else of the first item."""
    index = 0
    for at, single in enumerate(singles):
        try:
            fit(single)
        except _UNFIT as alone:
            index, error = at, alone
            break
    return RowFailure(
        InvalidType,
        f"field `{field.name}` of `{label}` must be of type {field.kind};",
        f"got {excerpt(items[index])} ({shortened(str(error))})",
        "Return that type from the functions, or give another `partial` or `returns`.",
        index,
    )
