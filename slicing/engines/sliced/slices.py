"""The slices of one bucket: in its pages, in the bucket cache, and the new rows of this micro-batch.

Families of windows share them. Slices before `entered` belong to windows that some family has emitted or skipped. They
are stored in slice groups. All other slices are in fresh pages, except for complete slices, which have pages of their
own. `entered` never steps back: the late rows of a slice come after its other rows, also in results with an order::

    slice groups ... ==== ==== ====| fresh  - -- - -|  incoming
                                   entered          newest
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.partitions import InOrder, Partition, in_memory, key_partitions
from slicing.content.block import Block, Shape, empty
from slicing.content.folding import with_index
from slicing.engines.sliced.ahead import newest_ordinary, newest_reached
from slicing.state.bucket_cache import BucketCache
from slicing.state.format.header import Entry, covered, spans_of
from slicing.state.format.list_names import RECENT, STATES, parse
from slicing.state.pages import Pages, page_name
from slicing.state.slice_groups import SliceGroups
from slicing.triggers.trigger import Trigger
from slicing.windows.time.slices import FOREVER

STRAGGLERS = 64
"""One row in this many may arrive after its slice was written as complete; such rows are written again later."""


class Slices:
    """The slices of one bucket during one micro-batch; `entered` is the end of the slices that have entered so far."""

    def __init__(self, shape: Shape, pages: Pages, trigger: Trigger, entered: int):
        self.shape, self.pages, self.head, self.entered = shape, pages, pages.head, entered
        self.longest = shape.family.longest
        self.slice_groups = SliceGroups(pages, shape)
        self.needs = trigger.needs
        read = self._in_slice_groups if self.needs.compares else self._all
        self.cache = BucketCache(shape, self.head.nonce, str(trigger), read)
        self.incoming, self._newest_before = empty(shape), self.head.newest
        self._here: int | None = None  # the newest ordinary slice of the new records

    def take(self, block: Block) -> None:
        """Hold the new records until they are written."""
        self.incoming = block
        if len(block):
            newest = int(block.index[-1])
            self._here = newest_ordinary(block.index, self.longest)
            self.head.newest = newest if self.head.newest is None else max(newest, self.head.newest)

    def remember(self) -> None:
        """Add the new records to the slices of open windows in the bucket cache."""
        if self.needs.follows:
            self.cache.add(self.incoming)

    def stored(self, first: int, end: int) -> Iterator[Block]:
        """Yield the rows of slices `first` up to `end` in all pages, older rows of a slice first."""
        fresh = [entry for entry in self.head.fresh if entry[1] < end and entry[2] > first]
        pages = (page.between(first, end) for page in self.pages.take(fresh, self.shape))
        return chain(self.slice_groups.read(first, end), pages)

    def late_rows(self, first: int, end: int) -> Iterator[Block]:
        """Yield the late rows of entered slices that are still stored separately from their slices."""
        fresh = [entry for entry in self.head.fresh if entry[1] < min(end, self.entered) and entry[2] > first]
        pages = (page.between(first, min(end, self.entered)) for page in self.pages.take(fresh, self.shape))
        return chain(self.slice_groups.read_late(first, end), pages)

    def _all(self, first: int, end: int) -> Iterator[Block]:
        return chain(self.stored(first, end), [self.incoming.between(first, end)])

    def _in_slice_groups(self, first: int, end: int) -> Iterator[Block]:
        return self.slice_groups.read(first, min(end, self.entered))

    def partitioning(self, first: int) -> Callable[..., Iterator[Partition]]:
        """Return the function that splits rows from slice `first` on into partitions: in memory if they are cached."""
        return in_memory if self.cache.first <= first else key_partitions

    def newest(self) -> int:
        """Return the newest slice ever seen, without those far ahead of the current records."""
        newest = self.head.newest
        assert newest is not None
        if self._here is None or newest <= self._here + self.longest:
            return newest
        return newest_reached(self.head.spans(), self._here, self.longest)

    def write_incoming(self) -> None:
        """Write the new records: complete slices as pages of their own, others as fresh pages."""
        block = self.incoming
        if len(block):
            block = self.slice_groups.put_complete(block, *self._complete(block))
        self._append_fresh(block)
        self.incoming = empty(self.shape)

    def _append_fresh(self, block: Block) -> None:
        """Add rows to the fresh pages.

        Rows far ahead of the others get pages of their own, listed before the others and not merged with them, because
        a common page would span all slices between. Pages with a slice in common stay in their order, which is that of
        the records of this slice.
        """
        if not len(block):
            return
        newest = newest_ordinary(block.index, self.longest, self._here)
        assert self.head.newest is not None
        if self.head.newest <= newest + self.longest:
            self.pages.append(self.head.fresh, block, self.shape)
            return
        newest = newest_reached(spans_of(self.head.fresh), newest, 0)
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
        """Return the first slice and the end of the slices in this block that look complete and have not entered.

        All slices after the newest one of before, except the newest slice, and the slices within the lateness observed
        in this block. One row in `STRAGGLERS` and records far ahead of the others are ignored.
        """
        before, reach = self._newest_before, self.longest
        newest = newest_ordinary(block.index, reach)
        if before is not None and before > newest + reach:
            spans = self.head.spans()
            ends = spans[spans[:, 0] <= newest, 1]
            before = int(ends.max()) - 1 if len(ends) else None
        if before is None:
            return self.entered, newest
        lateness = before + 1 - int(block.index[len(block) // STRAGGLERS])
        return max(self.entered, before + 1), newest - max(0, lateness)

    def take_fresh(self, entered: int) -> InOrder:
        """Remove and return the new rows since the last close.

        Pages of slices that do not enter yet stay, otherwise a long delay would make every close rewrite them. New
        records of slices of the returned pages are returned with them, unless other pages of these slices stay.
        """
        entering = self._entering(entered)
        ends = [entry[2] for entry in entering]
        stay = [entry[1] for entry in self.head.fresh if entry not in entering]
        both, incoming = min([max([entered, *ends]), *stay]), self.incoming
        fresh = InOrder(self.shape, chain(self.pages.take(entering, self.shape), [incoming.between(-FOREVER, both)]))
        self.incoming = incoming.between(both, FOREVER)
        self.head.fresh = [entry for entry in self.head.fresh if entry not in entering]
        self.pages.remove(entering)
        return fresh

    def _entering(self, entered: int) -> list[Entry]:
        """Return the fresh pages with slices that enter, in their order.

        If the order of records matters, older pages that have slices in common with them are returned, too: `enter`
        then writes their other rows to pages before those that stay.
        """
        found, reach = [], entered
        for entry in reversed(self.head.fresh):
            if entry[1] < reach:
                found.append(entry)
                reach = max(reach, entry[2]) if self.shape.has_order else reach
        return found[::-1]

    def clear(self) -> None:
        """Remove all pages but those of functions and of `empty`: the last window of every slice has been emitted."""
        self.slice_groups.remove_before(FOREVER)
        for name in [name for name in self.head.lists if parse(name).of not in (RECENT, STATES)]:
            self.pages.remove(self.head.lists.pop(name))
        self.head.newest = None

    def enter(self, fresh: InOrder, entered: int, oldest: int) -> None:
        """Write the slices that enter to their slice groups, and remove slices before `oldest`."""
        self.slice_groups.remove_before(oldest)
        entered_before = max(oldest, self.entered)
        self.slice_groups.at_once = entered - self.entered
        newer, self.head.fresh = (self.head.fresh, []) if self.shape.has_order else ([], self.head.fresh)
        for part in fresh.parts(oldest):
            self.slice_groups.put_late(part.between(oldest, entered_before))
            complete = entered if fresh.block is not None else min(entered, int(part.index[-1]))
            self.slice_groups.put(part.between(entered_before, entered), complete)
            self._append_fresh(part.between(entered, FOREVER))
        self.head.fresh += newer
        for key in self._whole(self.entered, entered):
            self.slice_groups.cut(key)
        self.entered = entered

    def _whole(self, before: int, entered: int) -> Sequence[int]:
        """Return the slice groups whose slices have all entered now."""
        length = self.slice_groups.length
        return [key for key in self.head.slice_groups if before < (key + 1) * length <= entered]

    def fold_late(self, left: int, oldest: int, retained: int) -> None:
        """Merge late rows into the slice group that leaves next.

        The first needed slice moves from `left` to `oldest`. This happens once per slice group: later late rows stay
        separate, otherwise every late row would rewrite one. Late rows of slices from `retained` on, which no window
        needs, are merged, too.
        """
        leaving = oldest // self.slice_groups.length
        if leaving != left // self.slice_groups.length:
            self.slice_groups.fold_late(leaving, min(retained, oldest))

    def merge(self, first: int, end: int, holder: Callable[[Array], Array]) -> None:
        """Combine entered slices from `first` up to `end`, in time order, into the slices that `holder` returns."""

        def merged(block: Block) -> Block:
            inside = (block.index >= first) & (block.index < end)
            return with_index(self.shape, block, np.where(inside, holder(block.index), block.index))

        self.slice_groups.replace(first, end, merged)
        self.cache.replace(first, end, merged)

    def count(self, oldest: int) -> int:
        """Count the slices from `oldest` on that the pages span, from the header."""
        return covered(self.spans(oldest))

    def spans(self, oldest: int) -> Array:
        """Return the first slice and the end of each page of slices, from slice `oldest` on: `int64[n, 2]`."""
        spans = self.head.spans(oldest)
        return np.maximum(spans[spans[:, 1] > oldest], oldest)

    def check(self, oldest: int) -> None:
        """Assert that the header names no page twice, that no slice is before `oldest`, and that every page exists."""
        head, length = self.head, self.slice_groups.length
        entries = [*head.fresh, *head.late, *(entry for cached in head.lists.values() for entry in cached)]
        names = []
        for key, group in head.slice_groups.items():
            assert (key + 1) * length > oldest, "expired slice groups are removed"
            entries += group.loose
            names += [name for cut in group.cuts for name in self.slice_groups.names(key, cut)]
            assert all(a[0] < b[0] for a, b in pairwise(group.cuts))
            assert all(key * length <= entry[1] < entry[2] <= (key + 1) * length for entry in group.loose)
        assert all(entry[2] > oldest for entry in head.late), "so are late rows"
        assert all(entry[2] <= self.entered for entry in head.late)
        names += [page_name(entry) for entry in entries]
        assert len(names) == len(set(names)), "a page belongs to one place"
        assert all(entry[0] < head.serial for entry in entries)
        assert all(self.pages.store.get(name) for name in names)
