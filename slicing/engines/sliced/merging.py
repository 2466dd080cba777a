"""Merge slices that no window needs separately: windows with a tail need only one partial per tail at their start.

::

    slices     |  tail  |  tail  |  tail  |  tail  | | | | | |       windows begin at tails, and end at any slice
                                                   ^ the end of the first window that is still needed
    a late record of a merged slice                         is added to the first slice of its tail

A window needs a slice edge at its start and at its end. Slices may be merged up to the next start of a window as soon
as no window that ends among them is needed any more. Before the start of its first window, a family does not need its
own starts either. The header stores how far both merges have gone: `merged` of the header for ends, `merged` of each
family for its starts. A merged slice has the number of its first slice, so that every window finds it. Late rows of a
merged slice are stored separately until the next merge.

The three-layer tree has the totals of slice groups and reads the oldest group again, slice by slice. The start of a
group is therefore an edge as well: a slice that was merged into the group before it would count in both::

    slices     | 0 | 1 | 2 | 3 | 4 | 5 |       windows begin at 0, 2 and 4
    groups     |     0     |     1     |       total(1) = 3 + 4 + 5
    merged     |   0   | 2 | 3 |   4   |       suffix(0) = 0 + 2, and would have slice 3 if it were merged with 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.block import Block
from slicing.content.folding import with_index
from slicing.engines.sliced.family_windows import FamilyWindows
from slicing.engines.sliced.slices import Slices
from slicing.state.format.coverage import Coverage, coverage_of, start_before
from slicing.state.format.fingerprint import Fingerprint
from slicing.windows.families.family import TAILED, Family, regular
from slicing.windows.families.tailed import tailed
from slicing.windows.time.slices import FOREVER

AT_ONCE = 8
"""The slices merged per micro-batch, or twice those that entered in it, if more: so no micro-batch pauses for long."""
MOST_TOGETHER = 64
"""The most slices that are merged together, if they share `AT_ONCE` pages: each page is then read and written once."""


class MergedSlices:
    """The merged slices of a bucket.

    `applies` tells whether slices are merged at all: a family must have a tail, and partials must not have an order,
    because late records are added at the end of a merged slice.
    """

    def __init__(self, slices: Slices, families: Sequence[FamilyWindows], query: Fingerprint):
        self.slices, self.head, self.families, self.query = slices, slices.head, families, query
        tailed = any(each.family.assembled == TAILED for each in families)
        self.applies = tailed and not slices.shape.has_order

    def keep_groups_apart(self) -> None:
        """Begin to keep the groups of three-layer trees apart, after the slices that have been merged already."""
        for each in self.families if self.applies else ():
            if not group_length(each.family, each.trees):
                each.state.apart = None
            elif each.state.apart is None:
                each.state.apart = -FOREVER if self.head.merged is None else self.head.merged
                if self.head.merged is not None:
                    each.forget()

    @property
    def coverage(self) -> Coverage:
        """Which records the bucket has, and at which edges they are separate."""
        groups = [0 if each.state.apart is None else group_length(each.family, each.trees) for each in self.families]
        families = [each.family for each in self.families]
        return coverage_of(self.head, families, groups, self.query.cut_of if self.head.shipped else None)

    def redirected(self, block: Block) -> Block:
        """Return the rows in the slices that hold their records now; `block` and the result are folded."""
        if self.head.merged is None or not len(block) or block.index[0] >= self._until:
            return block
        return with_index(self.slices.shape, block, self.coverage.holder(block.index))

    @property
    def _until(self) -> int:
        """The first slice from which on no slices are merged."""
        marks = (self.head.merged, *(each.state.merged for each in self.families))
        return max((mark for mark in marks if mark is not None), default=-FOREVER)

    # Merging.

    def step(self, entered: int | None = None) -> None:
        """Merge some slices, after `entered` slices have entered; with None, merge all that may be merged."""
        if not self.applies or self.head.newest is None:
            return
        share = FOREVER if entered is None else max(AT_ONCE, 2 * entered)
        oldest = min(self._first(each) for each in self.families)
        before = self.head.merged
        self._give_up_ends(oldest, share, 0 if entered is None else entered)
        for number, each in enumerate(self.families):
            if self._first(each) > oldest:
                self._give_up_starts(number, oldest, share)
        if before is not None and before != self.head.merged:
            self.slices.slice_groups.join_late(oldest, before)
        self.slices.slice_groups.remove_before(oldest)  # pages of late rows that have been split may end there

    def _first(self, each: FamilyWindows) -> int:
        """Return the first slice that windows of a family need."""
        return each.family.first_slice(each.state.retained_from)

    def _give_up_ends(self, oldest: int, share: int, entered: int) -> None:
        # A close reads entering slices one by one, so slices are merged only after they have entered for all families.
        end = min(
            min(each.family.end_slice(each.state.retained_from), each.family.entered(each.state.next_to_fire))
            for each in self.families
        )
        mark = oldest if self.head.merged is None else max(oldest, self.head.merged)
        if mark >= end:
            return
        if self._ends_tail(end, entered):
            return  # the trees of tails move now, too: merging waits for the next micro-batch
        for reached in self._merge(mark, end, share, self.coverage.without_ends()):
            self.head.merged = reached

    def _ends_tail(self, end: int, entered: int) -> bool:
        """Whether a tail of many micro-batches has ended with the last `entered` slices, which end at `end`."""
        many = [
            each.family
            for each in self.families
            if each.family.assembled == TAILED and AT_ONCE * entered <= tailed(each.family).per_tail
        ]
        return any(end - int(start_before(family, np.array([end]))[0]) < entered for family in many)

    def _give_up_starts(self, number: int, oldest: int, share: int) -> None:
        if self.head.merged is None:
            return
        own = self.families[number]
        end = min(self._first(own), self.head.merged)
        mark = oldest if own.state.merged is None else max(oldest, own.state.merged)
        if mark >= end:
            return
        for reached in self._merge(mark, end, share, self.coverage.without_starts(number)):
            own.state.merged = reached

    def _forget_across(self, kept: Coverage, mark: int) -> None:
        """Drop the nodes of families if slices from `mark` on may be merged into the slice group before them.

        That is only so while slices are there that were merged before their groups were kept apart.
        """
        across = [each.family for each in kept.edges if each.length and each.group_after(each.apart) > mark]
        for each in self.families:
            if any(each.family is family for family in across):
                each.forget()

    def _merge(self, mark: int, end: int, share: int, kept: Coverage) -> Iterator[int]:
        """Merge the slices from `mark` up to `end`, except at the edges that are `kept`, a few at a time.

        Before each step, yield the end of the step.
        """
        self._forget_across(kept, mark)
        end = _aligned(kept, end)
        if mark >= end:
            return
        spans = self.slices.spans(mark)
        spans = spans[np.argsort(spans[:, 0])]
        done = 0
        while mark < end and done < share:
            there = spans[(spans[:, 1] > mark) & (spans[:, 0] < end)]
            if not len(there):
                mark, first = end, end
            else:
                low = max(mark, int(there[0, 0]))
                mark = min(end, low + min(share - done, _together(there, low)))
                first = _aligned(kept, low)
                done += mark - low
            yield mark
            if first < mark:
                index = np.arange(first, mark)
                if not np.array_equal(kept.holder(index), index):
                    self.slices.merge(first, mark, kept.holder)


def _aligned(kept: Coverage, index: int) -> int:
    """Return the start of the merged slice in which a slice will be."""
    return int(kept.holder(np.array([index]))[0])


def _together(spans: Array, low: int) -> int:
    """Return how many slices from `low` on are merged together: `AT_ONCE`, or more if they share `AT_ONCE` pages."""
    begins = np.unique(np.maximum(spans[:, 0], low))
    fits = int(begins[AT_ONCE]) - low if len(begins) > AT_ONCE else MOST_TOGETHER
    return max(AT_ONCE, min(MOST_TOGETHER, fits))


def group_length(family: Family, trees: Sequence[str]) -> int:
    """Return the length of the slice groups that a family with these trees keeps apart; 0 if it keeps none.

    It need not keep them apart if each slice is the start of a window.
    """
    if "three_layer" not in trees or family.assembled or regular(family).per_advance == 1:
        return 0
    return regular(family).slices_per_group
