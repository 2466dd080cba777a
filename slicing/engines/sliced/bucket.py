"""One bucket of slices: how records are stored and how windows are read.

Slices are authoritative; the trees' nodes are durable caches of them. Everything is a page in a key-value store:

    fresh     pages written since the last close, not in any cache yet
    groups    for each slice group, the slices that have entered, and slices that were complete when they arrived
    late      late records of these slices
    caches    the trees' nodes by name

A slice enters when the first window that holds it closes: then the trees take it in. A micro-batch in which no window
closes writes the new rows and the header, and reads only small pages, to merge them. A close reads the slices that
enter, moves the trees forward, and writes the entered slices from fresh pages to their slice groups. Expired slice
groups are removed as a whole. All families share `Slices`; a `FamilyWindows` reads the windows of one family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.choice import choose
from slicing.assembly.partitions import InOrder
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.folding import fold
from slicing.content.marks import without_partials
from slicing.engines.families import FamiliesBucket
from slicing.engines.following import RecentSlices
from slicing.engines.lateness import first_ends, led
from slicing.engines.looking import PIECES, SLICES, Found, Look
from slicing.engines.sliced.changes import Changes
from slicing.engines.sliced.family_windows import FamilyWindows
from slicing.engines.sliced.latest import Latest
from slicing.engines.sliced.lookups import SliceLookup
from slicing.engines.sliced.merging import MergedSlices
from slicing.engines.sliced.slices import Slices
from slicing.engines.sliced.unknown import UnknownWindows
from slicing.engines.wide_rows import note_lacking
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.coverage import Coverage, first_needed
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import COUNTS, EARLY, RECENT, RUNNING, STATES, THREE_LAYER, TWO_LAYER, parse
from slicing.state.instants import Instants
from slicing.state.lists import PageLists
from slicing.state.store import Store
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import Late, RefusedRows
from slicing.triggers.panes import Panes
from slicing.triggers.trigger import STORED, MicroBatchTime, Trigger
from slicing.windows.time.slices import FOREVER

_TREE_OF = {TWO_LAYER: "two_layer", THREE_LAYER: "three_layer", RUNNING: RUNNING}
"""The trees, by the beginning of the names of their lists of nodes."""


class SlicedBucket(FamiliesBucket[FamilyWindows]):
    """One bucket of windows that are assembled from slices.

    `trees` has one of `assembly.TREES` for each kernel, for one family after another. `grace` is in microseconds. With
    `wide` the rows of the primary family are wide rows, with the results of all families.
    """

    others: tuple[str, ...] = ()
    """The beginnings of names of page lists that belong to a subclass and are not caches."""

    def __init__(
        self,
        shape: Shape,
        trees: Sequence[str],
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        trigger: Trigger = ON_CLOSE,
        wide: bool = False,
    ):
        super().__init__(shape, grace, fingerprint, store, trigger)
        shape, wait = self.shape, self.wait
        families = shape.family.families
        # Progress steps back where families begin to fire together, but slices that have entered stay entered.
        entered = self._entered_by_progress if self.head.entered is None else self.head.entered
        self.step_families(families, wait, wide)
        if self.head.shipped:  # the checkpoint has other slices than those for which the trees were chosen
            trees = [choose(kernel, family) for family in families for kernel in shape.kernels]
        self.slices = Slices(shape, self.pages, trigger, max(entered, self._entered_by_progress))
        count = len(shape.kernels)
        self.families = [
            FamilyWindows(i, shape.over(family), trees[i * count : (i + 1) * count], self.slices, wait, grace)
            for i, family in enumerate(families)
        ]
        self.merged = MergedSlices(self.slices, self.families, fingerprint)
        self.wide, self.leading = wide, led(self.families) if wide else self.families
        self.head.refused = self._refused_until
        self.new = self.slices.incoming  # the new rows of open windows
        self._fresh: InOrder | None = None  # the rows of the fresh pages that enter, while windows close
        self._latest: Latest | None = None
        self._counts_anew: Block | None = None  # the counts of stored slices, after a live change

    @of_stage(ASSEMBLE)
    def accept(self, shipped: Sequence[Block]) -> Late[Block]:
        """Keep the partials of open windows; return and count the late ones.

        Lateness is decided per slice, as all records of a slice belong to the same windows.
        """
        block = fold(self.shape, shipped)
        by_family = [each.accepted_and_late(block.index) for each in self.families]
        accepted = np.logical_or.reduce([takes for takes, _ in by_family])
        refused = np.logical_or.reduce([refuses for _, refuses in by_family])
        late_for_all, late_for_some = (int(block.records[rows].sum()) for rows in (~accepted, accepted & refused))
        self._note_refused(block.index[~accepted])
        late = tuple(
            RefusedRows(block.take(np.flatnonzero(refuses)), each.state.first_accepting, self.head.watermark)
            for each, (_, refuses) in zip(self.families, by_family, strict=True)
        )
        open_rows = block if accepted.all() else block.take(np.flatnonzero(accepted))
        self.slices.take(self.merged.redirected(open_rows))
        return Late(late_for_all, late_for_some, late, first_ends(self.families, block.index, block.records))

    @property
    def _refused_until(self) -> int | None:
        """The instant before which records may have been refused, None if slices are not retained.

        When retention begins, this is the start of the oldest window that accepts records.
        """
        if not self.fingerprint.retain or self.head.refused is not None:
            return self.head.refused if self.fingerprint.retain else None
        return min(int(each.family.window_start(each.state.first_accepting)) for each in self.families)

    def _note_refused(self, slices: Array) -> None:
        """Note the end of the newest slice with a refused record in the header. The slice is one of the query."""
        if self.head.refused is not None and len(slices):
            end = self.coverage.of_query(int(slices.max()) + 1)
            self.head.refused = max(self.head.refused, int(self.shape.family.slice_start(end)))

    def take_history(self, shipped: Sequence[Block], until: int) -> None:
        """Store the slices that open windows hold or `retain` keeps; entered ones are stored in their slice groups."""
        since = self._retained_from
        for each in self.families:
            each.fit_trees()
            each.pass_until(until)
            each.state.retained_from = each.retained(since)
        self.merged.keep_groups_apart()
        first = self.coverage.stored
        if self.pages.is_new:
            self.slices.entered = first
        history = fold(self.shape, shipped)
        self.slices.take(self.merged.redirected(history.between(first, FOREVER)))
        self._recent = replace(self._recent, new=history)
        # Records that are there only because they are retained have fired, and count for no trigger.
        self._begin(self.slices.incoming.between(self._needed_from, FOREVER))
        entered = max(each.family.entered(each.end) for each in self.families)
        with closing(self.slices.take_fresh(entered)) as fresh:
            self.slices.enter(fresh, entered, first)
        self.slices.write_incoming()
        self.merged.step()

    def close(self, at: MicroBatchTime) -> Iterator[Windows]:
        """Yield all that fires in the micro-batch, then write the state that is left."""
        for each in self.families:
            each.fit_trees()
        self.merged.keep_groups_apart()
        self._begin(self.slices.incoming)
        return super().close(at)

    def _begin(self, new: Block) -> None:
        """Take the new rows of open windows, while the pages have older rows only."""
        self.new = new
        self.slices.remember()
        self._counts_anew = self._recounted() if self.slices.needs.counts else None

    # Called by lookups.

    @property
    def coverage(self) -> Coverage:
        """Which records the bucket has, and at which edges they are separate."""
        return self.merged.coverage

    def look(self, asked: Look) -> Iterator[Found]:
        """Yield what is looked up, then the windows that are unknown."""
        at = self._lookup(asked)
        if asked.form == PIECES:
            return at.pieces(self._accepts, self._nodes())
        if asked.form == SLICES:
            return at.stored_slices()
        found = self._looked_up(at)
        return UnknownWindows(at).after(found) if asked.unknown else found

    def _lookup(self, asked: Look) -> SliceLookup:
        trees = [tree for each in self.families for tree in each.trees]
        lacking = None if asked.incomplete else self._lacking
        own = SliceLookup(
            asked, self.slices, self.coverage, self.shape, trees, self._looked_up_from, self.wide, lacking
        )
        return own if asked.other is None else own.over(asked.other)

    def _looked_up(self, at: SliceLookup) -> Iterator[Windows]:
        """Yield the windows that are looked up, from the stored slices. Wide rows are those that would be emitted."""
        return at.windows() if at.lacking is None else self.leading[0].emitted(at.windows())

    @property
    def _lacking(self) -> int | None:
        """The first open window of wide rows, None if all windows of wide rows hold all their records.

        Also None if stored slices have coarser edges: windows that lack no record may then have no result to look up.
        """
        lacks = self.wide and any(each.state.lacks for each in self.families)
        return self.leading[0].state.next_to_fire if lacks and self.head.cut_since is None else None

    def _accepts(self, index: Array) -> Array:
        """Return which slices accept records: `bool[n]`."""
        accepts = [each.family.last_window(index) >= each.state.first_accepting for each in self.families]
        found: Array = np.logical_or.reduce(accepts)
        return found

    def _nodes(self) -> frozenset[tuple[str, str]]:
        """Return the tree and the name of each stored node."""
        names = [parse(name) for name, entries in self.head.lists.items() if entries]
        return frozenset((_TREE_OF[name.of], name.which) for name in names if name.of in _TREE_OF)

    @property
    def _needed_from(self) -> int:
        """The first slice that a window needs; earlier slices are there only because they are retained."""
        return min(each.family.first_slice(max(each.state.retained_from, each.keep)) for each in self.families)

    @property
    def _retained_from(self) -> int | None:
        """The first slice to retain for the `retain` option, even if no window needs it; None without the option."""
        if not self.fingerprint.retain:
            return None
        return int(self.shape.family.slice_at(self.head.passed - self.fingerprint.retain))

    @property
    def _looked_up_from(self) -> list[int]:
        """For each family, the first window that may be looked up, even if slices of earlier windows are stored."""
        return [-FOREVER] * len(self.families)

    # Called by triggers.

    @property
    def arrived(self) -> Block:
        """The new rows of open windows."""
        return self.new

    @property
    def derived(self) -> Mapping[str, Block]:
        """The blocks that the bucket cache has, by name."""
        return self.slices.cache.derived

    def newest(self) -> Panes:
        """Return the latest window of each key that holds a new row, from a total that is kept per key."""
        latest = self._latest = Latest(self.leading, self.derived)
        return self._panes(lambda each: latest.newest(each, self.new) if len(self.new) else iter(()))

    def late(self) -> Panes:
        """Return the windows that have fired and hold a new row."""
        return Panes(
            lambda: self._each(lambda each: each.fired_again(self.new, with_old=False)),
            lambda: self._each(lambda each: each.fired_again(self.new, with_old=True)),
            lambda: self._each(lambda each: each.of_new_rows(self.new)),
        )

    def stored(self, levels: int) -> Panes:
        """Return slices with new records, and steps of tails with such that have ended, unless they are merged."""
        slices, *steps = self.families[:levels]
        new = self._with_history if self.head.untold else self.new
        marks = [(slices, new), *((each, each.late_rows(new)) for each in steps)]
        return Panes(lambda: chain.from_iterable(each.emitted(self._separate(each, some)) for each, some in marks))

    @property
    def _with_history(self) -> Block:
        """The new rows, and those of a history that was loaded before."""
        return fold(self.shape, [*self.slices.stored(self.coverage.stored, FOREVER), self.new])

    def _separate(self, each: FamilyWindows, marks: Block) -> Iterator[Windows]:
        """Yield the windows that hold a row of `marks`, also closed ones, but for those that edges of slices lack."""
        if not len(marks):
            return
        family, is_separate = each.family, self.coverage.is_separate
        for frame in each.touched(marks, int(family.first_window(int(marks.index[0])))):
            there = is_separate(family.first_slice(frame.windows)) & is_separate(family.end_slice(frame.windows))
            yield frame.take(np.flatnonzero(there))

    def ended(self, levels: int) -> Panes:
        """Return the steps of tails that the watermark ends, from their slices."""
        return Panes(lambda: self._closed(FamilyWindows.close, self.families[1:levels]))

    def closing(self) -> Panes:
        """Return the windows that close, from the trees."""
        return Panes(lambda: self._closed(FamilyWindows.close, self.leading))

    def empty(self) -> Panes:
        """Return the windows without records that close, and follow the records of their key."""
        return self._panes(lambda each: self._recent.closing(each) if each.end > each.first else iter(()))

    @cached_property
    def _recent(self) -> RecentSlices:
        """The slices that windows without records follow, if these fire."""
        nodes = PageLists(self.pages, RECENT, self.shape.select(()))
        return RecentSlices(nodes, self.families, self.trigger.empty, self.new)

    def _counts(self, held: Mapping[str, Block]) -> Instants:
        """Return the stored counts. A live change may need those of other slices, or have no counts."""
        counts = super()._counts(held)
        if self._counts_anew is not None:
            counts.cached = self._counts_anew
            counts.nodes.save(counts.name, self._counts_anew)
        return counts

    def _recounted(self) -> Block | None:
        """Return the counts of all stored slices that open windows hold, if the stored counts may lack some of these.

        A live change has added windows, or the trigger before has counted no records.
        """
        if f"{EARLY} {COUNTS}" in self.head.lists and (not self.pages.added or self.coverage.is_merged):
            return None
        stored = self.slices.stored(self._oldest(), FOREVER)
        return fold(self.shape.select(()), [without_partials(each) for each in stored])

    def changed(self, tombstones: bool) -> Panes:
        """Return the windows that close and whose result differs from that of the previous window."""
        changes = Changes(self.leading, self.slices, tombstones)
        return Panes(lambda: self._closed(changes.closed, self.leading))

    def _closed(
        self, frames: Callable[[FamilyWindows, InOrder], Iterator[Windows]], families: Sequence[FamilyWindows]
    ) -> Iterator[Windows]:
        if self._fresh is not None:
            for each in families:
                if each.end > each.first:
                    yield from each.emitted(frames(each, self._fresh))

    # Steps of a micro-batch.

    def advance(self, watermark: int) -> None:
        """Find the windows that a watermark, in microseconds, closes, and the slices that enter with them."""
        closes = [each.advance(watermark) for each in self.families]
        self._left = self._oldest()
        self._entered = max(self.slices.entered, *(each.family.entered(each.end) for each in self.families))
        if self.head.newest is not None and any(closes):
            self._fresh = self.resources.enter_context(closing(self.slices.take_fresh(self._entered)))

    def retire(self) -> None:
        """Store the slices that have entered, and remove the slices that no window needs."""
        if self._fresh is None:
            for each in self.families:
                each.step(is_empty=self.head.newest is None)
            self.slices.entered = self._entered
            if self.head.entered is not None:  # a family that needed older slices may have been removed
                self.slices.slice_groups.remove_before(self.coverage.stored)
            self.slices.write_incoming()
            return
        assert self.head.newest is not None, "windows close"
        since = self._retained_from
        is_left = any(each.is_left for each in self.families)
        is_left |= since is not None and self.head.newest >= self._first_retained(since)
        for each in self.families:
            each.passed(self._fresh, is_left, each.retained(since))
        self.head.retained_since = self._still_retained(since) if is_left else None
        if is_left:
            newly_entered = self._entered - self.slices.entered
            self.slices.enter(self._fresh, self._entered, self.coverage.stored)
            self._fold_late(self._left)
            self.merged.step(newly_entered)
            # The new rows get pages of their own; otherwise the next close would read and write all of them again.
            self.slices.write_incoming()
        else:
            self.slices.entered = self._entered
            self.slices.clear()
        self._fresh.close()
        self._fresh = None

    def _still_retained(self, since: int | None) -> int | None:
        """Return the start of the retained slices in microseconds, None if the progress of the families tells it.

        Windows that replace others begin later than the slices that are retained for the others.
        """
        at, start = self.head.retained_since, self.shape.family.slice_start
        if at is None or since is None:
            return None
        at = max(at, int(start(since)))
        return at if at < start(first_needed(self.head, self.family.families)) else None

    def _first_retained(self, since: int) -> int:
        """Return the first slice that stays. It may be before `since`, because windows are retained as a whole."""
        return min(each.family.first_slice(each.retained(since)) for each in self.families)

    def _fold_late(self, left: int) -> None:
        """Merge late rows into the slice group that leaves next: two-layer trees will read it slice by slice."""
        subtracts = any("two_layer" in each.trees for each in self.families)
        if subtracts and self.slices.needs.folds_late:
            # Windows of wide rows that lack records begin before the first slice that is stored.
            oldest, since = max(self._oldest(), self.coverage.stored), self._retained_from
            self.slices.fold_late(left, oldest, oldest if since is None else min(oldest, self.coverage.stored))

    def save(self) -> None:
        """Write the header; remove the caches of other triggers, which this trigger does not update."""
        self.note_early()
        if self._recent.lasting:
            self._recent.save(any(each.end > each.first for each in self.families))
        self._forget_other_triggers()
        self._note_entered()
        note_lacking(self.head.families)
        super().save()

    def _note_entered(self) -> None:
        """Store the end of the entered slices, unless it follows from the progress of the families."""
        entered = self.slices.entered
        self.head.entered = None if entered <= self._entered_by_progress else entered

    @property
    def _entered_by_progress(self) -> int:
        """The end of the slices of all windows that the families have fired or skipped."""
        pairs = zip(self.family.families, self.head.families, strict=True)
        return max(int(own.entered(state.next_to_fire)) for own, state in pairs)

    def keep(self) -> str:
        """Keep the slices of open windows, and blocks made from them, in the bucket cache."""
        if not (self.slices.needs.follows or self.slices.needs.compares):
            return ""
        oldest = self.families[0].oldest if STORED in self.trigger.asks else self._needed_from
        if not self.slices.needs.compares and self.head.newest is not None:
            oldest = max(oldest, self.slices.newest() - 2 * self.slices.longest + 1)
        totals = self._latest.to_cache() if self._latest else {}
        return self.slices.cache.keep(oldest, totals | self.early_to_cache())

    def cut_at(self) -> list[int]:
        """Return the start of the first stored slice, the end of the last one, and the instants of lateness."""
        spans, start = self.head.spans(), self.shape.family.slice_start
        held = [int(start(int(index))) for index in (spans[:, 0].min(), spans[:, 1].max())] if len(spans) else []
        return held + [at for each in self.families for at in each.lateness_instants(self.head.passed)]

    def _forget_other_triggers(self) -> None:
        """Remove the caches that this trigger does not update; a later trigger rebuilds them."""
        early = [f"{each.prefix}{of} " for of in (EARLY, STATES) for each in self.families]
        own = (*self.others, f"{EARLY} ", *early, *([f"{RECENT} "] if self._recent.lasting else []))
        if self.slices.needs.trees:
            own += tuple(name for each in self.families for name in each.own)
        for name in [name for name in self.head.lists if not name.startswith(own)]:
            self.pages.remove(self.head.lists.pop(name))
        if not self.slices.needs.trees:
            for each in self.families:
                each.state.nodes = None

    def extent(self) -> dict[str, int]:
        """Count the slices that the pages span, and the open windows over them, from the header only."""
        spans = self.slices.spans(self._oldest())
        if not len(spans):
            return {"open_windows": 0, "slices": 0}
        first, end = int(spans[:, 0].min()), int(spans[:, 1].max())
        windows = (each.held(first, end) for each in self.families)
        return {"open_windows": sum(windows), "slices": self.slices.count(self._oldest())}

    def check(self) -> None:
        """Assert the invariants between header and pages."""
        self.slices.check(self.coverage.stored)
