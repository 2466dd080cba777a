"""Pairs of key and window that fire together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Frames = Callable[[], Iterator[Any]]
"""Windows in frames of bounded size, read when they are asked for."""


def nothing() -> Iterator[Any]:
    """No windows."""
    return iter(())


@dataclass(frozen=True)
class Panes:
    """Pairs of key and window as an engine finds them; asking for their results reads and writes nothing.

    `results` are those of all records, `replacing` the same with what was there before the new records in their `old`,
    `alone` those of the new records only.
    """

    results: Frames
    replacing: Frames = nothing
    alone: Frames = nothing

    def mapped(self, change: Callable[[Iterator[Any]], Iterator[Any]]) -> Panes:
        """The same pairs, their frames changed on the way."""
        return Panes(*(_through(change, frames) for frames in (self.results, self.replacing, self.alone)))


def _through(change: Callable[[Iterator[Any]], Iterator[Any]], frames: Frames) -> Frames:
    return lambda: change(frames())


NONE = Panes(nothing)
