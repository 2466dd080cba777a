"""The pages of the slices that have entered the trees, by slice group (`SliceGroup`).

A slice group is removed as a whole. It has two sorts of pages. A *cut* page holds a single slice, or several
consecutive small slices, so that a close reads little else than the slices it needs. A *loose* page holds the slices of
one close that were too small for a page of their own; loose pages are rewritten as cut pages when the slice group is
complete. Slices whose records all arrive together are cut before they enter, and slice groups that enter as a whole are
cut at once: both are written only once. Late rows of slices that are cut or have entered are few. They share separate
pages, whatever their slice groups, and join their slice group when it is the next one to leave the windows.
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
from slicing.state.format.header import PER_GROUP, Entry, SliceGroup, SlicePages
from slicing.state.pages import GENERATION, Pages, page_name
from slicing.windows.time.slices import FOREVER

Named = tuple[str, int]
"""A page: its name and its generation."""
CUT_BYTES = 16 << 10
"""Slices smaller than this share a page, because the fixed cost of reading a page is that of about 11 KB of content."""
MOST_AT_ONCE = 64
"""The upper limit of the factor of `CUT_BYTES` for slices that leave in the same close, see `SliceGroups.cut_bytes`."""


JOINED = 2
"""The number of slice groups per micro-batch whose merged slices are joined by their late rows. The limit keeps each
micro-batch short."""


def slices_per_group(longest: int) -> int:
    """Return the number of slices in a slice group of a new checkpoint; `longest` is the most slices of a window.

    An existing checkpoint keeps its number. A 32nd of a window is not better: with 60 slices of 20 keys it makes 61
    pages instead of 12, with three times the bytes, and a close with late rows reads 6.5 pages instead of 5.4; with
    10,080 slices a close reads 1.2 KB instead of 0.7 KB.
    """
    return max(1, round(math.sqrt(longest)))


class SliceGroups:
    """The pages of the slices that have entered or are cut.

    A slice may be in several pages, so blocks that are read are not folded.
    """

    def __init__(self, pages: Pages, shape: Shape):
        self.pages, self.shape = pages, shape
        self.held, self.late = pages.head.slice_groups, pages.head.late
        self.length: int = pages.head.layout.setdefault(PER_GROUP, slices_per_group(shape.family.longest))
        self.at_once = 1
        """The number of slices that enter in one close, or arrive in one micro-batch. As many leave together later."""

    @property
    def cut_bytes(self) -> int:
        """Return the size in bytes from which on slices get a page of their own."""
        return CUT_BYTES * min(self.at_once, MOST_AT_ONCE, self.length)

    def read(self, first: int, end: int) -> Iterator[Block]:
        """Return all stored rows of slices `first` up to but not including `end`, the late rows last."""
        found: list[Named] = []
        for key in self._keys(first, end):
            found += self._found(key, first, end)
        found += _within(self.late, first, end)
        return self._between(found, first, end)

    def read_late(self, first: int, end: int) -> Iterator[Block]:
        """Return the late rows of some slices that have not joined their slices yet."""
        return self._between(_within(self.late, first, end), first, end)

    def _between(self, pages: Sequence[Named], first: int, end: int) -> Iterator[Block]:
        return (self.pages.get(name, self.shape, of).between(first, end) for name, of in pages)

    def put_complete(self, block: Block, first: int, end: int) -> Block:
        """Write new slices from `first` up to `end` as cut pages, and return the rows that are not in these pages.

        Nothing is stored of these slices yet. Only slices that fill a page are cut, and only if a window has more
        slices than arrived; otherwise the slices would leave as soon as they enter.
        """
        self.at_once = len(np.unique(block.between(first, FOREVER).index))
        complete = block.between(first, end)
        if self.at_once >= self.shape.family.longest or not self._fills(complete):
            return block
        others = np.ones(len(block), dtype=bool)
        for key, part in self._by_slice_group(complete):
            if self._fills(part):
                self._cut(key, part)
                others[slice(*np.searchsorted(block.index, (part.index[0], part.index[-1] + 1)))] = False
        return block.take(np.flatnonzero(others))

    def put(self, block: Block, complete: int) -> None:
        """Add slices that enter. All rows of slices before `complete` are in this block or in earlier ones.

        A slice group that ends by then is cut now: `cut` would read and write its rows again in this micro-batch.
        """
        late = np.zeros(len(block), dtype=bool)
        for key in np.unique(block.index // self.length).tolist():
            for first, end, *_ in self.held[key].cuts if key in self.held else ():
                rows = np.searchsorted(block.index, (key * self.length + first, key * self.length + end))
                late[slice(*rows)] = True
        self.put_late(block.take(np.flatnonzero(late)))
        for key, part in self._by_slice_group(block.take(np.flatnonzero(~late))):
            self._add(key, part, complete)

    def _add(self, key: int, block: Block, complete: int) -> None:
        """Write new rows of a slice group: to cut pages if they fill one, or if the slice group ends by `complete`."""
        group = self.held.setdefault(key, SliceGroup())
        if (key + 1) * self.length <= complete:
            self._cut(key, self._with_loose(group, block))
        elif not group.loose and self._fills(block):
            self._cut(key, block)
        else:
            self.pages.append(group.loose, block, self.shape)

    def put_late(self, block: Block) -> None:
        """Add late rows, that is rows of slices that are cut or have entered before.

        Late rows of merged slices get pages of their own. The others join their slices when these are merged, because
        merging rewrites the pages of the slices.
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
        """Append rows to a list of pages, folded into the last page while that is smaller than `CUT_BYTES`."""
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
        """Fold the late rows of the merged slices from `first` up to `end` into these slices.

        Only the newest `JOINED` slice groups with late rows are rewritten. The late rows of older slice groups join in
        a later call, or are removed with their slice groups.
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
        """Rewrite the loose pages of a complete slice group as cut pages."""
        group = self.held[key]
        if group.loose:
            self._cut(key, self._with_loose(group))

    def _with_loose(self, group: SliceGroup, *more: Block) -> Block:
        """Remove the loose pages of a slice group, and return their rows, folded with those of newer blocks."""
        loose = list(self.pages.take(group.loose, self.shape))
        self.pages.remove(group.loose)
        return fold(self.shape, [*loose, *more])

    def fold_late(self, key: int, first: int) -> None:
        """Fold the late rows of this and earlier slice groups into their slices.

        Late rows of slices before `first` are removed.
        """
        end = (key + 1) * self.length
        if not self.late:
            return
        late = fold(self.shape, list(self.pages.take(self.late, self.shape)))
        self.pages.remove(self.late)
        if len(rest := late.between(end, FOREVER)):
            self.pages.append(self.late, rest, self.shape)
        for each, own in self._by_slice_group(late.between(first, end)):
            low, high = max(first, each * self.length), (each + 1) * self.length
            pages = self._found(each, low, high) if each in self.held else []
            block = fold(self.shape, [*self._between(pages, low, high), own])
            self._remove(each)
            self._cut(each, block)

    def replace(self, first: int, end: int, merged: Callable[[Block], Block]) -> None:
        """Apply `merged` to the rows of slices `first` up to `end`, including their late rows, and store the result.

        Slice groups that end at `end` or earlier are complete, and are cut.
        """
        keys = self._keys(first, end)
        taken = [block for key in keys for block in self._take(key, first, end)]
        taken.append(self._take_late(first, end))
        for key, part in self._by_slice_group(merged(fold(self.shape, taken))):
            self._add(key, part, end)
        for key in keys:
            if key in self.held and (key + 1) * self.length <= end:
                self.cut(key)

    def _take(self, key: int, first: int, end: int) -> Iterator[Block]:
        """Read and remove the pages of a slice group that may hold rows of some slices."""
        group = self.held[key]
        loose = [entry for entry in group.loose if entry[1] < end and entry[2] > first]
        group.loose[:] = [entry for entry in group.loose if entry not in loose]
        start = key * self.length
        cuts = [cut for cut in group.cuts if start + cut[0] < end and start + cut[1] > first]
        for cut in cuts:
            for name in self.names(key, cut):
                yield self.pages.get(name, self.shape, cut[3])
                self.pages.store.remove(name)
            group.cuts.remove(cut)
        yield from self.pages.take(loose, self.shape)
        self.pages.remove(loose)
        if not group.cuts and not group.loose:
            del self.held[key]

    def _take_late(self, first: int, end: int) -> Block:
        """Remove and return the late rows of some slices."""
        late = [entry for entry in self.late if entry[1] < end and entry[2] > first]
        rows = fold(self.shape, list(self.pages.take(late, self.shape)))
        self.late[:] = [entry for entry in self.late if entry not in late]
        self.pages.remove(late)
        self.put_late(rows.take(np.flatnonzero((rows.index < first) | (rows.index >= end))))
        return rows.between(first, end)

    def _keys(self, first: int, end: int) -> list[int]:
        """Return the numbers of the slice groups that hold some slices, in order."""
        return sorted(key for key in self.held if key * self.length < end and (key + 1) * self.length > first)

    def remove_before(self, index: int) -> None:
        """Remove the slice groups, and the pages of late rows, that end at slice `index` or earlier."""
        for key in [key for key in self.held if (key + 1) * self.length <= index]:
            self._remove(key)
        expired = [entry for entry in self.late if entry[2] <= index]
        self.late[:] = [entry for entry in self.late if entry[2] > index]
        self.pages.remove(expired)

    def names(self, key: int, cut: SlicePages) -> list[str]:
        """Return the page names of a cut.

        The names follow from its first slice, so the header need not store them and is alike for every slice group:
        it compresses well.
        """
        return [f"c{key * self.length + cut[0]}.{part}" for part in range(cut[2])]

    def _found(self, key: int, first: int, end: int) -> list[Named]:
        """Return the pages of a slice group that may hold rows of some slices."""
        group, start = self.held[key], key * self.length
        cuts = [cut for cut in group.cuts if start + cut[0] < end and start + cut[1] > first]
        return [(name, cut[3]) for cut in cuts for name in self.names(key, cut)] + _within(group.loose, first, end)

    def _by_slice_group(self, block: Block) -> Iterator[tuple[int, Block]]:
        for key in np.unique(block.index // self.length).tolist():
            yield key, block.between(key * self.length, (key + 1) * self.length)

    def _fills(self, block: Block) -> bool:
        """Whether a block has at least `cut_bytes`."""
        return len(block) * row_bytes(self.shape, block) >= self.cut_bytes

    def _cut(self, key: int, block: Block) -> None:
        """Write slices as cut pages. Small slices share a page with the following ones, or with the preceding ones."""
        group, start = self.held.setdefault(key, SliceGroup()), key * self.length
        for low, high in pairwise(self._edges(block)):
            pages = list(parts(self.shape, block.between(low, high)))
            cut = [low - start, high - start, len(pages), self.pages.head.generation]
            insort(group.cuts, cut)
            for name, page in zip(self.names(key, cut), pages, strict=True):
                self.pages.put(name, page, self.shape)

    def _edges(self, block: Block) -> list[int]:
        """Return the slices at which pages begin, then the end of the last slice, so that every page is filled."""
        indices, starts = np.unique(block.index, return_index=True)
        rows, edges = self.cut_bytes / row_bytes(self.shape, block), [0]
        for at in range(1, len(indices)):
            if starts[at] - starts[edges[-1]] >= rows and len(block) - starts[at] >= rows:
                edges.append(at)
        return [*indices[edges].tolist(), int(indices[-1]) + 1]

    def _remove(self, key: int) -> None:
        group = self.held.pop(key, SliceGroup())
        self.pages.remove(group.loose)
        for cut in group.cuts:
            for name in self.names(key, cut):
                self.pages.store.remove(name)


def _within(entries: list[Entry], first: int, end: int) -> list[Named]:
    return [(page_name(entry), entry[GENERATION]) for entry in entries if entry[1] < end and entry[2] > first]
