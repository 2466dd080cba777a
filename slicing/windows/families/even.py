"""Hopping windows of fixed length, by closed forms."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from slicing.windows.families.family import Family, OverSharedCut, Regular, earlier
from slicing.windows.families.stepped import Stepped
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import AFTER, BEFORE, Every, within
from slicing.windows.time.slices import Index


@dataclass(frozen=True)
class Even(Regular):
    """Hopping and tumbling windows of fixed length; all arguments in microseconds.

    `size` and `advance` are positive, `offset` is any integer. Near the limits of int64, where the closed forms would
    overflow, results come from the edges, which saturate.
    """

    size: int = field()
    advance: int = field()
    offset: int = 0
    closed_right: bool = False

    may_repeat = False

    @cached_property
    def step(self) -> int:
        """Slices per advance: 1 when `size` is a multiple of `advance`, else 2."""
        return 1 if self.size % self.advance == 0 else 2

    @cached_property
    def longest(self) -> int:
        """The slices of each window, `n` in every cost that the docs state."""
        whole, rest = divmod(self.size, self.advance)
        return whole if rest == 0 else 2 * whole + 1

    @property
    def ratio(self) -> float:
        """The average number of windows that contain a record."""
        return self.size / self.advance

    @property
    def shortest(self) -> int:
        """The smallest distance, in microseconds, between edges of windows: the smaller of size and advance."""
        return min(self.size, self.advance)

    @property
    def has_gaps(self) -> bool:
        """Whether there are instants in no window."""
        return self.advance > self.size

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
        """The cut at all starts; also at the ends if `size` is no multiple of `advance`; numbered as by `slice_at`."""
        rest = self.size % self.advance
        return Cut([self.starts, Every(self.advance, self.offset + rest - self.advance)] if rest else [self.starts])

    def slice_at(self, time: Index) -> Index:
        """Index of the slice that holds an instant."""
        far = self.offset and isinstance(time, np.ndarray) and time.size and not within(time, -(1 << 62), 1 << 62)
        if far:  # without an offset nothing overflows, so the values need not be checked
            return self.cut.slice_at(time)
        since = time - self.offset
        index = since // self.advance
        if self.step == 1:
            return index
        return 2 * index + (since % self.advance >= self.size % self.advance)

    def slice_start(self, index: Index) -> Index:
        """First microsecond of a slice, which is also the end of the slice before it."""
        if not (isinstance(index, np.ndarray) and index.size and within(index, *self._slices)):
            return self.cut.slice_start(index)
        if self.step == 1:
            return self.offset + index * self.advance
        return self.offset + index // 2 * self.advance + index % 2 * (self.size % self.advance)

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

    def first_slice(self, window: Index) -> Index:
        """First slice of a window; it covers `longest` slices from there."""
        return window * self.step

    def end_slice(self, window: Index) -> Index:
        """Return the slice after the last one of a window."""
        return self.first_slice(window) + self.longest

    def entered(self, window: Index) -> Index:
        """Return the end of the slices of all windows before `window`: these have entered when `window` closes next."""
        return self.end_slice(window - 1)

    def first_window(self, index: Index) -> Index:
        """Return the first window that covers a slice; it is after `last_window` for a slice in a gap."""
        return (index - self.longest) // self.step + 1

    def last_window(self, index: Index) -> Index:
        """Return the last window that covers a slice; for a slice in a gap, the last one that starts before it."""
        return index // self.step

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
        return Stepped(grid, self.advance // grid.length, self.size // grid.length, shift, self.closed_right)

    def spec(self) -> list[Any]:
        """`["hopping", size, advance, offset]`, and `true` with `closed_right`."""
        return ["hopping", int(self.size), int(self.advance), int(self.offset), *self.closed_right * [True]]
