"""Draw windows and the slices below them; windows that do not overlap share a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from slicing.drawing.svg import svg
from slicing.drawing.timeline import Bar, Data, Row, Timeline
from slicing.windows.families.family import Family
from slicing.windows.time.edges import AFTER, BEFORE
from slicing.windows.time.local import Local

Interval = tuple[int, int]
SHOWN, SLICES, TRIED = 7, 128, 20_000
"""The number of windows of each kind in a picture without records; the most slices in a picture; the most windows that
are listed to find these."""


class Windows(Protocol):
    """The part of `slicing.windows.window.Window` that is drawn."""

    counts: bool

    @property
    def parts(self) -> Sequence[Windows]:
        """The kinds of these windows."""

    @property
    def calls(self) -> list[str]:
        """The name of each kind."""

    @property
    def family(self) -> Family:
        """The windows in order, as ranges of slices."""

    def between(self, low: int, high: int, most: int) -> list[Interval]:
        """Return the first `most` windows that contain an instant of `[low, high)`."""


def picture(window: Windows) -> str | None:
    """Return some windows of each kind over their slices as SVG; None if windows need records or have no ends."""
    low, high = hull(each for part in window.parts for each in _first(part))
    if low > high:
        return None
    rows: list[Row] = []
    names = window.calls if len(window.parts) > 1 else [""]
    shown = []
    for name, part in zip(names, window.parts, strict=True):
        mine = [each for each in part.between(low, high, TRIED) if low <= each[0] and each[1] <= high]
        shown += mine
        rows += packed(name, mine)
    rows += slices(window, low, high)
    return svg(Timeline(repr(window), tuple(rows), low, high, tuple(edges(shown)), zone(window)))


def _first(part: Windows) -> list[Interval]:
    """Return the first windows from 1970 on."""
    found: list[Interval] = []
    for bits in range(20, 61, 2):
        inside = [each for each in part.between(0, 1 << bits, TRIED) if is_finite(each)]
        found = [each for each in inside if each[0] >= 0] or inside
        if len(found) >= SHOWN:
            break
    return found[:SHOWN]


def is_finite(window: Interval) -> bool:
    """Return whether a window has both a start and an end."""
    return BEFORE < window[0] and window[1] < AFTER


def hull(windows: Iterable[Interval]) -> Interval:
    """Return the first start and the last end of windows; `AFTER, BEFORE` of none."""
    starts, ends = [AFTER], [BEFORE]
    for start, end in filter(is_finite, windows):
        starts.append(start)
        ends.append(end)
    return min(starts), max(ends)


def edges(windows: Iterable[Interval]) -> list[int]:
    """Return all finite starts and ends of windows, sorted and distinct."""
    return sorted({edge for window in windows for edge in window} - {BEFORE, AFTER})


def bar(window: Interval, look: str, more: Data | None = None) -> Bar:
    """Return the bar of a window."""
    return Bar(*window, look, data={"window": f"{window[0]} {window[1]}", **(more or {})})


def packed(name: str, windows: Sequence[Interval]) -> list[Row]:
    """Return windows in as few rows as possible; each window is in the first row that has room for it."""
    rows: list[list[Bar]] = []
    for window in sorted(windows):
        room = next((row for row in rows if row[-1].end <= window[0]), None)
        if room is None:
            rows.append([])
        (rows[-1] if room is None else room).append(bar(window, "window"))
    return [Row(name if i == 0 else "", bars=tuple(row), is_first=i == 0) for i, row in enumerate(rows)]


def slices(window: Windows, low: int, high: int, times: Sequence[int] = ()) -> list[Row]:
    """Return one row with the slices in `[low, high)` and the number of records in each; empty if there are too many.

    It is also empty for count windows.
    """
    if window.counts:
        return []
    family = window.family
    first, last = family.slice_at(low), family.slice_at(high - 1)
    if last - first >= SLICES:
        return []
    numbers = np.arange(first, last + 1)
    starts, ends = family.slice_start(numbers), family.slice_start(numbers + 1)
    inside = np.flatnonzero((starts < ends) & ~np.broadcast_to(family.in_gap(numbers), numbers.shape))
    held = Counter(family.slice_of_record(time) for time in times)
    bars = [
        Bar(
            int(starts[i]),
            int(ends[i]),
            ("even", "odd")[int(numbers[i]) % 2],
            str(held[int(numbers[i])] or ""),
            {"slice": f"{starts[i]} {ends[i]}"},
        )
        for i in inside
    ]
    return [Row("slices", bars=tuple(bars), is_first=True)]


def zone(window: Windows) -> str:
    """Return the name of the time zone of windows."""
    return next((edges.zone.name for part in window.parts for edges in _sequences(part.family)), "UTC")


def _sequences(family: Family) -> list[Local]:
    return [edges for edges in family.cut.sequences if isinstance(edges, Local)]
