"""One bucket of sliding windows: records that are not late are stored, and windows are assembled from their instants.

::

    difference 10      windows that begin at 21 or later accept records
    stored             18  24  25             the right window of 18 is closed, and so is the left window of 24
    new                  20     26 33         20: before 24, so in no open window: late
                                              26: in the right window of 24, [25 .. 35]: not late for it,
                                                  but late for its own left window, [16 .. 26], which is closed
                                              33: its left window [23 .. 33] is open
    retained           20 and later           the right window of 20 is the first open window

With several lengths the rows are those of the longest windows; the others end with them and are aligned with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.sorting import order
from slicing.assembly.ranges.range_aggregates import before
from slicing.assembly.ranges.window_references import (
    WindowReferences,
    assemble_references,
    assembled,
    family_of,
    in_parts,
    located,
    window_references,
)
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, empty, encode_keys
from slicing.content.folding import by_key, fold, reduced
from slicing.content.marks import of_keys, under, without_partials
from slicing.content.pairs import Pairs
from slicing.content.records import Records
from slicing.content.signals import FIRST, least_between, least_of
from slicing.engines.dirty_set import DirtySet, WaitingSlices
from slicing.engines.key_counts import has_key
from slicing.engines.lateness import FamilyProgress, led
from slicing.engines.looking import PIECES, Found, Look, Pieces
from slicing.engines.rows.bucket import RowsBucket
from slicing.engines.rows.pairs import ACCEPTING, CLOSING, FIRED, WindowPairs
from slicing.engines.wide_rows import note_lacking
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import INSTANTS
from slicing.state.instants import Instants
from slicing.state.lists import PageLists
from slicing.state.store import Store
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import ClosedWindows, Late, RefusedRows
from slicing.triggers.panes import NONE, Panes
from slicing.triggers.required_delay import FirstEnds
from slicing.triggers.trigger import Trigger
from slicing.windows.families.family import Family
from slicing.windows.sliding import SlidingFamily
from slicing.windows.time.edges import AFTER, BEFORE


@dataclass(frozen=True)
class RefusedTimes(RefusedRows[Block]):
    """Rows that are late for their own left window; `taken` is the first window that accepted each row.

    AFTER stands for none. Other closed windows of a row are unknown, and are not counted as missed.
    """

    taken: Array

    def missed_by(self, family: Family, rows: Block | Records) -> ClosedWindows:
        """Return the missed left window of each late row or record."""
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
        by_all = taken == AFTER
        return ClosedWindows(np.ones(len(found), np.int64), np.where(by_all, 0, taken), by_all)


@dataclass(frozen=True)
class _Around:
    """The windows of keys with new records, and the rows of these keys, sorted by key and slice."""

    rows: Block
    old: Block  # the rows before this micro-batch
    at: WindowReferences
    existed: Array  # which windows existed before: `bool[n]`
    touched: Array  # which windows hold a new record: `bool[n]`

    @property
    def changed(self) -> Array:
        """Which windows hold a new record or did not exist before: `bool[n]`."""
        return self.touched | ~self.existed


class SlidingBucket(RowsBucket):
    """One bucket of sliding windows; `grace` is in microseconds."""

    def __init__(
        self,
        shape: Shape,
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        trigger: Trigger = ON_CLOSE,
        wide: bool = False,
    ):
        self.shape, self.family = shape, family_of(shape)
        families, wait = shape.family.families, trigger.wait(grace)
        super().__init__(fingerprint, store, trigger, [each.first_open(0, wait) for each in families])
        self.step_families(families, wait, wide)
        self.families = [
            FamilyProgress(number, shape.over(each), self.pages, wait, grace, compares=False)
            for number, each in enumerate(families)
        ]
        (self.progress,) = led(self.families) if wide else self.families
        self.cache = self.open_cache(shape)
        held = self.cache.derived
        self.instants = Instants(
            PageLists(self.pages, INSTANTS, shape), INSTANTS, self.family.longest, held.get(INSTANTS)
        )
        self.new = empty(shape)

    @property
    def _oldest(self) -> int:
        """The first retained slice: the first one of the first accepting window, or the slice directly before it."""
        firsts = (max(each.state.first_accepting, each.state.retained_from) for each in self.families)
        return min(firsts) - self.family.right

    @cached_property
    def _known(self) -> Block:
        """The stored rows, without the new ones."""
        return self.instants.rows(self._oldest)

    @cached_property
    def _rows(self) -> Block:
        """The stored rows and the new ones, folded."""
        return fold(self.shape, [self._known, self.new])

    @of_stage(ASSEMBLE)
    def accept(self, shipped: Sequence[Block]) -> Late[Block]:
        """Keep the new rows that a window accepts; return and count the late ones."""
        new = fold(self.shape, shipped)
        refused = [self._refused(each, new) for each in self.families]
        accepted, is_late = np.zeros(len(new), dtype=bool), np.zeros(len(new), dtype=bool)
        for each in refused:
            late = len(each.rows)
            accepted[:late] |= each.taken < AFTER
            accepted[late:] = is_late[:late] = True
        self.new = new if accepted.all() else new.take(np.flatnonzero(accepted))
        for_all, for_some = (int(new.records[rows].sum()) for rows in (~accepted, accepted & is_late))
        ends = self.family.window_end(new.index - self.family.reach)
        return Late(for_all, for_some, tuple(refused), FirstEnds(ends, new.records))

    def take_history(self, shipped: Sequence[Block], until: int) -> None:
        """Keep the instants of a history that open windows hold, and those whose right window may be open."""
        for each in self.families:
            each.pass_until(until)
        self.new = fold(self.shape, shipped).between(self._oldest, AFTER)

    def _refused(self, progress: FamilyProgress, new: Block) -> RefusedTimes:
        """Return the rows that are late for their left window of a family, with the first window that accepts each."""
        first = _first_accepting(progress)
        late = new.between(BEFORE, first + progress.family.longest - 1)
        return RefusedTimes(late, first, self.head.watermark, self._taken(progress, late, new))

    def _taken(self, progress: FamilyProgress, late: Block, new: Block) -> Array:
        """Return the first window that accepts each row whose left window is closed, AFTER if none does.

        It is the right window of an earlier instant of the key, or the left window of a later one that is on time. So
        if a row is accepted, all later rows of its key are: it is enough to find the first accepted row of each key.
        """
        if not len(late):
            return late.index
        first, right, family = _first_accepting(progress), self.family.right, progress.family
        reach = family.longest - 1
        known = without_partials(self.instants.rows(self._oldest))
        both = concat(self.shape.select(()), [known, without_partials(new)])
        keys = both.keys[len(known) : len(known) + len(late)]
        on_time = both.index >= first + reach
        left = both.take(np.flatnonzero(on_time))
        ending = _least(left, left.index - reach)
        begins = _least(left, family.first_slice(left.index - reach))
        earlier = both.take(slice(len(known)))
        following = _least(earlier, earlier.index + 1) if right else np.full_like(ending, AFTER)
        counts = late.index >= np.maximum(np.minimum(begins, following), first)[keys]
        if right:
            more = both.take(len(known) + np.flatnonzero(counts))
            following = np.minimum(following, _least(more, more.index + 1))
        from_right = np.where(following[keys] <= late.index, following[keys], AFTER)
        from_left = ending[keys]
        # Where later windows begin earlier, as months back may on the last days of a month, another one may be first.
        rows = np.flatnonzero(counts) if not right else late.index[:0]
        for row in rows[family.first_slice(from_left[rows]) > late.index[rows]].tolist():
            windows = left.index[left.keys == keys[row]] - reach
            from_left[row] = windows[family.first_slice(windows) <= late.index[row]].min()
        return np.where(counts, np.maximum(np.minimum(from_right, from_left), first), AFTER)

    def look(self, asked: Look) -> Iterator[Found]:
        """Yield the windows that are looked up and accept records, or the instants of each."""
        if asked.form == PIECES:
            return self._pieces(asked)
        rows = by_key(self.shape, asked.of_keys(self._known))
        at = window_references(self.family, rows, _first_accepting(self.progress))
        chosen = asked.starting(self.family.window_start(at.windows))
        if asked.latest:
            chosen &= _is_newest(self.family, rows, at)
        return self.progress.emitted(assemble_references(self.shape, rows, at.take(np.flatnonzero(chosen))))

    def _pieces(self, asked: Look) -> Iterator[Pieces]:
        rows, family = by_key(self.shape, asked.of_keys(self._known)), self.family
        windows = window_references(family, rows, self.progress.state.first_accepting).windows
        for window in windows[asked.starting(family.window_start(windows))].tolist():
            inside = rows.between(int(family.first_slice(window)), int(family.end_slice(window)))
            accepts = np.asarray(family.last_window(inside.index) >= self.progress.state.first_accepting)
            yield Pieces(self.shape, window, inside, np.zeros(len(inside), np.int64), accepts)

    # Called by triggers.

    def waiting_in(self, nodes: PageLists, cached: Block | None) -> WaitingSlices:
        """Return the open windows that hold a record of the dirty set, and those that exist because of one."""
        dirty = DirtySet(nodes, cached)
        return WaitingSlices(dirty, lambda: self.new, lambda: self._oldest, self._waiting)

    def _waiting(self, marks: Block) -> Panes:
        around = self._around_marks(marks)
        return self._panes(around, around.changed)

    def window_pairs(self, among: str, everything: bool) -> WindowPairs:
        """Return the pairs of keys with new records, or all pairs. Records are new only without `everything`."""
        state = self.progress.state
        first = state.first_accepting if among in (ACCEPTING, FIRED) else state.next_to_fire
        ends = {CLOSING: self.progress.closes(self.head.watermark), FIRED: state.next_to_fire}
        end = ends.get(among, AFTER)
        around = self._around_all(first, end) if everything else self._around(self._known, self.new, first, end)
        windows = around.at.windows
        return WindowPairs(
            windows,
            around.at.keys,
            around.rows.names,
            counts=partial(self._counts, around),
            panes=partial(self._panes, around),
            new=lambda: without_partials(under(self.new, around.rows.names)),
            bounds=lambda: (self.family.window_start(windows), self.family.window_end(windows)),
            signals=partial(self._signals, around),
            latest=lambda: _is_newest(self.family, around.rows, around.at),
            known_changed=None if everything else around.changed,
            existed=lambda _: around.existed,
        )

    def _counts(self, around: _Around) -> tuple[Array, Array]:
        """Return the numbers of records of windows, now and before."""
        was = located(self.family, around.old, around.at.windows, around.at.keys)
        known = np.where(around.existed, _records(around.old, was), 0)
        return _records(around.rows, around.at), known

    def has_pairs(self, among: str) -> Callable[[Block], Array]:
        """Return a function that tells which rows are of windows that have not closed."""
        return lambda rows: rows.index >= self.progress.state.next_to_fire

    def has_records(self) -> Callable[[Block], Array]:
        """Return a function that tells which rows are of keys with stored records."""
        return has_key(self._known)

    def _around_all(self, first: int, end: int) -> _Around:
        """Return all open windows `first` up to `end`; `touched` is false for all of them."""
        rows = by_key(self.shape, self._rows)
        old = by_key(self.shape, under(self._known, rows.names))
        return self._between(rows, old, np.zeros(len(rows), dtype=bool), first, end)

    def _signals(self, around: _Around) -> dict[str, Array]:
        """Return the signals of the new records of each window, without late records, by name."""
        asked, rows = self.heard.names, around.rows
        if not asked:
            return {}
        signals = under(self.heard.together(self.shape), rows.names)
        count = max(len(rows.names), int(signals.keys.max(initial=0)) + 1)
        pairs = Pairs.over(np.concatenate([rows.index, signals.index, self.new.index]), count)
        new = under(self.new, rows.names)
        here, there = pairs.pack(rows.keys, rows.index), pairs.pack(signals.keys, signals.index)
        # The rows around some windows need not have all new records.
        accepted = np.isin(there, pairs.pack(new.keys, new.index)) & np.isin(there, here)
        at = np.searchsorted(here, there[accepted])
        found = {}
        for i, name in enumerate(asked):
            # The event time of a record is the start of its slice, as for stored records.
            sent = self.family.slice_start(signals.index) if name == FIRST else signals.partials[i][0]
            least = least_of(sent[accepted], at, len(rows))
            found[name] = least_between(least, around.at.low, around.at.high)
        if FIRST in found and len(rows):
            # For a window that exists because of a new record, all records are new.
            first = self.family.slice_start(rows.index[np.minimum(around.at.low, len(rows) - 1)])
            found[FIRST] = np.where(around.existed, found[FIRST], first)
        return found

    def _panes(self, around: _Around, chosen: Array) -> Panes:
        """Return some windows. One that did not exist before replaces nothing, and all of its records are new."""

        def some(which: Array | bool) -> WindowReferences:
            return around.at.take(np.flatnonzero(chosen & which))

        def results(which: Array | bool = True) -> Iterator[Windows]:
            return assemble_references(self.shape, around.rows, some(which))

        def replacing() -> Iterator[Windows]:
            yield from results(~around.existed)
            for again in in_parts(self.shape, around.rows, some(around.existed)):
                before = located(self.family, around.old, again.windows, again.keys)
                old = assembled(self.shape, around.old, before)
                yield replace(assembled(self.shape, around.rows, again), old=old)

        def alone() -> Iterator[Windows]:
            yield from results(~around.existed)
            new, again = by_key(self.shape, self.new), some(around.existed)
            yield from assemble_references(self.shape, new, located(self.family, new, again.windows, again.keys))

        return Panes(results, replacing, alone)

    def late(self) -> Panes:
        """Return the pairs that have fired at their end and hold new records; no pair is read if none is that late."""
        fired = self.progress.state.next_to_fire + self.family.reach
        return super().late() if len(self.new) and self.new.index[0] < fired else NONE

    def closing(self) -> Panes:
        """Return the windows that close."""
        first, end = self.progress.first, self.progress.end
        return Panes(lambda: self.progress.emitted(self._closed(self._rows, first, end)))

    # Steps of a micro-batch.

    def advance(self, watermark: int) -> None:
        """Find the windows that a watermark, in microseconds, closes."""
        _ = self._rows  # must be read before the progress advances
        for each in self.families:
            each.advance(watermark)

    def retire(self) -> None:
        """Note that the windows that close have fired."""
        for each in self.families:
            each.pass_closed()

    def save(self) -> None:
        """Append the new rows, and remove rows that no window needs."""
        self.instants.put(self.new, self._rows, self._oldest)
        self.note_early()
        note_lacking(self.head.families)
        super().save()

    def cut_at(self) -> list[int]:
        """Return the first instant that a window of a stored one may hold and the last one; without any, the mark."""
        index = self.instants.rows(self._oldest).index
        if not len(index):
            return [int(self.family.window_end(self.progress.state.first_accepting))]
        return [int(self.family.slice_start(at)) for at in (int(index[0]) - self.family.reach, int(index[-1]))]

    def rows_to_cache(self) -> dict[str, Block]:
        """Return the rows that the bucket cache keeps."""
        return {INSTANTS: self.instants.rows(self._oldest)}

    def _closed(self, rows: Block, first: int, end: int) -> Iterator[Windows]:
        """Yield the windows `first` up to `end` of folded rows; only keys with an instant that creates one are read."""
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

    def _around(self, known: Block, new: Block, first: int, end: int) -> _Around:
        """Return the windows `first` up to `end` of the keys of new rows, with and without the new rows."""
        old = by_key(self.shape, of_keys(known, new))
        both = concat(self.shape, [old, new])
        order_, heads = order(both.keys, both.index)
        rows = reduced(self.shape, both, order_, heads)
        is_new = np.logical_or.reduceat(order_ >= len(old), heads) if len(heads) else heads.astype(bool)
        return self._between(rows, old, is_new, first, end)

    def _around_marks(self, marks: Block) -> _Around:
        """Return the open windows of the keys of some marks, with and without the marked records."""
        rows = by_key(self.shape, of_keys(self._rows, marks))
        pairs = Pairs.over(np.concatenate([rows.index, marks.index]), len(rows.names))
        here, there = pairs.pack(rows.keys, rows.index), pairs.pack(marks.keys, marks.index)
        by_pair = np.argsort(there)
        at = np.minimum(np.searchsorted(there[by_pair], here), len(there) - 1)
        marked = np.where(there[by_pair][at] == here, marks.records[by_pair][at], 0)
        old = rows.take(np.flatnonzero(rows.records > marked))
        return self._between(rows, old, marked > 0, self.progress.state.next_to_fire, AFTER)

    def _between(self, rows: Block, old: Block, is_new: Array, first: int, end: int) -> _Around:
        """Return the windows `first` up to `end` of rows sorted by key and slice, compared with those of `old`."""
        at, was = (window_references(self.family, some, first, end) for some in (rows, old))
        pairs = Pairs.over(at.windows, len(rows.names))
        existed = np.isin(pairs.pack(at.keys, at.windows), pairs.pack(was.keys, was.windows))
        new = before(is_new.astype(np.int64))
        return _Around(rows, old, at, existed, new[at.high] > new[at.low])

    def extent(self) -> dict[str, int]:
        """Count the open left windows, and the stored instants."""
        rows = self.instants.rows(self._oldest)
        return {
            "open_windows": len(rows.between(self.progress.state.first_accepting + self.family.reach, AFTER)),
            "slices": len(rows),
        }

    def check(self) -> None:
        """Assert that every page exists, that the cached rows equal the stored ones, and that pages do not pile up."""
        super().check()
        entries = self.instants.nodes.entries(INSTANTS)
        assert all(entry[1] >= self._oldest - self.family.longest and entry[2] > self._oldest for entry in entries)
        stored = Instants(self.instants.nodes, INSTANTS, self.family.longest, None).rows(self._oldest)
        held = self.instants.rows(self._oldest)
        held.check(self.shape)
        assert np.array_equal(stored.index, held.index)
        assert stored.records.sum() == held.records.sum()


def _first_accepting(progress: FamilyProgress) -> int:
    """Return the first window that accepts records; also if it lacks some, later windows hold its records."""
    return min(progress.state.first_accepting, progress.state.next_to_fire)


def _records(rows: Block, at: WindowReferences) -> Array:
    """Return the number of records of each window: `int64[n]`."""
    total = before(rows.records)
    held: Array = total[at.high] - total[at.low]
    return held


def _least(rows: Block, values: Array) -> Array:
    """Return for each key the least value of its rows; AFTER if there is none."""
    least = np.full(len(rows.names), AFTER)
    np.minimum.at(least, rows.keys, values)
    return least


def _is_newest(family: SlidingFamily, rows: Block, at: WindowReferences) -> Array:
    """Return which windows are the first one of their key that holds its newest instant: `bool[n]`."""
    newest = np.full(len(rows.names), BEFORE)
    np.maximum.at(newest, rows.keys, rows.index)
    holding = np.flatnonzero(at.windows + family.reach >= newest[at.keys])
    firsts = np.zeros(len(at), dtype=bool)
    firsts[holding[np.diff(at.keys[holding], prepend=-1) != 0]] = True
    return firsts
