"""The slices that have entered the trees, in pages by stripe: cut to what one close reads, and removed whole.

A stripe has *cut* pages, of single slices or of several small ones that share a page, and *loose* pages of whatever
came in pieces or late. Once when the stripe is whole, and once when it begins to leave, loose pages are cut too.
"""

from __future__ import annotations

import numpy as np

from slicing.blocks import Block, Shape, fold, parts, row_bytes
from slicing.pages import Pages, Stripe, page_name

CUT_BYTES = 16 << 10
"""Slices smaller than this share a page: reading one costs as much as about 11 KB of content."""
FOREVER = 1 << 62


class Stripes:
    """The slices that have entered. Blocks that are read are not folded: a slice may be in several pages."""

    def __init__(self, pages: Pages, shape: Shape):
        self.pages, self.shape = pages, shape
        self.held, self.length = pages.head.stripes, shape.slicing.stripe
        self._kept: dict[str, Block] = {}
        self._kept_of: int | None = None

    def read(self, first: int, end: int) -> list[Block]:
        """All stored rows of slices `first` up to but not including `end`."""
        length = self.length
        keys = [key for key in sorted(self.held) if key * length < end and (key + 1) * length > first]
        return [block for key in keys for block in self._read(key, first, end)]

    def put(self, block: Block) -> None:
        """Add rows: slices that fill a page are cut at once, unless earlier rows of them are there."""
        for key in np.unique(block.slices // self.length).tolist():
            part = block.between(key * self.length, (key + 1) * self.length)
            stripe = self.held.setdefault(key, Stripe())
            start = key * self.length
            new = part.between(start + (stripe.cuts[-1][1] if stripe.cuts else 0), FOREVER)
            large = len(new) * row_bytes(self.shape, part) >= CUT_BYTES
            if large and not stripe.loose and len(new) == len(part):
                self._cut(key, new)
            else:
                self.pages.append(stripe.loose, part, self.shape)

    def remove_before(self, index: int) -> None:
        """Remove the stripes that end at slice `index` or earlier."""
        for key in [key for key in self.held if (key + 1) * self.length <= index]:
            self._remove(key)

    def compact(self, key: int, first: int) -> None:
        """Merge and cut the loose pages of a stripe, leaving out slices before `first`."""
        if self.held[key].loose:
            block = fold(self.shape, self._read(key, first, FOREVER))
            self._remove(key)
            self.held[key] = Stripe()
            self._cut(key, block)

    def _read(self, key: int, first: int, end: int) -> list[Block]:
        stripe, start = self.held[key], key * self.length
        blocks = []
        for cut in stripe.cuts:
            if start + cut[0] < end and start + cut[1] > first:
                blocks += [self._page(key, name, cut[1] - cut[0]) for name in self.names(key, cut)]
        for entry in stripe.loose:
            if entry[1] < end and entry[2] > first:
                blocks.append(self._page(key, page_name(entry), entry[2] - entry[1]))
        return [block.between(first, end) for block in blocks]

    def _page(self, key: int, name: str, slices: int) -> Block:
        """A page. One of several slices is kept while its stripe is read: they leave one by one in the same close."""
        if slices == 1:
            return self.pages.get(name, self.shape)
        if key != self._kept_of:
            self._kept, self._kept_of = {}, key
        if name not in self._kept:
            self._kept[name] = self.pages.get(name, self.shape)
        return self._kept[name]

    def _cut(self, key: int, block: Block) -> None:
        """Write slices as pages of their own; small ones share a page with those that follow."""
        stripe, start = self.held[key], key * self.length
        width = row_bytes(self.shape, block)
        indices, rows = np.unique(block.slices, return_counts=True)
        first, size = 0, 0.0
        for i, count in enumerate(rows):
            size += int(count) * width
            if size >= CUT_BYTES or i == len(rows) - 1:
                low, high = int(indices[first]), int(indices[i]) + 1
                pages = list(parts(self.shape, block.between(low, high)))
                stripe.cuts.append([low - start, high - start, len(pages)])
                for name, page in zip(self.names(key, stripe.cuts[-1]), pages, strict=True):
                    self.pages.put(name, page, self.shape)
                first, size = i + 1, 0

    def _remove(self, key: int) -> None:
        stripe = self.held.pop(key)
        self._kept = {}
        self.pages.remove(stripe.loose)
        for cut in stripe.cuts:
            for name in self.names(key, cut):
                self.pages.store.remove(name)

    def names(self, key: int, cut: list[int]) -> list[str]:
        """Pages of a cut, named by its first slice: the header then looks alike for every stripe, and compresses."""
        return [f"c{key * self.length + cut[0]}.{part}" for part in range(cut[2])]
