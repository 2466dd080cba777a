"""Cumulating windows: all windows of a period share its start; each is one step longer than the previous one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slicing.errors import InvalidValue
from slicing.windows.families.ending import EndingAtEdges
from slicing.windows.families.family import RUNNING
from slicing.windows.time.cut import refines
from slicing.windows.time.edges import Array, Edges, Every, after, before, elementwise
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone


@dataclass(frozen=True)
class Cumulating(EndingAtEdges):
    """Windows that start at an edge of `periods` and end at each edge of `steps` up to the next edge of `periods`.

    Window i ends with slice i. Every edge of `periods` must be an edge of `steps`. Raises InvalidValue if that is not
    known from their definitions.
    """

    periods: Edges
    steps: Edges
    closed_right: bool = False
    assembled = RUNNING

    def __post_init__(self) -> None:
        if not refines(self.steps, self.periods):
            raise InvalidValue(
                f"`size` of cumulating windows must begin and end where a `step` does; got steps "
                f"{self.steps.spec()} in periods {self.periods.spec()}."
            )

    @property
    def ends(self) -> Edges:
        """The edges of `steps`: a window ends at each of them."""
        return self.steps

    @property
    def ratio(self) -> float:
        """The average number of windows that contain a record, for the longest period."""
        return (self.longest + 1) / 2

    @cached_property
    def longest(self) -> int:
        """The number of steps of the longest period, for example 31 for the days of months."""
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
    def last_window(self, index: Array) -> Array:
        """Return the last window that covers a slice: the window of the whole period."""
        period = self.periods.count(before(self.steps.edge(after(index))))
        return self.steps.count(before(self.periods.edge(period + 1)))

    def spec(self) -> list[Any]:
        """`["cumulating", periods, steps]`, and `true` with `closed_right`."""
        return ["cumulating", self.periods.spec(), self.steps.spec(), *self.closed_right * [True]]


def _most_steps(periods: Local, steps: Local) -> int:
    """Return the maximum number of steps in a period, on a UTC calendar; it repeats after 400 years."""
    utc = Zone("UTC", (), (0,))
    periods, steps = (
        Local(edges.unit, edges.each, utc, edges.repeats, edges.offset, edges.months) for edges in (periods, steps)
    )
    cycle = 4800 // math.gcd(4800, periods.each) if periods.unit == "month" else 1
    numbers = steps.count(periods.edge(np.arange(cycle + 1)))
    return int(np.diff(numbers).max())
