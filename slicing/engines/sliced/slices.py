"""The slices of one bucket: in its pages, in the bucket cache of the process, and the new ones of this micro-batch.

Families of windows share them. Slices before `entered` belong to windows that some family has emitted. They are stored
in slice groups (`stripes`), all others in fresh pages, except for complete slices, which go to their own pages::

    stripes ... ==== ==== ====| fresh  - -- - -|  incoming
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
from slicing.state.bucket_cache import Recent
from slicing.state.format.header import covered
from slicing.state.format.list_names import STATES, parse
from slicing.state.pages import Pages, page_name
from slicing.state.slice_groups import Stripes
from slicing.triggers.trigger import Trigger
from slicing.windows.time.slices import FOREVER

STRAGGLERS = 64
"""One row in this many may arrive after others of its slice, and be written again until the slice leaves."""


class Slices:
    """The slices of one bucket, for the length of one micro-batch; `shape` has the cut, `entered` is as stored."""

    def __init__(self, shape: Shape, pages: Pages, trigger: Trigger, entered: int):
        self.shape, self.pages, self.head, self.entered = shape, pages, pages.head, entered
        self.longest = shape.family.longest
        self.stripes = Stripes(pages, shape)
        self.needs = trigger.needs
        read = self._in_stripes if self.needs.compares else self._all
        self.recent = Recent(shape, self.head.nonce, str(trigger), read)
        self.incoming, self._newest_before = empty(shape), self.head.newest
        self._here: int | None = None  # the newest slice that records ordinarily came to now

    @property
    def has_order(self) -> bool:
        """Whether partials have an order, which is that of the pages."""
        return any(kernel.aggregate.ordered for kernel in self.shape.kernels)

    def take(self, block: Block) -> None:
        """Hold the new records until they are written."""
        self.incoming = block
        if len(block):
            newest = int(block.index[-1])
            self._here = newest_ordinary(block.index, self.longest)
            self.head.newest = newest if self.head.newest is None else max(newest, self.head.newest)

    def remember(self) -> None:
        """Add the new records to the process's cache of slices of open windows."""
        if self.needs.follows:
            self.recent.add(self.incoming)

    def stored(self, first: int, end: int) -> Iterator[Block]:
        """The rows of slices in all pages, the older ones of a slice first."""
        fresh = [entry for entry in self.head.fresh if entry[1] < end and entry[2] > first]
        pages = (page.between(first, end) for page in self.pages.take(fresh, self.shape))
        return chain(self.stripes.read(first, end), pages)

    def came_late(self, first: int, end: int) -> Iterator[Block]:
        """The rows of slices that had entered when they came, as far as they have not joined their slices yet."""
        fresh = [entry for entry in self.head.fresh if entry[1] < min(end, self.entered) and entry[2] > first]
        pages = (page.between(first, min(end, self.entered)) for page in self.pages.take(fresh, self.shape))
        return chain(self.stripes.read_late(first, end), pages)

    def _all(self, first: int, end: int) -> Iterator[Block]:
        return chain(self.stored(first, end), [self.incoming.between(first, end)])

    def _in_stripes(self, first: int, end: int) -> Iterator[Block]:
        return self.stripes.read(first, min(end, self.entered))

    def partitioning(self, first: int) -> Callable[..., Iterator[Partition]]:
        """Take rows of slice `first` and later ones: separately only if the process does not cache them."""
        return in_memory if self.recent.first <= first else key_partitions

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
            block = self.stripes.put_ahead(block, *self._complete(block))
        self._append_fresh(block)
        self.incoming = empty(self.shape)

    def _append_fresh(self, block: Block) -> None:
        """Add rows to the fresh pages.

        Those far ahead of the others have pages of their own, before the others, with which they are not merged: a page
        would span all slices between. Not if partials have an order, which is that of the pages.
        """
        if not len(block):
            return
        newest = newest_ordinary(block.index, self.longest, self._here)
        assert self.head.newest is not None
        if self.has_order or self.head.newest <= newest + self.longest:
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
        before, reach = self._newest_before, self.longest
        newest = newest_ordinary(block.index, reach)
        if before is not None and before > newest + reach:
            spans = self.head.spans()
            ends = spans[spans[:, 0] <= newest, 1]
            before = int(ends.max()) - 1 if len(ends) else None
        if before is None:
            return self.entered, newest
        behind = before + 1 - int(block.index[len(block) // STRAGGLERS])
        return max(self.entered, before + 1), newest - max(0, behind)

    def take_fresh(self, entered: int) -> InOrder:
        """What came since the last close, out of its pages.

        Pages of slices that do not enter yet are left alone, or a long delay would make every close rewrite them; but
        not if partials have an order, which is that of the pages.
        """
        entering = [entry for entry in self.head.fresh if self.has_order or entry[1] < entered]
        both = max((entry[2] for entry in entering), default=-FOREVER)
        both, came = max(both, entered), self.incoming
        fresh = InOrder(self.shape, chain(self.pages.take(entering, self.shape), [came.between(-FOREVER, both)]))
        self.incoming = came.between(both, FOREVER)
        self.head.fresh = [entry for entry in self.head.fresh if entry not in entering]
        self.pages.remove(entering)
        return fresh

    def clear(self) -> None:
        """Remove everything but what functions remember: the last window of every slice has been emitted."""
        self.stripes.remove_before(FOREVER)
        for name in [name for name in self.head.lists if parse(name).of != STATES]:
            self.pages.remove(self.head.lists.pop(name))
        self.head.newest = None

    def enter(self, fresh: InOrder, entered: int, oldest: int) -> None:
        """Write what entered into its stripes, and remove what is before slice `oldest`."""
        self.stripes.remove_before(oldest)
        entered_before = max(oldest, self.entered)
        self.stripes.at_once = entered - self.entered
        for part in fresh.parts(oldest):
            self.stripes.put_late(part.between(oldest, entered_before))
            self.stripes.put(part.between(entered_before, entered))
            self._append_fresh(part.between(entered, FOREVER))
        for key in self._whole(self.entered, entered):
            self.stripes.cut(key)
        self.entered = entered

    def _whole(self, before: int, entered: int) -> Sequence[int]:
        """The stripes that have become whole."""
        length = self.stripes.length
        return [key for key in self.head.stripes if before < (key + 1) * length <= entered]

    def settle(self, left: int, oldest: int, retained: int) -> None:
        """Let late rows join the stripe that is the next to leave, as slices before `oldest` have, and before `left`.

        Once per stripe: rows that come late after that stay apart, or every late row would rewrite a stripe. Of slices
        from `retained` on, which no window needs, they join theirs too.
        """
        leaving = oldest // self.stripes.length
        if leaving != left // self.stripes.length:
            self.stripes.settle(leaving, min(retained, oldest))

    def merge(self, first: int, end: int, holder: Callable[[Array], Array]) -> None:
        """Combine entered slices from `first` up to `end` to those that `holder` gives for them, in time order."""

        def merged(block: Block) -> Block:
            inside = (block.index >= first) & (block.index < end)
            return with_index(self.shape, block, np.where(inside, holder(block.index), block.index))

        self.stripes.replace(first, end, merged)
        self.recent.replace(first, end, merged)

    def count(self, oldest: int) -> int:
        """How many slices from `oldest` on the pages span, by the header."""
        return covered(self.spans(oldest))

    def spans(self, oldest: int) -> Array:
        """First slice and end of each page of slices, from slice `oldest` on."""
        spans = self.head.spans(oldest)
        return np.maximum(spans[spans[:, 1] > oldest], oldest)

    def check(self, oldest: int) -> None:
        """Assert the invariants between header and pages: no page named twice, nothing before `oldest`, all there."""
        head, length = self.head, self.stripes.length
        entries = [*head.fresh, *head.late, *(entry for cached in head.lists.values() for entry in cached)]
        names = []
        for key, stripe in head.stripes.items():
            assert (key + 1) * length > oldest, "expired stripes are removed"
            entries += stripe.loose
            names += [name for cut in stripe.cuts for name in self.stripes.names(key, cut)]
            assert all(a[0] < b[0] for a, b in pairwise(stripe.cuts))
            assert all(key * length <= entry[1] < entry[2] <= (key + 1) * length for entry in stripe.loose)
        assert all(entry[2] > oldest for entry in head.late), "so are late rows"
        assert all(entry[2] <= self.entered for entry in head.late)
        names += [page_name(entry) for entry in entries]
        assert len(names) == len(set(names)), "a page belongs to one place"
        assert all(entry[0] < head.serial for entry in entries)
        assert all(self.pages.store.get(name) for name in names)
