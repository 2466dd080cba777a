"""Wall clocks: how far each is ahead of UTC, from one instant to the next.

All computations use two functions of the clock. `reached(t)` is the latest wall time that the clock has shown up to t.
`first(w)` is the first instant at which it shows w or later. Both ascend, although the clock itself does not::

    wall   03 |       /                  |      /      the clock jumps: times it skips
           02 |     ./  <- gap           |   /|/       are all first reached at the jump
           01 |  /                       |  / fold     the clock steps back: times it shows twice
              +-----------> instant      +-----------> are first reached before it

An edge in a gap is therefore the first instant after the gap, and an edge in a fold is the earlier instant. Edges never
step back. `count(t)`, the greatest i with `edge(i) <= t`, is the number of the last edge in wall time at or before
`reached(t)`.

If both instants of a fold are edges, the edges are those of a clock that does not step back, see `Clock.ascending`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from slicing.windows.time.edges import AFTER, BEFORE, Array, elementwise

SECOND = 10**6
DAY = 86_400 * SECOND
CYCLE = 146_097 * DAY
"""400 years: after them, dates and days of the week repeat, and so do the rules of zones."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HORIZON = (datetime(2500, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""From here on, a clock repeats the previous 400 years, because the last rule of a zone applies to all of them."""
ANCHOR = (datetime(2026, 12, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""The instant at which every ascending clock shows the wall time, whatever its zone has done before.

Until the zone's next change, edges have the numbers that they had while only the earlier instant of a fold was an edge,
so state of that time can be read. It never changes: these numbers are stored.
"""


class Clock:
    """A clock that is `shifts[i]` ahead of UTC between `transitions[i - 1]` and `transitions[i]`, in microseconds.

    From year 2500 on, it repeats the previous 400 years.
    """

    def __init__(self, transitions: Array, shifts: Array) -> None:
        self._shifts, self._starts = shifts, np.concatenate([np.array([BEFORE]), transitions])

    @elementwise
    def reached(self, instant: Array) -> Array:
        """Return the latest wall time shown up to an instant, which must be a week from the limits of int64."""
        return _repeated(self._reached, instant)

    @elementwise
    def shown(self, instant: Array) -> Array:
        """Return the wall time shown at an instant, which must be a week from the limits of int64."""
        return _repeated(self._shown, instant)

    @elementwise
    def first(self, wall: Array) -> Array:
        """Return the first instant that shows a wall time or a later one; a week from the limits of int64."""
        return _repeated(self._first, wall)

    def ascending(self, unit: int) -> Clock:
        """Return this clock, moved by whole units at its changes so that it never shows a multiple of `unit` again.

        It reaches the next multiple at each instant at which this one shows any multiple, or jumps over some, and at no
        other instant. Both show the same at `ANCHOR`. Changes by whole units before or after an instant, such as summer
        time, do not matter to what it shows then. Units divide an hour.
        """
        before, after = self._starts[1:] + self._shifts[:-1], self._starts[1:] + self._shifts[1:]
        again = -(-before // unit) + (-after // unit)
        jumped = (after > before) & (again < 0) & (after % unit != 0)
        moved = np.concatenate([np.array([0]), np.cumsum(again + jumped)])
        at_anchor = moved[np.searchsorted(self._starts[1:], ANCHOR, "right")]
        return Clock(self._starts[1:], self._shifts + (moved - at_anchor) * unit)

    @cached_property
    def _reached_before(self) -> Array:
        """The latest wall time shown before each part between two transitions."""
        shown = np.concatenate([np.array([BEFORE]), self._starts[1:] - 1 + self._shifts[:-1]])
        reached: Array = np.maximum.accumulate(shown)
        return reached

    @cached_property
    def _by_start(self) -> _Parts:
        return _Parts(self._starts[1:])

    @cached_property
    def _by_wall(self) -> _Parts:
        return _Parts(self._reached_before[1:])

    def _shown(self, instant: Array) -> Array:
        wall: Array = instant + self._shifts[self._by_start(instant)]
        return wall

    def _reached(self, instant: Array) -> Array:
        part = self._by_start(instant)
        wall: Array = np.maximum(instant + self._shifts[part], self._reached_before[part])
        return wall

    def _first(self, wall: Array) -> Array:
        part = self._by_wall(wall - 1)
        instant: Array = np.maximum(wall - self._shifts[part], self._starts[part])
        return instant


def _repeated(clock: Callable[[Array], Array], at: Array) -> Array:
    """Apply a function of the clock; times after the horizon are first moved back by whole cycles of 400 years."""
    if at.max() < HORIZON:
        return clock(at)
    cycles: Array = ((np.maximum(at, HORIZON - CYCLE) - HORIZON) // CYCLE + 1) * CYCLE
    return clock(at - cycles) + cycles


class _Parts:
    """Count, for each value, the `ends` at or before it; `ends` ascend.

    Usually all values are in one part, or in a few. Otherwise each value is looked up in a table of even cells, and
    then moved past the few ends in its cell. This takes less than half the time of a binary search per value.
    """

    def __init__(self, ends: Array) -> None:
        self.ends = ends
        if ends.size:
            self.shift = max(0, (int(ends[-1]) - int(ends[0])).bit_length() - 16)
            self.first = int(ends[0]) >> self.shift
            cells = np.arange(self.first, (int(ends[-1]) >> self.shift) + 2)
            self.before = np.searchsorted(ends, cells << self.shift)
            self.most = int(np.diff(self.before).max())
            self.following = np.concatenate([ends, np.array([AFTER])])

    def __call__(self, at: Array) -> Any:
        low, high = np.searchsorted(self.ends, [at.min(), at.max()], "right")
        if high - low < 8:
            return low if low == high else low + np.searchsorted(self.ends[low:high], at, "right")
        part = self.before[np.clip((at >> self.shift) - self.first, 0, self.before.size - 1)]
        for _ in range(self.most):
            part += self.following[part] <= at
        return part
