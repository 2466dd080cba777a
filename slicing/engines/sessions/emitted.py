"""Sessions that go out more than once: which are due, and what is taken back of those that have become others.

::

    shown        [0   10)      [25  35)        what went out, with the records that it had
    sessions     [0                  35)       one now: a record has come between
    out          [0   10) merged, [25  35) merged, [0  35) update
    shown        [0                  35)

What has gone out is a row of its extent. Rows merge as those of sessions do: a session that goes out covers all that
has gone out of its parts. Its row counts the records that it has and they had not: what is new is a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.merging import by_start, located, merged
from slicing.content.block import Block, Shape, concat
from slicing.content.intervals import ends_of, extents
from slicing.engines.sessions.open_rows import OpenRows
from slicing.state.format.header import Header
from slicing.triggers.emission import NEWEST, UPDATE, Emission, Every, Records


@dataclass(frozen=True)
class Sessions:
    """The sessions of a micro-batch by key and start: which got records, had ended before, have ended, and close."""

    rows: Block
    touched: Array
    final: Array
    ended: Array
    closing: Array


class Shown:
    """What has gone out of the sessions that are open; `stored` are rows of the shape `marks`, which have ends only."""

    def __init__(self, emission: Emission, head: Header, marks: Shape, stored: OpenRows):
        self.emission, self.head, self.marks, self.stored = emission, head, marks, stored

    def out(self, sessions: Sessions, opened: Block, came: Block, now: int) -> Iterator[tuple[str, Block]]:
        """What goes out, by kind: first extents that are "merged", then sessions; then remember what has gone out.

        `opened` are the sessions that were open before, `came` is what became a part of them since, `now` the time of
        the trigger in microseconds.
        """
        rows = sessions.rows
        shown = self.stored.load(lambda known: located(known, opened) >= 0)
        home = located(shown, rows)
        is_same = (shown.slices == rows.slices[home]) & (ends_of(shown) == ends_of(rows)[home])
        before, same = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
        np.add.at(before, home, shown.records)
        same[home[is_same]] = True
        new = rows.records - before
        due = self._due(sessions, same, new, now)
        going = np.logical_or.reduce([*due.values()])
        yield "merged", shown.take(going[home] & ~is_same)
        for kind, chosen in due.items():
            yield kind, rows.take(chosen)
        added = going & ~sessions.closing & ((new > 0) | ~same)
        more = replace(extents(rows.take(added)), records=new[added])
        live = merged(self.marks, concat(self.marks, [shown.take(~sessions.closing[home]), more]))
        self.stored.put(by_start(more), by_start(live), came)

    def _due(self, sessions: Sessions, same: Array, new: Array, now: int) -> dict[str, Array]:
        """Which sessions go out, by kind; `same` ones have gone out as they are, but for `new` records."""
        when = self.emission.when
        if when == UPDATE:
            newest = _newest(sessions.rows) if self.emission.which == NEWEST else True
            return {"update": sessions.touched & newest}
        if self.emission.corrects:
            # Another emission may have put out the same extent before it ended.
            again = sessions.ended & sessions.final & same
            return {"final": sessions.ended & ~again, "correction": again & (new > 0)}
        waiting = ~sessions.closing & (new > 0)
        if isinstance(when, Every):
            return {"early": waiting & self._ticks(when, now), "final": sessions.closing}
        assert isinstance(when, Records), f"sessions do not go out {self.emission}"
        counts = np.zeros(len(sessions.rows.names), dtype=np.int64)
        np.add.at(counts, sessions.rows.keys[waiting], new[waiting])
        return {"early": waiting & (counts >= when.count)[sessions.rows.keys], "final": sessions.closing}

    def _ticks(self, when: Every, now: int) -> bool:
        """Whether a tick has passed since the last micro-batch."""
        tick, last = now // when.microseconds, self.head.tick
        self.head.tick = tick
        return last is not None and tick > last


def _newest(sessions: Block) -> Array:
    """Which sessions, by key and start, are the last of their keys."""
    last = np.ones(len(sessions), dtype=bool)
    last[:-1] = sessions.keys[1:] != sessions.keys[:-1]
    return last
