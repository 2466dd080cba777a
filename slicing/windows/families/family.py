"""The base of all families: the windows of one kind in order, each a range of slices of one cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicing.windows.time.clocks import CYCLE
from slicing.windows.time.cut import Cut
from slicing.windows.time.durations import show_instant
from slicing.windows.time.edges import AFTER, BEFORE, Array, Edges, Every, Listed, after, before, elementwise
from slicing.windows.time.local import Local
from slicing.windows.time.slices import Index, group_size

RUNNING, RUNS, TAILED = "running", "runs", "tailed"
"""How windows that differ in their number of slices are assembled. RUNNING: by a running total, if they share a start.
TAILED: by one total of the whole tails and one running total. RUNS: from the rows of their slices."""


class Family:
    """The windows of one kind. Every method of an index or an instant takes a Python int or an `int64[n]`.

    A subclass defines `window_start` to `last_window`, `_first_after` and `spec`, and its `cut`; the rest follows from
    these.
    """

    closed_right: bool = False
    """Whether records at an end are in the windows that end there, (a, b], not in those that start there, [a, b)."""

    show = staticmethod(show_instant)
    """Returns the text of a bound of a slice or window in messages: an instant, or the number of a record."""

    @cached_property
    def cut(self) -> Cut:
        """The cut over whose slices windows are ranges."""
        raise NotImplementedError

    @cached_property
    def step(self) -> int | None:
        """The slices per advance if all windows have `longest` slices and starts at equal distances, else None."""
        return None

    @cached_property
    def size(self) -> int | None:
        """The length of each window in microseconds, None if lengths differ."""
        return None

    @property
    def fixed_size(self) -> int | None:
        """The length of each emitted window in microseconds, None if lengths differ."""
        return self.size

    @cached_property
    def assembled(self) -> str:
        """How windows are assembled: "running", "tailed" or "runs"; "" if the tree depends on the aggregate."""
        return RUNS

    @cached_property
    def listed(self) -> Array | None:
        """All windows between listed edges as `int64[n]`, None for edges without end."""
        return None

    @property
    def families(self) -> tuple[Family, ...]:
        """The families that share the cut: only this one, or the members of a set."""
        return (self,)

    @cached_property
    def longest(self) -> int:
        """The maximum number of slices of a window, n in every cost.

        It is used for sizing only; results do not depend on it. For a user's class, and over a cut with edges of other
        families, it is the maximum over some thousand sampled windows. A window during which the clock changes may have
        a few more.
        """
        return most_slices(self, self.typical)

    @property
    def typical(self) -> Array:
        """Return windows that stand for all: all of a list, otherwise a sample of windows of 400 years."""
        return sample(lambda time: self.last_window(self.slice_at(time)))

    @property
    def slices_per_group(self) -> int:
        """The number of slices in a slice group."""
        return group_size(self.longest)

    @cached_property
    def ratio(self) -> float:
        """The average number of windows that contain a record, R in every cost; over the slices of typical windows."""
        windows = self.typical
        slices = np.unique(np.concatenate([self.first_slice(windows), self.end_slice(windows) - 1]))
        return float((self.last_window(slices) - self.first_window(slices) + 1).mean())

    @property
    def shortest(self) -> int:
        """The smallest known distance between edges, in microseconds; clock changes may bring edges closer together."""
        return min(distance(edges) for edges in self.cut.sequences)

    @property
    def has_gaps(self) -> bool:
        """Whether there may be instants in no window."""
        return True

    @property
    def may_be_empty(self) -> bool:
        """Whether windows without records may be emitted, with null results."""
        return False

    @property
    def may_repeat(self) -> bool:
        """Whether there may be windows that are never emitted, see `repeats`: edges may be equal."""
        return not all(isinstance(edges, Every) for edges in self.cut.sequences)

    @cached_property
    def limits(self) -> tuple[int, int]:
        """The first and the last window that may be emitted: their bounds are instants.

        Windows that begin before the first instant of int64, or end at the last one or after it, are never emitted.
        """
        return self.last_window(self.slice_at(BEFORE)) + 1, self.first_open(AFTER - 1) - 1

    def in_gap(self, index: Array) -> Any:
        """Return whether each slice belongs to no window."""
        return self.first_window(index) > self.last_window(index)

    def in_time(self, index: Array, times: Array) -> NDArray[np.bool_]:
        """Return whether each record belongs to a window that may be emitted, given its slice and its time."""
        first, last = self.limits
        found: NDArray[np.bool_] = (self.last_window(index) >= first) & (self.first_window(index) <= last)
        return found

    def window_start(self, window: Index) -> Index:
        """First microsecond of a window."""
        raise NotImplementedError

    def window_end(self, window: Index) -> Index:
        """First microsecond after a window."""
        raise NotImplementedError

    def first_slice(self, window: Index) -> Index:
        """First slice of a window."""
        raise NotImplementedError

    def end_slice(self, window: Index) -> Index:
        """Return the slice after the last one of a window."""
        raise NotImplementedError

    def accepted_from(self, window: Index) -> Index:
        """Return the slice from which on all records are accepted if `window` is the first one that accepts any."""
        return self.first_slice(window)

    def first_window(self, index: Index) -> Index:
        """Return the first window with `end_slice > index`; it is after `last_window` for a slice in a gap."""
        raise NotImplementedError

    def last_window(self, index: Index) -> Index:
        """Return the last window with `first_slice <= index`."""
        raise NotImplementedError

    def first_open(self, watermark: Index, grace: int = 0) -> Index:
        """Return the first window with `end + grace > watermark`: all windows before it are closed."""
        return self._first_after(earlier(watermark, grace))

    def _first_after(self, time: Index) -> Index:
        """Return the first window that ends after an instant."""
        raise NotImplementedError

    @elementwise
    def slice_at(self, time: Array) -> Array:
        """Index of the slice that holds an instant."""
        return self.cut.slice_at(time)

    def placed(self, time: Index) -> Index:
        """Return the instant in whose slice a record at `time` counts: with `closed_right` the microsecond before."""
        return earlier(time, 1) if self.closed_right else time

    def slice_of_record(self, time: Index) -> Index:
        """Index of the slice in which a record at `time` counts."""
        return self.slice_at(self.placed(time))

    @elementwise
    def slice_start(self, index: Array) -> Array:
        """First microsecond of a slice."""
        return self.cut.slice_start(index)

    @elementwise
    def entered(self, window: Array) -> Array:
        """Return the end of the slices of all windows before `window`: these have entered when `window` closes next."""
        return self.end_slice(window - 1)

    def over(self, cut: Cut) -> Family:
        """Return these windows as ranges of slices of a cut that has all their edges, and may have others."""
        return self if cut == self.cut else OverSharedCut(self, cut)

    def spec(self) -> list[Any]:
        """Return this family as plain JSON data, equal for equal families; it is stored in the state header."""
        raise NotImplementedError


class Regular(Family):
    """Windows with the same number of slices and equal distances, so that one tree fits all of them."""

    assembled = ""
    shift: int = 0
    """The first slice of window 0."""

    @cached_property
    def per_window(self) -> int:
        """The number of slices of each window."""
        return self.longest

    @cached_property
    def per_advance(self) -> int:
        """The number of slices from the start of one window to the start of the next."""
        assert self.step is not None
        return self.step


def regular(family: Family) -> Regular:
    """Return the family as `Regular`; it must have a `step`."""
    assert isinstance(family, Regular), "windows of this family differ in slices"
    return family


@dataclass(frozen=True)
class OverSharedCut(Family):
    """The windows of a family as ranges of slices of a cut that has edges of other families as well."""

    family: Family
    cut: Cut

    @property
    def assembled(self) -> str:
        """The method of the family; it depends on the windows, not on the slices."""
        return self.family.assembled or RUNS

    @property
    def size(self) -> int | None:
        """The value of the family."""
        return self.family.size

    @property
    def listed(self) -> Array | None:
        """The value of the family, whose windows have the same numbers."""
        return self.family.listed

    @property
    def closed_right(self) -> bool:  # type: ignore[override]
        """The value of the family."""
        return self.family.closed_right

    @property
    def limits(self) -> tuple[int, int]:
        """The value of the family."""
        return self.family.limits

    def in_time(self, index: Array, times: Array) -> NDArray[np.bool_]:
        """Return whether each record belongs to a window that may be emitted, by the slices of the family."""
        return self.family.in_time(self.family.slice_of_record(times), times)

    @property
    def ratio(self) -> float:
        """The value of the family."""
        return self.family.ratio

    @property
    def has_gaps(self) -> bool:
        """Whether there may be instants in no window."""
        return self.family.has_gaps

    @property
    def typical(self) -> Array:
        """The windows of the family."""
        return self.family.typical

    @elementwise
    def window_start(self, window: Array) -> Array:
        """First microsecond of a window."""
        return self.family.window_start(window)

    @elementwise
    def window_end(self, window: Array) -> Array:
        """First microsecond after a window."""
        return self.family.window_end(window)

    @elementwise
    def first_slice(self, window: Array) -> Array:
        """First slice of a window."""
        return self.cut.slice_at(self.family.window_start(window))

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """Return the slice after the last one of a window."""
        return self.cut.slice_at(self.family.window_end(window))

    @elementwise
    def first_window(self, index: Array) -> Array:
        """Return the first window that ends after the start of a slice."""
        return self.family.first_open(last_instant(self.cut, index))

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Return the last window that starts before a slice ends."""
        return self.family.last_window(self.family.slice_at(last_instant(self.cut, index)))

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.family.first_open(time)

    def over(self, cut: Cut) -> Family:
        """Return the same windows over another cut."""
        return self if cut == self.cut else self.family.over(cut)

    def spec(self) -> list[Any]:
        """`["shared", family, cut]`."""
        return ["shared", self.family.spec(), self.cut.spec()]


