"""Open pairs for engines that list them: the windows depend on the records, or each key has only one window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.block import Block
from slicing.engines.key_counts import KeyCounts, of_pairs
from slicing.engines.pair_memory import PairMemory
from slicing.engines.stored_pairs import StoredPairs, remembering
from slicing.triggers.candidates import Candidates, Extents
from slicing.triggers.panes import Panes


@dataclass(frozen=True)
class Listed:
    """Open pairs: window `windows[i]` of key `names[keys[i]]` holds `held[i]` records.

    `before[i]` of these were there before this micro-batch. `panes` returns the pairs that a mask chooses.
    """

    windows: Array
    keys: Array
    names: pa.Table
    held: Array
    before: Array
    panes: Callable[[Array], Panes]
    new: Block  # the new records, with key codes into the same names
    bounds: Callable[[], tuple[Array, Array]]  # the starts and ends of the windows, in microseconds

    def extents(self) -> Extents:
        """Return the windows and keys of the pairs."""
        return Extents(*self.bounds(), self.keys, self.names)

    signals: Mapping[str, Array] = field(default_factory=dict)  # by name, of the new records of each pair
    purge: Callable[[Array], None] = lambda chosen: None  # drops the records of pairs that a mask chooses
    numbers: Callable[[], tuple[Array, Array]] = lambda: (np.zeros(0, np.int64), np.zeros(0))  # as `Candidates`
    purged: Array | None = None  # pairs that would hold older records if these had not been purged

    @property
    def is_new(self) -> Array:
        """Return which pairs got their first record in this micro-batch: `bool[n]`."""
        is_new: Array = self.before == 0
        return is_new if self.purged is None else is_new & ~self.purged

    def without(self, chosen: Array) -> Array:
        """Drop the records of the chosen pairs; return the number of records that each pair holds then."""
        self.purge(chosen)
        return np.where(chosen, 0, self.held)


class ListedPairs(StoredPairs):
    """The pairs that `listed(everything)` returns: those of keys with new records, or all pairs."""

    def __init__(self, listed: Callable[[bool], Listed], memory: PairMemory | None, keys: KeyCounts | None):
        super().__init__([memory], keys)
        self._listed, self._memory = listed, memory

    def candidates(self, everything: bool) -> Iterator[Candidates]:
        """Yield the pairs of keys with new records, or, with `everything`, all pairs."""
        some = self._listed(everything)
        place = some.windows, some.keys, some.names
        memory = self._memory.of(*place, is_new=some.is_new) if self._memory else None
        counting = self._keys.begin(some.new) if self._keys else None
        remember = remembering(self._memory, *place, memory)
        counts = of_pairs(counting, some.keys)
        found = some.held, some.before, memory, remember, some.panes, some.extents, *counts
        yield Candidates(*found, some.signals, some.without, some.numbers)
        if counting:
            self._counted = some.new, counting
