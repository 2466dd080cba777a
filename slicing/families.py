"""Families: windows in order, each a range of slices of one cut.

Neither starts nor ends of windows ever step back. Windows may be empty, and two neighbours may have one interval, where
a wall clock leaves out what would tell them apart; neither of these goes out, see `repeats`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from slicing.cut import Cut, refines
from slicing.edges import AFTER, BEFORE, Array, Edges, Every, Listed, after, before, elementwise, within
from slicing.errors import InvalidValue
from slicing.slices import Index, Slicing, stripe_of
from slicing.zones import CYCLE, Local, Zone

RUNNING, RUNS = "running", "runs"
"""How windows that differ in slices are assembled: those that begin alike from a running total, others from the rows
of their slices."""


class Family(Protocol):
    """The windows of one kind. Every method of an index or an instant takes a Python int or an int64 array."""

    @property
    def cut(self) -> Cut:
        """The slices that windows are ranges of."""

    @property
    def longest(self) -> int:
        """The most slices a window has, n in every cost.

        It sizes things, and nothing is right or wrong by it: of a user's class, and over a cut with edges of others, it
        is the most of some thousand windows that were tried; one during which clocks change may have a few more.
        """

    @property
    def step(self) -> int | None:
        """Slices per advance if all windows have `longest` slices and start that far apart, else None."""

    @property
    def assembled(self) -> str:
        """How windows are assembled, "running" or "runs"; "" where each aggregate has a tree of its own."""

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
        """Whether there may be windows that never go out, see `repeats`."""

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

    def spec(self) -> list[Any]:
        """This family as plain JSON data, equal for equal families: what a state header stores."""


class Regular(Family, Protocol):
    """A family whose windows all have as many slices and start as many apart, so that trees fit them all."""

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


class _OverCut:
    """What every family asks its cut."""

    cut: Any
    assembled: Any = RUNS

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
        return _sample(lambda time: self.last_window(self.slice_at(time)))  # type: ignore[attr-defined]

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
        return self._first_after(_earlier(watermark, grace))

    @elementwise
    def _first_after(self, time: Array) -> Array:
        """First window that ends after an instant."""
        raise NotImplementedError


def _earlier(time: Index, length: int) -> Index:
    """An instant less a duration that is not negative, as far as int64 goes."""
    if isinstance(time, np.ndarray):
        return np.maximum(time, BEFORE + length) - length
    return time - length


@dataclass(frozen=True)
class Even(Slicing):
    """Hopping and tumbling windows of fixed length: `Slicing`, with its closed forms, as a family.

    What `Slicing` would wrap at the ends of int64 goes by the edges here, which stop there.
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
        """Starts, and, unless `size` is a multiple of `advance`, ends, so numbered that slices are those of today."""
        rest = self.size % self.advance
        return Cut([self.starts, Every(self.advance, self.offset + rest - self.advance)] if rest else [self.starts])

    def slice_at(self, time: Index) -> Index:
        """Index of the slice that holds an instant."""
        far = self.offset and isinstance(time, np.ndarray) and time.size and not within(time, -(1 << 62), 1 << 62)
        if far:  # without an offset nothing wraps, and nothing is asked of the values
            return self.cut.slice_at(time)
        return super().slice_at(time)

    def slice_start(self, index: Index) -> Index:
        """First microsecond of a slice."""
        if isinstance(index, np.ndarray) and index.size and within(index, *self._slices):
            return super().slice_start(index)
        return self.cut.slice_start(index)

    @cached_property
    def _slices(self) -> tuple[int, int]:
        """Numbers of slices whose starts an int64 holds."""
        return self.cut.slice_at(BEFORE) + 1, self.cut.slice_at(AFTER)

    def window_start(self, window: Index) -> Index:
        """First microsecond of a window."""
        return self.starts.edge(window)

    def window_end(self, window: Index) -> Index:
        """First microsecond after a window."""
        return self.ends.edge(window)

    def first_open(self, watermark: Index, grace: int = 0) -> Index:
        """First window with `end + grace > watermark`."""
        return self.ends.count(_earlier(watermark, grace)) + 1

    def over(self, cut: Cut) -> Family:
        """On a grid every window still has the same number of slices."""
        if cut == self.cut:
            return self
        grid = cut.sequences[0]
        if len(cut.sequences) > 1 or not isinstance(grid, Every):
            return Shared(self, cut)
        shift = (self.offset - grid.offset) // grid.length
        return Stepped(grid, self.advance // grid.length, self.size // grid.length, shift)

    def spec(self) -> list[Any]:
        """`["hopping", size, advance, offset]`."""
        return ["hopping", int(self.size), int(self.advance), int(self.offset)]


@dataclass(frozen=True)
class Stepped(_OverCut):
    """Windows of `longest` slices each that start every `step` slices, from slice `shift` on.

    Of days on a wall clock, or of the slices of a finer grid. Slices count, not their lengths: a window of seven days
    has seven slices, and is an hour longer where one of the days is.
    """

    edges: Edges
    step: int
    longest: int
    shift: int = 0
    assembled = ""

    @cached_property
    def cut(self) -> Cut:
        """The edges, of which every `step`-th one starts a window."""
        return Cut([self.edges])

    @property
    def per_window(self) -> int:
        """Slices per window."""
        return self.longest

    @property
    def per_advance(self) -> int:
        """Slices per advance."""
        return self.step

    @property
    def ratio(self) -> float:
        """Windows that a record is in, on average."""
        return self.longest / self.step

    @property
    def has_gaps(self) -> bool:
        """Whether there are slices in no window."""
        return self.step > self.longest

    @elementwise
    def window_start(self, window: Array) -> Array:
        """First microsecond of a window."""
        return self.edges.edge(self.first_slice(window))

    @elementwise
    def window_end(self, window: Array) -> Array:
        """First microsecond after a window."""
        return self.edges.edge(self.end_slice(window))

    @elementwise
    def first_slice(self, window: Array) -> Array:
        """First slice of a window."""
        return self._wide(window) * self.step + self.shift

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """The slice after the last one of a window."""
        return self._wide(window) * self.step + (self.shift + self.longest)

    @elementwise
    def first_window(self, index: Array) -> Array:
        """First window that covers a slice."""
        return (index - (self.shift + self.longest)) // self.step + 1

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Last window that starts at or before a slice."""
        return (index - self.shift) // self.step

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.first_window(self.edges.count(time))

    def _wide(self, window: Array) -> Array:
        """Numbers of windows whose slices an int64 numbers; the last and the first of them for those beyond."""
        limit = (1 << 62) // self.step
        return window if within(window, -limit, limit) else np.clip(window, -limit, limit)

    def over(self, cut: Cut) -> Family:
        """Over other edges too, windows are uneven."""
        return self if cut == self.cut else Shared(self, cut)

    def spec(self) -> list[Any]:
        """`["stepped", edges, step, longest, shift]`."""
        return ["stepped", self.edges.spec(), self.step, self.longest, self.shift]


@dataclass(frozen=True)
class Cumulating(_OverCut):
    """Windows that start at an edge of `periods` and end at each edge of `steps` up to the next of them.

    Window i ends with slice i. All edges of `periods` are edges of `steps`. Raises InvalidValue if they are not known
    to be.
    """

    periods: Edges
    steps: Edges
    assembled = RUNNING

    def __post_init__(self) -> None:
        if not refines(self.steps, self.periods):
            raise InvalidValue(
                f"`size` of cumulating windows must begin and end where a `step` does; got steps "
                f"{self.steps.spec()} in periods {self.periods.spec()}."
            )

    @cached_property
    def cut(self) -> Cut:
        """The edges of steps."""
        return Cut([self.steps])

    @property
    def ratio(self) -> float:
        """Windows that a record is in, on average of the longest period."""
        return (self.longest + 1) / 2

    @property
    def has_gaps(self) -> bool:
        """Periods follow one another."""
        return False

    @property
    def step(self) -> None:
        """Windows differ in length."""
        return None

    @cached_property
    def longest(self) -> int:
        """The steps of the longest period: 31 for the days of months."""
        if isinstance(self.periods, Every) and isinstance(self.steps, Every):
            return self.periods.length // self.steps.length
        if isinstance(self.periods, Local) and isinstance(self.steps, Local):
            return _most_steps(self.periods, self.steps)
        return 1

    @elementwise
    def window_start(self, window: Array) -> Array:
        """First microsecond of a window."""
        return self.periods.edge(self.periods.count(self.steps.edge(window)))

    @elementwise
    def window_end(self, window: Array) -> Array:
        """First microsecond after a window."""
        return self.steps.edge(after(window))

    @elementwise
    def first_slice(self, window: Array) -> Array:
        """First slice of a window."""
        return self.steps.count(self.window_start(window))

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """The slice after the last one of a window."""
        return after(window)

    @elementwise
    def first_window(self, index: Array) -> Array:
        """First window that covers a slice: the one that it ends."""
        return index.copy()

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Last window that covers a slice: that of the whole period."""
        period = self.periods.count(before(self.steps.edge(after(index))))
        return self.steps.count(before(self.periods.edge(period + 1)))

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.steps.count(time)

    def over(self, cut: Cut) -> Family:
        """Over other edges too, more slices enter with each step."""
        return self if cut == self.cut else Shared(self, cut)

    def spec(self) -> list[Any]:
        """`["cumulating", periods, steps]`."""
        return ["cumulating", self.periods.spec(), self.steps.spec()]


def _most_steps(periods: Local, steps: Local) -> int:
    """The most steps in a period of a calendar whose clock never changes: 400 years, then they repeat."""
    utc = Zone("UTC", (), (0,))
    periods, steps = (Local(edges.unit, edges.each, utc) for edges in (periods, steps))
    cycle = 4800 // math.gcd(4800, periods.each) if periods.unit == "month" else 1
    numbers = steps.count(periods.edge(np.arange(cycle + 1)))
    return int(np.diff(numbers).max())


@dataclass(frozen=True)
class ByEdges(_OverCut):
    """Windows `[starts(i), ends(i))`, of any edges.

    Raises InvalidValue when a window tried ends before it starts, or one sequence is a list and the other is not of
    that length.
    """

    starts: Edges
    ends: Edges

    def __post_init__(self) -> None:
        lengths = [len(e.instants) if isinstance(e, Listed) else None for e in (self.starts, self.ends)]
        if lengths[0] != lengths[1]:
            shown = " and ".join("no list" if length is None else str(length) for length in lengths)
            raise InvalidValue(
                f"`starts` and `ends` must be as many: window i is [starts(i), ends(i)); got {shown}. "
                "Give two lists of one length, or two sequences without end."
            )
        tried = self._tried
        starts, ends = self.window_start(tried), self.window_end(tried)
        if (wrong := np.flatnonzero(ends < starts)).size:
            at = wrong[0]
            raise InvalidValue(
                f"`ends(i)` must not come before `starts(i)`; window {tried[at]} would be [{starts[at]}, {ends[at]})."
            )

    @cached_property
    def cut(self) -> Cut:
        """Starts and ends."""
        return Cut([self.starts, self.ends])

    @property
    def step(self) -> None:
        """Windows differ in length."""
        return None

    @cached_property
    def longest(self) -> int:
        """The most slices of a window: of all that are listed, of those tried of other edges."""
        return _most_slices(self, self._tried)

    @property
    def _tried(self) -> Array:
        if isinstance(self.starts, Listed):
            return np.arange(len(self.starts.instants))
        return _sample(self.starts.count)

    @elementwise
    def window_start(self, window: Array) -> Array:
        """First microsecond of a window."""
        return self.starts.edge(window)

    @elementwise
    def window_end(self, window: Array) -> Array:
        """First microsecond after a window."""
        return self.ends.edge(window)

    @elementwise
    def first_slice(self, window: Array) -> Array:
        """First slice of a window."""
        return self.cut.slice_at(self.starts.edge(window))

    @elementwise
    def end_slice(self, window: Array) -> Array:
        """The slice after the last one of a window."""
        return self.cut.slice_at(self.ends.edge(window))

    @elementwise
    def first_window(self, index: Array) -> Array:
        """First window that ends after a slice has begun."""
        return self._first_after(_last_instant(self.cut, index))

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Last window that starts before a slice ends."""
        return self.starts.count(_last_instant(self.cut, index))

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.ends.count(time) + 1

    def over(self, cut: Cut) -> Family:
        """Over other edges too."""
        return self if cut == self.cut else Shared(self, cut)

    def spec(self) -> list[Any]:
        """`["by_edges", starts, ends]`."""
        return ["by_edges", self.starts.spec(), self.ends.spec()]


@dataclass(frozen=True)
class Shared(_OverCut):
    """The windows of a family as ranges of slices of a cut that has other edges as well."""

    family: Family
    cut: Cut

    @property
    def assembled(self) -> str:
        """Whether windows begin alike depends on them, not on the slices."""
        return self.family.assembled or RUNS

    @property
    def step(self) -> None:
        """Windows differ in slices."""
        return None

    @property
    def size(self) -> int | None:
        """That of the family."""
        return self.family.size

    @property
    def ratio(self) -> float:
        """That of the family."""
        return self.family.ratio

    @property
    def has_gaps(self) -> bool:
        """Whether there may be instants in no window."""
        return self.family.has_gaps

    @cached_property
    def longest(self) -> int:
        """The most slices of the windows tried; all, of a list."""
        return _most_slices(self, self.family._tried if isinstance(self.family, ByEdges) else self._tried)

    @property
    def _tried(self) -> Array:
        return _sample(lambda time: self.family.last_window(self.family.slice_at(time)))

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
        """The slice after the last one of a window."""
        return self.cut.slice_at(self.family.window_end(window))

    @elementwise
    def first_window(self, index: Array) -> Array:
        """First window that ends after a slice has begun."""
        return self.family.first_open(_last_instant(self.cut, index))

    @elementwise
    def last_window(self, index: Array) -> Array:
        """Last window that starts before a slice ends."""
        return self.family.last_window(self.family.slice_at(_last_instant(self.cut, index)))

    @elementwise
    def _first_after(self, time: Array) -> Array:
        return self.family.first_open(time)

    def over(self, cut: Cut) -> Family:
        """The same windows, over another cut."""
        return self if cut == self.cut else self.family.over(cut)

    def spec(self) -> list[Any]:
        """`["shared", family, cut]`."""
        return ["shared", self.family.spec(), self.cut.spec()]


def distance(edges: Edges) -> int:
    """Microseconds that edges are apart at least: of a wall clock's days and longer a day, of a user's class 1."""
    if isinstance(edges, Every):
        return edges.length
    if isinstance(edges, Listed):
        apart = np.diff(np.array(edges.instants))
        return int(apart[apart > 0].min(initial=AFTER))
    return edges.least if isinstance(edges, Local) else 1


def _last_instant(cut: Cut, index: Array) -> Array:
    """The last microsecond before the next slice, so before an empty one the last of the slice that is not."""
    return before(cut.slice_start(after(index)))


def _sample(count: Callable[[int], int]) -> Array:
    """Numbers of windows to try: neighbours, and some of 400 years, from 1970 on; `count` numbers instants."""
    first, last = count(0), count(CYCLE)
    spread = np.linspace(first, last, 2048).astype(np.int64)
    near = np.add.outer(spread[::64], np.arange(64)).ravel()
    return np.unique(np.clip(np.concatenate([spread, near]), first, last))


def _most_slices(family: Family, windows: Array) -> int:
    return max(1, int((family.end_slice(windows) - family.first_slice(windows)).max()))


def repeats(family: Family, window: Array) -> NDArray[np.bool_]:
    """Whether a window holds no instant, or has the interval of the window before it: such windows never go out.

    Both come of hours and days that a zone leaves out. Month to date by days has, on a day left out, the window of the
    day before once more.
    """
    start, end = family.window_start(window), family.window_end(window)
    again = (start == family.window_start(window - 1)) & (end == family.window_end(window - 1))
    return np.asarray((start == end) | again)


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