def earlier(time: Index, length: int) -> Index:
    """Return an instant minus a non-negative duration; it saturates at the limit of int64."""
    if isinstance(time, np.ndarray):
        return np.maximum(time, BEFORE + length) - length
    return time - length


def distance(edges: Edges) -> int:
    """Return the smallest distance between edges in microseconds: a day for days of a wall clock.

    All edges of lists are compared, and sampled ones of a user's class.
    """
    if isinstance(edges, Every):
        return edges.length
    if isinstance(edges, Local):
        return edges.least
    instants = np.array(edges.instants) if isinstance(edges, Listed) else edges.edge(sample(edges.count))
    distances = np.diff(instants)
    return int(distances[distances > 0].min(initial=AFTER))


def last_instant(cut: Cut, index: Array) -> Array:
    """Return the last microsecond before the next slice; for an empty slice this lies in an earlier slice."""
    return before(cut.slice_start(after(index)))


def sample(count: Callable[[int], int]) -> Array:
    """Return window numbers to sample over 400 years from 1970 on, with neighbours; `count` numbers instants."""
    first, last = count(0), count(CYCLE)
    spread = np.linspace(first, last, 2048).astype(np.int64)
    near = np.add.outer(spread[::64], np.arange(64)).ravel()
    return np.unique(np.clip(np.concatenate([spread, near]), first, last))


