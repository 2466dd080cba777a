"""Integer arithmetic of slices, windows and closing. No clocks, no keys, no Spark."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slicing.windows.time.durations import show_instant

Index = TypeVar("Index", int, NDArray[np.int64])


def group_size(slices: int) -> int:
    """Return the number of slices in a slice group: the square root of the slices per window, at least 1."""
    return max(1, round(math.sqrt(slices)))


def limits(family: Any) -> tuple[int, int]:
    """Return the first and the last window whose bounds are instants, which end before the last one of int64.

    Windows before and after them begin or end where no timestamp is.
    """
    first, last = -(1 << 63), (1 << 63) - 1
    return int(family.last_window(family.slice_at(first))) + 1, int(family.first_open(last - 1)) - 1


def in_time(family: Any, index: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each slice belongs to a window whose bounds are instants: `bool[n]`."""
    first, last = family.limits
    found: NDArray[np.bool_] = (family.last_window(index) >= first) & (family.first_window(index) <= last)
    return found


@dataclass(frozen=True)
class Slicing:
    """The slices of hopping windows; all arguments in microseconds.

    `size` and `advance` are positive, `offset` is any integer. Every method takes a Python int or an int64 array.
    """

    size: int
    advance: int
    offset: int = 0

    show = staticmethod(show_instant)

    @property
    def per_advance(self) -> int:
        """Slices per advance: 1 when `size` is a multiple of `advance`, else 2."""
        return 1 if self.size % self.advance == 0 else 2

    @property
    def per_window(self) -> int:
        """Slices per window, `n` in every cost that the docs state."""
        whole, rest = divmod(self.size, self.advance)
        return whole if rest == 0 else 2 * whole + 1

    @property
    def families(self) -> tuple[Any, ...]:
        """These windows alone."""
        return (self,)

    @property
    def longest(self) -> int:
        """The slices of each window."""
        return self.per_window

    @property
    def step(self) -> int:
        """Slices per advance, 1 or 2."""
        return self.per_advance

    @property
    def assembled(self) -> str:
        """Empty: the tree depends on the aggregate."""
        return ""

    @property
    def may_repeat(self) -> bool:
        """False: no window is empty, and no two windows have the same interval."""
        return False

    @property
    def shift(self) -> int:
        """First slice of window 0."""
        return 0

    @property
    def slices_per_group(self) -> int:
        """The number of slices in a slice group: `round(sqrt(n))`, at least 1."""
        return group_size(self.per_window)

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
    def limits(self) -> tuple[int, int]:
        """The first and the last window that may be emitted: their bounds are instants."""
        return limits(self)

    def in_time(self, index: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each record belongs to a window that may be emitted, given its slice and its time."""
        return in_time(self, index)

    def slice_at(self, time: Index) -> Index:
        """Index of the slice that holds `time`."""
        since = time - self.offset
        index = since // self.advance
        if self.per_advance == 1:
            return index
        return 2 * index + (since % self.advance >= self.size % self.advance)

    def slice_start(self, index: Index) -> Index:
        """First microsecond of a slice, which is also the end of the slice before it."""
        if self.per_advance == 1:
            return self.offset + index * self.advance
        return self.offset + index // 2 * self.advance + index % 2 * (self.size % self.advance)

    def window_start(self, window: Index) -> Index:
        """First microsecond of a window."""
        return self.offset + window * self.advance

    def window_end(self, window: Index) -> Index:
        """First microsecond after a window."""
        return self.window_start(window) + self.size

    def first_slice(self, window: Index) -> Index:
        """First slice of a window; it covers `per_window` slices from there."""
        return window * self.per_advance

    def end_slice(self, window: Index) -> Index:
        """Return the slice after the last one of a window."""
        return self.first_slice(window) + self.per_window

    def entered(self, window: Index) -> Index:
        """Return the end of the slices of all windows before `window`: these have entered when `window` closes next."""
        return self.end_slice(window - 1)

    def first_window(self, index: Index) -> Index:
        """Return the first window that covers a slice; it is after `last_window` for a slice in a gap."""
        return (index - self.per_window) // self.per_advance + 1

    def last_window(self, index: Index) -> Index:
        """Return the last window that covers a slice; for a slice in a gap, the last one that starts before it."""
        return index // self.per_advance

    def in_gap(self, index: Index) -> NDArray[np.bool_] | bool:
        """Return whether a slice belongs to no window, which occurs only if `advance > size`."""
        return self.first_window(index) > self.last_window(index)

    def first_open(self, watermark: int, grace: int = 0) -> int:
        """Return the first window with `end + grace > watermark`: all windows before it are closed."""
        return (watermark - grace - self.size - self.offset) // self.advance + 1


FOREVER = 1 << 62
