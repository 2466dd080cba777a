"""The predicted cost of the state: the partials of one key that are read and written, as `explain` prints them.

The figures assume a steady stream: each slice holds records of the key, windows close one after another, and a slice of
a bucket fills a page. Smaller slices share pages (see `slice_groups`), and a read counts all rows of its page: at most
the rows of one slice group more, which cost as much as reading one page. If several slices arrive in one micro-batch,
all but the newest save one write each, because they are not written again when they enter their slice group.
`tests/repository/test_accounting.py` checks these figures by counting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.choice import EAGER, outer_group_length
from slicing.drawing import counted
from slicing.engines.sliced.merging import AT_ONCE, group_length
from slicing.state.pages import FAN_IN
from slicing.triggers.by_records import ByWaitingRecords
from slicing.triggers.early import Early
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.trigger import CHANGED, CLOSING, NEWEST, PAIRS, TOUCHED, WAITING, Trigger
from slicing.windows.families.family import RUNNING, TAILED, Family, Regular, regular
from slicing.windows.families.tailed import tailed
from slicing.windows.time.durations import show
from slicing.windows.time.edges import Edges


@dataclass(frozen=True)
class Cost:
    """The numbers of partials of one key that are read and written, on average unless stated otherwise."""

    reads: float
    writes: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.reads + other.reads, self.writes + other.writes)

    def __str__(self) -> str:
        return f"{counted(self.reads, 'read')}, {counted(self.writes, 'write')}"


MERGING = Cost(FAN_IN / (FAN_IN - 1), 1 / (FAN_IN - 1))
"""The maximum additional cost of merging small pages, for each further micro-batch with a record for the same slice.

