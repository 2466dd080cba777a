"""The state of one bucket: how records get in and how windows go out.

Slices are the only truth; the trees' nodes are durable caches of them. Everything is a page in a key-value store:

    fresh     pages written since the last close, not in any cache yet
    stripes   for each stripe the slices that have entered
    late      what came to those slices after they had entered
    caches    the trees' nodes by name

A micro-batch in which nothing closes writes one page and the header, and reads none but to merge a few small ones. A
close reads the fresh pages, moves the trees forward, and writes what entered into its stripes. Expired stripes are
removed whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from slicing.assembly import Windows
from slicing.blocks import Block, Shape, empty, fold
from slicing.closing import Closing
from slicing.lateness import Late, is_late
from slicing.pages import Pages, Store, covered, page_name
from slicing.stripes import FOREVER, Stripes


class Bucket:
    """One bucket over its store, for the length of one micro-batch: `add` what came, then `close` if time moved.

    `trees` has one of `assembly.TREES` for each kernel. `grace` is in microseconds. Raises StateMismatch.
    """

    def __init__(self, shape: Shape, trees: Sequence[str], grace: int, fingerprint: dict[str, str], store: Store):
        self.shape, self.slicing, self.trees, self.grace = shape, shape.slicing, trees, grace
        self.pages = Pages(store, fingerprint, self.slicing.first_open(0, grace))
        self.head = self.pages.head
        self.stripes = Stripes(self.pages, shape)
        self._incoming = empty(shape)

    def add(self, blocks: Sequence[Block]) -> Late[Block]:
        """Judge the partials of a micro-batch, keep those of open windows, return and count those refused.

        All records of a slice belong to the same windows, so a slice is judged as one.
        """
        block = fold(self.shape, blocks)
        accepted = self.slicing.last_window(block.slices) >= self.head.done
        refused = is_late(self.slicing, block.slices, self.head.done)
        late_for_all, late_for_some = (int(block.records[rows].sum()) for rows in (~accepted, accepted & refused))
        rows = block.take(np.flatnonzero(refused))
        late = Late(late_for_all, late_for_some, rows, self.head.done, self.head.watermark)
        self._incoming = block if accepted.all() else block.take(np.flatnonzero(accepted))
        if len(self._incoming):
            newest = int(self._incoming.slices[-1])
            self.head.newest = newest if self.head.newest is None else max(newest, self.head.newest)
        return late

    def save(self) -> None:
        """Write what came as a page, and the header. For micro-batches in which no window closes."""
        if len(self._incoming):
            self.pages.append(self.head.fresh, self._incoming, self.shape)
        self._incoming = empty(self.shape)
        self.pages.save_header()

    def close(self, watermark: int) -> Iterator[Windows]:
        """Yield the windows that go out at a watermark (in milliseconds), then write the state that is left."""
        head, slicing = self.head, self.slicing
        first, end = head.done, max(head.done, slicing.first_open(watermark * 1000, self.grace))
        head.watermark = max(watermark, head.watermark)
        if head.newest is None or end == first:
            head.done = end
            self.save()
            return
        fresh = self._take_fresh(slicing.entered(end))
        until = min(end, slicing.last_window(head.newest) + 1)
        if until > first:
            windows = (first, until, end)
            yield from Closing(self.shape, self.trees, self.pages, self.stripes, fresh, windows).windows()
        head.done = end
        if until < end:
            self._clear()
        else:
            self._keep(fresh, first, end)
        self.pages.save_header()

    def _take_fresh(self, entered: int) -> Block:
        """What came since the last close, out of its pages.

        Pages of slices that do not enter yet are left alone, or a long delay would make every close rewrite them; but
        not if partials have an order, which is that of the pages.
        """
        ordered = any(kernel.aggregate.ordered for kernel in self.shape.kernels)
        entering = [entry for entry in self.head.fresh if ordered or entry[1] < entered]
        both = max((entry[2] for entry in entering), default=-FOREVER)
        before = fold(self.shape, [*self.pages.take(entering, self.shape), self._incoming.between(-FOREVER, both)])
        fresh = fold(self.shape, [before, self._incoming.between(both, FOREVER)])
        self._incoming = empty(self.shape)
        self.head.fresh = [entry for entry in self.head.fresh if entry not in entering]
        self.pages.remove(entering)
        return fresh

    def _clear(self) -> None:
        """Nothing is left: every slice seen has gone out in its last window."""
        self.stripes.remove_before(FOREVER)
        for entries in self.head.caches.values():
            self.pages.remove(entries)
        self.head.caches.clear()
        self.head.newest = None

    def _keep(self, fresh: Block, first: int, end: int) -> None:
        """Write what entered and later windows need into its stripes, and remove the stripes that none needs."""
        oldest, entered = self.slicing.first_slice(end), self.slicing.entered(end)
        self.stripes.remove_before(oldest)
        entered_before = max(oldest, self.slicing.entered(first))
        self.stripes.at_once = (end - first) * self.slicing.per_advance
        self.stripes.put_late(fresh.between(oldest, entered_before))
        self.stripes.put(fresh.between(entered_before, entered))
        self._compact(first, end)
        waiting = fresh.between(entered, FOREVER)
        if len(waiting):
            self.pages.append(self.head.fresh, waiting, self.shape)

    def _compact(self, first: int, end: int) -> None:
        """Cut the stripes that became whole, and let late rows join the stripe that is the next to leave.

        Once per stripe: rows that come late after that stay apart, or every late row would rewrite a stripe.
        """
        length, oldest = self.slicing.stripe, self.slicing.first_slice(end)
        entered_before, entered = self.slicing.entered(first), self.slicing.entered(end)
        for key in [key for key in self.head.stripes if entered_before < (key + 1) * length <= entered]:
            self.stripes.cut(key)
        leaving = oldest // length
        if "two_layer" in self.trees and leaving != self.slicing.first_slice(first) // length:
            self.stripes.settle(leaving, oldest)

    def extent(self) -> dict[str, int]:
        """How many slices the pages span, and how many open windows these are of; by the header, no page is read."""
        oldest = self.slicing.first_slice(self.head.done)
        spans = [(max(first, oldest), end) for first, end in self.head.spans(self.slicing.stripe) if end > oldest]
        if not spans:
            return {"open_windows": 0, "slices": 0}
        first = max(self.head.done, self.slicing.first_window(min(spans)[0]))
        end = self.slicing.last_window(max(end for _, end in spans) - 1) + 1
        return {"open_windows": end - first, "slices": covered(spans)}

    def check(self) -> None:
        """Assert the invariants between header and pages: no slice cut twice, nothing expired, every page in place."""
        head, length = self.head, self.slicing.stripe
        entries = [*head.fresh, *head.late, *(entry for cached in head.caches.values() for entry in cached)]
        names = []
        for key, stripe in head.stripes.items():
            assert (key + 1) * length > self.slicing.first_slice(head.done), "expired stripes are removed"
            entries += stripe.loose
            names += [name for cut in stripe.cuts for name in self.stripes.names(key, cut)]
            assert all(a[1] <= b[0] for a, b in pairwise(stripe.cuts))
            assert all(key * length <= entry[1] < entry[2] <= (key + 1) * length for entry in stripe.loose)
            assert all(key * length + cut[1] <= self.slicing.entered(head.done) for cut in stripe.cuts)
        assert all(entry[2] > self.slicing.first_slice(head.done) for entry in head.late), "so are late rows"
        assert all(entry[2] <= self.slicing.entered(head.done) for entry in head.late)
        names += [page_name(entry) for entry in entries]
        assert len(names) == len(set(names)), "a page belongs to one place"
        assert all(entry[0] < head.serial for entry in entries)
        assert all(self.pages.store.get(name) for name in names)
