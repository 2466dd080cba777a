"""Hopping windows of fixed length, by closed forms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slicing.windows.families.by_edges import OverSharedCut
from slicing.windows.families.family import Family, earlier
from slicing.windows.families.stepped import Stepped
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import AFTER, BEFORE, Every, within
from slicing.windows.time.slices import Index, Slicing


@dataclass(frozen=True)
class Even(Slicing):
    """Hopping and tumbling windows of fixed length: `Slicing`, with its closed forms, as a family.

    Near the limits of int64, where the closed forms would overflow, results come from the edges, which saturate.
    """

    @cached_property
    def starts(self) -> Every:
        """The starts of windows."""
        return Every(self.advance, self.offset)

    @cached_property
    def ends(self) -> Every:
        """The ends of windows."""
        return Every(self.advance, self.offset + self.size)

    @cached_property
    def cut(self) -> Cut:
        """The cut at all starts; also at the ends if `size` is no multiple of `advance`; numbered as in `Slicing`."""
        rest = self.size % self.advance
        return Cut([self.starts, Every(self.advance, self.offset + rest - self.advance)] if rest else [self.starts])

    def slice_at(self, time: Index) -> Index:
        """Index of the slice that holds an instant."""
        far = self.offset and isinstance(time, np.ndarray) and time.size and not within(time, -(1 << 62), 1 << 62)
        if far:  # without an offset nothing overflows, so the values need not be checked
            return self.cut.slice_at(time)
        return super().slice_at(time)

    def slice_start(self, index: Index) -> Index:
        """First microsecond of a slice."""
        if isinstance(index, np.ndarray) and index.size and within(index, *self._slices):
            return super().slice_start(index)
        return self.cut.slice_start(index)

    @cached_property
    def _slices(self) -> tuple[int, int]:
        """The first and the last slice number whose start fits into int64."""
        return self.cut.slice_at(BEFORE) + 1, self.cut.slice_at(AFTER)

    def window_start(self, window: Index) -> Index:
        """First microsecond of a window."""
        return self.starts.edge(window)

    def window_end(self, window: Index) -> Index:
        """First microsecond after a window."""
        return self.ends.edge(window)

    def first_open(self, watermark: Index, grace: int = 0) -> Index:
        """First window with `end + grace > watermark`."""
        return self.ends.count(earlier(watermark, grace)) + 1

    def over(self, cut: Cut) -> Family:
        """Return the same windows over another cut; on an even grid every window keeps the same number of slices."""
        if cut == self.cut:
            return self
        grid = cut.sequences[0]
        if len(cut.sequences) > 1 or not isinstance(grid, Every):
            return OverSharedCut(self, cut)
        shift = (self.offset - grid.offset) // grid.length
        return Stepped(grid, self.advance // grid.length, self.size // grid.length, shift)

    def spec(self) -> list[Any]:
        """`["hopping", size, advance, offset]`."""
        return ["hopping", int(self.size), int(self.advance), int(self.offset)]
