"""The stored slices of a key when slices that no window needs one by one are merged: their lengths and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.engines.sliced.merging import group_length
from slicing.windows.families.family import TAILED, Family
from slicing.windows.families.tailed import tailed
from slicing.windows.time.durations import show
from slicing.windows.time.edges import Edges

_TYPICAL = 1_700_000_000_000_000
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
        now = longest.edge(longest.count(_TYPICAL) + 1) - 1
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
