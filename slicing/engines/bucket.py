"""The state of one bucket: how records get in and how windows go out.

Slices are the only truth; the trees' nodes are durable caches of them. Everything is a page in a key-value store:

    fresh     pages written since the last close, not in any cache yet
    stripes   for each stripe the slices that have entered, and those that came all at once
    late      what came to those slices later
    caches    the trees' nodes by name

A micro-batch in which nothing closes writes what came and the header, and reads nothing but to merge small pages. A
close reads what enters, moves the trees forward, and writes what entered from fresh pages into its stripes. Expired
stripes are removed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np

from slicing.assembly.assembling import assemble, without_repeats
from slicing.assembly.cache import NODES
from slicing.assembly.portions import InOrder, Portion, in_memory, portions
from slicing.assembly.results import Windows
from slicing.blocks.block import Block, Shape, empty
from slicing.blocks.folding import fold
from slicing.blocks.marks import of_keys
from slicing.emission.emission import ALL, CHANGED, NEWEST, ON_CLOSE, ONLY_NEW, UPDATE, WITH_DRAINED, WITH_OLD, Emission
from slicing.emission.lateness import Late, is_late
from slicing.engines.ahead import newest_ordinary, newest_reached
from slicing.engines.changes import changes
from slicing.engines.closings import closing_of
from slicing.engines.latest import newest_windows
from slicing.engines.pending import PENDING, pending, trigger_time
from slicing.engines.touching import as_before, as_marks, touched
from slicing.state.fingerprint import Fingerprint
from slicing.state.header import covered
from slicing.state.lists import Nodes
from slicing.state.memory import Recent, around
from slicing.state.pages import Pages, page_name
from slicing.state.store import Store
from slicing.state.stripes import Stripes
from slicing.windows.slices import FOREVER

TOTALS = "totals"
STRAGGLERS = 64
"""Of so many rows one may come later than others of its slice, and be written again until the slice leaves."""


class Bucket:
    """One bucket over its store, for the length of one micro-batch: `add` what came, then `close`.

    `trees` has one of `assembly.TREES` for each kernel. `grace` is in microseconds. Raises StateMismatch.
    """

    others: tuple[str, ...] = ()
    """How the names of lists of pages begin that are no caches, and not of this class."""

    def __init__(
        self,
        shape: Shape,
        trees: Sequence[str],
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        emission: Emission = ON_CLOSE,
    ):
        self.shape, self.slicing, self.trees, self.grace = shape, shape.slicing, trees, grace
        self.shown, self.emission = shape, emission
        self.wait = 0 if emission.corrects else grace
        self.pages = Pages(store, fingerprint, self.slicing.first_open(0, self.wait))
        self.head = self.pages.head
        self._fit_emission()
        self.stripes = Stripes(self.pages, shape)
        read = self._entered if emission.which == CHANGED else self._all
        self.recent = Recent(shape, self.head.nonce, str(emission), read)
        marks = Nodes(self.pages, "early", shape.select(()))
        self.pending = pending(emission, self.head, marks, self.recent.beside.get(PENDING))
        self.totals = self.recent.beside.get(TOTALS, empty(shape)) if emission.which == NEWEST else None
        self._incoming, self._newest_before = empty(shape), self.head.newest
        self._here: int | None = None  # the newest slice that records ordinarily came to now

    @property
    def _has_order(self) -> bool:
        """Whether partials have an order, which is that of the pages."""
        return any(kernel.aggregate.ordered for kernel in self.shape.kernels)

    def _fit_emission(self) -> None:
        """What another emission has written: windows that went out take no records unless they are corrected."""
        head = self.head
        if not self.emission.corrects:
            head.taking = head.done
        elif self.pages.is_new:
            head.taking = head.kept = self.slicing.first_open(0, self.grace)
        head.taking = max(head.taking, head.kept)

    def _fit_trees(self) -> None:
        """Nodes of other trees are dropped, and made anew from the slices."""
        walk = self.head.families[0]
        if walk.trees != list(self.trees) and not self.pages.is_new:
            for name in [name for name in self.head.caches if name.startswith(NODES)]:
                self.pages.remove(self.head.caches.pop(name))
            walk.nodes = None
        walk.trees = list(self.trees)

    def add(self, blocks: Sequence[Block]) -> Late[Block]:
        """Judge the partials of a micro-batch, keep those of open windows, return and count those refused.

        All records of a slice belong to the same windows, so a slice is judged as one.
        """
        block = fold(self.shape, blocks)
        accepted = self.slicing.last_window(block.slices) >= self.head.taking
        refused = is_late(self.slicing, block.slices, self.head.taking)
        late_for_all, late_for_some = (int(block.records[rows].sum()) for rows in (~accepted, accepted & refused))
        rows = block.take(np.flatnonzero(refused))
        late = Late(late_for_all, late_for_some, rows, self.head.taking, self.head.watermark)
        self._incoming = block if accepted.all() else block.take(np.flatnonzero(accepted))
        if len(self._incoming):
            newest = int(self._incoming.slices[-1])
            self._here = newest_ordinary(self._incoming.slices, self.slicing.longest)
            self.head.newest = newest if self.head.newest is None else max(newest, self.head.newest)
        return late

    def close(self, watermark: int, now: int = 0) -> Iterator[Windows]:
        """Yield all that goes out in a micro-batch, then write the state that is left.

        The watermark of the micro-batch and the time of its trigger are in milliseconds.
        """
        return without_repeats(self.slicing, self._all_frames(watermark, now))

    def _all_frames(self, watermark: int, now: int) -> Iterator[Windows]:
        self._fit_trees()
        came = self._incoming
        now = self.head.clock = trigger_time(self.emission, self.head.clock, now)
        self.head.revision += not self.emission.once
        if self.emission.which not in (ALL, CHANGED):
            self.recent.add(came)
        if self.emission.corrects:
            yield from self._corrections(came)
        elif self.emission.when == UPDATE:
            yield from self._updates(came)
        yield from self._closing(watermark)
        if self.pending is not None:
            yield from self._early(came, now)
        self._forget_other_emissions()
        self.head.nonce = "" if self.emission.which == ALL else self.recent.keep(self._recent_from(), self._beside())
        self.pages.save_header()

    def _closing(self, watermark: int) -> Iterator[Windows]:
        """The windows that the watermark closes, and the state that is left."""
        head, slicing = self.head, self.slicing
        first, end = head.done, max(head.done, slicing.first_open(watermark * 1000, self.wait))
        head.watermark = max(watermark, head.watermark)
        still_taking = slicing.first_open(watermark * 1000, self.grace)
        head.taking = max(head.taking, still_taking) if self.emission.corrects else end
        if head.newest is None or end == first:
            if head.newest is None:
                head.nodes = end
            head.done = end
            self._write_incoming()
            return
        with closing(self._take_fresh(slicing.entered(end))) as fresh:
            last = slicing.last_window(head.newest)
            yield from self._closed(fresh, first, end, last)
            head.done, keep = end, self._keep_from(end)
            if last + 1 < keep:
                self._clear(end)
            else:
                self._keep(fresh, first, end, keep)
            head.kept = max(head.kept, keep)

    def _closed(self, fresh: InOrder, first: int, end: int, last: int) -> Iterator[Windows]:
        """What goes out of the windows `first` up to `end`, of which `last` is the last that may hold a record."""
        if self.emission.has_trees:
            until = min(end, last + 1)
            cached, self.head.nodes = self.head.nodes == first, None
            if until > first:
                with closing(self._news(fresh, first, end)) as news:
                    windows = first, until, end
                    close = closing_of(self.shape, self.trees, self.pages, self.stripes, news, windows, cached)
                    yield from close.windows()
                    self.head.nodes = end if close.leaves_nodes else None
        elif self.emission.which == CHANGED:
            with closing(self._news(fresh, first, end)) as news:
                yield from self._changes(news, first, min(end, last + 2))

    def _keep_from(self, end: int) -> int:
        """The first window that is still looked at: changes compare with the window that went out last."""
        return end - 1 if self.emission.which == CHANGED else min(end, self.head.taking)

    def _write_incoming(self) -> None:
        block = self._incoming
        if len(block):
            block = self.stripes.put_ahead(block, *self._complete(block))
        self._append_fresh(block)
        self._incoming = empty(self.shape)

    def _append_fresh(self, block: Block) -> None:
        """Add rows to the fresh pages.

        Those far ahead of the others have pages of their own, before the others, with which they are not merged: a page
        would span all slices between. Not if partials have an order, which is that of the pages.
        """
        if not len(block):
            return
        newest = newest_ordinary(block.slices, self.slicing.longest, self._here)
        assert self.head.newest is not None
        if self._has_order or self.head.newest <= newest + self.slicing.longest:
            self.pages.append(self.head.fresh, block, self.shape)
            return
        split = (
            [entry for entry in self.head.fresh if entry[1] > newest],
            [entry for entry in self.head.fresh if entry[1] <= newest],
        )
        for entries, part in zip(
            split, (block.between(newest + 1, FOREVER), block.between(-FOREVER, newest + 1)), strict=True
        ):
            if len(part):
                self.pages.append(entries, part, self.shape)
        self.head.fresh = [*split[0], *split[1]]

    def _complete(self, block: Block) -> tuple[int, int]:
        """First and end of the slices that wait to enter and all of which has come in this block, as one would think.

        Not of the newest slice, nor of as many more as rows of this block, but for one in `STRAGGLERS`, lie behind what
        had come before. Records far ahead of the others do not count.
        """
        first, before, reach = self.slicing.entered(self.head.done), self._newest_before, self.slicing.longest
        newest = newest_ordinary(block.slices, reach)
        if before is not None and before > newest + reach:
            spans = self.head.spans()
            ends = spans[spans[:, 0] <= newest, 1]
            before = int(ends.max()) - 1 if len(ends) else None
        if before is None:
            return first, newest
        behind = before + 1 - int(block.slices[len(block) // STRAGGLERS])
        return max(first, before + 1), newest - max(0, behind)

    def _news(self, fresh: InOrder, first: int, end: int) -> InOrder:
        """What came since the last close, with the slices that enter now and were cut before."""
        cut = self.stripes.read(self.slicing.entered(first), self.slicing.entered(end))
        return InOrder(self.shape, chain(cut, fresh.parts()))

    def _changes(self, news: InOrder, first: int, until: int) -> Iterator[Windows]:
        slicing, drained = self.slicing, self.emission.what == WITH_DRAINED
        known, oldest = self.head.kept < first, slicing.first_slice(first - 1)
        entering = oldest, slicing.entered(until)
        sources = [self.recent.slices([(oldest, FOREVER)], keep=oldest), news.parts(*entering)]
        for portion in portions(self.shape, sources, first, until, before=1):
            (kept, came), inside = portion.blocks, portion.first > first
            some = portion.first, portion.end, known or inside, drained
            yield from changes(self.shape, kept, came, *some, self.shown, self.whole, inside)
        if news.block is None:
            self.recent.drop()
        else:
            self.recent.add(news.block.between(*entering))

    def whole(self, frame: Windows) -> Windows:
        """A frame with all results of `shown` that changes are told by."""
        return frame

    def _updates(self, came: Block) -> Iterator[Windows]:
        if not len(came):
            return
        if self.totals is not None:
            frame, self.totals = newest_windows(self.shape, self.totals, came, self.head.taking, self._look)
            if len(frame):
                yield frame
            return
        for frame in self._touched(came, self.head.taking):
            yield replace(frame, kind="update")

    def _look(self, marks: Block, first: int) -> Iterator[Block]:
        """All rows of the keys of `marks` from slice `first` on, some keys in each block."""
        rows = (of_keys(part, marks) for part in self.recent.since(first))
        for portion in self._portions(first)(self.shape, [rows]):
            yield portion.blocks[0] if portion.is_all else of_keys(portion.blocks[0], marks)

    def _touched(self, marks: Block, first: int) -> Iterator[Windows]:
        """The windows from `first` on that hold a row of `marks`."""
        ranges = self._around(marks)
        if not ranges:
            return
        keep = next((low for low, high in ranges if high > self._newest_here()), None)
        rows = (of_keys(part, marks) for part in self.recent.slices(ranges, keep))
        sources = [rows, [as_marks(self.shape, marks)]]
        for portion in self._portions(ranges[0][0])(self.shape, sources, first, FOREVER):
            slices, some = portion.blocks
            yield from touched(self.shape, self.trees, slices, some, portion.first, portion.end)

    def _portions(self, first: int) -> Callable[..., Iterator[Portion]]:
        """How rows of slice `first` and later ones are taken: apart only if the process does not hold them anyway."""
        return in_memory if self.recent.first <= first else portions

    def _around(self, marks: Block) -> list[tuple[int, int]]:
        """The slices of all windows of some slices that take records: 2n - 1 at most for each."""
        return around(self.slicing, np.unique(marks.slices), self.slicing.first_slice(self.head.taking))

    def _newest_here(self) -> int:
        """The newest slice ever seen, but for those far ahead of where records come to now."""
        newest, reach = self.head.newest, self.slicing.longest
        assert newest is not None
        if self._here is None or newest <= self._here + reach:
            return newest
        return newest_reached(self.head.spans(), self._here, reach)

    def _corrections(self, came: Block) -> Iterator[Windows]:
        """Windows that have gone out and got a record."""
        taking, done, slicing = self.head.taking, self.head.done, self.slicing
        late = came.between(-FOREVER, slicing.entered(done))
        if not len(late):
            return
        if self.emission.what == ONLY_NEW:
            for frame in assemble(self.shape, self.trees, late, taking, done):
                yield replace(frame, kind="correction")
            return
        ranges = around(slicing, np.unique(late.slices), slicing.first_slice(taking))
        stored = (of_keys(block, late) for low, high in ranges for block in self._stored(low, high))
        for portion in portions(self.shape, [stored, [late]], taking, done):
            before, came = portion.blocks
            both, some = fold(self.shape, [before, came]), (portion.first, portion.end)
            for frame in touched(self.shape, self.trees, both, as_marks(self.shape, came), *some):
                old = None
                if self.emission.what == WITH_OLD:
                    old = as_before(self.shape, self.trees, before, frame, *some)
                yield replace(frame, kind="correction", old=old)

    def _early(self, came: Block, now: int) -> Iterator[Windows]:
        """Open windows that got a record since they went out last, if it is time."""
        assert self.pending is not None
        due = self.pending.due(came, self.slicing.first_slice(self.head.done), now)
        if len(due):
            for frame in self._touched(due, self.head.done):
                yield replace(frame, kind="early")

    def _entered(self, first: int, end: int) -> Iterator[Block]:
        return self.stripes.read(first, min(end, self.slicing.entered(self.head.done)))

    def _all(self, first: int, end: int) -> Iterator[Block]:
        return chain(self._stored(first, end), [self._incoming.between(first, end)])

    def _stored(self, first: int, end: int) -> Iterator[Block]:
        """The rows of slices in all pages, the older ones of a slice first."""
        fresh = [entry for entry in self.head.fresh if entry[1] < end and entry[2] > first]
        pages = (page.between(first, end) for page in self.pages.take(fresh, self.shape))
        return chain(self.stripes.read(first, end), pages)

    def _recent_from(self) -> int:
        """The first slice that is worth keeping in the process."""
        oldest = self.slicing.first_slice(self.head.kept)
        if self.emission.which == CHANGED or self.head.newest is None:
            return oldest
        return max(oldest, self._newest_here() - 2 * self.slicing.longest + 1)

    def _beside(self) -> dict[str, Block]:
        """What the process keeps beside the slices."""
        made = {TOTALS: self.totals, PENDING: self.pending.kept if self.pending else None}
        return {name: block for name, block in made.items() if block is not None}

    def _forget_other_emissions(self) -> None:
        """Remove the caches that this emission does not move forward; another one makes them anew."""
        own = self.others + (NODES if self.emission.has_trees else ())
        own += ("early ",) if self.pending else ()
        for name in [name for name in self.head.caches if not name.startswith(own)]:
            self.pages.remove(self.head.caches.pop(name))
        if not self.emission.has_trees:
            self.head.nodes = None

    def _take_fresh(self, entered: int) -> InOrder:
        """What came since the last close, out of its pages.

        Pages of slices that do not enter yet are left alone, or a long delay would make every close rewrite them; but
        not if partials have an order, which is that of the pages.
        """
        entering = [entry for entry in self.head.fresh if self._has_order or entry[1] < entered]
        both = max((entry[2] for entry in entering), default=-FOREVER)
        both, came = max(both, entered), self._incoming
        fresh = InOrder(self.shape, chain(self.pages.take(entering, self.shape), [came.between(-FOREVER, both)]))
        self._incoming = came.between(both, FOREVER)
        self.head.fresh = [entry for entry in self.head.fresh if entry not in entering]
        self.pages.remove(entering)
        return fresh

    def _clear(self, end: int) -> None:
        """Nothing is left: every slice seen has gone out in its last window."""
        self.stripes.remove_before(FOREVER)
        for entries in self.head.caches.values():
            self.pages.remove(entries)
        self.head.caches.clear()
        self.head.newest, self.head.nodes = None, end

    def _keep(self, fresh: InOrder, first: int, end: int, keep: int) -> None:
        """Write what entered and later windows need into its stripes, and remove what is before window `keep`."""
        oldest, entered = self.slicing.first_slice(keep), self.slicing.entered(end)
        self.stripes.remove_before(oldest)
        entered_before = max(oldest, self.slicing.entered(first))
        self.stripes.at_once = entered - self.slicing.entered(first)
        for part in fresh.parts(oldest):
            self.stripes.put_late(part.between(oldest, entered_before))
            self.stripes.put(part.between(entered_before, entered))
            self._append_fresh(part.between(entered, FOREVER))
        self._compact(first, end)
        # Apart from those, or the next close would read and write them all again.
        self._write_incoming()

    def _compact(self, first: int, end: int) -> None:
        """Cut the stripes that became whole, and let late rows join the stripe that is the next to leave.

        Once per stripe: rows that come late after that stay apart, or every late row would rewrite a stripe.
        """
        length, oldest = self.stripes.length, self.slicing.first_slice(end)
        entered_before, entered = self.slicing.entered(first), self.slicing.entered(end)
        for key in [key for key in self.head.stripes if entered_before < (key + 1) * length <= entered]:
            self.stripes.cut(key)
        leaving = oldest // length
        moved = leaving != self.slicing.first_slice(first) // length
        if moved and "two_layer" in self.trees and self.emission.has_trees and not self.emission.corrects:
            self.stripes.settle(leaving, oldest)

    def extent(self) -> dict[str, int]:
        """How many slices the pages span, and how many open windows these are of; by the header, no page is read."""
        oldest = self.slicing.first_slice(self.head.done)
        spans = self.head.spans()
        spans = np.maximum(spans[spans[:, 1] > oldest], oldest)
        if not len(spans):
            return {"open_windows": 0, "slices": 0}
        first = max(self.head.done, self.slicing.first_window(int(spans.min())))
        end = self.slicing.last_window(int(spans.max()) - 1) + 1
        return {"open_windows": end - first, "slices": covered(spans)}

    def check(self) -> None:
        """Assert the invariants between header and pages: no page named twice, nothing expired, every page in place."""
        head, length = self.head, self.stripes.length
        entries = [*head.fresh, *head.late, *(entry for cached in head.caches.values() for entry in cached)]
        names = []
        for key, stripe in head.stripes.items():
            assert (key + 1) * length > self.slicing.first_slice(head.kept), "expired stripes are removed"
            entries += stripe.loose
            names += [name for cut in stripe.cuts for name in self.stripes.names(key, cut)]
            assert all(a[0] < b[0] for a, b in pairwise(stripe.cuts))
            assert all(key * length <= entry[1] < entry[2] <= (key + 1) * length for entry in stripe.loose)
        assert all(entry[2] > self.slicing.first_slice(head.kept) for entry in head.late), "so are late rows"
        assert all(entry[2] <= self.slicing.entered(head.done) for entry in head.late)
        names += [page_name(entry) for entry in entries]
        assert len(names) == len(set(names)), "a page belongs to one place"
        assert all(entry[0] < head.serial for entry in entries)
        assert all(self.pages.store.get(name) for name in names)