def most_slices(family: Family, windows: Array) -> int:
    """Return the maximum number of slices of any of these windows."""
    return max(1, int((family.end_slice(windows) - family.first_slice(windows)).max()))


def repeats(family: Family, window: Array, by_end: bool = False) -> NDArray[np.bool_]:
    """Return whether each window is empty or has the interval of the previous window; these are never emitted.

    Both cases occur when a zone skips hours or days. For example, month-to-date windows by days have, on a skipped day,
    the same interval as on the day before. With `by_end` windows are compared by their ends alone, as in wide rows.
    """
    start, end = family.window_start(window), family.window_end(window)
    again = end == family.window_end(window - 1)
    if not by_end:
        again &= start == family.window_start(window - 1)
    return np.asarray((start == end) | again)


MOST_REPEATS = 1024
"""In longer runs of windows that are never emitted, the search for an emitted window stops."""
_WINDOWS_AT_ONCE = 1 << 16
"""The most windows that are listed at once to count those that may be emitted."""


def emitted_before(family: Family, window: int, by_end: bool = False) -> int:
    """Return the last window before `window` that may be emitted; `window - 1` if none is found."""
    if not family.may_repeat:
        return window - 1
    for count in (2, MOST_REPEATS):
        before = np.arange(window - count, window)
        left = before[~repeats(family, before, by_end)]
        if len(left):
            return int(left[-1])
    return window - 1


