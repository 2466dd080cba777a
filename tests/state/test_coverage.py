"""The law of coverage by brute force: all that changes the stored slices of a bucket, in any order, on raw records.

Each slice has one record. A stored row is the set of the slices whose records it has::

    slices     0 1 2 3 4 5 6 7          rows     {0: {0, 1, 2}, 3: {3}, 4: {4, 5, 6, 7}}
"""

import random
from bisect import bisect_right

import numpy as np
import pytest
from oracle import seeds

from slicing.state.format.coverage import coverage_of
from slicing.state.format.header import FamilyState, Header
from slicing.windows.sets import windows_of_call
from slicing.windows.window import hopping

SLICES = 120
MS = 1000


class Rows:
    """The stored rows of a bucket, and its header; windows begin at multiples of one of `tails`, in slices of 1 ms."""

    def __init__(self, rng):
        self.rng, self.tails = rng, rng.sample([2, 3, 4, 6, 10], 2)
        sizes = [tail * rng.randrange(1, 5) for tail in self.tails]
        windows = {
            f"w{at}": hopping(f"{size} milliseconds", "1 millisecond", tail=f"{tail} milliseconds")
            for at, (size, tail) in enumerate(zip(sizes, self.tails, strict=True))
        }
        self.families = windows_of_call((), windows, True).family.families
        self.rows = {at: {at} for at in range(SLICES)}
        self.refused, self.removed = set(), 0
        self.head = Header([], "", [], {}, [FamilyState() for _ in self.families])
        self.groups = rng.choice([[0, 0], [0, 5], [7, 5]])
        for state, length in zip(self.head.families, self.groups, strict=True):
            state.apart = rng.randrange(SLICES) if length else None
            self.need(state, self.families[self.head.families.index(state)], 0)

    def need(self, state, family, index):
        """Let a family need the windows from the first one on that begins at a slice or later."""
        state.retained_from = int(family.last_window(index - 1)) + 1
        state.first_accepting = state.next_to_fire = state.retained_from

    @property
    def coverage(self):
        return coverage_of(self.head, self.families, self.groups)

    def remove(self):
        """Windows close, and leave with the slices that no other window needs; or slices are retained."""
        for state, family in zip(self.head.families, self.families, strict=True):
            ahead = self.rng.randrange(12)
            self.need(state, family, max(0, int(family.first_slice(state.retained_from)) + ahead))
        first = min(
            int(family.first_slice(state.retained_from))
            for state, family in zip(self.head.families, self.families, strict=True)
        )
        if self.head.retained_since is not None or self.rng.random() < 0.3:
            first = min(first, max(self.removed, first - self.rng.randrange(30)))
            self.head.retained_since = first * MS
        self.removed = first
        self.rows = {at: held for at, held in self.rows.items() if at >= first}

    def refuse(self):
        """A record is late for all windows."""
        until = max(self.rng.randrange(1, SLICES), (self.head.refused or 0) // MS)
        self.refused.add(self.rng.randrange(until))
        self.head.refused = until * MS

    def merge_ends(self):
        """Merge slices up to the starts of windows and the groups that are kept apart."""
        self.head.merged = max(self.head.merged or 0, self.rng.randrange(SLICES))
        self.merge()

    def merge_starts(self):
        """Merge slices across the starts of the windows of a family, too."""
        if self.head.merged is not None:
            state = self.rng.choice(self.head.families)
            state.merged = max(state.merged or 0, self.rng.randrange(self.head.merged + 1))
            self.merge()

    def edges(self):
        """The edges at which slices stay separate, by their definition."""
        found = set(range(self.head.merged, SLICES + 1))
        for state, tail, length in zip(self.head.families, self.tails, self.groups, strict=True):
            since = -1 if state.merged is None else state.merged
            found |= {at for at in range(0, SLICES + 1, tail) if at >= since}
            found |= {at for at in range(0, SLICES + 1, length or SLICES) if length and at >= max(since, state.apart)}
        return sorted(found)

    def merge(self):
        edges, before, self.rows = self.edges(), self.rows, {}
        for at, held in before.items():
            place = bisect_right(edges, at) - 1
            self.rows.setdefault(edges[place] if place >= 0 else at, set()).update(held)

    def recut(self):
        """A query with more edges than the slices from before have: these are as long as two of its slices."""
        at = max(self.rng.randrange(SLICES) // 2 * 2, (self.head.cut_since or 0) // MS)
        self.head.cut_since = at * MS
        before, self.rows = self.rows, {}
        for index, held in before.items():
            self.rows.setdefault(index if index >= at else index // 2 * 2, set()).update(held)

    def is_whole(self, first, end):
        """Whether the records of some slices, and no others, lie in the stored rows between two edges."""
        inside = [held for at, held in self.rows.items() if first <= at < end]
        return set().union(*inside) == {*range(first, end)}


@pytest.mark.parametrize("seed", seeds(12, 400))
def test_windows_are_whole_if_all_their_records_are_in_rows_of_their_own(seed):
    rng = random.Random(seed)
    made = Rows(rng)
    for _ in range(rng.randrange(1, 12)):
        rng.choice([made.remove, made.refuse, made.merge_ends, made.merge_starts])()
        check(made)
        assert {*range(made.coverage.accepted, SLICES)}.isdisjoint(made.refused) or made.head.refused is None
    before = made.coverage
    made.recut()
    check(made, before.since)


def check(made, cut=None):
    """Compare the windows of each family; slices with coarser edges, or before all edges, may be whole as well."""
    coverage = made.coverage
    known = -1 if made.head.merged is None else min(made.edges())
    for family in made.families:
        windows = np.arange(int(family.first_window(0)), int(family.last_window(SLICES - 1)))
        firsts, ends = family.first_slice(windows), family.end_slice(windows)
        inside = (firsts >= 0) & (ends <= SLICES)
        firsts, ends = firsts[inside], ends[inside]
        truth = np.array([made.is_whole(*each) for each in zip(firsts.tolist(), ends.tolist(), strict=True)], bool)
        whole = coverage.whole(firsts, ends)
        certain = (firsts >= known) & (firsts >= (coverage.since if cut is not None else -1))
        assert not (whole & ~truth).any()
        assert np.array_equal(whole[certain], truth[certain])
        since = coverage.known(firsts, ends)
        assert (since[whole] == firsts[whole]).all()
        for first, end, at in zip(firsts.tolist(), ends.tolist(), since.tolist(), strict=True):
            assert at >= first
            assert at >= end or at >= SLICES or made.is_whole(at, end)
        begin = int(windows[0])
        if (first := coverage.first_whole(family, begin, coverage.edges)) > begin:
            assert coverage.is_merged
            last = np.array([first - 1])
            assert not coverage.whole(family.first_slice(last), family.end_slice(last)).any()
