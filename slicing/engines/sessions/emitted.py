"""The retraction log of sessions: the emitted extents of open sessions, which are retracted if the sessions change.

::

    emitted      [0   10)      [25  35)        extents that have fired, with their numbers of records then
    sessions     [0                  35)       one session now: a new record lies between them
    fires        [0   10) merged, [25  35) merged, [0  35) update
    emitted      [0                  35)

Each emitted extent is a row. Rows merge as those of sessions do: a session that fires covers all emitted extents of its
parts. Its row counts only the records that these had not counted, so the new records of a session are a difference.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.merging import by_start, located, merged
from slicing.content.block import Block, Shape, concat
from slicing.content.intervals import ends_of, extents
from slicing.engines.sessions.open_rows import OpenRows


class Emitted:
    """The retraction log, compared with the sessions of a micro-batch, which are sorted by key and start.

    `stored` has rows of the shape `marks`, which have only ends. `before` has the sessions that were open before.
    """

    def __init__(self, marks: Shape, stored: OpenRows, before: Block, sessions: Block):
        self.marks, self.stored, self.sessions = marks, stored, sessions
        self.rows = stored.load(lambda known: located(known, before) >= 0)
        self._session = located(self.rows, sessions)  # the session to which each row belongs
        same = (self.rows.index == sessions.index[self._session]) & (
            ends_of(self.rows) == ends_of(sessions)[self._session]
        )
        self._is_other = ~same
        self.same = np.zeros(len(sessions), dtype=bool)  # sessions that have fired with their present extent
        self.same[self._session[same]] = True
        counted = np.zeros(len(sessions), dtype=np.int64)
        np.add.at(counted, self._session, self.rows.records)
        self.new: Array = sessions.records - counted  # the number of records of each session since its last firing
        self._fired = np.zeros(len(sessions), dtype=bool)

    def retracted(self, firing: Array) -> Block:
        """Note the sessions that fire, and return the emitted extents that they replace."""
        self._fired |= firing
        return self.rows.take(firing[self._session] & self._is_other)

    def save(self, closing: Array, new_rows: Block) -> None:
        """Store the emitted extents of sessions that stay open; `new_rows` has the new rows."""
        added = self._fired & ~closing & ((self.new > 0) | ~self.same)
        more = replace(extents(self.sessions.take(added)), records=self.new[added])
        live = merged(self.marks, concat(self.marks, [self.rows.take(~closing[self._session]), more]))
        self.stored.put(by_start(more), by_start(live), new_rows)
