"""Python values that users return, as Arrow arrays of the types that they have named."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def typed(items: list[Any], type_: pa.DataType) -> pa.Array:
    """An array of a type. Raises an error of Arrow or of Python for values that do not fit."""
    # Given the type, pyarrow would cut 2.5 to 2, and numpy's scalars are not taken inside lists.
    array = pa.array(items) if pa.types.is_integer(type_) else pa.array(items, type_)
    if pa.types.is_string(array.type) != pa.types.is_string(type_):
        raise pa.ArrowInvalid("text is not a number")
    return array if array.type == type_ else array.cast(type_)


def fits(item: Any, type_: pa.DataType) -> bool:
    """Whether a value has a type."""
    try:
        typed([item], type_)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True
