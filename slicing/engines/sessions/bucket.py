"""One bucket of sessions: what is open is read and merged with what came, what closes goes out, the rest is appended.

::

    stored     [0      30)       [50   70)         rows of open sessions, as they came
    came            [20     40)            [70 80)
    sessions   [0           40)  [50             80)         the watermark is at 60: the first one goes out
    appended                               [70 80)           and the rows of the first one are void from now on
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.merging import by_start, chains, located, merged, numbered, sorted_rows
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
from slicing.content.marks import without_partials
from slicing.engines.engine import Moment, begin
from slicing.engines.sessions.emitted import Sessions, Shown
from slicing.engines.sessions.open_rows import OpenRows
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.bucket_cache import Recent
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import SESSIONS, SHOWN
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.state.store import Store
from slicing.triggers.emission import Emission
from slicing.triggers.lateness import Late, Missed, Refused
from slicing.windows.families.family import Family
from slicing.windows.session import SESSION, Session
from slicing.windows.time.slices import FOREVER


@dataclass(frozen=True)
class RefusedSessions(Refused[Ending]):
    """What came late: intervals, each late for the only session that it could have been in."""

    def missed(self, slicing: Family, slices: Array) -> Missed:
        """One session each, and no other takes it."""
        one = np.ones(len(slices), dtype=np.int64)
        return Missed(one, np.zeros_like(one), one.astype(bool))

    def holds(self, records: EndingRecords) -> Array:
        """Which records are among those refused: their intervals lie in one that was, and no other's does."""
        outer = put_ends(without_partials(self.rows), self.rows.ends)
        codes, names = encode_keys(records.names)
        count = np.ones(len(codes), dtype=np.int64)
        inner = Block(records.slices, codes, names, count, [[records.ends]], [None])
        held: Array = located(inner, outer.take(sorted_rows(outer.keys, outer.slices))) >= 0
        return held


def intervals(shape: Shape, session: Session, block: Block) -> Block:
    """What a first stage shipped, as rows with ends: sub-sessions have them, rows of single times get them here.

    `shape` is that of rows without ends.
    """
    if len(block.partials) > len(shape.kernels):
        return block
    if session.gap is not None:
        return put_ends(block, block.slices + session.gap)
    return without_last_key(put_ends(block, block.slices + last_key(block)), encode_keys)


def frames(sessions: Block, unit: int, kind: str = "final") -> Iterator[Windows]:
    """Sessions as windows, some at a time, in the order of key and start."""
    for start in range(0, len(sessions), FRAME_ROWS):
        rows = ending(sessions.take(slice(start, start + FRAME_ROWS)), unit)
        partials = rows.names, rows.records, rows.partials, rows.dictionaries
        yield Windows(rows.slices, rows.keys, *partials, kind=kind, ends=rows.ends)


def all_sessions(shape: Shape, session: Session, blocks: Sequence[Block]) -> Iterator[Windows]:
    """All sessions of a bucket of bounded input."""
    stored = with_ends(shape)
    rows = concat(stored, [intervals(shape, session, block) for block in blocks])
    return frames(merged(stored, rows), session.unit)


