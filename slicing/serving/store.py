"""The protocol of a store of slices: four methods.

A store of another kind is a class with these methods; `Reader` and `serve_to` take an instance in place of a URL::

    class InMemory:
        def __init__(self):
            self.rows, self.sets = {}, {}

        def put(self, feature_set, rows):
            for row in rows:
                at = feature_set, row.key, row.level, row.start
                if at not in self.rows or row.version > self.rows[at].version:
                    self.rows[at] = row

        def publish(self, feature_set, manifest, progress):
            self.sets[feature_set] = manifest, progress

        def read(self, feature_set, keys, ranges):
            found = [
                [
                    [
                        row.partial
                        for at, row in sorted(self.rows.items())
                        if at[:3] == (feature_set, key, level) and low <= row.start < high
                    ]
                    for level, low, high in ranges
                ]
                for key in keys
            ]
            return Found(*self.sets.get(feature_set, ("", "")), found)

        def remove(self, feature_set, level, before, most):
            gone = [at for at, row in self.rows.items() if at[::2] == (feature_set, level) and row.end <= before][:most]
            for at in gone:
                del self.rows[at]
            return len(gone)
"""

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
        """Write all rows or none; a row replaces a stored one only if its epoch and revision are larger."""

    def publish(self, feature_set: str, manifest: str, progress: str) -> None:
        """Write manifest and progress of a feature set. It is called after the rows of a micro-batch are written."""

    def read(self, feature_set: str, keys: Sequence[str], ranges: Sequence[Range]) -> Found:
        """Return the partials of keys in some ranges, with manifest and progress as of the same moment, or earlier."""

    def remove(self, feature_set: str, level: int, before: int, most: int) -> int:
        """Remove at most `most` rows of a level that end at or before an instant; return how many were removed."""
