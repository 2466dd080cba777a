"""Sessions that records end: `early(when=..., ends=True)`.

::

    times of a key    0    6    9*    11    17        gap 10; the condition is true of the record at 9
    sessions         [0               19)             holds 0, 6 and 9
                                     [11         27)  holds 11 and 17

Event time decides, so the order of arrival does not matter: a record at or before the event time of an end belongs to
the session that ends, and a later record belongs to another session. Stored rows have one instant each, because an end
that arrives later may separate any two of them. As for all sessions, a window lasts until the gap is over, so ends do
not change which records are late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.merging import by_start
from slicing.content.block import Block, Shape, concat, empty
from slicing.content.folding import regroup
from slicing.content.intervals import extents
from slicing.content.marks import occur_in, under
from slicing.content.pairs import Pairs
from slicing.content.signals import ABSENT, WHEN
from slicing.engines.bucket import known_rows
from slicing.engines.sessions.kinds import SessionKind
from slicing.state.format.list_names import ENDED
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.windows.session import Session


class EndedByRecords(SessionKind):
    """Sessions that records may end. A row is stored for each end, as long as the row of its record is stored."""

    takes_ends = True
    stored: Ledger

    def __init__(self, session: Session, marks: Shape):
        super().__init__(session, marks)
        self._known: Block | None = empty(marks)
        self._new = empty(marks)  # the accepted ends of this micro-batch

    def open(self, pages: Pages, cached: Mapping[str, Block]) -> None:
        """Open the list of ends."""
        nodes = PageLists(pages, ENDED, self.marks)
        self.stored, self._known = Ledger(nodes, ENDED, known_rows(nodes, ENDED, cached)), None

    @property
    def ends(self) -> Block:
        """The ends that separate rows: a row at the event time of each, in any order. First all that are stored."""
        known = self.stored.rows() if self._known is None else self._known
        return concat(self.marks, [known, self._new])

    def derive(self, rows: Block) -> tuple[Array, Array]:
        """Return the order of the rows by key and start, and the positions in it at which sessions begin.

        A session also begins after an end of its key.
        """
        known = under(self.ends, rows.names)
        known = known.take(np.flatnonzero(known.keys < len(rows.names)))
        pairs = Pairs.over(np.concatenate([rows.index, known.index]), len(rows.names))
        at = np.sort(pairs.pack(known.keys, known.index))
        # Both the key and the number of ends before a row grow with the order of rows, so their sum identifies both.
        return self.chained(rows, rows.keys + np.searchsorted(at, pairs.pack(rows.keys, rows.index)))

    def know(self, rows: Block) -> None:
        """Forget the ends of closed sessions: they separate no records that arrive later."""
        self._known = at_same(self.stored.rows(), rows)

    def take_signals(self, signals: Block, names: Sequence[str]) -> None:
        """Take the new records that end their sessions."""
        is_end = signals.partials[list(names).index(WHEN)][0] != ABSENT
        self._heard, self._new = is_end, extents(signals.take(is_end))

    def accept(self, accepted: Array) -> None:
        """Drop late ends: they end no session."""
        self._new = self._new.take(np.flatnonzero(accepted[self._heard]))

    def keep(self, void: Block, live: Block) -> None:
        """Keep the ends at rows that stay in the state; those at void rows still separate these from others."""
        self._appended, self._of_live = self._new, regroup(self.marks, at_same(self.ends, live))
        known = concat(self.marks, [self._of_live, at_same(self.stored.rows(), void)])
        self._known, self._new = known, empty(self.marks)

    def save(self, new_rows: Block, anew: bool) -> None:
        """Append the ends at new rows, or rewrite the ends at live rows."""
        if anew:
            self.stored.rewrite(self._of_live)
        else:
            self.stored.put(by_start(at_same(self._appended, new_rows)), regroup(self.marks, self.ends))

    def to_cache(self) -> dict[str, Block]:
        """Return the ends."""
        return {ENDED: self.stored.cached} if self.stored.cached else {}

    def check(self, rows: int) -> None:
        """Assert that ends do not pile up: at most two a row."""
        assert len(self.stored.rows()) <= 2 * rows


def at_same(rows: Block, others: Block) -> Block:
    """Return the rows that have the key and instant of a row in `others`."""
    return rows.take(np.flatnonzero(occur_in(rows, others)))
