"""The number of records of each key since counting began, for triggers that count by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.block import Block, Shape
from slicing.content.marks import under
from slicing.content.memory import NEVER, with_memory
from slicing.engines.pair_memory import PairMemory
from slicing.state.format.list_names import EARLY, KEYS
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.triggers.candidates import Memory


@dataclass(frozen=True)
class Counting:
    """The counts of some keys in one micro-batch, `int64[keys]` by code: `now`, and `after` the trigger has fired."""

    now: Array
    after: Array

    def lower(self, keys: Array, counts: Array) -> None:
        """Set the counts of keys that fire, given by codes; of several counts of a key, the least is kept."""
        np.minimum.at(self.after, keys, counts)


class KeyCounts:
    """The stored counts, one row per key; a row is kept as long as the key has records in open windows."""

    def __init__(self, pages: Pages, shape: Shape, held: Mapping[str, Block], is_live: Callable[[Block], Array]):
        nodes = PageLists(pages, EARLY, with_memory(shape))
        self._memory = PairMemory(nodes, KEYS, held.get(f"{EARLY} {KEYS}"), is_live)

    def begin(self, new: Block) -> Counting:
        """Return the counts of the keys in the names of `new`, including its records."""
        known = self._of(new).fired.copy()
        np.add.at(known, new.keys, new.records)
        return Counting(known, known.copy())

    def end(self, new: Block, counts: Counting) -> None:
        """Note the counts after this micro-batch, to be stored by `save`.

        A key that had no record in an open window begins at 0. Its old count may still be stored, and would be valid
        again if that 0 were not noted.
        """
        every = np.arange(len(new.names))
        before = self._of(new)
        old = under(self._memory.gone, new.names).keys
        before.fired[old[old < len(every)]] = NEVER
        self._memory.put(np.zeros_like(every), every, new.names, before, replace(before, fired=counts.after))

    def _of(self, new: Block) -> Memory:
        every = np.arange(len(new.names))
        of: Memory = self._memory.of(np.zeros_like(every), every, new.names, np.zeros(len(every), dtype=bool))
        return of

    def save(self) -> None:
        """Store the noted counts."""
        self._memory.save()

    def to_cache(self) -> dict[str, Block]:
        """Return the blocks that the bucket cache keeps, by name."""
        return self._memory.to_cache()


def of_pairs(counting: Counting | None, keys: Array) -> tuple[Array | None, Callable[[Array], None]]:
    """Return the counts of the keys of pairs and the function that sets them: two fields of `Candidates`."""
    if counting is None:
        return None, lambda counts: None
    return counting.now[keys], lambda counts: counting.lower(keys, counts)


def has_key(block: Block) -> Callable[[Block], Array]:
    """Return a function that tells for each row whether `block` has rows of its key."""

    def among(rows: Block) -> Array:
        codes = under(rows, block.names).keys
        held = np.zeros(max(len(block.names), int(codes.max(initial=-1)) + 1), dtype=bool)
        held[block.keys] = True
        return held[codes]

    return among
