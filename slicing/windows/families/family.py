"""What a family of windows is: windows in order, each a range of slices of one cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from slicing.windows.time.cut import Cut
from slicing.windows.time.durations import show_instant
from slicing.windows.time.edges import AFTER, BEFORE, Array, Edges, Every, Listed, after, before, elementwise
from slicing.windows.time.local import Local
from slicing.windows.time.slices import Index, stripe_of
from slicing.windows.time.zones import CYCLE

RUNNING, RUNS, TAILED = "running", "runs", "tailed"
"""How windows that differ in slices are assembled: those that begin alike from a running total; those with a coarse
start from one total of whole tails and a running one; others from the rows of their slices."""


class Family(Protocol):
    """The windows of one kind. Every method of an index or an instant takes a Python int or an int64 array."""

    @property
    def cut(self) -> Cut:
        """The slices that windows are ranges of."""

    @property
    def families(self) -> tuple[Family, ...]:
        """The families that share the cut: this one alone, or those of a set."""

    @property
    def longest(self) -> int:
        """The most slices a window has, n in every cost.

        It sizes things, and nothing is right or wrong by it: of a user's class, and over a cut with edges of others, it
        is the most of some thousand windows that were tried; one during which clocks change may have a few more.
        """

    @property
    def step(self) -> int | None:
        """Slices per advance if all windows have `longest` slices and equal distances of starts, else None."""

    @property
    def assembled(self) -> str:
        """How windows are assembled, "running", "tailed" or "runs"; "" where each aggregate has a tree of its own."""

    @property
    def stripe(self) -> int:
        """Consecutive slices in a stripe: `round(sqrt(longest))`."""

    @property
    def ratio(self) -> float:
        """Windows that a record is in, on average, R in every cost; of a user's class, of those that were tried."""

    @property
    def shortest(self) -> int:
        """Microseconds that edges are apart at least, as far as that can be told; those of clocks that change may be
        nearer."""

    @property
    def size(self) -> int | None:
        """Microseconds of each window, None if they differ."""

    @property
    def has_gaps(self) -> bool:
        """Whether there may be instants in no window."""

    @property
    def may_repeat(self) -> bool:
        """Whether there may be windows that are never emitted, see `repeats`."""

    def in_gap(self, index: Array) -> Any:
        """Which slices belong to no window."""

    def window_start(self, window: Index) -> Index:
        """First microsecond of a window."""

    def window_end(self, window: Index) -> Index:
        """First microsecond after a window."""

    def first_slice(self, window: Index) -> Index:
        """First slice of a window."""

    def end_slice(self, window: Index) -> Index:
        """The slice after the last one of a window."""

    def first_window(self, index: Index) -> Index:
        """First window with `end_slice` beyond a slice; greater than `last_window` for a slice in a gap."""

    def last_window(self, index: Index) -> Index:
        """Last window with `first_slice` at or before a slice."""

    def first_open(self, watermark: Index, grace: int = 0) -> Index:
        """First window with `end + grace > watermark`: all before it are closed."""

    def slice_at(self, time: Index) -> Index:
        """Index of the slice that holds an instant."""

    def slice_start(self, index: Index) -> Index:
        """First microsecond of a slice."""

    def entered(self, window: Index) -> Index:
        """End of the slices of the windows before `window`: those that have entered when it is the next to close."""

    def over(self, cut: Cut) -> Family:
        """These windows as ranges of the slices of a cut that has all their edges."""

    def show(self, bound: int) -> str:
        """What bounds a slice or a window, as messages show it: an instant, or the number of a record."""

    def spec(self) -> list[Any]:
        """This family as plain JSON data, equal for equal families: what a state header stores."""


class Regular(Family, Protocol):
    """A family whose windows have equally many slices and equal distances, so that one tree fits them all."""

    @property
    def per_window(self) -> int:
        """Slices of each window."""

    @property
    def per_advance(self) -> int:
        """Slices from the start of one window to that of the next."""

    @property
    def shift(self) -> int:
        """First slice of window 0."""


def regular(family: Family) -> Regular:
    """The same family, of which it is known that it is regular."""
    assert family.step is not None, "windows of this family differ in slices"
    return cast("Regular", family)


