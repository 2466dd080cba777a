"""Windows as of an instant: of a stream, of training rows, and of served values the same.

::

    windows         [===========)  [===========)  [===========)        the last one that has ended by t
    as of t              [============================= t              is continued to t

So a window as of an instant is as long as its size, and up to an advance or a tail longer. At the end of a window it is
that window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slicing.errors import InvalidValue
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.family import Family, OverSharedCut
from slicing.windows.lookback import Lookback, Lookbacks
from slicing.windows.time.closed import Closed
from slicing.windows.time.edges import Array
from slicing.windows.time.slices import Index
from slicing.windows.window import Window


def held_now(window: Window) -> list[Family]:
    """Return the families of windows over their own cuts.

    Raises InvalidValue for windows with gaps between them, and for windows that records decide.
    """
    for part in window.parts:
        if part.alone:
            raise InvalidValue(
                f"a value as of an instant is made of slices that windows share, and {part} shares none, {part.alone}. "
                "Use windows that time decides."
            )
        if part.family.closed_right:
            raise InvalidValue(
                f"a value as of an instant is of the records before it, and windows closed on the right hold those at "
                f"their end; got {part}. Leave `closed` out."
            )
        if part.family.has_gaps:
            raise InvalidValue(
                f"a value as of an instant is that of a window that holds it, and {part} may have gaps. Use windows "
                "without gaps."
            )
    return [part.family for part in window.parts]


def start_as_of(family: Family, instant: Index) -> Index:
    """Return the start of the window as of an instant: that of the last window that has ended by then.

    Cumulating windows start with the period that holds the microsecond before the instant.
    """
    own = family.family if isinstance(family, OverSharedCut) else family
    if isinstance(own, Cumulating):
        return own.window_start(own.first_open(instant - 1))
    return own.window_start(own.first_open(instant) - 1)


def span(family: Family) -> int:
    """Return how far before an instant the window as of it may begin, in microseconds: an upper bound."""
    return int((_SAMPLE - start_as_of(family, _SAMPLE)).max()) + family.shortest


def longest_advance(family: Family) -> int:
    """Return the longest time from the end of a window to that of the next one, in microseconds."""
    following = family.first_open(_SAMPLE)
    return int((family.window_end(following) - family.window_end(following - 1)).max())


_SAMPLE = np.arange(0, 70 * 366 * 86_400_000_000, 21_677_000_000)
"""Instants of seventy years, at all hours and on all days: many zones had no summer time in the first ten."""


@dataclass(frozen=True)
class FamilyAsOf(Lookback):
    """The windows of a family as of instants; a window is numbered by the microsecond at which it begins."""

    of: Family | None = None

    def as_of(self, time: Array) -> Array:
        """Return the window as of each instant."""
        assert self.of is not None, "it is of windows"
        return start_as_of(self.of, time)


@dataclass(frozen=True)
class WindowsAsOf(Lookbacks):
    """The windows of a definition as of the rows of a spine; made by `as_of`."""

    of: Sequence[Family] = ()
    text: str = ""

    @cached_property
    def family(self) -> Family:
        """The windows, which share their slices."""
        ahead = int(self.closed == "both")
        return self.of_families([FamilyAsOf(span(family), 1, ahead=ahead, of=family) for family in self.of])

    def __repr__(self) -> str:
        return self.text


def as_of(window: Window, inclusive: bool) -> WindowsAsOf:
    """Return windows as of instants that are given later. Raises InvalidValue for several windows without names."""
    families = held_now(window)
    if len(families) > 1 and window.names is None:
        raise InvalidValue(
            f"the results of several windows are columns of one row, distinguished by their names; got {window}. Name "
            'them: `.window(short=..., day=..., time="ts", long=True)`.'
        )
    closed: Closed = "both" if inclusive else "left"
    return WindowsAsOf((), window.names, closed, of=tuple(families), text=repr(window))
