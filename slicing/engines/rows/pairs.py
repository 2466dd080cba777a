"""The relation of windows that records decide: (key, window) pairs with a column for each thing that a trigger may ask.

::

    window   key   held   before           before: the records of earlier micro-batches
    [0 30)   a     5      3         changed
    [0 20)   b     2      2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.block import Block
from slicing.engines.key_counts import KeyCounts, of_pairs
from slicing.engines.pair_memory import PairMemory
from slicing.engines.stored_pairs import StoredPairs, remembering
from slicing.triggers.candidates import Candidates, Extents, no_numbers
from slicing.triggers.panes import Panes

ACCEPTING, FIRED, OPEN, CLOSING = "accepting", "fired", "open", "closing"
"""Which windows: those that accept records, those of them that have fired at their end, those that have not, and those
that close now.
"""


@dataclass(frozen=True)
class WindowPairs:
    """Pairs: window `windows[i]` of key `names[keys[i]]`. Functions are called for columns that are read.

    `counts` returns the numbers of records that each pair holds, now and before this micro-batch. A window that exists
    only because of a new record held none before. `panes` returns the pairs that a mask chooses.
    """

    windows: Array
    keys: Array
    names: pa.Table
    counts: Callable[[], tuple[Array, Array]]
    panes: Callable[[Array], Panes]
    new: Callable[[], Block]  # the new records, with key codes into the same names
    bounds: Callable[[], tuple[Array, Array]]  # the starts and ends of the windows, in microseconds
    signals: Callable[[], Mapping[str, Array]]  # by name, of the new records of each pair
    latest: Callable[[], Array]  # which pairs are of the latest window of their key: `bool[n]`
    known_changed: Array | None = None  # which pairs hold new records, if that is known without their number
    purge: Callable[[Array], None] = lambda chosen: None  # drops the records of pairs that a mask chooses
    numbers: Callable[[], tuple[Array, Array]] = no_numbers  # as `Candidates`
    existed: Callable[[WindowPairs], Array] = lambda pairs: pairs.before > 0  # which pairs are not new

    @cached_property
    def _counts(self) -> tuple[Array, Array]:
        return self.counts()

    @property
    def held(self) -> Array:
        """Return the number of records of each pair: `int64[n]`."""
        return self._counts[0]

    @property
    def before(self) -> Array:
        """Return the number of records that each pair had before this micro-batch: `int64[n]`."""
        return self._counts[1]

    @property
    def changed(self) -> Array:
        """Return which pairs hold new records: `bool[n]`."""
        changed: Array = self.held > self.before if self.known_changed is None else self.known_changed
        return changed

    @property
    def is_new(self) -> Array:
        """Return which pairs exist since this micro-batch: `bool[n]`."""
        return ~self.existed(self)

    def extents(self) -> Extents:
        """Return the windows and keys of the pairs."""
        return Extents(*self.bounds(), self.keys, self.names)

    def without(self, chosen: Array) -> Array:
        """Drop the records of the chosen pairs; return the number of records that each pair holds then."""
        self.purge(chosen)
        return np.where(chosen, 0, self.held)


class ListedPairs(StoredPairs):
    """The pairs that `listed(everything)` returns: those of keys with new records, or all pairs."""

    def __init__(self, listed: Callable[[bool], WindowPairs], memory: PairMemory | None, keys: KeyCounts | None):
        super().__init__([memory], keys)
        self._listed, self._memory = listed, memory

    def candidates(self, everything: bool) -> Iterator[Candidates]:
        """Yield the pairs of keys with new records, or, with `everything`, all pairs."""
        some = self._listed(everything)
        place = some.windows, some.keys, some.names
        memory = self._memory.of(*place, is_new=some.is_new) if self._memory else None
        new = some.new() if self._keys else None
        counting = self._keys.begin(new) if self._keys and new is not None else None
        remember = remembering(self._memory, *place, memory)
        counts = of_pairs(counting, some.keys)
        found = some.held, some.before, memory, remember, some.panes, some.extents, *counts
        yield Candidates(*found, some.signals(), some.without, some.numbers, some.is_new)
        if new is not None and counting:
            self._counted = new, counting
