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

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.merging import by_start, chains, numbered, sorted_rows
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, empty
from slicing.content.folding import reduced, regroup
from slicing.content.intervals import Ending, ends_of, extents, with_ends
from slicing.content.marks import under
from slicing.content.pairs import Pairs
from slicing.content.signals import ABSENT, WHEN, with_signals
from slicing.engines.bucket import known_rows
from slicing.engines.sessions.bucket import SessionBucket, frames, intervals
from slicing.engines.sessions.open_rows import OpenRows
from slicing.state.format.list_names import ENDED
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists
from slicing.triggers.lateness import Late
from slicing.windows.session import SESSION, Session


def chains_between(rows: Block, ends: Block) -> tuple[Array, Array]:
    """Return the order of the rows by key and start, and the positions in it at which sessions begin.

    A session also begins after an end of its key. `ends` has a row at the event time of each end, in any order.
    """
    known = under(ends, rows.names)
    known = known.take(np.flatnonzero(known.keys < len(rows.names)))
    pairs = Pairs.over(np.concatenate([rows.index, known.index]), len(rows.names))
    at = np.sort(pairs.pack(known.keys, known.index))
    # Both the key and the number of ends before a row grow with the order of rows, so their sum identifies both.
    parts = rows.keys + np.searchsorted(at, pairs.pack(rows.keys, rows.index))
    return chains(parts, rows.index, ends_of(rows))


def ends_heard(shape: Shape, session: Session, names: Sequence[str], heard: Sequence[Block]) -> Block:
    """Return the new records that end their sessions, as rows of instants, from the signals `heard` of these names."""
    plain = with_signals(shape, len(names))
    rows = concat(with_ends(plain), [intervals(plain, session, block) for block in heard])
    return extents(rows.take(np.flatnonzero(rows.partials[list(names).index(WHEN)][0] != ABSENT)))


def all_ended_sessions(
    shape: Shape, session: Session, blocks: Sequence[Block], names: Sequence[str], heard: Sequence[Block]
) -> Iterator[Windows]:
    """Yield all sessions of a bucket of bounded input."""
    stored = with_ends(shape)
    rows = concat(stored, [intervals(shape, session, block) for block in blocks])
    ends = ends_heard(shape, session, names, heard)
    return frames(reduced(stored, rows, *chains_between(rows, ends)), session.unit)


class EndedSessionBucket(SessionBucket):
    """One bucket of sessions that records may end.

    In addition to the sessions it stores a row for each record that ends a session, as long as the session is open.
    """

    def __init__(self, *args: Any):
        super().__init__(*args)
        nodes = PageLists(self.pages, ENDED, self.marks)
        self.ends = Ledger(nodes, ENDED, known_rows(nodes, ENDED, self.cache.derived))
        self._new_ends = empty(self.marks)  # the accepted ends of this micro-batch

    def _check_ended(self) -> None:
        """Accept a checkpoint with ended sessions."""

    def _merging(self, shape: Shape) -> Callable[[Block], Block]:
        """Return the function that merges rows of the same key and instant; sessions also depend on the ends."""
        return lambda rows: regroup(shape, rows)

    def _is_open(self, known: Block) -> Array:
        """Return which stored rows belong to sessions that accept records; all stored ends decide the sessions."""
        rows = extents(known)
        order, heads = chains_between(rows, self.ends.rows())
        ends = ends_of(reduced(self.marks, rows, order, heads))[numbered(order, heads)]
        is_open: Array = ends > self.progress.state.first_accepting
        return is_open

    @cached_property
    def _known_ends(self) -> Block:
        """The stored ends of open sessions."""
        stored = self.ends.rows()
        return stored.take(np.flatnonzero(_among(stored, self._open)))

    @property
    def _all_ends(self) -> Block:
        return concat(self.marks, [self._known_ends, self._new_ends])

    @property
    def _open_sessions(self) -> Block:
        """The sessions that accept records, sorted by key and start."""
        return reduced(self.shape, self._open, *chains_between(self._open, self._known_ends))

    def accept(self, shipped: Sequence[Block]) -> Late[Ending]:
        """Keep the rows of a micro-batch that are not late; a late end does not end a session."""
        new_ends = (
            ends_heard(self.plain, self.session, self.trigger.signals, self.heard) if self.heard else self._new_ends
        )
        self._new_ends = new_ends
        if self.session.late_by == SESSION:
            rows = concat(self.marks, [intervals_of(self, shipped), new_ends])
            deciding = self._deciding_ends(rows)[len(rows) - len(new_ends) :]
        else:
            deciding = ends_of(new_ends)
        late = super().accept(shipped)
        self._new_ends = new_ends.take(np.flatnonzero(deciding > self._accepting))
        return late

    def _chains(self, rows: Block) -> tuple[Array, Array]:
        """Return the order of the rows by key and start, and the positions in it at which sessions begin."""
        return chains_between(rows, self._all_ends)

    def _accepted(self, rows: Block) -> Array:
        """Return which rows of signals belong to accepted records; a session is not separated at a late end."""
        return _among(rows, self.new) if self.session.late_by == SESSION else super()._accepted(rows)

    def _was_open(self, rows: Block) -> Array:
        """Return which rows have the key and instant of a row that was open when the micro-batch began: `bool[n]`."""
        return _among(rows, self._open)

    @cached_property
    def _emitted(self) -> EmittedExtents:  # type: ignore[override]
        return EmittedExtents(self.emitted_rows, self._was_open, self._merged[0])

    def _put(self, new_rows: Block, live: Block) -> None:
        """Append the new rows and ends of open sessions, or rewrite both; both lists forget closed rows together."""
        both = regroup(self.shape, concat(self.shape, [self._open, self.new]))
        both = self._without_records(both, self._purged[_holding(both, self._merged[0])])
        rows = both.take(np.flatnonzero(self._ends_of_sessions(extents(both)) > self.progress.state.first_accepting))
        if self.rows.put(new_rows, by_start(rows), self.new, anew=self._is_anew(new_rows)):
            ends = regroup(self.marks, self._all_ends)
            self.ends.rewrite(by_start(ends.take(np.flatnonzero(_among(ends, rows)))))
        else:
            self._put_ends(rows)

    def _put_ends(self, live: Block) -> None:
        """Append the needed new ends, or rewrite all needed ends: those of open sessions and those between stored rows.

        Ends of closed sessions are needed, too: they separate the stored rows of these from those of open sessions. Any
        other end of a closed session is forgotten, as the session is, so that it separates no rows that arrive later.
        """
        ends = regroup(self.marks, concat(self.marks, [self.ends.rows(), self._new_ends]))
        if len(ends):
            needed = ends.take(np.flatnonzero(_among(ends, live) | _parting(ends, self.rows.ledger.rows())))
            new_ends = self._new_ends.take(np.flatnonzero(_among(self._new_ends, needed)))
            self.ends.put(by_start(new_ends), by_start(needed))

    def check(self) -> None:
        """Assert in addition that ends do not pile up: at most two per stored row and per open row."""
        super().check()
        assert len(self.ends.rows()) <= 2 * (self.rows.count + len(self.rows.load(self._is_open)))

    def rows_to_cache(self) -> dict[str, Block]:
        """Return the rows of sessions, of the retraction log and of the ends that the bucket cache keeps."""
        return super().rows_to_cache() | ({ENDED: self.ends.cached} if self.ends.cached else {})


