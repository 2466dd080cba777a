"""One bucket of sliding windows: records that are not late are stored, and windows are read from their times.

::

    difference 10      taking: windows that begin from 21 on are open
    stored             18  24  25             the window behind 18 is not open, nor is that which ends with 24
    came                 20     26 33         20: before 24, in no window that is open: late
                                              26: behind 24, so in [25 .. 35]: counts; [16 .. 26], its own, is closed
                                              33: its own [23 .. 33] is open
    kept               20 and later           behind 20 the first open window begins
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.range_aggregates import before
from slicing.assembly.ranges.window_references import (
    WindowReferences,
    assemble_references,
    assembled,
    family_of,
    located,
    portions,
    window_references,
)
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, empty, encode_keys, order
from slicing.content.folding import by_key, fold, reduced
from slicing.content.marks import of_keys, under, without_partials
from slicing.content.memory import Remembered
from slicing.content.pairs import Pairs
from slicing.content.records import Records
from slicing.content.signals import FIRST, least_between, least_of, together
from slicing.engines.bucket import Bucket
from slicing.engines.dirty_set import DirtySet, WaitingSlices
from slicing.engines.key_counts import KeyCounts, has_key
from slicing.engines.lateness import Progress
from slicing.engines.listed_pairs import Listed, ListedPairs
from slicing.engines.looking import Look, Pieces
from slicing.engines.pair_memory import memory_of
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import EARLY, INSTANTS, PENDING
from slicing.state.instants import Instants
from slicing.state.lists import PageLists
from slicing.state.store import Store
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import Late, Missed, Refused
from slicing.triggers.panes import NONE, Panes
from slicing.triggers.required_delay import FirstEnds
from slicing.triggers.trigger import Trigger
from slicing.windows.families.family import Family
from slicing.windows.sliding import SlidingFamily
from slicing.windows.time.slices import FOREVER


@dataclass(frozen=True)
class RefusedTimes(Refused[Block]):
    """What came late for its own window, that which ends with it; `taken` is the first window that took each row.

    FOREVER says that none did. Windows of a row that had closed before are forgotten, and not counted.
    """

    taken: Array

    def missed_by(self, family: Family, rows: Block | Records) -> Missed:
        """Its own window, for each of some rows or records of keys and times that came late."""
        names = pa.concat_tables([self.rows.names, rows.names])
        codes, names = encode_keys(names)
        ours, theirs = codes[: len(self.rows.names)][self.rows.keys], codes[len(self.rows.names) :]
        if isinstance(rows, Block):
            theirs = theirs[rows.keys]
        pairs = Pairs.over(self.rows.index, len(names))
        known = pairs.pack(ours, self.rows.index)
        by_pair = np.argsort(known)
        found = by_pair[np.searchsorted(known[by_pair], pairs.pack(theirs, rows.index))]
        taken = self.taken[found]
        by_all = taken == FOREVER
        return Missed(np.ones(len(found), np.int64), np.where(by_all, 0, taken), by_all)


@dataclass(frozen=True)
class _Around:
    """The windows of keys that records of a micro-batch came for, and the rows of these keys, by key and slice."""

    rows: Block
    old: Block  # those that were there before
    at: WindowReferences
    existed: Array  # which windows were there before
    touched: Array  # which windows hold a record that came

    @property
    def changed(self) -> Array:
        """Which windows have other records than before, or are new."""
        return self.touched | ~self.existed


class SlidingBucket(Bucket):
    """One bucket of sliding windows; `grace` in microseconds."""

    def __init__(self, shape: Shape, grace: int, fingerprint: Fingerprint, store: Store, trigger: Trigger = ON_CLOSE):
        self.shape, self.family = shape, family_of(shape)
        wait, first_open = trigger.wait(grace), self.family.first_open
        super().__init__(fingerprint, store, trigger, [first_open(0, wait)])
        self.progress = Progress(self.head.families[0], first_open, wait, grace, self.pages.is_new)
        self.recent = self.open_cache(shape)
        held = self.recent.beside
        self.instants = Instants(
            PageLists(self.pages, INSTANTS, shape), INSTANTS, self.family.longest, held.get(INSTANTS)
        )
        self.new = empty(shape)

    @property
    def _oldest(self) -> int:
        """Return the first slice that is retained: of the first accepting window, or the one directly before."""
        return self.progress.marks.taking - self.family.right

    @cached_property
    def _known(self) -> Block:
        """The rows of before this micro-batch."""
        return self.instants.rows(self._oldest)

    @cached_property
    def _rows(self) -> Block:
        """The rows with the new ones."""
        return fold(self.shape, [self._known, self.new])

    @of_stage(ASSEMBLE)
    def accept(self, shipped: Sequence[Block]) -> Late[Block]:
        """Take the rows of a micro-batch that are in a window that takes records."""
        came = fold(self.shape, shipped)
        late = came.between(-FOREVER, self.progress.marks.taking + self.family.reach)
        taken = self._taken(late, came)
        counts = taken < FOREVER
        self.new = came
        if not counts.all():
            on_time = np.ones(len(came) - len(late), dtype=bool)
            self.new = came.take(np.concatenate([counts, on_time]))
        refused, some = (int(late.records[rows].sum()) for rows in (~counts, counts))
        times = RefusedTimes(late, self.progress.marks.taking, self.head.watermark, taken)
        ends = self.family.window_end(came.index - self.family.reach)
        return Late(refused, some, (times,), FirstEnds(ends, came.records))

    def take_history(self, shipped: Sequence[Block], until: int) -> None:
        """Take the times that open windows hold, and those that one may directly follow."""
        self.progress.pass_until(until)
        self.new = fold(self.shape, shipped).between(self._oldest, FOREVER)

    def _taken(self, late: Block, came: Block) -> Array:
        """The first window that takes each of the rows whose own is closed, FOREVER if none does.

        It begins behind an earlier time of the key, or ends with a later one, which is on time. So all rows of a key
        count that are later than one that does: the least of them is found, and what is behind it is no question.
        """
        if not len(late):
            return late.index
        first, reach, right = self.progress.marks.taking, self.family.reach, self.family.right
        known = without_partials(self.instants.rows(self._oldest))
        both = concat(self.shape.select(()), [known, without_partials(came)])
        keys = both.keys[len(known) : len(known) + len(late)]
        on_time = both.index >= first + reach
        ending = _least(both, np.flatnonzero(on_time), -reach)
        behind = _least(both, np.arange(len(known)), 1) if right else np.full_like(ending, FOREVER)
        counts = late.index >= np.maximum(np.minimum(ending, behind), first)[keys]
        if right:
            behind = np.minimum(behind, _least(both, len(known) + np.flatnonzero(counts), 1))
        begun = np.where(behind[keys] <= late.index, behind[keys], FOREVER)
        return np.where(counts, np.maximum(np.minimum(begun, ending[keys]), first), FOREVER)

    def look(self, asked: Look) -> Iterator[Windows]:
        """The windows that accept records."""
        rows = by_key(self.shape, asked.of_keys(self._known))
        at = window_references(self.family, rows, self.progress.marks.taking)
        chosen = asked.starting(self.family.window_start(at.windows))
        if asked.latest:
            chosen &= _is_newest(self.family, rows, at)
        return assemble_references(self.shape, rows, at.take(np.flatnonzero(chosen)))

    def pieces(self, asked: Look) -> Iterator[Pieces]:
        """The instants of the windows that accept records."""
        rows, family = by_key(self.shape, asked.of_keys(self._known)), self.family
        windows = window_references(family, rows, self.progress.marks.taking).windows
        for window in windows[asked.starting(family.window_start(windows))].tolist():
            inside = rows.between(int(family.first_slice(window)), int(family.end_slice(window)))
            accepts = np.asarray(family.last_window(inside.index) >= self.progress.marks.taking)
            yield Pieces(self.shape, window, inside, np.zeros(len(inside), np.int64), accepts)

    # What triggers ask.

    def touched(self) -> Panes:
        """Open windows that hold a new record, and those that are new."""
        return self._open_windows(newest=False)

    def newest(self) -> Panes:
        """Return, of these, the first window of each key that holds its newest time."""
        return self._open_windows(newest=True)

    def _open_windows(self, newest: bool) -> Panes:
        around = self._around(self._known, self.new, self.progress.marks.taking, FOREVER)
        return self._panes(
            around, around.changed & _is_newest(self.family, around.rows, around.at) if newest else around.changed
        )

    @cached_property
    def waiting(self) -> WaitingSlices:
        """Open windows that hold a record of the dirty set, and those that are there because of one."""
        dirty = DirtySet(self._early, self.recent.beside.get(PENDING))
        return WaitingSlices(dirty, lambda: self.new, lambda: self._oldest, self._waiting)

    def _waiting(self, marks: Block) -> Panes:
        around = self._around_marks(marks)
        return self._panes(around, around.changed)

    def all_pairs(self, remembers: Remembered | None, counts_keys: bool, closing: bool = False) -> ListedPairs:
        """Open windows, or those that close, with the records that they hold."""
        until = self.progress.closes(self.head.watermark) if closing else FOREVER
        held = self.recent.beside
        memory = memory_of(self.pages, self.shape, held, lambda rows: rows.index >= self._first, remembers)
        live = has_key(self._known)
        keys = KeyCounts(self.pages, self.shape, self.recent.beside, live) if counts_keys else None
        return ListedPairs(partial(self._listed, until=until), memory, keys)

    @property
    def _first(self) -> int:
        return self.progress.marks.done

    def _around_all(self, end: int) -> _Around:
        """All open windows before window `end`; which ones the new records have touched is not asked."""
        rows = by_key(self.shape, self._rows)
        old = by_key(self.shape, under(self._known, rows.names))
        return self._between(rows, old, np.zeros(len(rows), dtype=bool), self._first, end)

    def _listed(self, everything: bool, until: int) -> Listed:
        """A window that is there because of a new record held nothing before it was."""
        around = self._around_all(until) if everything else self._around(self._known, self.new, self._first, until)
        total = before(around.rows.records)
        held = total[around.at.high] - total[around.at.low]
        was = located(self.family, around.old, around.at.windows, around.at.keys)
        total = before(around.old.records)
        known = np.where(around.existed, total[was.high] - total[was.low], 0)
        place = around.at.windows, around.at.keys, around.rows.names
        came = without_partials(under(self.new, around.rows.names))
        start, end = self.family.window_start, self.family.window_end
        bounds = lambda: (start(around.at.windows), end(around.at.windows))  # noqa: E731
        signals = self._signals(around)
        return Listed(*place, held, known, lambda chosen: self._panes(around, chosen), came, bounds, signals)

    def _signals(self, around: _Around) -> dict[str, Array]:
        """The signals of the new records that windows hold, except for late ones."""
        asked, rows = self.trigger.signals, around.rows
        if not asked:
            return {}
        signals = together(self.shape, asked, self.heard)
        signals = under(signals, rows.names)
        count = max(len(rows.names), int(signals.keys.max(initial=0)) + 1)
        pairs = Pairs.over(np.concatenate([rows.index, signals.index, self.new.index]), count)
        new = under(self.new, rows.names)
        here, there = pairs.pack(rows.keys, rows.index), pairs.pack(signals.keys, signals.index)
        accepted = np.isin(there, pairs.pack(new.keys, new.index))
        at = np.searchsorted(here, there[accepted])
        found = {}
        for i, name in enumerate(asked):
            # The time of a record is that of its unit, as it is of those that are stored.
            sent = self.family.slice_start(signals.index) if name == FIRST else signals.partials[i][0]
            least = least_of(sent[accepted], at, len(rows))
            found[name] = least_between(least, around.at.low, around.at.high)
        if FIRST in found and len(rows):
            # To a window that is there because of a new record all records are new.
            first = self.family.slice_start(rows.index[np.minimum(around.at.low, len(rows) - 1)])
            found[FIRST] = np.where(around.existed, found[FIRST], first)
        return found

    @property
    def _early(self) -> PageLists:
        return PageLists(self.pages, EARLY, self.shape.select(()))

    def _panes(self, around: _Around, chosen: Array) -> Panes:
        return Panes(lambda: assemble_references(self.shape, around.rows, around.at.take(np.flatnonzero(chosen))))

    def late(self) -> Panes:
        """Windows that have fired as they were before, or would have, that are not as before."""
        marks = self.progress.marks
        if not len(self.new) or self.new.index[0] >= marks.done + self.family.reach:
            return NONE
        around = self._around(self._known, self.new, marks.taking, marks.done)
        return Panes(
            lambda: self._late(around, around.touched, assembled),
            lambda: self._late(around, around.existed & around.touched, self._with_old(around)),
            lambda: self._late_alone(around),
        )

    def closing(self) -> Panes:
        """Windows that close."""
        first, end = self.progress.first, self.progress.end
        return Panes(lambda: self._closed(self._rows, first, end))

    # The life of a micro-batch.

    def advance(self, watermark: int) -> None:
        """Find the windows that a watermark closes."""
        _ = self._rows  # read now, by the marks of before
        self.progress.advance(watermark)

    def retire(self) -> None:
        """The windows that close have fired."""
        self.progress.pass_closed()

    def save(self) -> None:
        """Append the new rows, and forget what no window needs."""
        self.instants.put(self.new, self._rows, self._oldest)
        self.note_early()
        super().save()

    def keep(self) -> str:
        """Keep the rows, and the marks."""
        return self.recent.keep(0, {INSTANTS: self.instants.rows(self._oldest)} | self.kept_early())

    def _closed(self, rows: Block, first: int, end: int) -> Iterator[Windows]:
        """The windows of a range, from folded rows; only keys are looked at that have a time to make one."""
        reach = self.family.reach
        some = rows.between(first - 1, end + reach)
        if first >= end or not len(some):
            return
        making = np.zeros(len(some.names), dtype=bool)
        making[some.between(first + reach, end + reach).keys] = True
        if self.family.right:
            making[some.between(first - 1, end - 1).keys] = True
        some = by_key(self.shape, some.take(np.flatnonzero(making[some.keys])))
        yield from assemble_references(self.shape, some, window_references(self.family, some, first, end))

    def _late(
        self, around: _Around, again: Array, of: Callable[[Shape, Block, WindowReferences], Windows]
    ) -> Iterator[Windows]:
        """Windows that are there for the first time, then others that hold a new record, made `of` their rows."""
        yield from assemble_references(self.shape, around.rows, around.at.take(np.flatnonzero(~around.existed)))
        for some in portions(self.shape, around.rows, around.at.take(np.flatnonzero(around.existed & again))):
            yield of(self.shape, around.rows, some)

    def _with_old(self, around: _Around) -> Callable[[Shape, Block, WindowReferences], Windows]:
        def replacing(shape: Shape, rows: Block, some: WindowReferences) -> Windows:
            before = located(self.family, around.old, some.windows, some.keys)
            return replace(assembled(shape, rows, some), old=assembled(shape, around.old, before))

        return replacing

    def _late_alone(self, around: _Around) -> Iterator[Windows]:
        """Windows that are there for the first time whole, others of their new records, which have the same keys."""
        again = around.at.take(np.flatnonzero(around.existed & around.touched))
        yield from assemble_references(self.shape, around.rows, around.at.take(np.flatnonzero(~around.existed)))
        new = by_key(self.shape, self.new)
        for some in portions(self.shape, new, located(self.family, new, again.windows, again.keys)):
            yield assembled(self.shape, new, some)

    def _around(self, known: Block, new: Block, first: int, end: int) -> _Around:
        """The windows of a range that there are of the keys of new rows, with these and without them."""
        old = by_key(self.shape, of_keys(known, new))
        both = concat(self.shape, [old, new])
        order_, heads = order(both.keys, both.index)
        rows = reduced(self.shape, both, order_, heads)
        is_new = np.logical_or.reduceat(order_ >= len(old), heads) if len(heads) else heads.astype(bool)
        return self._between(rows, old, is_new, first, end)

    def _around_marks(self, marks: Block) -> _Around:
        """The open windows of the keys of some marks, with the records of these and without them."""
        rows = by_key(self.shape, of_keys(self._rows, marks))
        pairs = Pairs.over(np.concatenate([rows.index, marks.index]), len(rows.names))
        here, there = pairs.pack(rows.keys, rows.index), pairs.pack(marks.keys, marks.index)
        by_pair = np.argsort(there)
        at = np.minimum(np.searchsorted(there[by_pair], here), len(there) - 1)
        marked = np.where(there[by_pair][at] == here, marks.records[by_pair][at], 0)
        old = rows.take(np.flatnonzero(rows.records > marked))
        return self._between(rows, old, marked > 0, self.progress.marks.done, FOREVER)

    def _between(self, rows: Block, old: Block, is_new: Array, first: int, end: int) -> _Around:
        """The windows of a range that there are of some rows, by key and slice, and those that there were of `old`."""
        at, was = (window_references(self.family, some, first, end) for some in (rows, old))
        pairs = Pairs.over(at.windows, len(rows.names))
        existed = np.isin(pairs.pack(at.keys, at.windows), pairs.pack(was.keys, was.windows))
        new = before(is_new.astype(np.int64))
        return _Around(rows, old, at, existed, new[at.high] > new[at.low])

    def extent(self) -> dict[str, int]:
        """How many windows are open that end with a time, and how many times are stored."""
        rows = self.instants.rows(self._oldest)
        return {
            "open_windows": len(rows.between(self.progress.marks.taking + self.family.reach, FOREVER)),
            "slices": len(rows),
        }

    def check(self) -> None:
        """Assert that every page is there, that what the process has is what they hold, and that nothing piles up."""
        super().check()
        entries = self.instants.nodes.entries(INSTANTS)
        assert all(entry[1] >= self._oldest - self.family.longest and entry[2] > self._oldest for entry in entries)
        stored = Instants(self.instants.nodes, INSTANTS, self.family.longest, None).rows(self._oldest)
        held = self.instants.rows(self._oldest)
        held.check(self.shape)
        assert np.array_equal(stored.index, held.index)
        assert stored.records.sum() == held.records.sum()


def _least(rows: Block, chosen: Array, shift: int) -> Array:
    """For each key the least slice of its chosen rows, and so much more; FOREVER where there is none."""
    least = np.full(len(rows.names), FOREVER)
    np.minimum.at(least, rows.keys[chosen], rows.index[chosen] + shift)
    return least


def _is_newest(family: SlidingFamily, rows: Block, at: WindowReferences) -> Array:
    """Which windows are the first of their keys that hold its newest time."""
    newest = np.full(len(rows.names), -FOREVER)
    np.maximum.at(newest, rows.keys, rows.index)
    holding = np.flatnonzero(at.windows + family.reach >= newest[at.keys])
    firsts = np.zeros(len(at), dtype=bool)
    firsts[holding[np.diff(at.keys[holding], prepend=-1) != 0]] = True
    return firsts
