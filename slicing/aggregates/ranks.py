"""Represent strings and bytes as ranks in a sorted dictionary, and decimals as limbs, so that they are numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.aggregates.arrow import to_numpy


def sorted_dictionary(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return the distinct non-null values of arrays of one type, ascending."""
    distinct = pa.chunked_array(arrays).unique().drop_null()
    return distinct.take(pc.array_sort_indices(distinct))


def union(dictionaries: Sequence[pa.Array | None]) -> pa.Array | None:
    """Return the dictionary of all values of dictionaries of one type; None if there are none."""
    some = [dictionary for dictionary in dictionaries if dictionary is not None]
    if all(dictionary is some[0] for dictionary in some):
        return some[0] if some else None
    return sorted_dictionary(some)


def ranks(array: pa.Array, dictionary: pa.Array) -> Array:
    """Return the ranks of values in a sorted dictionary that contains them all, `int64[n]`; -1 for null."""
    return to_numpy(pc.index_in(array, dictionary).fill_null(-1), np.dtype(np.int64))


def limbs(array: pa.Array) -> tuple[Array, Array, Array, Array]:
    """Return unscaled decimals as four int64 arrays of 32 bits each, lowest first, the top one signed; null is zero."""
    array = array.fill_null(0) if array.null_count else array
    words = np.frombuffer(array.buffers()[1], dtype="<u4")[4 * array.offset : 4 * (array.offset + len(array))]
    low, second, third, top = words.reshape(-1, 4).T
    return low.astype(np.int64), second.astype(np.int64), third.astype(np.int64), top.astype(np.int32).astype(np.int64)


def ranks_to_arrow(column: Array, dictionary: pa.Array | None) -> pa.Array:
    """Return the values of a dictionary at these ranks; null for a rank outside of it."""
    assert dictionary is not None
    inside = (column >= 0) & (column < len(dictionary))
    return dictionary.take(pa.array(np.where(inside, column, 0), mask=~inside))


def ranks_from_arrow(array: pa.Array, dictionary: pa.Array | None, absent: int) -> Array:
    """Return values as ranks in a dictionary, `int64[n]`; `absent` for values that are not in it."""
    assert dictionary is not None
    found = ranks(array, dictionary)
    found[found < 0] = absent
    return found
