"""The slices that have entered the trees, in pages by stripe: cut to what one close reads, and removed whole.

A stripe has *cut* pages, of single slices or of several small ones that share a page, and *loose* pages, one for each
close in which some of its slices were too small for a page of their own; they are cut when the stripe is whole. Slices
that come all at once are cut before they enter, and are then written only once. Rows that come later to slices that
are cut or have entered are few: they share pages, whatever their stripes, and join their stripe when it is the next to
leave.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from slicing.content.block import Block, Shape
from slicing.content.folding import fold
from slicing.content.sizes import parts, row_bytes
from slicing.state.format.header import Entry, SlicePages, Stripe
from slicing.state.pages import GENERATION, Pages, page_name
from slicing.windows.time.slices import FOREVER

Named = tuple[str, int]
"""A page: its name and its generation."""
CUT_BYTES = 16 << 10
"""Slices smaller than this share a page: reading one costs as much as about 11 KB of content."""
MOST_AT_ONCE = 64
"""Slices that leave in the same close share a page from this many times CUT_BYTES on, or as many as a stripe has."""


JOINED = 2
"""Late rows of merged slices join theirs in so many stripes of a micro-batch, so that none pauses for long."""


def page_stripe(longest: int) -> int:
    """Slices in a stripe of pages of a new checkpoint, windows having so many at most; old ones keep theirs.

    A 32nd of a window is not better: of 60 slices of 20 keys it makes 61 pages instead of 12, of three times the bytes,
    and a close with late rows reads 6.5 pages instead of 5.4; of 10,080 slices a close reads 1.2 KB instead of 0.7.
    """
    return max(1, round(math.sqrt(longest)))


class Stripes:
    """The slices that have entered or are cut. Blocks that are read are not folded: a slice may be in several pages."""

    def __init__(self, pages: Pages, shape: Shape):
        self.pages, self.shape = pages, shape
        self.held, self.late = pages.head.stripes, pages.head.late
        self.length: int = pages.head.layout.setdefault("stripe", page_stripe(shape.family.longest))
        self.at_once = 1
        """How many slices a close takes in, or a micro-batch brings, and so, some time later, how many leave in one."""

    @property
    def cut_bytes(self) -> int:
        """The size from which on slices have a page of their own."""
        return CUT_BYTES * min(self.at_once, MOST_AT_ONCE, self.length)

    def read(self, first: int, end: int) -> Iterator[Block]:
        """All stored rows of slices `first` up to but not including `end`, those that came late last."""
        found: list[Named] = []
        for key in self._keys(first, end):
            found += self._found(key, first, end)
        found += _within(self.late, first, end)
        return self._between(found, first, end)

    def read_late(self, first: int, end: int) -> Iterator[Block]:
        """The rows of some slices that came late and have not joined their slices yet."""
        return self._between(_within(self.late, first, end), first, end)

    def _between(self, pages: Sequence[Named], first: int, end: int) -> Iterator[Block]:
        return (self.pages.get(name, self.shape, of).between(first, end) for name, of in pages)

    def put_ahead(self, block: Block, first: int, end: int) -> Block:
        """Cut slices `first` up to `end`, of which nothing is stored, and return the rows that are not in these pages.

        Only slices that fill pages, and only where the window is longer than what came: else they leave as they enter.
        """
        self.at_once = len(np.unique(block.between(first, FOREVER).index))
        ahead = block.between(first, end)
        if self.at_once >= self.shape.family.longest or not self._fills(ahead):
            return block
        others = np.ones(len(block), dtype=bool)
        for key, part in self._by_stripe(ahead):
            if self._fills(part):
                self._cut(key, part)
                others[slice(*np.searchsorted(block.index, (part.index[0], part.index[-1] + 1)))] = False
        return block.take(np.flatnonzero(others))

    def put(self, block: Block) -> None:
        """Add slices that enter: those that fill a page are cut at once."""
        late = np.zeros(len(block), dtype=bool)
        for key in np.unique(block.index // self.length).tolist():
            for first, end, *_ in self.held[key].cuts if key in self.held else ():
                rows = np.searchsorted(block.index, (key * self.length + first, key * self.length + end))
                late[slice(*rows)] = True
        self.put_late(block.take(np.flatnonzero(late)))
        for key, part in self._by_stripe(block.take(np.flatnonzero(~late))):
            stripe = self.held.setdefault(key, Stripe())
            if not stripe.loose and self._fills(part):
                self._cut(key, part)
            else:
                self.pages.append(stripe.loose, part, self.shape)

    def put_late(self, block: Block) -> None:
        """Add rows of slices that are cut or have entered before; those of merged slices in pages of their own.

        Others join their slices when these are merged, for which their pages are written anew.
        """
        merged = self.pages.head.all_merged
        if merged is None or not len(block):
            self._append(self.late, block)
            return
        old = [entry for entry in self.late if entry[1] < merged]
        new = [entry for entry in self.late if entry[1] >= merged]
        self._add_to_few(old, block.between(-FOREVER, merged))
        self._append(new, block.between(merged, FOREVER))
        self.late[:] = [*old, *new]

    def _add_to_few(self, entries: list[Entry], block: Block) -> None:
        """Add rows to a list of pages, to those of its last page while these are few: one row of a slice and key."""
        if not len(block):
            return
        if entries:
            last = entries[-1]
            rows = self.pages.get(page_name(last), self.shape, last[GENERATION])
            if len(rows) * row_bytes(self.shape, rows) < CUT_BYTES:
                self.pages.remove([entries.pop()])
                block = fold(self.shape, [rows, block])
        self.pages.append(entries, block, self.shape)

    def join_late(self, first: int, end: int) -> None:
        """Let late rows of slices from `first` up to `end`, which are merged, join theirs; in the newest few stripes.

        What came late to a tail is then one row with it again. Rows of older stripes join later, or leave with them.
        """
        for _ in range(JOINED):
            late = [entry for entry in self.late if entry[1] < end and entry[2] > first]
            if not late:
                return
            key = (min(end, max(entry[2] for entry in late)) - 1) // self.length
            low, high = max(first, key * self.length), min(end, (key + 1) * self.length)
            within = [entry for entry in late if entry[1] < high and entry[2] > low]
            low, high = max(low, min(entry[1] for entry in within)), min(high, max(entry[2] for entry in within))
            self.replace(low, high, lambda block: block)
            if key in self.held and (key + 1) * self.length <= end:
                self.cut(key)

    def _append(self, entries: list[Entry], block: Block) -> None:
        if len(block):
            self.pages.append(entries, block, self.shape)

    def cut(self, key: int) -> None:
        """Cut the loose pages of a stripe that is whole."""
        stripe = self.held[key]
        if stripe.loose:
            loose = fold(self.shape, list(self.pages.take(stripe.loose, self.shape)))
            self.pages.remove(stripe.loose)
            self._cut(key, loose)

    def settle(self, key: int, first: int) -> None:
        """Let the late rows of a stripe and earlier ones, from slice `first` on, join theirs; others are forgotten."""
        end = (key + 1) * self.length
        if not self.late:
            return
        late = fold(self.shape, list(self.pages.take(self.late, self.shape)))
        self.pages.remove(self.late)
        if len(rest := late.between(end, FOREVER)):
            self.pages.append(self.late, rest, self.shape)
        for each, own in self._by_stripe(late.between(first, end)):
            low, high = max(first, each * self.length), (each + 1) * self.length
            pages = self._found(each, low, high) if each in self.held else []
            block = fold(self.shape, [*self._between(pages, low, high), own])
            self._remove(each)
            self._cut(each, block)

    def replace(self, first: int, end: int, merged: Callable[[Block], Block]) -> None:
        """Let `merged` combine slices from `first` up to `end`, and their late rows with them.

        Stripes that end by then are whole for good, and are cut.
        """
        keys = self._keys(first, end)
        taken = [block for key in keys for block in self._take(key, first, end)]
        taken.append(self._take_late(first, end))
        for key, part in self._by_stripe(merged(fold(self.shape, taken))):
            stripe = self.held.setdefault(key, Stripe())
            if not stripe.loose and self._fills(part):
                self._cut(key, part)
            else:
                self.pages.append(stripe.loose, part, self.shape)
        for key in keys:
            if key in self.held and (key + 1) * self.length <= end:
                self.cut(key)

    def _take(self, key: int, first: int, end: int) -> Iterator[Block]:
        """Read and remove the pages of a stripe that may hold rows of some slices; all others stay."""
        stripe = self.held[key]
        loose = [entry for entry in stripe.loose if entry[1] < end and entry[2] > first]
        stripe.loose[:] = [entry for entry in stripe.loose if entry not in loose]
        start = key * self.length
        cuts = [cut for cut in stripe.cuts if start + cut[0] < end and start + cut[1] > first]
        for cut in cuts:
            for name in self.names(key, cut):
                yield self.pages.get(name, self.shape, cut[3])
                self.pages.store.remove(name)
            stripe.cuts.remove(cut)
        yield from self.pages.take(loose, self.shape)
        self.pages.remove(loose)
        if not stripe.cuts and not stripe.loose:
            del self.held[key]

    def _take_late(self, first: int, end: int) -> Block:
        """Read and remove the late rows of some slices."""
        late = [entry for entry in self.late if entry[1] < end and entry[2] > first]
        rows = fold(self.shape, list(self.pages.take(late, self.shape)))
        self.late[:] = [entry for entry in self.late if entry not in late]
        self.pages.remove(late)
        self.put_late(rows.take(np.flatnonzero((rows.index < first) | (rows.index >= end))))
        return rows.between(first, end)

    def _keys(self, first: int, end: int) -> list[int]:
        """The stripes that hold some slices, in order."""
        return sorted(key for key in self.held if key * self.length < end and (key + 1) * self.length > first)

    def remove_before(self, index: int) -> None:
        """Remove the stripes that end at slice `index` or earlier."""
        for key in [key for key in self.held if (key + 1) * self.length <= index]:
            self._remove(key)
        expired = [entry for entry in self.late if entry[2] <= index]
        self.late[:] = [entry for entry in self.late if entry[2] > index]
        self.pages.remove(expired)

    def names(self, key: int, cut: SlicePages) -> list[str]:
        """Pages of a cut, named by its first slice: the header then looks alike for every stripe, and compresses."""
        return [f"c{key * self.length + cut[0]}.{part}" for part in range(cut[2])]

    def _found(self, key: int, first: int, end: int) -> list[Named]:
        """Pages of a stripe that may hold rows of some slices."""
        stripe, start = self.held[key], key * self.length
        cuts = [cut for cut in stripe.cuts if start + cut[0] < end and start + cut[1] > first]
        return [(name, cut[3]) for cut in cuts for name in self.names(key, cut)] + _within(stripe.loose, first, end)

    def _by_stripe(self, block: Block) -> Iterator[tuple[int, Block]]:
        for key in np.unique(block.index // self.length).tolist():
            yield key, block.between(key * self.length, (key + 1) * self.length)

    def _fills(self, block: Block) -> bool:
        """Whether slices fill a page."""
        return len(block) * row_bytes(self.shape, block) >= self.cut_bytes

    def _cut(self, key: int, block: Block) -> None:
        """Write slices as pages of their own; small ones share a page with those that follow, or with the last ones."""
        stripe, start = self.held.setdefault(key, Stripe()), key * self.length
        for low, high in pairwise(self._edges(block)):
            pages = list(parts(self.shape, block.between(low, high)))
            cut = [low - start, high - start, len(pages), self.pages.head.generation]
            insort(stripe.cuts, cut)
            for name, page in zip(self.names(key, cut), pages, strict=True):
                self.pages.put(name, page, self.shape)

    def _edges(self, block: Block) -> list[int]:
        """Where slices are cut, so that all pages are filled, from the first slice to the end of the last."""
        indices, starts = np.unique(block.index, return_index=True)
        rows, edges = self.cut_bytes / row_bytes(self.shape, block), [0]
        for at in range(1, len(indices)):
            if starts[at] - starts[edges[-1]] >= rows and len(block) - starts[at] >= rows:
                edges.append(at)
        return [*indices[edges].tolist(), int(indices[-1]) + 1]

    def _remove(self, key: int) -> None:
        stripe = self.held.pop(key, Stripe())
        self.pages.remove(stripe.loose)
        for cut in stripe.cuts:
            for name in self.names(key, cut):
                self.pages.store.remove(name)


def _within(entries: list[Entry], first: int, end: int) -> list[Named]:
    return [(page_name(entry), entry[GENERATION]) for entry in entries if entry[1] < end and entry[2] > first]
