"""Pairs of a key and an index in time as single int64 numbers, which numpy sorts and searches faster than pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slicing.aggregates.arrays import Array


@dataclass(frozen=True)
class Pairs:
    """Numbers for pairs (key, index), in the order of the pairs: all indices from `first` on, or those `present`.

    A year is 3e13 microseconds, so that keys times all indices between the first and the last may leave 64 bits; keys
    times those that are there never do.
    """

    first: int
    length: int
    present: Array | None

    @classmethod
    def over(cls, indices: Array, keys: int) -> Pairs:
        """Numbers for pairs of some indices, in any order, with the codes of `keys` keys."""
        first, end = (int(indices.min()), int(indices.max()) + 1) if len(indices) else (0, 1)
        if max(end, (end - first) * keys) < 1 << 63:
            return cls(first, end - first, None)
        present = np.unique(indices)
        return cls(first, len(present), present)

    def pack(self, keys: Array, indices: Array) -> Array:
        """The number of each pair; an index that has none counts as the next one that has."""
        if self.present is None:
            places = np.clip(indices, self.first, self.first + self.length) - self.first
        else:
            places = np.searchsorted(self.present, indices)
        packed: Array = keys * self.length + places
        return packed

    def unpack(self, packed: Array) -> tuple[Array, Array]:
        """The keys and the indices of pairs that were packed."""
        keys, places = np.divmod(packed, self.length)
        return keys, places + self.first if self.present is None else self.present[places]
