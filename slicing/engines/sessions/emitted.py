"""The retraction log of sessions: what has been emitted of the ones that are open, and is retracted if these change.

::

    emitted      [0   10)      [25  35)        extents that have fired, with the records that they had
    sessions     [0                  35)       one now: a record has come between
    fires        [0   10) merged, [25  35) merged, [0  35) update
    emitted      [0                  35)

What has been emitted is a row of its extent. Rows merge as those of sessions do: a session that fires covers all that
has been emitted of its parts. Its row counts the records that it has and they had not: what is new is a difference.
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
    """The log, against the sessions of a micro-batch, which are given by key and start.

    `stored` are rows of the shape `marks`, which have ends only. `before` are the sessions that were open before.
    """

    def __init__(self, marks: Shape, stored: OpenRows, before: Block, sessions: Block):
        self.marks, self.stored, self.sessions = marks, stored, sessions
        self.rows = stored.load(lambda known: located(known, before) >= 0)
        self._session = located(self.rows, sessions)  # that each row is a part of
        same = (self.rows.index == sessions.index[self._session]) & (
            ends_of(self.rows) == ends_of(sessions)[self._session]
        )
        self._is_other = ~same
        self.same = np.zeros(len(sessions), dtype=bool)  # sessions that have fired with this extent
        self.same[self._session[same]] = True
        counted = np.zeros(len(sessions), dtype=np.int64)
        np.add.at(counted, self._session, self.rows.records)
        self.new: Array = sessions.records - counted  # records of each session that have not fired
        self._fired = np.zeros(len(sessions), dtype=bool)

    def retracted(self, firing: Array) -> Block:
        """The extents that sessions replace which fire now, and note that these do."""
        self._fired |= firing
        return self.rows.take(firing[self._session] & self._is_other)

    def save(self, closing: Array, came: Block) -> None:
        """Store what has fired of sessions that stay open; `came` has become a part of them since."""
        added = self._fired & ~closing & ((self.new > 0) | ~self.same)
        more = replace(extents(self.sessions.take(added)), records=self.new[added])
        live = merged(self.marks, concat(self.marks, [self.rows.take(~closing[self._session]), more]))
        self.stored.put(by_start(more), by_start(live), came)
