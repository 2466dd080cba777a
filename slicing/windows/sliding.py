"""Sliding windows: one per distinct set of records that are at most `difference` apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicing.errors import InvalidValue, check_flag, excerpt
from slicing.windows.families.even import Even
from slicing.windows.time.durations import Duration, microseconds, show
from slicing.windows.time.edges import Array
from slicing.windows.window import Window

WINDOW_REFERENCES = "places"
"""How sliding windows are assembled: windows at the times of records, from the slices that exist."""
MOST_DIFFERENCE = 1 << 60
"""Microseconds, 36,000 years: sums of times stay in int64."""


@dataclass(frozen=True)
class SlidingFamily(Even):
    """A slice per unit, and a possible window from each slice; the records of a key determine which windows exist.

    All windows have the same length, with both ends included. Window w holds slices w to w + n - 1, where n is
    `longest`. The window that ends with slice s is number s - n + 1; the window that starts directly after it is s + 1.
    """

    right: bool = True

    assembled = WINDOW_REFERENCES

    @property
    def reach(self) -> int:
        """The number of slices from the first slice of a window to its last: the difference."""
        return self.longest - 1

    @property
    def ratio(self) -> float:
        """The maximum number of windows that contain a record: one per unit of the difference."""
        return self.size / self.advance

    def in_time(self, index: Array, times: Array) -> NDArray[np.bool_]:
        """Return whether the left window of each record, which it makes, may be emitted."""
        (first, last), left = self.limits, self.first_window(index)
        found: NDArray[np.bool_] = (first <= left) & (left <= last)
        return found

    def spec(self) -> list[Any]:
        """`["sliding", difference, unit, right]`."""
        return ["sliding", self.size - self.advance, self.advance, self.right]


@dataclass(frozen=True)
class Sliding(Window):
    """The result of `sliding`; durations are in microseconds. Its repr is the call that makes it."""

    difference: int
    unit: int
    right: bool = True

    alone = "as records decide which there are"
    decided_by = "records decide. Ask its rows."
    keeps = "keeps partials of the times of records"
    finest = 1

    @cached_property
    def family(self) -> SlidingFamily:
        """All windows that may exist."""
        return SlidingFamily(self.difference + self.unit, self.unit, right=self.right)

    def __repr__(self) -> str:
        given = [repr(show(self.difference))]
        given += [f"unit={show(self.unit)!r}"] if self.unit != _usual_unit(self.right) else []
        given += [] if self.right else ["right=False"]
        return f"sliding({', '.join(given)})"


def sliding(difference: Duration, *, unit: Duration | None = None, right: bool = True) -> Sliding:
    """Return sliding windows: one for each distinct set of records of a key that are at most `difference` apart.

    Times are floored to `unit`, and both ends of a window are included. For each distinct time t of a key there is the
    left window `[t - difference, t + unit)`, which ends with t. There is also the right window
    `[t + unit, t + difference + 2 unit)`, which starts directly after t, if it holds a record. A window that is both
    fires once. These are Kafka's sliding windows. With `right=False` there are left windows only. With `on_close()` a
    row then has the features as of one distinct time: the aggregate of the last `difference` before and including it.

    `unit` is a microsecond or whole milliseconds; `difference` must be a multiple of it. The default is a millisecond,
    without right windows a microsecond. On a stream a record counts in all open windows that hold it. If none is open,
    it is late and makes no window. The lateness of all records of a micro-batch is decided together, in the order of
    their times.

    Cost: a record is stored once, or once together with all records of its key at its time. A window costs no combine
    if partials are added and subtracted, otherwise at most 2 log2(m) for m distinct times in it. The cost does not
    depend on `unit`. A worker process holds the rows of the last `difference` in memory. Raises InvalidValue,
    InvalidType.

    >>> from slicing.stages.local_runner import bounded
    >>> left = sliding("1 millisecond", right=False)
    >>> [(row.start, row.end, row.records) for row in bounded(left, [0, 400, 5000]).rows]
    [(-1000, 1, 1), (-600, 401, 2), (4000, 5001, 1)]
    >>> print(sliding("10 minutes"))
    sliding('10 minutes')
    """
    check_flag(right, "`right` says whether there are right windows")
    step = _usual_unit(right) if unit is None else microseconds(unit, "unit")
    if step != 1 and (step < 1000 or step % 1000):
        raise InvalidValue(f"`unit` must be one microsecond or whole milliseconds; got {excerpt(unit)}.")
    length = microseconds(difference, "difference")
    if length < 0:
        raise InvalidValue(f"`difference` must not be negative; got {excerpt(difference)}.")
    if length > MOST_DIFFERENCE - step:
        most = show(MOST_DIFFERENCE // 86_400_000_000 * 86_400_000_000)
        raise InvalidValue(f"`difference` and `unit` must be shorter than {most}; got {excerpt(difference)}.")
    if length % step:
        raise InvalidValue(
            f"`difference` must be a multiple of `unit`, to which times are floored; got {show(length)} and "
            f'{show(step)}. Write unit="1 microsecond" for times as they are.'
        )
    return Sliding(length, step, right)


def _usual_unit(right: bool) -> int:
    return 1000 if right else 1
