"""The protocol of a store of slices: four methods. docs/serving.md has an example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from slicing.serving.levels import Range


class Row(NamedTuple):
    """The packed partial of a slice of a key. `start` and `end` are in microseconds.

    `revision` is the number of the micro-batch that wrote it; `epoch` that of its checkpoint, larger for a later one.
    """

    key: str
    level: int
    start: int
    end: int
    records: int
    partial: bytes
    epoch: int = 0
    revision: int = 0

    @property
    def version(self) -> tuple[int, int]:
        """What tells which of two rows of a slice replaces the other one: the larger one."""
        return self.epoch, self.revision


class Found(NamedTuple):
    """What a store holds at one moment: manifest and progress, "" for an unknown feature set, and packed partials.

    `partials` has for each key that was asked for a list for each range, in the order of slices.
    """

    manifest: str
    progress: str
    partials: list[list[list[bytes]]]


class Store(Protocol):
    """Where rows of slices are kept. All methods may be called from several threads and processes at once."""

    def put(self, feature_set: str, rows: Sequence[Row]) -> None:
        """Write rows, of each key all at once; a row replaces a stored one only by a larger epoch and revision."""

    def publish(self, feature_set: str, manifest: str, progress: str, before: str) -> bool:
        """Write manifest and progress of a feature set in place of the progress `before`, "" for the first one.

        Nothing is written if another progress is stored by then: so none is replaced but by a larger epoch and
        revision, however slow a writer is. Return whether they were written. It is called after the rows of a
        micro-batch are written, and before the first ones of a checkpoint.
        """

    def read(self, feature_set: str, keys: Sequence[str], ranges: Sequence[Range]) -> Found:
        """Return the partials of keys in some ranges, with manifest and progress as of the same moment."""

    def remove(self, feature_set: str, level: int, before: int, most: int) -> int:
        """Remove at most `most` rows of a level that end at or before an instant; return how many were removed."""
