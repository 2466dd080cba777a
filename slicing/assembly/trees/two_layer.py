"""The two-layer tree: a running total; slices enter it and leave it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.choice import is_additive
from slicing.assembly.trees.cache import TOTAL, Cache, node_of
from slicing.assembly.trees.nodes import Live, Node, Rows, concatenated
from slicing.windows.families.family import regular


class TwoLayer:
    """The running total of a window: slices enter, the window is copied, slices leave. 2 combines per window and key.

    If all partials are added and subtracted field by field, the windows of one call are a single cumulative sum.
    """

    def __init__(self, live: Live, chosen: Sequence[int], cache: Cache):
        self.cache = cache
        self.live, self.chosen = live, tuple(chosen)
        self.step = regular(live.shape.family).per_advance
        self.additive = all(is_additive(live.shape.kernels[i]) for i in self.chosen)
        self.total = node_of(live, self.chosen, cache.load(TOTAL))

    def late(self, rows: Rows) -> None:
        """Add rows of slices that have entered before."""
        self.total.append_slices(rows)

    def windows(self, fresh: Rows, entering: range, old: Rows, leaving: range) -> Node:
        """Return the windows that close next, as concatenated nodes.

        The slices `entering` of `fresh` enter before each window, the slices `leaving` of `old` leave after it.
        """
        if self.additive:
            entered, left = fresh.between(*_ends(entering)), old.between(*_ends(leaving))
            if all(self._sums_fit(i, entered, left) for i in self.chosen):
                return self._summed(entered, entering, left, leaving)
        enter, leave, totals = iter(fresh.by_slice(*_ends(entering))), iter(old.by_slice(*_ends(leaving))), []
        for rows in enter:
            for part in (rows, *islice(enter, self.step - 1)):
                self.total.append(part)
            totals.append(self.total.copy())
            for part in islice(leave, self.step):
                self.total.remove(part)
        return concatenated(totals)

    def _sums_fit(self, i: int, *rows: Rows) -> bool:
        return self.live.shape.kernels[i].sums_fit(self.total.partials[i], *(part.partials[i] for part in rows))

    def _summed(self, entered: Rows, entering: range, left: Rows, leaving: range) -> Node:
        """Return the windows as cumulative sums of their differences; the last sum is kept for the next close."""
        keys, windows = len(self.live.names), len(entering) // self.step
        plus = (entered.index - entering.start) // self.step * keys + entered.codes
        minus = ((left.index - leaving.start) // self.step + 1) * keys + left.codes
        last = windows * keys

        def sums(total: Array, more: Array, less: Array) -> Array:
            grid = np.zeros((windows + 1) * keys, dtype=total.dtype)
            grid[:keys] = total
            np.add.at(grid, plus, more)
            np.subtract.at(grid, minus, less)
            rows = grid.reshape(windows + 1, keys)
            np.cumsum(rows, axis=0, out=rows)
            total[:] = grid[last:]
            return grid[:last]

        records = sums(self.total.records, entered.records, left.records)
        partials = {
            i: [sums(*of) for of in zip(self.total.partials[i], entered.partials[i], left.partials[i], strict=True)]
            for i in self.chosen
        }
        return Node(self.live, self.chosen, records, partials)

    def reset(self, total: Node) -> None:
        """Replace the total by one that was assembled from slices."""
        self.total = total

    def save(self) -> None:
        """Write the only node that the next close needs."""
        self.cache.save(TOTAL, self.total.block())


def _ends(slices: range) -> tuple[int, int]:
    return slices.start, slices.stop