A page is read and merged with others once, the merged page once again, and so on: 1 + 1/5 + 1/25 + ...
"""


@dataclass(frozen=True)
class Costs:
    """The cost of several results together: a slice row holds the partials of all, each tree has its own nodes.

    Rows of windows hold the partials of eager results. If only some results are eager, both groups cost the same as
    alone, minus the dirty set of the eager ones, because the slices then decide which windows fire.

    In the methods, `held` says whether the worker process still has the latest slices in memory, see `recent`;
    otherwise they are read from the state.
    """

    family: Family
    trees: frozenset[str]
    trigger: Trigger = ON_CLOSE

    @property
    def asks(self) -> frozenset[str]:
        """The questions that the trigger asks of the state."""
        return self.trigger.asks

    @property
    def most(self) -> int:
        """The maximum number of slices per window."""
        return self.family.longest

    @property
    def step(self) -> int:
        """The number of slices by which the next window is newer; an average where windows differ."""
        return self.family.step or max(1, round(self.family.longest / max(1.0, self.family.ratio)))

    @property
    def eager(self) -> bool:
        """Whether the state has partials per (window, key)."""
        return EAGER in self.trees

    @property
    def sliced(self) -> bool:
        """Whether the state has partials per (slice, key)."""
        return bool(self.trees - {EAGER})

    def record_at_most(self, held: bool = False) -> Cost:
        """Return the maximum cost of a record, even a delayed one, before any window closes, without `MERGING`.

        The records of one slice in a micro-batch share this cost.
        """
        ratio, n = math.ceil(self.family.ratio), self.family.longest
        cost = self._dirty_set_cost(held)
        if self.eager:
            cost += Cost(ratio + (ratio if self.looks else 0), ratio)
        if not self.sliced:
            return cost + self.later
        return cost + Cost(2 * n - 1 if self.looks and not held else 0, 1)

    def close(self, held: bool = False) -> Cost:
        """Return the cost of closing one window: new slices enter their slice group, and the trees advance."""
        pages = Cost(0, 0)
        if self.eager:
            pages = Cost(2 if CHANGED in self.asks else 1 if CLOSING in self.asks else 0, 0)
        return pages + self._close_slices(held) if self.sliced else pages

    def _close_slices(self, held: bool) -> Cost:
        n, step = self.most, self.step
        stays = self.trigger.fires_late or CHANGED in self.asks
        entering = Cost(step, step if stays else max(0, min(step, n - step)))
        if self.family.assembled == TAILED:  # slices are read once more to be merged into one
            entering += Cost(step + step / AT_ONCE, step / AT_ONCE)
        if CHANGED in self.asks:
            return entering + Cost(0 if held else n, 0)
        trees = sorted(self.trees - {EAGER}) if CLOSING in self.asks else []
        # Both trees share one read of the slices in the group that becomes the oldest, including those that leave
        # first.
        shared = step * step / self.family.slices_per_group if {"two_layer", "three_layer"} <= set(trees) else 0
        return sum((self._tree(tree) for tree in trees), entering + Cost(-shared, 0))

    def newest(self, total: bool) -> int:
        """Return the combines for the latest window of a key after a record in its newest slice.

        `total` says whether the process has the combined older slices in memory; otherwise, and when the window
        advances, they are combined again.
        """
        return 1 if total else self.most - 1

    @property
    def looks(self) -> bool:
        """Whether windows may fire before they close, which reads their slices."""
        return bool(self.asks & {TOUCHED, NEWEST, WAITING, PAIRS})

    @property
    def later(self) -> Cost:
        """The cost of a record in the second of two slices per advance, if all results are eager: `eager.Newest`."""
        return Cost(0, self.step - 1)

    def _dirty_set_cost(self, held: bool) -> Cost:
        """The cost of the dirty set of early firings, whose rows are read and written like partials.

        With a trigger by record count, up to half of the rows may be of keys that have fired; they are rewritten as
        rarely.
        """
        if NEWEST in self.asks and not self.sliced:
            return Cost(1, 1)
        if PAIRS in self.asks:
            return Cost(0 if held and self.sliced else 1, 1)
        if WAITING not in self.asks:
            return Cost(0, 0)
        counting = self.trigger.conditions[0] if isinstance(self.trigger, Early) else None
        if not isinstance(counting, ByWaitingRecords):
            return Cost(1, 1)
        rows = min(counting.count - 1, self.most)
        return Cost(0 if held and self.sliced else 2 * rows, 2 * rows)

    def _tree(self, tree: str) -> Cost:
        if self.family.assembled == TAILED:
            own = tailed(self.family)
            of_wholes = Costs(own.wholes, self.trees, self.trigger)._tree(tree)
            # Reads: total of whole tails, running total. Writes: running total. Once per tail: all other nodes.
            return Cost(2 + of_wholes.reads / own.per_tail, 1 + (1 + of_wholes.writes) / own.per_tail)
        n, step = self.most, self.step
        if tree == "two_layer":
            return Cost(1 + step, 1)  # read the total and the slices that leave, write the total
        if tree == "three_layer":
            return _three_layer(regular(self.family))
        if tree == RUNNING:
            return Cost(1, 1)  # read and write the total
        return Cost(max(0, n - step), 0)


def _three_layer(family: Regular) -> Cost:
    """The average cost of a close while one slice group is the oldest; exact if a group holds whole advances.

    Per slice group, the newest group becomes complete once and the oldest one changes once. Both happen in the same
    close if the window is one slice longer than its groups. Each of them recomputes the node in between, from the rest
    of the outer group in front and, unless all slice groups belong to one outer group, from the start of the next
    one.
    """
    closes, outer = family.slices_per_group / family.per_advance, outer_group_length(family)
    changes = 1 if (family.per_window - 1) % family.slices_per_group == 0 else 2
    crossing = (outer - 1) / outer
    at_once = 1 / outer if changes == 1 else 0  # the slice group is complete in the close that needs it in front
    reads = {
        "run": closes,
        "suffix": closes - 1,  # the first one is used when it is computed
        "slices of the oldest group": family.slices_per_group,
        "between": closes - changes,
        "rest": changes - 1 / outer,  # the first one of an outer group is used when it is computed
        "start": changes * crossing,
        "groups of the outer group": 1 - at_once,
    }
    writes = {
        "run": closes,
        "suffix": closes - 1,
        "between": changes,
        "group": 1 - at_once,
        "rest": 1,
        "start": 1 + (changes - 1) * crossing,
    }
    return Cost(sum(reads.values()) / closes, sum(writes.values()) / closes)


TYPICAL = 1_700_000_000_000_000
"""An instant, in microseconds. The figures hold for the moment before the first window start after it."""


@dataclass(frozen=True)
class Merged:
    """The stored slices at their maximum: just before the longest tail ends and its slices are merged.

    `trees` has the trees of the results for one family after another; without them, no tree keeps groups apart.
    """

    family: Family
    trees: Sequence[str] = ()

    @property
    def applies(self) -> bool:
        """Whether slices are merged: if the windows of a family have a tail."""
        return any(each.assembled == TAILED for each in self.family.families)

    @cached_property
    def levels(self) -> list[tuple[int, int]]:
        """The lengths of slices in microseconds, longest first, and the number of each. Cost: linear in the slices."""
        starts = self._starts
        lengths, counts = np.unique(np.diff(self.family.slice_start(starts)), return_counts=True)
        return [*zip(lengths.tolist(), counts.tolist(), strict=True)][::-1]

    @property
    def partials(self) -> int:
        """The maximum number of stored partials of a key: those of all levels, and that of the newest slice."""
        return sum(count for _, count in self.levels) + 1

    @property
    def _starts(self) -> Array:
        families = self.family.families
        longest = max((tailed(each).tails for each in families if each.assembled == TAILED), key=_length)
        now = longest.edge(longest.count(TYPICAL) + 1) - 1
        needed = [(each, each.first_slice(each.first_open(now))) for each in families]
        index = np.arange(min(first for _, first in needed), self.family.slice_at(now) + 1)
        found, count = np.full(len(index), index[0]), len(self.trees) // len(families)
        for number, (each, first) in enumerate(needed):
            start = each.first_slice(each.last_window(index))
            if length := group_length(each, self.trees[number * count : (number + 1) * count]):
                start = np.maximum(start, index // length * length)
            found = np.where(index >= first, np.maximum(found, start), found)
        # Slices are merged when the last slice of their run has ended; until then they are stored one by one.
        return np.unique(np.append(np.where(index >= found[-1], index, found), index[-1] + 1))

    def __str__(self) -> str:
        return ", ".join(f"{count:,} of {show(length)}" for length, count in self.levels)


def _length(edges: Edges) -> int:
    return int(edges.edge(1)) - int(edges.edge(0))