class SessionBucket:
    """One bucket of sessions, used as `sliced.bucket.Bucket` is; `grace` in microseconds.

    `shape` is that of the results; rows of the state have the ends of sessions beside them. Raises StateMismatch.
    """

    def __init__(
        self,
        shape: Shape,
        session: Session,
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        emission: Emission,
    ):
        self.plain, self.session, self.emission, self.wait = shape, session, emission, grace + session.unit
        self.shape, self.marks = with_ends(shape), with_ends(shape.select(()))
        self.is_ordered = any(kernel.aggregate.ordered for kernel in shape.kernels)
        self.pages = Pages(store, fingerprint, [-self.wait])
        self.head = self.pages.head
        if not emission.corrects:
            # What another emission has put out at its end is not corrected any more.
            self.head.taking = max(self.head.taking, self.head.done)
        self.recent = Recent(self.shape, self.head.nonce, str(emission), lambda first, end: ())
        self.sessions = self._rows(SESSIONS, self.shape)
        self.shown = Shown(emission, self.head, self.marks, self._rows(SHOWN, self.marks))
        self.came = empty(self.shape)

    def _rows(self, name: str, shape: Shape) -> OpenRows:
        nodes, held = PageLists(self.pages, name, shape), self.recent.beside
        known = held.get(name) if name in held or nodes.entries(name) else empty(shape)
        return OpenRows(nodes, name, known, lambda rows: merged(shape, rows), self._meet)

    def _meet(self, void: Block, came: Block) -> bool:
        """Whether rows overlap or touch others that are void."""
        behind = came.take(came.slices <= ends_of(void).max(initial=-FOREVER))
        if not len(behind):
            return False
        both = concat(self.marks, [void, extents(behind)])
        numbers = numbered(*chains(both.keys, both.slices, ends_of(both)))
        return bool(np.isin(numbers[: len(void)], numbers[len(void) :]).any())

    @cached_property
    def _open(self) -> Block:
        """The sessions that were open when the micro-batch began, by key and start."""
        closed = self.head.taking
        return self.sessions.load(lambda known: ends_of(known) > closed)

    def _move(self) -> None:
        """Move the marks to the watermark: up to where sessions end that have gone out, and that take no records.

        Both stay where they are when the grace, or the emission, becomes another: what has gone out stays out.
        """
        head = self.head
        head.taking = max(head.taking, head.watermark - self.wait)
        head.done = max(head.done, head.watermark - self.session.unit) if self.emission.corrects else head.taking

    @of_stage(ASSEMBLE)
    def add(self, blocks: Sequence[Block]) -> Late[Ending]:
        """Take the rows of a micro-batch, but for those that are late, by the rule of the sessions."""
        came = concat(self.shape, [intervals(self.plain, self.session, block) for block in blocks])
        late = self._ends_to_judge(came) <= self.head.taking
        make_one = merged if self.session.late_by == SESSION else regroup
        refused = make_one(self.shape, came.take(late))
        self.came = came.take(~late) if late.any() else came
        rows = RefusedSessions(ending(refused, self.session.unit), 0, self.head.watermark)
        return Late(int(refused.records.sum()), 0, (rows,))

    def _ends_to_judge(self, came: Block) -> Array:
        """Where each row ends, or the session that it becomes a part of."""
        if self.session.late_by != SESSION or not len(came):
            return ends_of(came)
        both = concat(self.marks, [extents(self._open), extents(came)])
        rows, heads = chains(both.keys, both.slices, ends_of(both))
        sessions = reduced(self.marks, both, rows, heads)
        return ends_of(sessions)[numbered(rows, heads)][len(self._open) :]

    @of_stage(ASSEMBLE)
    def close(self, moment: Moment) -> Iterator[Windows]:
        """Yield what goes out in a micro-batch, then write what is open."""
        both = concat(self.shape, [self._open, self.came])
        now = begin(self.head, self.emission, moment).clock
        rows, heads = chains(both.keys, both.slices, ends_of(both))
        numbers, sessions = numbered(rows, heads), reduced(self.shape, both, rows, heads)
        came_to = numbers[len(self._open) :]
        touched = np.zeros(len(sessions), dtype=bool)
        touched[came_to] = True
        final = ends_of(sessions) <= self.head.done
        self._move()
        ended, closing = (ends_of(sessions) <= end for end in (self.head.done, self.head.taking))
        yield from self._out(Sessions(sessions, touched, final, ended, closing), now)
        self._write(by_start(self.came.take(~closing[came_to])), by_start(sessions.take(~closing)))

    def _out(self, sessions: Sessions, now: int) -> Iterator[Windows]:
        """What goes out, some rows at a time."""
        if self.emission.once:
            self.shown.stored.clear()
            yield from frames(sessions.rows.take(sessions.closing), self.session.unit)
            return
        for kind, rows in self.shown.out(sessions, self._open, self.came, now):
            yield from frames(self._taken_back(rows) if kind == "merged" else rows, self.session.unit, kind)

    def _write(self, came: Block, live: Block) -> None:
        """Store what came of sessions that are open, or anew all that they are."""
        self.sessions.put(came, live, self.came, anew=self.is_ordered and len(came) > 0)
        self.open_count = len(live)
        kept = {SESSIONS: self.sessions.ledger.kept, SHOWN: self.shown.stored.ledger.kept}
        self.head.nonce = self.recent.keep(0, {name: block for name, block in kept.items() if block})
        self.pages.save_header()

    def _taken_back(self, gone: Block) -> Block:
        """Rows of extents that have gone out and are no sessions any more, without records."""
        partials = [kernel.spread(len(gone)) for kernel in self.plain.kernels]
        nothing = replace(gone, records=np.zeros(len(gone), dtype=np.int64), partials=partials)
        return put_ends(replace(nothing, dictionaries=[k.no_dictionary for k in self.plain.kernels]), ends_of(gone))

    def extent(self) -> dict[str, int]:
        """How many sessions are open, and how many rows they are stored in."""
        return {"open_windows": self.open_count, "slices": self.sessions.count}

    def check(self) -> None:
        """Assert that every page is there, that rows do not pile up, and that what was shown is of open sessions."""
        entries = [entry for entries in self.head.lists.values() for entry in entries]
        assert all(self.pages.store.get(f"p{entry[0]}") for entry in entries)
        held = self.sessions.load(lambda known: ends_of(known) > self.head.taking)
        assert self.sessions.count <= 2 * len(held)
        assert np.all(held.records > 0)
