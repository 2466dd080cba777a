"""One bucket of sessions: new rows are merged with the open sessions, sessions that close fire, new rows are appended.

::

    stored     [0      30)       [50   70)         rows of open sessions, in order of arrival
    new             [20     40)            [70 80)
    sessions   [0           40)  [50             80)         the watermark is 60: the first session fires
    appended                               [70 80)           the stored rows of the first session become void
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.aggregates.sorting import argsorted, sorted_rows
from slicing.assembly.ranges.merging import by_start, holding, located, merged, numbered
from slicing.assembly.results import FRAME_ROWS, Windows
from slicing.content.block import Block, Shape, concat, empty, encode_keys
from slicing.content.folding import reduced, regroup
from slicing.content.intervals import (
    Ending,
    EndingRecords,
    ending,
    ends_of,
    extents,
    last_key,
    put_ends,
    with_ends,
    without_last_key,
)
from slicing.content.marks import occur_in, under, without_partials
from slicing.content.memory import Remembered
from slicing.content.signals import ABSENT, NO_SIGNALS, Signals, least_of, with_signals
from slicing.engines.bucket import known_rows
from slicing.engines.key_counts import has_key
from slicing.engines.lateness import Progress
from slicing.engines.looking import Look
from slicing.engines.pair_memory import PairMemory, memory_of
from slicing.engines.rows.bucket import RowsBucket
from slicing.engines.rows.pairs import ACCEPTING, CLOSING, FIRED, OPEN, WindowPairs
from slicing.engines.sessions.emitted import Emitted
from slicing.engines.sessions.kinds import Merging, SessionKind
from slicing.engines.sessions.open_rows import OpenRows
from slicing.engines.sessions.session_memory import SessionMemory
from slicing.errors import StateMismatch
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.changes import ENDING, cannot_end, has_ended_sessions
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import EMITTED, SESSIONS
from slicing.state.lists import PageLists
from slicing.state.store import Store
from slicing.triggers.candidates import OF_CONDITIONS
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import ClosedWindows, Late, RefusedRows
from slicing.triggers.panes import NONE, Panes
from slicing.triggers.required_delay import FirstEnds
from slicing.triggers.trigger import Trigger
from slicing.windows.families.family import Family
from slicing.windows.session import SESSION, Session
from slicing.windows.time.slices import FOREVER

MERGED = "merged"


@dataclass(frozen=True)
class RefusedSessions(RefusedRows[Ending]):
    """Late intervals; each is late for the only session to which it could belong."""

    def missed(self, family: Family, slices: Array) -> ClosedWindows:
        """Return one missed session for each interval; no other session accepts it."""
        one = np.ones(len(slices), dtype=np.int64)
        return ClosedWindows(one, np.zeros_like(one), one.astype(bool))

    def holds(self, records: EndingRecords) -> Array:
        """Return which records were refused, `bool[n]`: exactly those whose interval lies in a refused interval."""
        outer = put_ends(without_partials(self.rows), self.rows.ends)
        codes, names = encode_keys(records.names)
        count = np.ones(len(codes), dtype=np.int64)
        inner = Block(records.index, codes, names, count, [[records.ends]], [None])
        held: Array = located(inner, outer.take(sorted_rows(outer.keys, outer.index))) >= 0
        return held


def intervals(shape: Shape, session: Session, block: Block) -> Block:
    """Return shipped rows with ends: sub-sessions already have ends; rows of single instants get them here.

    `shape` is the shape of rows without ends.
    """
    if len(block.partials) > len(shape.kernels):
        return block
    if session.gap is not None:
        return put_ends(block, block.index + session.gap)
    return without_last_key(put_ends(block, block.index + last_key(block)), encode_keys)


def frames(sessions: Block, unit: int, kind: str = "final") -> Iterator[Windows]:
    """Yield sessions as windows, at most FRAME_ROWS at a time, in their order; `unit` is in microseconds."""
    for start in range(0, len(sessions), FRAME_ROWS):
        rows = ending(sessions.take(slice(start, start + FRAME_ROWS)), unit)
        partials = rows.names, rows.records, rows.partials, rows.dictionaries
        yield Windows(rows.index, rows.keys, *partials, kind=kind, ends=rows.ends)


def heard_rows(shape: Shape, session: Session, heard: Signals) -> Block:
    """Return the signals as rows with ends."""
    return interval_rows(with_signals(shape, len(heard.names)), session, heard.blocks)


def interval_rows(shape: Shape, session: Session, blocks: Sequence[Block]) -> Block:
    """Return all rows of shipped blocks, with ends; `shape` is the shape of rows without ends."""
    return concat(with_ends(shape), [intervals(shape, session, block) for block in blocks])


def all_sessions(
    shape: Shape,
    session: Session,
    blocks: Sequence[Block],
    of: type[SessionKind] = Merging,
    heard: Signals = NO_SIGNALS,
) -> Iterator[Windows]:
    """Yield all sessions of a bucket of bounded input; a kind that takes ends gets the signals."""
    kind, rows = of(session, with_ends(shape.select(()))), interval_rows(shape, session, blocks)
    if kind.takes_ends:
        kind.take_signals(heard_rows(shape, session, heard), heard.names)
    return frames(kind.sessions(with_ends(shape), rows, *kind.derive(rows)), session.unit)


class SessionBucket(RowsBucket):
    """One bucket of sessions; `grace` is in microseconds.

    `shape` is the shape of the results; stored rows also have the ends of sessions, as their last partial.
    """

    def __init__(
        self,
        shape: Shape,
        session: Session,
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        trigger: Trigger = ON_CLOSE,
        of: type[SessionKind] = Merging,
    ):
        self.plain, self.session = shape, session
        self.shape, self.marks = with_ends(shape), with_ends(shape.select(()))
        self.kind = of(session, self.marks)
        self.is_ordered = any(kernel.aggregate.ordered for kernel in shape.kernels)
        wait, self._fires_once = trigger.wait(grace), not trigger.needs.emitted
        super().__init__(fingerprint, store, trigger, [self._closed_by(0, wait)])
        # Progress is in ends of sessions: all sessions that end by a mark have fired, or accept no more records.
        self.progress = Progress(self.head.families[0], self._closed_by, wait, grace, self.pages.is_new)
        self.cache = self.open_cache(self.shape)
        self.rows, self.emitted_rows = self._rows(SESSIONS, self.shape), self._rows(EMITTED, self.marks)
        self.kind.open(self.pages, self.cache.derived)
        self._check_ended()
        self.new = empty(self.shape)
        self._accepting = self.progress.state.first_accepting  # sessions that end by this end accept no new records

    def _check_ended(self) -> None:
        """Raise StateMismatch if records have ended sessions of this checkpoint under another trigger."""
        if has_ended_sessions(self.head) and not self.kind.takes_ends:
            raise StateMismatch(
                f"records have ended sessions of this checkpoint, and {cannot_end(self.trigger)}. {ENDING}"
            )

    def _closed_by(self, watermark: int, wait: int) -> int:
        """Return the end up to which sessions are closed, in microseconds."""
        return watermark - wait - self.session.unit

    def _rows(self, name: str, shape: Shape) -> OpenRows:
        nodes = PageLists(self.pages, name, shape)
        known = known_rows(nodes, name, self.cache.derived)
        return OpenRows(nodes, name, known, partial(self._folded, shape))

    def _folded(self, shape: Shape, rows: Block) -> Block:
        """Return rows of a list as they are read: merged, or, if records may split sessions, by instant and key."""
        return regroup(shape, rows) if self.kind.splits else merged(shape, rows)

    def _meet(self, void: Block, rows: Block) -> bool:
        """Return whether void rows, read together with these rows, are of open sessions."""
        near = rows.take(rows.index <= ends_of(void).max(initial=-FOREVER))
        if not len(near):
            return False
        both = concat(self.marks, [void, extents(near)])
        numbers = numbered(*self.kind.derive(both))
        meets = np.isin(numbers[: len(void)], numbers[len(void) :]).any()
        return bool(meets or (self.kind.splits and self._is_needed(both)[: len(void)].any()))

    @cached_property
    def _open(self) -> Block:
        """The rows of the sessions that were open when the micro-batch began."""
        rows = self.rows.load(self._is_needed)
        self.kind.know(rows)
        return rows

    def _is_needed(self, known: Block) -> Array:
        """Return which stored rows belong to sessions that accept records: `bool[n]`."""
        return self.kind.needed(known, self.progress.state.first_accepting)

    @property
    def _open_sessions(self) -> Block:
        """The sessions that were open when the micro-batch began, sorted by key and start."""
        return self._sessions(self._open) if self.kind.splits else self._open

    def _sessions(self, rows: Block) -> Block:
        """Return the sessions of some rows, sorted by key and start."""
        return self.kind.sessions(self.shape, rows, *self.kind.derive(rows))

    @of_stage(ASSEMBLE)
    def accept(self, shipped: Sequence[Block]) -> Late[Ending]:
        """Keep the rows of a micro-batch that are not late by the rule `late_by`; return and count the late ones."""
        new, known = interval_rows(self.plain, self.session, shipped), self._open
        if self.kind.takes_ends:
            _ = self._open_extents  # the new ends cut these sessions, too
            self.kind.take_signals(self._heard_rows, self.heard.names)
        ends = self.kind.deciding_ends(known, new)
        self._accepting = self.progress.state.first_accepting
        late = ends <= self._accepting
        refused = self._refused(new.take(late))
        self.new = new.take(~late) if late.any() else new
        if self.kind.takes_ends:
            self.kind.accept(self._accepted(self._heard_rows))
        rows = RefusedSessions(ending(refused, self.session.unit), 0, self.head.watermark)
        return Late(int(refused.records.sum()), 0, (rows,), FirstEnds(ends + self.session.unit, new.records))

    def _refused(self, late: Block) -> Block:
        """Combine late rows into late sessions, or into late intervals, by the rule `late_by`."""
        if self.session.late_by == SESSION:
            return self._sessions(late)
        return regroup(self.shape, late)

    def take_history(self, shipped: Sequence[Block], until: int) -> None:
        """Keep all sessions of a history: only the first records of the stream tell which of them continue."""
        self.new = interval_rows(self.plain, self.session, shipped)

    # The sessions of the micro-batch, sorted by key and start, and their properties.

    @cached_property
    def _merged(self) -> tuple[Block, Array]:
        """The open sessions with the new rows merged in, and the session of each open row and each new row."""
        both = concat(self.shape, [self._open, self.new])
        rows, heads = self.kind.derive(both)
        return self.kind.sessions(self.shape, both, rows, heads), numbered(rows, heads)

    @cached_property
    def _had_ended(self) -> Array:
        """Which sessions had ended by the previous watermark, `bool[n]`; must be read before `advance`."""
        ended: Array = ends_of(self._merged[0]) <= self.progress.state.next_to_fire
        return ended

    @cached_property
    def _emitted(self) -> Emitted:
        return Emitted(self.emitted_rows, self._has_emitted, self._merged[0], self.kind.splits)

    def _has_emitted(self, emitted: Block) -> Array:
        """Return which emitted extents are of open sessions: `bool[n]`."""
        return occur_in(emitted, self._open) if self.kind.splits else located(emitted, self._open) >= 0

    def _closes(self) -> Array:
        """Return which sessions accept no more records: `bool[n]`."""
        closes: Array = ends_of(self._merged[0]) <= self.progress.state.first_accepting
        return closes

    def look(self, asked: Look) -> Iterator[Windows]:
        """Yield the sessions that are looked up, accept records and have not lost theirs."""
        rows = asked.of_keys(self._open_sessions)
        rows = rows.take(np.flatnonzero(rows.records > 0))
        chosen = asked.starting(rows.index)
        if asked.latest:
            chosen[:-1] &= rows.keys[1:] != rows.keys[:-1]
        return frames(rows.take(np.flatnonzero(chosen)), self.session.unit)

    # Called by triggers.

    def closing(self) -> Panes:
        """Return the sessions that have ended and have not fired with their present extent since."""
        ended = ends_of(self._merged[0]) <= self.progress.end
        return self._panes(ended if self._fires_once else ended & ~self._among(FIRED))

    def waiting_in(self, nodes: PageLists, cached: Block | None) -> WaitingSessions:
        """Return the open sessions with records since their last firing; they need no dirty set."""
        return WaitingSessions(self._merged[0], self._emitted.new, ~self._closes(), self._panes)

    def has_pairs(self, among: str) -> Callable[[Block], Array]:
        """Return a function that tells which rows of trigger state may belong to open sessions."""
        return self._was_open

    def has_records(self) -> Callable[[Block], Array]:
        """Return a function that tells which rows are of keys with open sessions."""
        return has_key(self._open)

    def memory(self, among: str, remembers: Remembered | None) -> PairMemory | None:
        """Return the trigger state of sessions. They always have one, because sessions may merge."""
        made = partial(SessionMemory, self._merged[0], self._among(among))
        cached = self.cache.derived
        return memory_of(self.pages, self.marks, cached, self._was_open, remembers or OF_CONDITIONS, made=made)

    def _was_open(self, rows: Block) -> Array:
        """Return which rows of trigger state may belong to open sessions: all, until compared with those that merge."""
        return occur_in(rows, self._open) if self.kind.splits else np.ones(len(rows), dtype=bool)

    def _among(self, among: str) -> Array:
        """Return which sessions are among some: `bool[n]`. In the beginning all are ACCEPTING.

        A session that has fired and has another extent since is another one, which is not FIRED.
        """
        ends = ends_of(self._merged[0])
        if among == FIRED:
            return self._had_ended & self._emitted.same
        if among == CLOSING:
            return ends <= self.progress.closes(self._passed(self.head.watermark))
        return ~self._closes() if among == OPEN else np.ones(len(ends), dtype=bool)

    def window_pairs(self, among: str, everything: bool) -> WindowPairs:
        """Return the sessions `among` some, all of them."""
        sessions = self._merged[0]
        at = np.flatnonzero(self._among(among))
        keys, names = sessions.keys[at], sessions.names

        def panes(chosen: Array) -> Panes:
            firing = np.zeros(len(sessions), dtype=bool)
            firing[at[chosen]] = True
            return self._panes(firing)

        def purge(chosen: Array) -> None:
            self._purged[at[chosen]] = True

        return WindowPairs(
            sessions.index[at],
            keys,
            names,
            counts=lambda: (sessions.records[at], (sessions.records - self._came)[at]),
            panes=panes,
            new=lambda: under(self.new, names),
            bounds=lambda: (sessions.index[at], ends_of(sessions)[at] + self.session.unit),
            signals=lambda: {name: least[at] for name, least in self._signals(sessions).items()},
            latest=lambda: np.diff(keys, append=-1) != 0,
            known_changed=self._changed(among)[at],
            purge=purge,
            existed=lambda pairs: self._existed[at] if self.kind.splits else pairs.before > 0,
        )

    @cached_property
    def _came(self) -> Array:
        """The number of new records of each session: `int64[n]`."""
        sessions, parts = self._merged
        came = np.zeros(len(sessions), dtype=np.int64)
        np.add.at(came, parts[len(self._open) :], self.new.records)
        return came

    def _changed(self, among: str) -> Array:
        """Return which sessions hold new records, or are not as they have fired, or as they were: `bool[n]`."""
        if self.kind.splits and among == ACCEPTING:
            return (self._came > 0) | ~self._existed
        changed: Array = (self._emitted.new if among == FIRED else self._came) > 0
        return changed

    @cached_property
    def _open_extents(self) -> Block:
        """The extents of the sessions that were open when the micro-batch began; must be read before new ends."""
        rows = extents(self._open)
        return self.kind.sessions(self.marks, rows, *self.kind.derive(rows))

    @cached_property
    def _existed(self) -> Array:
        """Which sessions have the extent of one that was open when the micro-batch began: `bool[n]`.

        Where records split sessions, another one may hold no new record.
        """
        sessions, old = self._merged[0], self._open_extents
        at = holding(old, sessions)
        same = (old.index == sessions.index[at]) & (ends_of(old) == ends_of(sessions)[at])
        existed = np.zeros(len(sessions), dtype=bool)
        existed[at[same]] = True
        return existed

    @cached_property
    def _heard_rows(self) -> Block:
        return heard_rows(self.plain, self.session, self.heard)

    def _signals(self, sessions: Block) -> dict[str, Array]:
        """Return the signals of the new records of each session, by name."""
        asked = self.heard.names
        if not self.heard.blocks:
            return {name: np.full(len(sessions), ABSENT) for name in asked}
        rows = self._heard_rows.take(self._accepted(self._heard_rows))
        parts = located(rows, sessions)
        return {name: least_of(rows.partials[i][0], parts, len(sessions)) for i, name in enumerate(asked)}

    def _accepted(self, rows: Block) -> Array:
        """Return which rows of signals belong to accepted records.

        Signals of refused sessions lie in no other one, unless records split sessions.
        """
        if self.session.late_by != SESSION:
            accepted: Array = ends_of(rows) > self._accepting
            return accepted
        return occur_in(rows, self.new) if self.kind.splits else np.ones(len(rows), dtype=bool)

    @cached_property
    def _purged(self) -> Array:
        """Which sessions lose their records at the end of the micro-batch: `bool[n]`."""
        return np.zeros(len(self._merged[0]), dtype=bool)

    def _panes(self, firing: Array) -> Panes:
        firing = firing & (self._merged[0].records > 0)
        if self.head.warm:
            firing = firing & (ends_of(self._merged[0]) + self.session.unit > self.head.warm)
        return Panes(
            lambda: self._firing(firing, lambda rows: frames(rows, self.session.unit)),
            lambda: self._firing(firing, self._replacing),
            lambda: self._firing(firing, lambda rows: frames(self._alone(rows), self.session.unit)),
        )

    def _firing(self, firing: Array, windows: Callable[[Block], Iterator[Windows]]) -> Iterator[Windows]:
        """Yield the retracted sessions, then the firing sessions that replace them."""
        if not self._fires_once:
            gone = self._emitted.retracted(firing)
            yield from frames(self._retracted(gone), self.session.unit, MERGED)
        yield from windows(self._merged[0].take(firing))

    def _replacing(self, rows: Block) -> Iterator[Windows]:
        """Yield sessions, each with its result before the new records in `old`; its extent has not changed."""
        pairs = zip(
            frames(rows, self.session.unit), frames(self._part(self._open, rows), self.session.unit), strict=True
        )
        return (replace(frame, old=old) for frame, old in pairs)

    def _alone(self, rows: Block) -> Block:
        """Return sessions with the partials of their new records alone."""
        return self._part(self._folded(self.shape, self.new), rows)

    def _part(self, parts: Block, rows: Block) -> Block:
        """Return sessions with the extents of `rows`, which are some of all, and the partials of their `parts`."""
        sessions = self._merged[0]
        place = np.full(len(sessions), -1)
        place[holding(rows, sessions)] = np.arange(len(rows))
        at = place[holding(parts, sessions)]
        order = argsorted(at)[np.count_nonzero(at < 0) :]
        found = reduced(self.shape, parts, order, np.flatnonzero(np.diff(at[order], prepend=-1)))
        rows = rows.take(np.unique(at[order]))
        partials = [*found.partials[:-1], rows.partials[-1]]
        return replace(found, index=rows.index, keys=rows.keys, names=rows.names, partials=partials)

    # Steps of a micro-batch.

    def advance(self, watermark: int) -> None:
        """Find the sessions that a watermark, in microseconds, closes."""
        _ = self._had_ended  # must be computed before the progress advances
        self.progress.advance(self._passed(watermark))

    def _passed(self, watermark: int) -> int:
        """Return the instant up to which sessions close: the stream may still touch one that ends with the history."""
        return max(watermark, self.head.warm - 1)

    def retire(self) -> None:
        """Note that the sessions that have ended have fired."""
        self.progress.pass_closed()

    def save(self) -> None:
        """Append the new rows of open sessions, or rewrite these sessions, and update the retraction log."""
        closes = self._closes()
        if self._fires_once:
            self.emitted_rows.clear()
        else:
            self._emitted.save(closes, self._meet(self._emitted.stored.void, self.new))
        self._put(closes)
        self.open_count = int(np.count_nonzero(~closes))
        self.note_early()
        super().save()

    def _put(self, closes: Array) -> None:
        """Append the new rows of open sessions, or rewrite these sessions; others close."""
        known, sessions, parts = len(self._open), *self._merged
        void, new_rows = self.rows.void, self.new.take(~closes[parts[known:]])
        if self.kind.splits:
            rows = self._without_records(concat(self.shape, [self._open, self.new]), self._purged[parts])
            live = self._folded(self.shape, rows.take(~closes[parts]))
            void = concat(self.marks, [void, extents(self._open.take(closes[parts[:known]]))])
            self.kind.keep(void, live)
        else:
            live = by_start(self._without_records(sessions, self._purged).take(~closes))
        anew = self._is_anew(new_rows) or self._meet(void, live if self.kind.splits else self.new)
        self.kind.save(new_rows, self.rows.put(by_start(new_rows), live, anew))

    def _is_anew(self, new_rows: Block) -> bool:
        """Whether all rows are rewritten: for ordered partials with new rows, or after records were dropped."""
        return bool(self._purged.any()) or (self.is_ordered and len(new_rows) > 0)

    def rows_to_cache(self) -> dict[str, Block]:
        """Return the rows of sessions and of the retraction log that the bucket cache keeps."""
        lists = {SESSIONS: self.rows, EMITTED: self.emitted_rows}
        return {name: rows.ledger.cached for name, rows in lists.items() if rows.ledger.cached} | self.kind.to_cache()

    def _without_records(self, rows: Block, purged: Array) -> Block:
        """Return the rows, those that are purged without their records."""
        if not purged.any():
            return rows
        partials = [kernel.spread(len(rows)) for kernel in self.plain.kernels]
        for columns, stored in zip(partials, rows.partials, strict=False):
            for column, values in zip(columns, stored, strict=True):
                column[~purged] = values[~purged]
        return replace(rows, records=np.where(purged, 0, rows.records), partials=[*partials, rows.partials[-1]])

    def _retracted(self, gone: Block) -> Block:
        """Return rows without records for extents that have fired and are not sessions any more."""
        partials = [kernel.spread(len(gone)) for kernel in self.plain.kernels]
        nothing = replace(gone, records=np.zeros(len(gone), dtype=np.int64), partials=partials)
        return put_ends(replace(nothing, dictionaries=[k.no_dictionary for k in self.plain.kernels]), ends_of(gone))

    def extent(self) -> dict[str, int]:
        """Count the open sessions, and their stored rows."""
        return {"open_windows": self.open_count, "slices": self.rows.count}

    def check(self) -> None:
        """Assert that every page exists, that rows do not pile up, and that no count of records is negative."""
        super().check()
        held = self.rows.load(self._is_needed)
        assert self.rows.count <= 2 * len(held)
        assert np.all(held.records >= 0)
        self.kind.check(self.rows.count + len(held))


class WaitingSessions:
    """The dirty set of sessions. It is derived from the retraction log, so that it needs no state of its own."""

    asked = True

    def __init__(self, sessions: Block, new: Array, is_open: Array, panes: Callable[[Array], Panes]):
        self._waits, self._new, self._sessions, self._panes = is_open & (new > 0), new, sessions, panes

    def none(self) -> Panes:
        """Return no sessions."""
        return NONE

    def to_cache(self) -> dict[str, Block]:
        """Return nothing: the sessions are kept anyway."""
        return {}

    def all(self) -> Panes:
        """Return all sessions in the dirty set."""
        return self._panes(self._waits)

    def ready(self, chosen: Callable[[Block], Array]) -> Panes:
        """Return the sessions for which `chosen` returns true, given the records since their last firing."""
        firing = self._waits.copy()
        firing[self._waits] = chosen(replace(self._sessions, records=self._new).take(self._waits))
        return self._panes(firing)
