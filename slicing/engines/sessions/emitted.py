"""The retraction log of sessions: the emitted extents of open sessions, which are retracted if the sessions change.

::

    emitted      [0   10)      [25  35)        extents that have fired, with their numbers of records then
    sessions     [0                  35)       one session now: a new record lies between them
    fires        [0   10) merged, [25  35) merged, [0  35) update
    emitted      [0                  35)

Each emitted extent is a row. If no record splits a session, rows merge as those of sessions do: a session that fires
covers all emitted extents of its parts. Its row counts only the records that these had not counted, so the new records
of a session are a difference. Otherwise extents that are retracted are removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.merging import by_start, holding
from slicing.content.block import Block, concat
from slicing.content.intervals import ends_of, extents
from slicing.engines.sessions.open_rows import OpenRows


class Emitted:
    """The retraction log, compared with the sessions of a micro-batch, which are sorted by key and start.

    `stored` has rows that have only ends. An extent belongs to the session of its first record. If records split
    sessions, only a session with the same start has the records of an extent; those of others count as not fired.
    """

    def __init__(self, stored: OpenRows, is_open: Callable[[Block], Array], sessions: Block, splits: bool):
        self.stored, self.sessions, self.splits = stored, sessions, splits
        self.rows = stored.load(is_open)
        self._session = holding(self.rows, sessions)  # the session to which each row belongs
        ends = ends_of(sessions)[self._session]
        begins = self.rows.index == sessions.index[self._session]
        self._is_other = ~begins | (ends_of(self.rows) != ends)
        self.same = np.zeros(len(sessions), dtype=bool)  # sessions that have fired with their present extent
        self.same[self._session[~self._is_other]] = True
        # The records of each session since its last firing.
        self.new = self._uncounted(begins if splits else ends_of(self.rows) <= ends)
        self._fired = np.zeros(len(sessions), dtype=bool)

    def _uncounted(self, chosen: Array) -> Array:
        """Return the number of records of each session that the chosen rows do not count: `int64[n]`."""
        counted = np.zeros(len(self.sessions), dtype=np.int64)
        np.add.at(counted, self._session, self.rows.records * chosen)
        new: Array = self.sessions.records - counted
        return new

    def retracted(self, firing: Array) -> Block:
        """Note the sessions that fire, and return the emitted extents that they replace."""
        self._fired |= firing
        return self.rows.take(firing[self._session] & self._is_other)

    def save(self, closing: Array, anew: bool) -> None:
        """Store the emitted extents of sessions that stay open; `anew`, rewrite them all."""
        added = self._fired & ~closing & ((self.new > 0) | ~self.same)
        gone = self._fired[self._session] & self._is_other & self.splits
        more = replace(extents(self.sessions.take(added)), records=self._uncounted(~gone)[added])
        kept = concat(self.stored.ledger.nodes.shape, [self.rows.take(~closing[self._session] & ~gone), more])
        self.stored.put(by_start(more), by_start(self.stored.folded(kept)), anew or bool(gone.any()))
