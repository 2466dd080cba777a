"""Convert Python values that users return to Arrow arrays of the declared types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def typed(items: list[Any], type_: pa.DataType) -> pa.Array:
    """Return an array of a type. Raises an error of Arrow or of Python for values that do not fit."""
    # Given the type, pyarrow would truncate 2.5 to 2, and would not accept numpy's scalars inside lists.
    array = pa.array(items) if pa.types.is_integer(type_) else pa.array(items, type_)
    if pa.types.is_string(array.type) != pa.types.is_string(type_):
        raise pa.ArrowInvalid("text is not a number")
    return array if array.type == type_ else array.cast(type_)


def fits(item: Any, type_: pa.DataType) -> bool:
    """Whether a value fits a type."""
    try:
        typed([item], type_)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True
