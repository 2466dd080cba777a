"""What triggers remember of pairs, as a list of rows: the newest row of a pair counts.

::

    window     3      4      3      4            appended as pairs fire, or get their first record after that
    fired      5      2      9      2
    newest     -      -      9      2            what all rows come to; they are rewritten when they are twice as many
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.block import Block, concat
from slicing.content.marks import under
from slicing.content.memory import NEVER, memory_rows, newest
from slicing.content.pairs import Pairs
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists
from slicing.triggers.candidates import Memory


class PairMemory:
    """The memory of the pairs of one list; `is_live` tells which rows are of pairs that are still open."""

    def __init__(self, nodes: PageLists, name: str, kept: Block | None, is_live: Callable[[Block], Array]):
        self.ledger, self.name, self._is_live = Ledger(nodes, name, kept), name, is_live
        self._came: list[Block] = []
        self._rows: Block | None = None

    @property
    def rows(self) -> Block:
        """The newest row of each pair that is open, as they were before this micro-batch."""
        if self._rows is None:
            rows = _telling(newest(self.ledger.rows()))
            self._rows = rows.take(np.flatnonzero(self._is_live(rows)))
        return self._rows

    @property
    def since(self) -> Array:
        """The clocks at the first record since the last firing, of all pairs."""
        since: Array = self.rows.partials[0][2]
        return since

    def of(self, windows: Array, keys: Array, names: pa.Table, is_new: Array) -> Memory:
        """What is remembered of some pairs; nothing of those that are new."""
        rows = under(self.rows, names)
        known = rows.take(np.flatnonzero(rows.keys < len(names)))
        memory = Memory.of_none(len(windows))
        if not len(known):
            return memory
        pairs = Pairs.over(np.concatenate([known.index, windows]), len(names))
        at = pairs.pack(known.keys, known.index)
        by_pair = np.argsort(at)
        wanted = pairs.pack(keys, windows)
        place = np.minimum(np.searchsorted(at[by_pair], wanted), len(at) - 1)
        found = (at[by_pair][place] == wanted) & ~is_new
        there = by_pair[place]
        fields = zip(known.partials[0], memory.fields, strict=True)
        return Memory(*(np.where(found, stored[there], default) for stored, default in fields))

    def put(self, windows: Array, keys: Array, names: pa.Table, before: Memory, now: Memory) -> None:
        """Note what is remembered of some pairs, where it is something else than before."""
        changed = np.zeros(len(windows), dtype=bool)
        for old, new in zip(before.fields, now.fields, strict=True):
            changed |= old != new
        some = np.flatnonzero(changed)
        if len(some):
            self._came.append(memory_rows(windows[some], keys[some], names, [field[some] for field in now.fields]))

    def save(self) -> None:
        """Append what has been noted."""
        if not self._came and not len(self.rows):
            self.ledger.nodes.drop(self.name)
            self.ledger.kept = None
            return
        shape = self.ledger.nodes.shape
        came = newest(concat(shape, self._came))
        self.ledger.put(came, _telling(newest(concat(shape, [self.rows, came]))))

    def kept(self) -> dict[str, Block]:
        """What the process keeps, by name."""
        return {f"{self.ledger.nodes.prefix}{self.name}": self.ledger.kept} if self.ledger.kept else {}


def _telling(rows: Block) -> Block:
    """The rows that say something."""
    fired, counted, since = rows.partials[0]
    return rows.take(np.flatnonzero((fired != 0) | (counted != 0) | (since != NEVER)))
