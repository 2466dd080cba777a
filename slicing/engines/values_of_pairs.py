"""The values of new records that conditions compare, by pair of key and window.

::

    records          a1  b5  a2                 joined and encoded once, sorted by key
    portion of a     a1  a2                     of some keys; only their records are repeated
    R = 2            w0 a1 a2    w1 a1 a2       by pair, in order of arrival
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.block import encode_keys
from slicing.content.pairs import Pairs
from slicing.content.records import Records, joined
from slicing.windows.families.family import Family


class ValuesOfPairs:
    """The values of the new records of a bucket, the first column of `numbers`, which are in order of arrival."""

    def __init__(self, numbers: Sequence[Records]):
        self._numbers = [each for each in numbers if len(each.index)]
        self._names: pa.Table | None = None

    def of(self, family: Family, windows: Array, keys: Array, names: pa.Table) -> tuple[Array, Array]:
        """The values of some pairs, which may overlap: the pair of each, and the value, by pair, in order of arrival.

        `keys` are codes into `names`. Costs R times the records of those keys, and, the first time that it is asked
        under these names, a sort of all records.
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
        order = np.argsort(pair, kind="stable")
        return pair[order], values[order]

    @cached_property
    def _joined(self) -> Records:
        return joined(self._numbers)

    def _encode(self, names: pa.Table) -> None:
        """Sort the records by the codes of their keys under names, unless that has been done."""
        if self._names is names:
            return
        records = self._joined
        codes = encode_keys(pa.concat_tables([names, records.names]))[0][len(names) :]
        order = np.argsort(codes, kind="stable")
        self._names, self._codes, self._index = names, codes[order], records.index[order]
        self._values = np.asarray(records.values[0], dtype=np.float64)[order]


def _windows_of(family: Family, index: Array) -> tuple[Array, Array]:
    """The windows that hold records of some slices: the row of each record, and the window, R of them."""
    low, high = family.first_window(index), family.last_window(index)
    counts = np.maximum(high - low + 1, 0)
    rows = np.repeat(np.arange(len(counts)), counts)
    windows = low[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    inside = (family.first_slice(windows) <= index[rows]) & (index[rows] < family.end_slice(windows))
    return rows[inside], windows[inside]