def emitted_from(family: Family, windows: Array, by_end: bool = False) -> Array:
    """Return for each window the window itself, or the next one that may be emitted."""
    if not family.may_repeat:
        return windows
    known, at = np.unique(windows, return_inverse=True)
    for _ in range(MOST_REPEATS):
        again = repeats(family, known, by_end)
        if not again.any():
            break
        known = known + again
    return known[at]


def emitted_between(family: Family, first: Array, end: Array) -> Array:
    """Return for each range of windows, `first` up to but not including `end`, how many may be emitted: `int64[n]`."""
    if not family.may_repeat or not len(first):
        return end - first
    never = _repeats_between(family, first, end)
    return end - first - (np.searchsorted(never, end) - np.searchsorted(never, first))


def _repeats_between(family: Family, first: Array, end: Array) -> Array:
    """Return the windows in any of some ranges that are never emitted, in order; ranges that overlap are read once."""
    order = np.argsort(first)
    begins, ends = first[order], np.maximum.accumulate(end[order])
    begins[1:] = np.maximum(begins[1:], ends[:-1])
    stops = np.cumsum(ends - begins)
    found = [first[:0]]
    for low in range(0, int(stops[-1]), _WINDOWS_AT_ONCE):
        place = np.arange(low, min(low + _WINDOWS_AT_ONCE, int(stops[-1])))
        at = np.searchsorted(stops, place, "right")
        windows = ends[at] - (stops[at] - place)
        found.append(windows[repeats(family, windows)])
    return np.concatenate(found)


def slice_of(family: Family, instant: int) -> tuple[int, int]:
    """Return the slice `[start, end)` that holds an instant."""
    index = family.slice_of_record(instant)
    return family.slice_start(index), family.slice_start(index + 1)


def windows_of(family: Family, instant: int) -> list[tuple[int, int]]:
    """Return the windows `[start, end)` that hold an instant, in order; empty in a gap."""
    index = family.slice_of_record(instant)
    windows = np.arange(family.first_window(index), family.last_window(index) + 1)
    windows = windows[~repeats(family, windows)]
    pairs = zip(family.window_start(windows).tolist(), family.window_end(windows).tolist(), strict=True)
    return [(start, end) for start, end in pairs]


def windows_between(family: Family, low: int, high: int, most: int) -> list[tuple[int, int]]:
    """Return the first `most` windows that hold an instant of `[low, high)`, in order."""
    low, high = int(family.placed(low)), int(family.placed(high))
    first, last = family.first_window(family.slice_at(low)), family.last_window(family.slice_at(high - 1))
    windows = np.arange(first, min(last, first + 2 * most) + 1)
    starts, ends = family.window_start(windows), family.window_end(windows)
    there = ~repeats(family, windows) & (starts < high) & (ends > low)
    return [(start, end) for start, end in zip(starts[there].tolist(), ends[there].tolist(), strict=True)][:most]
