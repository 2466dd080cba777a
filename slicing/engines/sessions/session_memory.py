"""What triggers remember of sessions: a row at the start of each, and sessions that merge add their rows.

::

    remembered    [0: 3 fired]      [25: 2 fired]
    sessions      [0                          35)     one now: a record has come between
    remembered    [0: 5 fired]      [25: nothing]     the row at its start, and the other one says nothing any more
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.merging import located
from slicing.content.block import Block
from slicing.content.intervals import put_ends
from slicing.content.marks import without_partials
from slicing.content.memory import NEVER, memory_rows
from slicing.engines.pair_memory import PairMemory
from slicing.state.lists import PageLists
from slicing.triggers.candidates import Memory


class SessionMemory(PairMemory):
    """The memory of the sessions of a micro-batch, which have ends and are given by key and start."""

    def __init__(self, nodes: PageLists, name: str, kept: Block | None, sessions: Block, is_open: Array):
        super().__init__(nodes, name, kept, lambda rows: np.ones(len(rows), dtype=bool))
        self.sessions, self.is_open = sessions, is_open

    @cached_property
    def _session(self) -> Array:
        """The session of each row, -1 for one that is not open."""
        found = located(put_ends(without_partials(self.rows), self.rows.index), self.sessions)
        return np.where((found >= 0) & self.is_open[found] if len(self.sessions) else found >= 0, found, -1)

    @property
    def since(self) -> Array:
        """The clocks at the first record since the last firing, of open sessions."""
        return super().since[self._session >= 0]

    def of(self, windows: Array, keys: Array, names: pa.Table, is_new: Array) -> Memory:
        """What is remembered of all open sessions: the sum of their rows, and the earliest clock."""
        memory, inside = Memory.of_none(len(self.sessions)), self._session >= 0
        session, rows = self._session[inside], self.rows.take(np.flatnonzero(inside))
        fired, counted, since = (field.copy() for field in memory.fields)
        np.add.at(fired, session, rows.partials[0][0])
        np.add.at(counted, session, rows.partials[0][1])
        least = np.full(len(self.sessions), np.iinfo(np.int64).max)
        told = rows.partials[0][2] != NEVER
        np.minimum.at(least, session[told], rows.partials[0][2][told])
        since = np.where(least == np.iinfo(np.int64).max, since, least)
        return Memory(fired[self.is_open], counted[self.is_open], since[self.is_open])

    def put(self, windows: Array, keys: Array, names: pa.Table, before: Memory, now: Memory) -> None:
        """Note what is remembered of all open sessions, at their starts."""
        rows = self.rows
        gone = (self._session < 0) | (rows.index != self.sessions.index[self._session] if len(self.sessions) else True)
        void = rows.take(np.flatnonzero(gone))
        self._came.append(memory_rows(void.index, void.keys, void.names, Memory.of_none(len(void)).fields))
        alone = np.ones(len(self.sessions), dtype=bool)
        alone[self._session[gone & (self._session >= 0)]] = False
        changed = ~alone[self.is_open]
        for old, new in zip(before.fields, now.fields, strict=True):
            changed |= old != new
        some = np.flatnonzero(changed)
        self._came.append(memory_rows(windows[some], keys[some], names, [field[some] for field in now.fields]))
        self._came = [block for block in self._came if len(block)]
