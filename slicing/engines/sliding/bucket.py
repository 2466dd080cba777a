"""One bucket of sliding windows: what came is judged and kept, and windows go out from the times of records there are.

::

    difference 10      taking: windows that begin from 21 on are open
    stored             18  24  25             the window behind 18 is not open, nor is that which ends with 24
    came                 20     26 33         20: before 24, in no window that is open: late
                                              26: behind 24, so in [25 .. 35]: counts; [16 .. 26], its own, is closed
                                              33: its own [23 .. 33] is open
    kept               20 and later           behind 20 the first open window begins
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.range_aggregates import before
from slicing.assembly.ranges.window_references import (
    Places,
    assemble_places,
    assembled,
    by_key,
    family_of,
    located,
    places,
    portions,
)
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, empty, encode_keys, order
from slicing.content.folding import fold, reduced
from slicing.content.marks import of_keys, without_partials
from slicing.content.pairs import Pairs
from slicing.content.records import Records
from slicing.engines.engine import Moment, begin
from slicing.engines.sliding.instants import Instants
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.bucket_cache import Recent
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import INSTANTS
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.state.store import Store
from slicing.triggers.emission import NEWEST, ONLY_NEW, UPDATE, WITH_OLD, Emission
from slicing.triggers.lateness import Late, Missed, Refused
from slicing.windows.families.family import Family
from slicing.windows.sliding import SlidingFamily
from slicing.windows.time.slices import FOREVER


@dataclass(frozen=True)
class RefusedTimes(Refused[Block]):
    """What came late for its own window, that which ends with it; `taken` is the first window that took each row.

    FOREVER says that none did. Windows of a row that had closed before are forgotten, and not counted.
    """

    taken: Array

    def missed_by(self, slicing: Family, rows: Block | Records) -> Missed:
        """Its own window, for each of some rows or records of keys and times that came late."""
        names = pa.concat_tables([self.rows.names, rows.names])
        codes, names = encode_keys(names)
        ours, theirs = codes[: len(self.rows.names)][self.rows.keys], codes[len(self.rows.names) :]
        if isinstance(rows, Block):
            theirs = theirs[rows.keys]
        pairs = Pairs.over(self.rows.slices, len(names))
        known = pairs.pack(ours, self.rows.slices)
        by_pair = np.argsort(known)
        found = by_pair[np.searchsorted(known[by_pair], pairs.pack(theirs, rows.slices))]
        taken = self.taken[found]
        by_all = taken == FOREVER
        return Missed(np.ones(len(found), np.int64), np.where(by_all, 0, taken), by_all)


@dataclass(frozen=True)
class _Around:
    """The windows of keys that records of a micro-batch came for, and the rows of these keys, by key and slice."""

    rows: Block
    old: Block  # those that were there before
    at: Places
    existed: Array  # which windows were there before
    touched: Array  # which windows hold a record that came

    @property
    def changed(self) -> Array:
        """Which windows have other records than before, or are new."""
        return self.touched | ~self.existed


class SlidingBucket:
    """One bucket of sliding windows, used as `sliced.bucket.Bucket` is; `grace` in microseconds.

    Raises StateMismatch.
    """

    def __init__(self, shape: Shape, grace: int, fingerprint: Fingerprint, store: Store, emission: Emission):
        self.shape, self.family, self.grace, self.emission = shape, family_of(shape), grace, emission
        self.pages = Pages(store, fingerprint, [self.family.first_open(0, grace)])
        self.head = self.pages.head
        if not emission.corrects:
            # What another emission has put out at its end is not corrected any more.
            self.head.taking = max(self.head.taking, self.head.done)
        elif self.pages.is_new:
            self.head.done = self.family.first_open(0)
        self.recent = Recent(shape, self.head.nonce, str(emission), lambda first, end: ())
        held = self.recent.beside.get(INSTANTS)
        self.instants = Instants(PageLists(self.pages, INSTANTS, shape), INSTANTS, self.family.longest, held)
        self.came = empty(shape)

    @property
    def _oldest(self) -> int:
        """The first slice that is kept: of the first window that takes records, or the one that it may be behind."""
        return self.head.taking - self.family.right

    @of_stage(ASSEMBLE)
    def add(self, blocks: Sequence[Block]) -> Late[Block]:
        """Take the rows of a micro-batch that are in a window that takes records."""
        came = fold(self.shape, blocks)
        late = came.between(-FOREVER, self.head.taking + self.family.reach)
        taken = self._taken(late, came)
        counts = taken < FOREVER
        self.came = came
        if not counts.all():
            on_time = np.ones(len(came) - len(late), dtype=bool)
            self.came = came.take(np.concatenate([counts, on_time]))
        refused, some = (int(late.records[rows].sum()) for rows in (~counts, counts))
        return Late(refused, some, (RefusedTimes(late, self.head.taking, self.head.watermark, taken),))

    def _taken(self, late: Block, came: Block) -> Array:
        """The first window that takes each of the rows whose own is closed, FOREVER if none does.

        It begins behind an earlier time of the key, or ends with a later one, which is on time. So all rows of a key
        count that are later than one that does: the least of them is found, and what is behind it is no question.
        """
        if not len(late):
            return late.slices
        first, reach, right = self.head.taking, self.family.reach, self.family.right
        known = without_partials(self.instants.rows(self._oldest))
        both = concat(self.shape.select(()), [known, without_partials(came)])
        keys = both.keys[len(known) : len(known) + len(late)]
        on_time = both.slices >= first + reach
        ending = _least(both, np.flatnonzero(on_time), -reach)
        behind = _least(both, np.arange(len(known)), 1) if right else np.full_like(ending, FOREVER)
        counts = late.slices >= np.maximum(np.minimum(ending, behind), first)[keys]
        if right:
            behind = np.minimum(behind, _least(both, len(known) + np.flatnonzero(counts), 1))
        begun = np.where(behind[keys] <= late.slices, behind[keys], FOREVER)
        return np.where(counts, np.maximum(np.minimum(begun, ending[keys]), first), FOREVER)

    @of_stage(ASSEMBLE)
    def close(self, moment: Moment) -> Iterator[Windows]:
        """Yield what goes out in a micro-batch, then write the times that came."""
        head, known = self.head, self.instants.rows(self._oldest)
        begin(head, self.emission, moment)
        taking, done = head.taking, head.done
        rows = fold(self.shape, [known, self.came])
        self._move()
        if self.emission.when == UPDATE:
            yield from self._updated(known, taking)
        else:
            if self.emission.corrects:
                yield from self._corrected(known, taking, done)
            yield from self._closed(rows, done, head.done)
        self.instants.put(self.came, rows, self._oldest)
        head.nonce = self.recent.keep(0, {INSTANTS: self.instants.rows(self._oldest)})
        self.pages.save_header()

    def _move(self) -> None:
        """Move the marks to the watermark: the first window that takes records, and the first that has not gone out.

        Both stay where they are when the grace, or the emission, becomes another: what has gone out stays out.
        """
        head, family = self.head, self.family
        head.taking = max(head.taking, family.first_open(head.watermark, self.grace))
        head.done = max(head.done, family.first_open(head.watermark)) if self.emission.corrects else head.taking

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
        yield from assemble_places(self.shape, some, places(self.family, some, first, end))

    def _updated(self, known: Block, first: int) -> Iterator[Windows]:
        """The open windows that are not as before, or, of newest ones, the first of each key with its newest time."""
        around = self._around(known, first, FOREVER)
        due = around.changed
        if self.emission.which == NEWEST:
            due &= _is_newest(self.family, around)
        for windows in assemble_places(self.shape, around.rows, around.at.take(np.flatnonzero(due))):
            yield replace(windows, kind="update")

    def _corrected(self, known: Block, first: int, end: int) -> Iterator[Windows]:
        """The windows of a range, which have gone out as they were before, that are not as before."""
        if not len(self.came) or self.came.slices[0] >= end + self.family.reach:
            return
        around = self._around(known, first, end)
        what, rows, at = self.emission.what, around.rows, around.at
        made, again = (at.take(np.flatnonzero(chosen)) for chosen in (~around.existed, around.existed & around.touched))
        for windows in assemble_places(self.shape, rows, made):
            yield replace(windows, kind="correction")
        if what == ONLY_NEW:
            # Windows of the rows that came, which have the keys of `rows`.
            rows = by_key(self.shape, self.came)
            again = located(self.family, rows, again.windows, again.keys)
        for some in portions(self.shape, rows, again):
            old = None
            if what == WITH_OLD:
                old = assembled(self.shape, around.old, located(self.family, around.old, some.windows, some.keys))
            yield replace(assembled(self.shape, rows, some), kind="correction", old=old)

    def _around(self, known: Block, first: int, end: int) -> _Around:
        """The windows of a range that there are of the keys of what came, with it and without it."""
        old = by_key(self.shape, of_keys(known, self.came))
        both = concat(self.shape, [old, self.came])
        order_, heads = order(both.keys, both.slices)
        rows = reduced(self.shape, both, order_, heads)
        at, was = (places(self.family, some, first, end) for some in (rows, old))
        pairs = Pairs.over(at.windows, len(rows.names))
        existed = np.isin(pairs.pack(at.keys, at.windows), pairs.pack(was.keys, was.windows))
        is_new = np.logical_or.reduceat(order_ >= len(old), heads) if len(heads) else heads
        came = before(is_new.astype(np.int64))
        return _Around(rows, old, at, existed, came[at.high] > came[at.low])

    def extent(self) -> dict[str, int]:
        """How many windows are open that end with a time, and how many times are stored."""
        rows = self.instants.rows(self._oldest)
        return {"open_windows": len(rows.between(self.head.taking + self.family.reach, FOREVER)), "slices": len(rows)}

    def check(self) -> None:
        """Assert that every page is there, that what the process has is what they hold, and that nothing piles up."""
        entries = self.instants.nodes.entries(INSTANTS)
        assert all(entry[1] >= self._oldest - self.family.longest and entry[2] > self._oldest for entry in entries)
        stored = Instants(self.instants.nodes, INSTANTS, self.family.longest, None).rows(self._oldest)
        held = self.instants.rows(self._oldest)
        held.check(self.shape)
        assert np.array_equal(stored.slices, held.slices)
        assert stored.records.sum() == held.records.sum()


def _least(rows: Block, chosen: Array, shift: int) -> Array:
    """For each key the least slice of its chosen rows, and so much more; FOREVER where there is none."""
    least = np.full(len(rows.names), FOREVER)
    np.minimum.at(least, rows.keys[chosen], rows.slices[chosen] + shift)
    return least


def _is_newest(family: SlidingFamily, around: _Around) -> Array:
    """Which windows are the first of their keys that hold its newest time."""
    newest = np.full(len(around.rows.names), -FOREVER)
    np.maximum.at(newest, around.rows.keys, around.rows.slices)
    holding = np.flatnonzero(around.at.windows + family.reach >= newest[around.at.keys])
    firsts = np.zeros(len(around.at), dtype=bool)
    firsts[holding[np.diff(around.at.keys[holding], prepend=-1) != 0]] = True
    return firsts
