"""Represent values as ranks in a sorted dictionary, and decimals as limbs, so that they are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.aggregates.arrow import cast, to_numpy
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.ordered_bytes import encoded


def sorted_dictionary(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return the distinct non-null values of arrays of one type, ascending."""
    if pa.types.is_nested(arrays[0].type):
        return _nested_dictionary(pa.concat_arrays(arrays).drop_null())
    distinct = pa.chunked_array(arrays).unique().drop_null()
    return distinct.take(pc.array_sort_indices(distinct))


def _nested_dictionary(values: pa.Array) -> pa.Array:
    keys = encoded(values).dictionary_encode()
    _, first = np.unique(np.asarray(keys.indices), return_index=True)
    return values.take(pa.array(first).take(pc.array_sort_indices(keys.dictionary)))


def union(dictionaries: Sequence[pa.Array | None]) -> pa.Array | None:
    """Return the dictionary of all values of dictionaries of one type; None if there are none."""
    some = [dictionary for dictionary in dictionaries if dictionary is not None]
    if all(dictionary is some[0] for dictionary in some):
        return some[0] if some else None
    return sorted_dictionary(some)


def ranks(array: pa.Array, dictionary: pa.Array) -> Array:
    """Return the ranks of values in a sorted dictionary that contains them all, `int64[n]`; -1 for null."""
    if pa.types.is_nested(array.type):
        array, dictionary = encoded(array), encoded(dictionary)
    return to_numpy(pc.index_in(array, dictionary).fill_null(-1), np.dtype(np.int64))


@dataclass(frozen=True)
class SortedTypes:
    """The kinds of the values in one sorted dictionary.

    An entry of several kinds is a struct with one field per kind, all but one of them null: values of one kind stay in
    their order among themselves.
    """

    kinds: tuple[str, ...]

    @cached_property
    def types(self) -> list[pa.DataType]:
        """The Arrow type of each kind."""
        return list(map(arrow_type, self.kinds))

    @cached_property
    def type(self) -> pa.DataType:
        """The Arrow type of an entry."""
        return self.types[0] if len(self.kinds) == 1 else pa.struct(list(zip(self.kinds, self.types, strict=True)))

    def entries(self, array: pa.Array) -> pa.Array:
        """Return values of one of the kinds as entries, the value of a nested kind included; other values unchanged."""
        if pa.types.is_nested(array.type):
            array = cast(array, next(filter(pa.types.is_nested, self.types), array.type))
        if len(self.kinds) < 2 or array.type not in self.types:
            return array
        columns = [array if type_ == array.type else pa.nulls(len(array), type_) for type_ in self.types]
        return pa.StructArray.from_arrays(columns, fields=list(self.type), mask=array.is_null())

    def values(self, entries: pa.Array, kind: str) -> pa.Array:
        """Return the values of a kind of entries."""
        return entries if len(self.kinds) == 1 else entries.flatten()[self.kinds.index(kind)]


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
