"""What is kept of slices where those that no window needs apart are merged: how many of which length, of one key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.windows.families.family import TAILED, Family
from slicing.windows.families.tailed import tailed
from slicing.windows.time.durations import show
from slicing.windows.time.edges import Edges

_TYPICAL = 1_700_000_000_000_000
"""An instant, in microseconds; the figures are those of the moment before the next start of a window after it."""


@dataclass(frozen=True)
class Merged:
    """The slices that are kept when they are most: just before the longest tail is over and its slices are merged."""

    family: Family

    @property
    def applies(self) -> bool:
        """Whether slices are merged: if windows of a family have a tail."""
        return any(each.assembled == TAILED for each in self.family.families)

    @cached_property
    def levels(self) -> list[tuple[int, int]]:
        """Lengths of slices in microseconds, the longest first, and how many are kept of each. Linear in the slices."""
        starts = self._starts
        lengths, counts = np.unique(np.diff(self.family.slice_start(starts)), return_counts=True)
        return [*zip(lengths.tolist(), counts.tolist(), strict=True)][::-1]

    @property
    def partials(self) -> int:
        """Partials of a key that are kept, at most: those of all levels, and that of the newest slice."""
        return sum(count for _, count in self.levels) + 1

    @property
    def _starts(self) -> Array:
        families = self.family.families
        longest = max((tailed(each).tails for each in families if each.assembled == TAILED), key=_length)
        now = longest.edge(longest.count(_TYPICAL) + 1) - 1
        needed = [(each, each.first_slice(each.first_open(now))) for each in families]
        index = np.arange(min(first for _, first in needed), self.family.slice_at(now) + 1)
        found = np.full(len(index), index[0])
        for each, first in needed:
            begun = each.first_slice(each.last_window(index))
            found = np.where(index >= first, np.maximum(found, begun), found)
        # Slices are merged once the last one with them has ended: until then they are apart.
        return np.unique(np.append(np.where(index >= found[-1], index, found), index[-1] + 1))

    def __str__(self) -> str:
        return ", ".join(f"{count:,} of {show(length)}" for length, count in self.levels)


def _length(edges: Edges) -> int:
    return int(edges.edge(1)) - int(edges.edge(0))
