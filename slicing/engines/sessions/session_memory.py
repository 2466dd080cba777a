"""The trigger state of sessions: one row at the start of each session; sessions that merge add their rows.

::

    stored        [0: 3 fired]      [25: 2 fired]
    sessions      [0                          35)     one session now: a new record lies between them
    stored        [0: 5 fired]      [25: nothing]     the row at its start; the other row gets the initial state
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.sorting import argsorted
from slicing.assembly.ranges.merging import located
from slicing.content.block import Block
from slicing.content.intervals import put_ends
from slicing.content.marks import without_partials
from slicing.content.memory import differs, memory_rows
from slicing.engines.pair_memory import PairMemory


class SessionMemory(PairMemory):
    """The trigger state of the sessions of a micro-batch, which are sorted by key and start and have ends."""

    def __init__(self, sessions: Block, is_open: Array, *stored: Any):
        super().__init__(*stored)
        self.sessions, self.is_open = sessions, is_open

    @cached_property
    def _session(self) -> Array:
        """The session of each row, -1 if no open session holds it: `int64[n]`."""
        found = located(put_ends(without_partials(self.rows), self.rows.index), self.sessions)
        return np.where((found >= 0) & self.is_open[found] if len(self.sessions) else found >= 0, found, -1)

    @property
    def since(self) -> Array:
        """The clock at the first record since the last firing of each row of open sessions, in milliseconds."""
        return super().since[self._session >= 0]

    def of(self, windows: Array, keys: Array, names: pa.Table, is_new: Array) -> Any:
        """Return the state of all open sessions, merged from their rows."""
        fields, inside = self.remembered.of_none(len(self.sessions)), np.flatnonzero(self._session >= 0)
        if len(inside):
            parts = inside[argsorted(self._session[inside])]
            starts = np.flatnonzero(np.diff(self._session[parts], prepend=-1))
            stored = [field[parts] for field in self.rows.partials[0]]
            # The trigger has no rule for merging if no two windows merge.
            merged = stored if len(starts) == len(parts) else self.remembered.merged(stored, starts)
            for field, values in zip(fields, merged, strict=True):
                field[self._session[parts[starts]]] = values
        return self.remembered.made(*(field[self.is_open] for field in fields))

    def put(self, windows: Array, keys: Array, names: pa.Table, before: Any, now: Any) -> None:
        """Note the state of the open sessions for which it has changed, at their starts."""
        rows = self.rows
        gone = (self._session < 0) | (rows.index != self.sessions.index[self._session] if len(self.sessions) else True)
        void = rows.take(np.flatnonzero(gone))
        self._noted.append(memory_rows(void.index, void.keys, void.names, self.remembered.of_none(len(void))))
        alone = np.ones(len(self.sessions), dtype=bool)
        alone[self._session[gone & (self._session >= 0)]] = False
        changed = ~alone[self.is_open]
        for old, new in zip(before.fields, now.fields, strict=True):
            changed |= differs(old, new)
        some = np.flatnonzero(changed)
        self._noted.append(memory_rows(windows[some], keys[some], names, [field[some] for field in now.fields]))
        self._noted = [block for block in self._noted if len(block)]
