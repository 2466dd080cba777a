"""The rows, and their levels, that make up a window as of an instant.

::

    level 1   |-----------|-----------|-----------|            a row for each step of the tail that has ended
    level 0   |--|--|--|--|--|--|--|--|--|--|--|--|--|--|--    a row for each slice
    as of t               [=======================)  t         the last window that has ended by t, continued to t
                          level 1 ----------------|level 0 --|
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from slicing.errors import InvalidValue
from slicing.serving.manifest import instant_of, instant_or_none, spec_text
from slicing.windows.as_of import held_now, start_as_of
from slicing.windows.families.family import Family
from slicing.windows.families.tailed import Tailed
from slicing.windows.time.cut import Cut, refines
from slicing.windows.time.edges import Array, Edges
from slicing.windows.window import Window


class Range(NamedTuple):
    """The rows of a level that begin in `[low, high)`, microseconds."""

    level: int
    low: int
    high: int


@dataclass(frozen=True)
class Levels:
    """The slices of a feature set: those of the cut, then the steps of each tail."""

    cut: Cut
    tails: tuple[Edges, ...]

    @classmethod
    def of(cls, window: Window) -> Levels:
        """Return the levels of windows. Raises InvalidValue for windows that have gaps or share no slices."""
        return cls(window.family.cut, tails_of(held_now(window)))

    @property
    def specs(self) -> tuple[Any, ...]:
        """The levels as JSON data."""
        return (self.cut.spec(), *(tail.spec() for tail in self.tails))

    def check(self, window: Window) -> None:
        """Raise InvalidValue unless the edges of these windows are edges of slices."""
        for family in held_now(window):
            for edges in family.cut.sequences:
                if not any(refines(own, edges) for own in self.cut.sequences):
                    raise InvalidValue(
                        f"windows are made of stored slices, and {window} has edges inside of them. Choose an advance "
                        "whose edges are edges of the windows that are written."
                    )

    def ended(self, watermark: int | None) -> tuple[int, ...]:
        """Return for each tail the end of its last step with a row; steps have rows once the watermark has passed."""
        return () if watermark is None else tuple(tail.edge(tail.count(watermark)) for tail in self.tails)

    def end(self, level: int, start: int) -> int:
        """Return the end of the row of a level that begins at an instant."""
        if level == 0:
            return self.around(start)[1]
        tail = self.tails[level - 1]
        return tail.edge(tail.count(start) + 1)

    def around(self, instant: int) -> tuple[int, int]:
        """Return the slice that holds an instant."""
        index = self.cut.slice_at(instant)
        return self.cut.slice_start(index), self.cut.slice_start(index + 1)


def tails_of(families: Sequence[Family]) -> tuple[Edges, ...]:
    """Return the edges of the tails of windows, each once."""
    found: list[Edges] = []
    for family in families:
        if isinstance(family, Tailed) and not any(family.tails.spec() == known.spec() for known in found):
            found.append(family.tails)
    return tuple(found)


def level_of(family: Family, tails: Sequence[Edges]) -> int:
    """Return the level of the tail of windows, 0 for windows without one, or with another one."""
    if not isinstance(family, Tailed):
        return 0
    return next((level for level, tail in enumerate(tails, 1) if tail.spec() == family.tails.spec()), 0)


@dataclass(frozen=True)
class Cover:
    """The windows as of an instant: for each its start, and the ranges of rows that it is made of.

    A window whose rows are not all there has no ranges, but `known_from`: the first instant from which rows are there.
    `ranges` cover all windows, one for each level that they need.
    """

    starts: tuple[int, ...]
    parts: tuple[tuple[Range, ...] | None, ...]
    known_from: tuple[int | None, ...]

    @cached_property
    def ranges(self) -> tuple[Range, ...]:
        """The ranges to read, one for each level, in the order of levels."""
        found: dict[int, Range] = {}
        for part in (part for parts in self.parts for part in parts or ()):
            known = found.get(part.level, part)
            found[part.level] = Range(part.level, min(known.low, part.low), max(known.high, part.high))
        return tuple(found[level] for level in sorted(found))

    @cached_property
    def start_instants(self) -> list[datetime]:
        """The start of each window."""
        return list(map(instant_of, self.starts))

    @cached_property
    def known_from_instants(self) -> list[datetime | None]:
        """The first instant of rows of each window whose rows are not all there."""
        return list(map(instant_or_none, self.known_from))

    @cached_property
    def bounds(self) -> list[Array]:
        """For each range to read, the bounds of the parts of windows in it, one after another."""
        return [
            np.array([bound for _, low, high in self._in(each.level) for bound in (low, high)]) for each in self.ranges
        ]

    @cached_property
    def owners(self) -> list[list[int]]:
        """For each range to read, the windows of its parts, in the order of `bounds`."""
        return [[window for window, _, _ in self._in(each.level)] for each in self.ranges]

    def _in(self, level: int) -> list[tuple[int, int, int]]:
        return [
            (window, part.low, part.high)
            for window, parts in enumerate(self.parts)
            for part in parts or ()
            if part.level == level
        ]


class Stored(NamedTuple):
    """The rows that are there: for each level from an instant on, and for each tail up to an instant.

    `ended` is empty as long as no step of a tail has a row. Windows that were `added` are whole from an instant on.
    """

    gone: tuple[int, ...]
    ended: tuple[int, ...]
    added: Mapping[str, int] = MappingProxyType({})

    def of(self, spec: str) -> Stored:
        """Return what is there of windows with this spec."""
        since = self.added.get(spec)
        return self if since is None else self._replace(gone=tuple(max(each, since) for each in self.gone))


@dataclass
class Windows:
    """Windows over the levels of a feature set. It keeps the cover of the last slice, in which most instants lie."""

    window: Window
    levels: Levels

    def __post_init__(self) -> None:
        self.families = held_now(self.window)
        self.specs = [spec_text(family.spec()) for family in self.families]
        self.levels.check(self.window)
        self._last: tuple[int, int, Stored, Cover] | None = None

    @cached_property
    def names(self) -> list[str]:
        """The names of the windows, or the calls that make them."""
        return self.window.calls

    def cover(self, instant: int, stored: Stored) -> Cover:
        """Return the windows as of an instant, of the rows that are there."""
        last = self._last
        if last is not None and last[0] < instant < last[1] and last[2] == stored:
            return last[3]
        low, high = self.levels.around(instant)
        found = self._cover(instant, low if low == instant else high, stored)
        if low < instant:
            self._last = (low, high, stored, found)
        return found

    def _cover(self, instant: int, end: int, stored: Stored) -> Cover:
        starts = tuple(int(start_as_of(family, instant)) for family in self.families)
        of_each = list(map(stored.of, self.specs))
        parts = tuple(
            self._parts(family, start, instant, end, there)
            for family, start, there in zip(self.families, starts, of_each, strict=True)
        )
        known = tuple(
            None if found is not None else self._known_from(instant, there)
            for found, there in zip(parts, of_each, strict=True)
        )
        return Cover(starts, parts, known)

    def _parts(self, family: Family, start: int, instant: int, end: int, stored: Stored) -> tuple[Range, ...] | None:
        own = level_of(family, self.levels.tails)
        for level, (tail, ended) in enumerate(zip(self.levels.tails, stored.ended, strict=False), 1):
            middle = tail.edge(tail.count(min(instant, ended)))
            is_there = start >= stored.gone[level] and start < middle >= stored.gone[0]
            if own in (0, level) and is_there and tail.edge(tail.count(start)) == start:
                rest = (Range(0, middle, end),) if middle < end else ()
                return (Range(level, start, middle), *rest)
        return (Range(0, start, end),) if start >= stored.gone[0] else None

    def _known_from(self, instant: int, stored: Stored) -> int:
        """Return the first instant from which on there are rows up to an instant."""
        gone = stored.gone
        found = [gone[0]]
        for level, (tail, ended) in enumerate(zip(self.levels.tails, stored.ended, strict=False), 1):
            if tail.edge(tail.count(min(instant, ended))) >= gone[0]:
                found.append(_next_edge(tail, gone[level]))
        return min(found)


def needed(families: Sequence[Family], watermark: int) -> tuple[int, ...]:
    """Return for each level the instant before which no window as of a watermark, or later, needs its rows.

    Windows as of a watermark are those as of the last edge of slices.
    """
    tails = tails_of(families)
    found = [tail.edge(tail.count(watermark)) for tail in tails]
    found = [min([watermark, *found]), *found]
    for family in families:
        start = int(start_as_of(family, family.slice_start(family.slice_at(watermark))))
        level = level_of(family, tails)
        found[level] = min(found[level], start)
    return tuple(found)


def _next_edge(edges: Edges, instant: int) -> int:
    number = edges.count(instant)
    return instant if edges.edge(number) == instant else edges.edge(number + 1)