class OverCut:
    """What every family asks its cut."""

    cut: Any
    assembled: Any = RUNS
    show = staticmethod(show_instant)

    @property
    def families(self) -> tuple[Any, ...]:
        """These windows alone."""
        return (self,)

    @property
    def stripe(self) -> int:
        """Consecutive slices in a stripe."""
        return stripe_of(self.longest)  # type: ignore[attr-defined]

    @cached_property
    def ratio(self) -> float:
        """Windows that a record is in, on average of the slices of those tried."""
        windows = self._tried
        slices = np.unique(np.concatenate([self.first_slice(windows), self.end_slice(windows) - 1]))  # type: ignore[attr-defined]
        counts = self.last_window(slices) - self.first_window(slices) + 1  # type: ignore[attr-defined]
        return float(counts.mean())

    @property
    def _tried(self) -> Array:
        """Some windows that are typical."""
        return sample(lambda time: self.last_window(self.slice_at(time)))  # type: ignore[attr-defined]

    @property
    def shortest(self) -> int:
        """The least distance of edges of one sequence."""
        return min(distance(edges) for edges in self.cut.sequences)

    @property
    def size(self) -> int | None:
        """Windows differ in length."""
        return None

    @property
    def has_gaps(self) -> bool:
        """Whether there may be instants in no window."""
        return True

    @property
    def may_repeat(self) -> bool:
        """Whether edges may be equal."""
        return not all(isinstance(edges, Every) for edges in self.cut.sequences)

    def in_gap(self, index: Array) -> Any:
        """Which slices belong to no window."""
        return self.first_window(index) > self.last_window(index)  # type: ignore[attr-defined]

    @elementwise
    def slice_at(self, time: Array) -> Array:
        """Index of the slice that holds an instant."""
        return self.cut.slice_at(time)  # type: ignore[no-any-return]

    @elementwise
    def slice_start(self, index: Array) -> Array:
        """First microsecond of a slice."""
        return self.cut.slice_start(index)  # type: ignore[no-any-return]

    @elementwise
    def entered(self, window: Array) -> Array:
        """End of the slices of the windows before `window`."""
        return self.end_slice(window - 1)  # type: ignore[attr-defined, no-any-return]

    def first_open(self, watermark: Index, grace: int = 0) -> Index:
        """First window with `end + grace > watermark`."""
        return self._first_after(earlier(watermark, grace))

    @elementwise
    def _first_after(self, time: Array) -> Array:
        """First window that ends after an instant."""
        raise NotImplementedError


def earlier(time: Index, length: int) -> Index:
    """An instant less a duration that is not negative, as far as int64 goes."""
    if isinstance(time, np.ndarray):
        return np.maximum(time, BEFORE + length) - length
    return time - length


def distance(edges: Edges) -> int:
    """Return the least distance of edges in microseconds: a day for days of a wall clock, 1 for a user's class."""
    if isinstance(edges, Every):
        return edges.length
    if isinstance(edges, Listed):
        apart = np.diff(np.array(edges.instants))
        return int(apart[apart > 0].min(initial=AFTER))
    return edges.least if isinstance(edges, Local) else 1


def last_instant(cut: Cut, index: Array) -> Array:
    """The last microsecond before the next slice, so before an empty one the last of the slice that is not."""
    return before(cut.slice_start(after(index)))


def sample(count: Callable[[int], int]) -> Array:
    """Numbers of windows to try: neighbours, and some of 400 years, from 1970 on; `count` numbers instants."""
    first, last = count(0), count(CYCLE)
    spread = np.linspace(first, last, 2048).astype(np.int64)
    near = np.add.outer(spread[::64], np.arange(64)).ravel()
    return np.unique(np.clip(np.concatenate([spread, near]), first, last))


def most_slices(family: Family, windows: Array) -> int:
    """The most slices that any of these windows has."""
    return max(1, int((family.end_slice(windows) - family.first_slice(windows)).max()))


def repeats(family: Family, window: Array, by_end: bool = False) -> NDArray[np.bool_]:
    """Whether a window holds no instant, or has the interval of the window before it: such windows are never emitted.

    Both come of hours and days that a zone leaves out. Month to date by days has, on a day left out, the window of the
    day before once more. With `by_end` windows are told apart by their ends alone, as wide rows tell them.
    """
    start, end = family.window_start(window), family.window_end(window)
    again = end == family.window_end(window - 1)
    if not by_end:
        again &= start == family.window_start(window - 1)
    return np.asarray((start == end) | again)


MOST_REPEATS = 1024
"""Runs of this many windows that are never emitted are looked through for one that is."""


def emitted_before(family: Family, window: int, by_end: bool = False) -> int:
    """Return the last window before one that may be emitted."""
    if not family.may_repeat:
        return window - 1
    for count in (2, MOST_REPEATS):
        before = np.arange(window - count, window)
        left = before[~repeats(family, before, by_end)]
        if len(left):
            return int(left[-1])
    return window - 1


def emitted_from(family: Family, windows: Array, by_end: bool = False) -> Array:
    """Return for each window itself, or the next one that may be emitted."""
    if not family.may_repeat:
        return windows
    known, at = np.unique(windows, return_inverse=True)
    for _ in range(MOST_REPEATS):
        again = repeats(family, known, by_end)
        if not again.any():
            break
        known = known + again
    return known[at]


def slice_of(family: Family, instant: int) -> tuple[int, int]:
    """The slice `[start, end)` that holds an instant."""
    index = family.slice_at(instant)
    return family.slice_start(index), family.slice_start(index + 1)


def windows_of(family: Family, instant: int) -> list[tuple[int, int]]:
    """The windows `[start, end)` that hold an instant, in order; empty in a gap."""
    index = family.slice_at(instant)
    windows = np.arange(family.first_window(index), family.last_window(index) + 1)
    windows = windows[~repeats(family, windows)]
    pairs = zip(family.window_start(windows).tolist(), family.window_end(windows).tolist(), strict=True)
    return [(start, end) for start, end in pairs]


def windows_between(family: Family, low: int, high: int, most: int) -> list[tuple[int, int]]:
    """The first windows that hold an instant of `[low, high)`, `most` of them, in order."""
    first, last = family.first_window(family.slice_at(low)), family.last_window(family.slice_at(high - 1))
    windows = np.arange(first, min(last, first + 2 * most) + 1)
    starts, ends = family.window_start(windows), family.window_end(windows)
    there = ~repeats(family, windows) & (starts < high) & (ends > low)
    return [(start, end) for start, end in zip(starts[there].tolist(), ends[there].tolist(), strict=True)][:most]
