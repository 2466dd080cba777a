"""The windows that a lookup has emitted, so that it does not return them again as unknown ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.records import expanded
from slicing.assembly.results import Windows
from slicing.content.block import encode_keys
from slicing.content.hashing import hashes
from slicing.engines.looking import Unknown


class Emitted:
    """The emitted windows of a family that are among the sorted `named`; if that is None, the keys with any window."""

    def __init__(self, named: Array | None):
        self.named = named
        self._parts: list[tuple[pa.Table, Array]] = []

    def add(self, windows: Windows) -> None:
        """Keep the keys and numbers of emitted windows, as far as `without` asks for them."""
        rows = np.arange(len(windows)) if self.named is None else np.flatnonzero(np.isin(windows.windows, self.named))
        if len(rows):
            codes, names = _used(windows.keys[rows], windows.names)
            self._parts.append((names, np.unique(self._pairs(codes, windows.windows[rows]))))

    def without(self, found: Unknown) -> Unknown:
        """Return the unknown windows that were not emitted; without `named`, those of the keys without any window."""
        if not self._parts:
            return found
        codes, names = _used(found.keys, found.names)
        pairs, (_, kept) = self._pairs(self._codes(names)[codes], found.windows), self._kept
        some = np.flatnonzero(np.searchsorted(kept, pairs) == np.searchsorted(kept, pairs, side="right"))
        return replace(found, windows=found.windows[some], keys=found.keys[some], known=found.known[some])

    @property
    def _length(self) -> int:
        return 1 if self.named is None else len(self.named)

    def _pairs(self, keys: Array, windows: Array) -> Array:
        """Return a number for each pair of a key and a window of `named`; that of the key if `named` is None."""
        return keys if self.named is None else keys * self._length + np.searchsorted(self.named, windows)

    @cached_property
    def _kept(self) -> tuple[pa.Table, Array]:
        """The distinct keys of all parts, and the sorted numbers of their pairs."""
        codes, names = encode_keys(pa.concat_tables([names for names, _ in self._parts]))
        pairs, first = list[Array](), 0
        for own, each in self._parts:
            pairs.append(codes[first + each // self._length] * self._length + each % self._length)
            first += len(own)
        return names, np.unique(np.concatenate(pairs))

    @cached_property
    def _by_hash(self) -> tuple[Array, Array]:
        hashed = hashes(self._kept[0])
        order = np.argsort(hashed)
        return order, hashed[order]

    def _codes(self, names: pa.Table) -> Array:
        """Return the code of each key among the kept ones, -1 without one. Only keys with its hash are compared."""
        (order, hashed), wanted = self._by_hash, hashes(names)
        low, high = (np.searchsorted(hashed, wanted, side=side) for side in ("left", "right"))
        near = order[np.unique(expanded(low, high - low))]
        codes, _ = encode_keys(pa.concat_tables([names, self._kept[0].take(pa.array(near))]))
        kept = np.full(int(codes.max(initial=-1)) + 1, -1)
        kept[codes[len(names) :]] = near
        found: Array = kept[codes[: len(names)]]
        return found


def _used(keys: Array, names: pa.Table) -> tuple[Array, pa.Table]:
    """Return the codes of some keys, and only their names."""
    used, codes = np.unique(keys, return_inverse=True)
    return codes, names.take(pa.array(used))
