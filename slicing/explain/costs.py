"""The predicted cost of the state, in partials of one key read and written, as `explain` prints it.

They are those of a steady stream: every slice holds records of the key, windows close one after another, and a slice of
a bucket fills a page. Smaller slices share pages (see `stripes`), and a read counts all rows of its page: at most the
rows of a stripe more, which cost as much as the reading of one page. Of slices that come several at once all but the
newest ones are not written again when they enter, a write less for each. `tests/repository/test_accounting.py` counts
all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from slicing.assembly.choice import EAGER, group_length
from slicing.engines.sliced.merging import AT_ONCE
from slicing.state.pages import FAN_IN
from slicing.triggers.early_by_count import EarlyByCount
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.trigger import CHANGED, CLOSING, NEWEST, PAIRS, TOUCHED, WAITING, Trigger
from slicing.windows.families.family import RUNNING, TAILED, Family, Regular, regular
from slicing.windows.families.tailed import tailed


@dataclass(frozen=True)
class Cost:
    """Partials of one key that are read and written, on average unless said otherwise."""

    reads: float
    writes: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.reads + other.reads, self.writes + other.writes)

    def __str__(self) -> str:
        return f"{counted(self.reads, 'read')}, {counted(self.writes, 'write')}"


MERGING = Cost(FAN_IN / (FAN_IN - 1), 1 / (FAN_IN - 1))
"""What merging small pages adds, at most, for each further micro-batch that brings a record for the same slice: a page
is read and folded with others once, what they became once again, and so on: 1 + 1/5 + 1/25 + ..."""


@dataclass(frozen=True)
class Costs:
    """The costs of some results together: rows of slices hold them all, each tree keeps nodes of its own.

    Rows of windows hold those that are eager. If some are and others not, both cost what they cost alone, but for the
    marks of the eager ones, as slices decide then.

    `held` says whether the worker process still has the latest slices, see `recent`; else they are read.
    """

    family: Family
    trees: frozenset[str]
    trigger: Trigger = ON_CLOSE

    @property
    def asks(self) -> frozenset[str]:
        """Return the questions of the trigger."""
        return self.trigger.asks

    @property
    def _n(self) -> int:
        """Slices per window, at most."""
        return self.family.longest

    @property
    def _step(self) -> int:
        """Slices that enter for a window, on average where windows differ."""
        return self.family.step or max(1, round(self.family.longest / max(1.0, self.family.ratio)))

    @property
    def eager(self) -> bool:
        """Whether there is a partial for each (window, key)."""
        return EAGER in self.trees

    @property
    def sliced(self) -> bool:
        """Whether there is a partial for each (slice, key)."""
        return bool(self.trees - {EAGER})

    def record_at_most(self, held: bool = False) -> Cost:
        """Of a record, also a late one, before any window closes; records that come together for a slice share it.

        Without merging, see MERGING.
        """
        ratio, n = math.ceil(self.family.ratio), self.family.longest
        cost = self._marks(held)
        if self.eager:
            cost += Cost(ratio + (ratio if self._looks else 0), ratio)
        if not self.sliced:
            return cost + self._later
        return cost + Cost(2 * n - 1 if self._looks and not held else 0, 1)

    def record_in_order(self, held: bool = False) -> Cost:
        """Of the first record of a slice that is the newest: later slices hold nothing, and a window is new.

        Early results are those of a tick, or of one record. Of two slices an advance, the first one is not the last of
        its window, which so has an older slice less.
        """
        n, step = self._n, self._step
        cost = Cost(0, 0)
        if self.eager:
            cost += Cost((n - 1) / step + (n / step if self._looks else 0), n / step)
        if not self.sliced:
            return cost + Cost(0, self._later.writes / step)
        others: float = n  # early ones look when the record has been written
        if not self.asks & {WAITING, PAIRS}:
            others -= 1 + (step - 1) / 2
        return cost + Cost(others if self._looks and not held else 0, 1)

    def close(self, held: bool = False) -> Cost:
        """When one window closes: what entered since goes to its stripe, and the trees move on."""
        pages = Cost(0, 0)
        if self.eager:
            pages = Cost(2 if CHANGED in self.asks else 1 if CLOSING in self.asks else 0, 0)
        return pages + self._close_slices(held) if self.sliced else pages

    def _close_slices(self, held: bool) -> Cost:
        n, step = self._n, self._step
        stays = self.trigger.fires_late or CHANGED in self.asks
        entering = Cost(step, step if stays else max(0, min(step, n - step)))
        if self.family.assembled == TAILED:  # once more to be merged, with the slice that they are merged into
            entering += Cost(step + step / AT_ONCE, step / AT_ONCE)
        if CHANGED in self.asks:
            return entering + Cost(0 if held else n, 0)
        trees = sorted(self.trees - {EAGER}) if CLOSING in self.asks else []
        # The slices of a stripe that becomes the oldest are read once for both trees, with those that leave first.
        shared = step * step / self.family.stripe if {"two_layer", "three_layer"} <= set(trees) else 0
        return sum((self._tree(tree) for tree in trees), entering + Cost(-shared, 0))

    def newest(self, total: bool) -> int:
        """Combines for the newest window of a key, when a record of it has come in its newest slice.

        `total` says whether the process has that window combined; else, and when the window moves on, its slices are.
        """
        return 1 if total else self._n - 1

    @property
    def _looks(self) -> bool:
        """Whether windows may fire before they close, which reads their slices."""
        return bool(self.asks & {TOUCHED, NEWEST, WAITING, PAIRS})

    @property
    def _later(self) -> Cost:
        """Of a record in the later one of two slices an advance, where all is eager; see `eager.Newest`."""
        return Cost(0, self._step - 1)

    def _marks(self, held: bool) -> Cost:
        """Return the cost of the dirty set of early firings: rows like those of partials.

        Where records are counted, half of the rows may be of keys that have fired, and are rewritten as rarely.
        """
        if NEWEST in self.asks and not self.sliced:
            return Cost(1, 1)
        if PAIRS in self.asks:
            return Cost(0 if held and self.sliced else 1, 1)
        if WAITING not in self.asks:
            return Cost(0, 0)
        if not isinstance(self.trigger, EarlyByCount):
            return Cost(1, 1)
        marks = min(self.trigger.count - 1, self._n)
        return Cost(0 if held and self.sliced else 2 * marks, 2 * marks)

    def _tree(self, tree: str) -> Cost:
        if self.family.assembled == TAILED:
            own = tailed(self.family)
            of_wholes = Costs(own.wholes, self.trees, self.trigger)._tree(tree)
            # The total of whole tails and the running one; the running one, and once a tail all others.
            return Cost(2 + of_wholes.reads / own.per_tail, 1 + (1 + of_wholes.writes) / own.per_tail)
        n, step = self._n, self._step
        if tree == "two_layer":
            return Cost(1 + step, 1)  # the total and what leaves; the total
        if tree == "three_layer":
            return _three_layer(regular(self.family))
        if tree == RUNNING:
            return Cost(1, 1)  # the total
        return Cost(max(0, n - step), 0)


def _three_layer(family: Regular) -> Cost:
    """The average over the closes in which a stripe is the oldest; exact where a stripe has whole advances.

    Once per stripe the newest stripe becomes whole and once the oldest one changes, both in the same close if the
    window is a slice longer than its stripes. Either makes the node between anew, from the rest of the group in front
    and, unless all is of one group, the start of the next.
    """
    closes, group = family.stripe / family.per_advance, group_length(family)
    changes = 1 if (family.per_window - 1) % family.stripe == 0 else 2
    crossing = (group - 1) / group
    at_once = 1 / group if changes == 1 else 0  # the newest stripe is whole in the close in which its group is in front
    reads = {
        "run": closes,
        "suffix": closes - 1,  # the first one is used as it is made
        "slices of the oldest stripe": family.stripe,
        "between": closes - changes,
        "rest": changes - 1 / group,  # the first of a group is used as it is made
        "start": changes * crossing,
        "stripes of the group": 1 - at_once,
    }
    writes = {
        "run": closes,
        "suffix": closes - 1,
        "between": changes,
        "stripe": 1 - at_once,
        "rest": 1,
        "start": 1 + (changes - 1) * crossing,
    }
    return Cost(sum(reads.values()) / closes, sum(writes.values()) / closes)


def counted(count: float, noun: str) -> str:
    """A number and its noun."""
    return f"{number(count)} {noun}" + ("" if count == 1 else "s")


def number(value: float) -> str:
    """A number as people write it, with at most one decimal from 1 on."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.1f}" if value >= 1 else f"{value:.2g}"
