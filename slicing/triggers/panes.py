"""(key, window) pairs that fire together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

ALL, BEFORE, NEW = "all", "before", "new"
"""The records of a result: all of a window, those before this micro-batch, or the new ones alone."""

Frames = Callable[[], Iterator[Any]]
"""A function that yields windows in frames of bounded size, read lazily."""


def nothing() -> Iterator[Any]:
    """Yield no windows."""
    return iter(())


@dataclass(frozen=True)
class Panes:
    """(key, window) pairs found by an engine. Nothing is written, and nothing is read until the frames are iterated.

    `results` has the results of all records. `replacing` has the same, with the results before the new records in
    `old`. `alone` has the results of the new records only.
    """

    results: Frames
    replacing: Frames = nothing
    alone: Frames = nothing

    def mapped(self, change: Callable[[Iterator[Any]], Iterator[Any]]) -> Panes:
        """Return the same pairs with `change` applied to their frames."""
        return Panes(*(_through(change, frames) for frames in (self.results, self.replacing, self.alone)))


def _through(change: Callable[[Iterator[Any]], Iterator[Any]], frames: Frames) -> Frames:
    return lambda: change(frames())


NONE = Panes(nothing)
