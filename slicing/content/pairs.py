"""Pack (key, index) pairs into single int64 numbers, which numpy sorts and searches faster than pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slicing.aggregates.arrays import Array


@dataclass(frozen=True)
class Pairs:
    """A numbering of (key, index) pairs that keeps their order: of all indices from `first` on, or only of `present`.

    A year is 3e13 microseconds, so the number of keys times all indices between the first and the last may exceed 64
    bits. The number of keys times the present indices never does.
    """

    first: int
    length: int
    present: Array | None

    @classmethod
    def over(cls, indices: Array, keys: int) -> Pairs:
        """Return the numbering for some indices, in any order, and the codes of `keys` keys."""
        first, end = (int(indices.min()), int(indices.max()) + 1) if len(indices) else (0, 1)
        if max(end, (end - first) * keys) < 1 << 63:
            return cls(first, end - first, None)
        present = np.unique(indices)
        return cls(first, len(present), present)

    def pack(self, keys: Array, indices: Array) -> Array:
        """Return the number of each pair: `int64[n]`. An index without a number gets that of the next one with one."""
        if self.present is None:
            places = np.clip(indices, self.first, self.first + self.length) - self.first
        else:
            places = np.searchsorted(self.present, indices)
        packed: Array = keys * self.length + places
        return packed

    def unpack(self, packed: Array) -> tuple[Array, Array]:
        """Return the keys and the indices of packed pairs: `int64[n]` each."""
        keys, places = np.divmod(packed, self.length)
        return keys, places + self.first if self.present is None else self.present[places]