def intervals_of(bucket: SessionBucket, shipped: Sequence[Block]) -> Block:
    """Return the extents of shipped rows."""
    rows = [intervals(bucket.plain, bucket.session, block) for block in shipped]
    return concat(bucket.marks, [extents(each) for each in rows])


def _among(rows: Block, others: Block) -> Array:
    """Return which rows have the key and instant of a row in `others`: `bool[n]`."""
    known = under(rows, others.names)
    pairs = Pairs.over(np.concatenate([known.index, others.index]), max(len(known.names), len(others.names)) + 1)
    return np.isin(pairs.pack(known.keys, known.index), pairs.pack(others.keys, others.index))


def _parting(ends: Block, rows: Block) -> Array:
    """Return which ends separate two sessions of stored rows that would be one, only the first one there: `bool[n]`.

    All ends decide what a session reaches: an end that only an earlier session reaches separates nothing.
    """
    known, parting = under(ends, rows.names), np.zeros(len(ends), dtype=bool)
    if not len(rows):
        return parting
    at = np.flatnonzero(known.keys < len(rows.names))
    pairs = Pairs.over(np.concatenate([rows.index, known.index]), len(rows.names))
    order, heads = chains_between(rows, ends)
    reached = np.maximum.reduceat(ends_of(rows)[order], heads)
    keys, starts = rows.keys[order][heads], rows.index[order][heads]
    parted = heads[1:][(keys[1:] == keys[:-1]) & (reached[:-1] >= starts[1:])]
    places = np.searchsorted(
        pairs.pack(rows.keys, rows.index)[order], pairs.pack(known.keys[at], known.index[at]), "right"
    )
    between = np.flatnonzero(np.isin(places, parted))
    parting[at[between[np.unique(places[between], return_index=True)[1]]]] = True
    return parting


class EmittedExtents:
    """The retraction log of sessions that an end may split again: the emitted extents that have not been retracted.

    ::

        emitted      [0               40)
        sessions     [0    30) [21    40)     a new record at 20 ends its session
        fires        [0    40) merged, [0    30) early

    An extent belongs to the session of its first record, and is retracted when that fires with another extent.
    """

    def __init__(self, stored: OpenRows, was_open: Callable[[Block], Array], sessions: Block):
        self.stored, self.sessions = stored, sessions
        self.rows = stored.load(was_open)
        self._session = _holding(self.rows, sessions)
        self._is_other = (self.rows.index != sessions.index[self._session]) | (
            ends_of(self.rows) != ends_of(sessions)[self._session]
        )
        self._fired = np.zeros(len(sessions), dtype=bool)
        self.same = np.zeros(len(sessions), dtype=bool)  # sessions that have fired with their present extent
        self.same[self._session[~self._is_other]] = True

    def retracted(self, firing: Array) -> Block:
        """Note the sessions that fire, and return the emitted extents that they replace."""
        self._fired |= firing
        return self.rows.take(firing[self._session] & self._is_other)

    def save(self, closing: Array, new_rows: Block) -> None:
        """Store the emitted extents of sessions that stay open; `new_rows` has the new rows."""
        gone = self._fired[self._session] & self._is_other
        more = extents(self.sessions.take(self._fired & ~closing & ~self.same))
        live = concat(self.stored.ledger.nodes.shape, [self.rows.take(~closing[self._session] & ~gone), more])
        self.stored.put(by_start(more), by_start(live), new_rows, anew=bool(gone.any()))


def _holding(rows: Block, sessions: Block) -> Array:
    """Return the session in which each row begins, out of sessions sorted by key and start: `int64[n]`."""
    known = under(rows, sessions.names)
    order = sorted_rows(sessions.keys, sessions.index)
    pairs = Pairs.over(np.concatenate([known.index, sessions.index]), len(sessions.names))
    at = pairs.pack(sessions.keys, sessions.index)[order]
    found: Array = order[np.searchsorted(at, pairs.pack(known.keys, known.index), "right") - 1]
    return found
