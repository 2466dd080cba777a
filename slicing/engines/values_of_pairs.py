"""The values of new records that conditions compare, for each (key, window) pair.

::

    records          a1  b5  a2                 joined and encoded once, sorted by key
    part of a        a1  a2                     some keys at a time; only their records are repeated
    R = 2            w0 a1 a2    w1 a1 a2       by pair, in order of arrival
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.sorting import argsorted
from slicing.content.block import encode_keys
from slicing.content.pairs import Pairs
from slicing.content.records import Records, joined
from slicing.windows.families.family import Family


def values_by(numbers: Sequence[Records], place: Callable[[Records], Array]) -> tuple[Array, Array]:
    """Return the place and the value of each new record that has a place, by place and in order of arrival.

    `place` returns the place of each of all records, -1 for none. The value is the first column of `numbers`.
    """
    batches = [each for each in numbers if len(each.index)]
    if not batches:
        return np.zeros(0, np.int64), np.zeros(0)
    records = joined(batches)
    places, values = place(records), np.asarray(records.values[0], dtype=np.float64)
    order = argsorted(places)[np.count_nonzero(places < 0) :]
    return places[order], values[order]


class ValuesOfPairs:
    """The values of the new records of a bucket: the first column of `numbers`, in order of arrival."""

    def __init__(self, numbers: Sequence[Records]):
        self._numbers = [each for each in numbers if len(each.index)]
        self._names: pa.Table | None = None

    def of(self, family: Family, windows: Array, keys: Array, names: pa.Table) -> tuple[Array, Array]:
        """Return the pair and the value of each record in each of its pairs, by pair and in order of arrival.

        `keys` are codes into `names`. Cost: R times the records of these keys, plus a sort of all records at the first
        call with these names.
        """
        if not self._numbers or not len(windows):
            return np.zeros(0, np.int64), np.zeros(0)
        self._encode(names)
        first, end = np.searchsorted(self._codes, [keys.min(), keys.max() + 1])
        codes, index = self._codes[first:end], self._index[first:end]
        rows, of = _windows_of(family, index)
        pairs = Pairs.over(np.concatenate([windows, of]), len(names))
        at = pairs.pack(keys, windows)
        by_pair = np.argsort(at)
        wanted = pairs.pack(codes[rows], of)
        place = np.minimum(np.searchsorted(at[by_pair], wanted), len(at) - 1)
        found = at[by_pair][place] == wanted
        pair, values = by_pair[place][found], self._values[first:end][rows[found]]
        order = argsorted(pair)
        return pair[order], values[order]

    @cached_property
    def _joined(self) -> Records:
        return joined(self._numbers)

    def _encode(self, names: pa.Table) -> None:
        """Sort the records by their key codes into `names`, unless that has been done."""
        if self._names is names:
            return
        records = self._joined
        codes = encode_keys(pa.concat_tables([names, records.names]))[0][len(names) :]
        order = argsorted(codes)
        self._names, self._codes, self._index = names, codes[order], records.index[order]
        self._values = np.asarray(records.values[0], dtype=np.float64)[order]


def _windows_of(family: Family, index: Array) -> tuple[Array, Array]:
    """Return the (record, window) combinations of records in some slices: the row and the window, R per record."""
    low, high = family.first_window(index), family.last_window(index)
    counts = np.maximum(high - low + 1, 0)
    rows = np.repeat(np.arange(len(counts)), counts)
    windows = low[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    inside = (family.first_slice(windows) <= index[rows]) & (index[rows] < family.end_slice(windows))
    return rows[inside], windows[inside]
