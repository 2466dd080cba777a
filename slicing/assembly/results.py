"""The result of assembly: partials of windows, one row per window and key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array, Partials
from slicing.content.block import Block, Shape, show_key
from slicing.windows.families.family import Family
from slicing.windows.time.edges import BEFORE

FRAME_ROWS = 250_000
"""Approximate limit of the rows of a frame; frames are also limited by `partitions.PARTITION_BYTES`."""


@dataclass(frozen=True)
class Windows:
    """Assembled windows: row i is window `windows[i]` of key `names[keys[i]]`, and holds `records[i]` records.

    `kind` says why they fire, one of `trigger.KINDS`. `old` has the same windows with the results that they replace.
    `family` is the number of their family. `aligned` has the aligned windows of the other families in order, row by
    row; these do not have the number of their family. A row without records stands for a missing one. `ends` has the
    end of each window if the family does not know it. `is_complete[i]` says whether window i of a wide row holds all
    its records; None means that all do.
    """

    windows: Array
    keys: Array
    names: pa.Table
    records: Array
    partials: list[Partials]
    dictionaries: list[pa.Array | None]
    kind: str = "final"
    old: Windows | None = None
    family: int = 0
    aligned: tuple[Windows, ...] = ()
    ends: Array | None = None
    is_complete: Array | None = None

    def __len__(self) -> int:
        return len(self.windows)

    def take(self, rows: Array) -> Windows:
        """Return the windows at `rows`."""
        return replace(
            self,
            windows=self.windows[rows],
            keys=self.keys[rows],
            records=self.records[rows],
            partials=[[column[rows] for column in columns] for columns in self.partials],
            old=self.old and self.old.take(rows),
            aligned=tuple(each.take(rows) for each in self.aligned),
            ends=None if self.ends is None else self.ends[rows],
            is_complete=None if self.is_complete is None else self.is_complete[rows],
        )

    def by_family(self, families: Sequence[Family]) -> Iterator[tuple[Family, Windows]]:
        """Yield each family with its windows, row by row: all families for wide rows, otherwise one."""
        others = iter(self.aligned)
        for number, family in enumerate(families):
            if number == self.family or self.aligned:
                yield family, self if number == self.family else next(others)

    def ends_by(self, family: Family) -> Array:
        """Return the first microsecond after each window, `int64[n]`."""
        return family.window_end(self.windows) if self.ends is None else self.ends


def in_time(family: Family, windows: Windows, by_end: bool = False) -> Windows:
    """Return the windows whose bounds are instants of int64; with `by_end` their ends are, as in wide rows."""
    if not len(windows):
        return windows
    first, last = family.limits
    first = BEFORE if by_end else first
    if first <= windows.windows.min() and windows.windows.max() <= last:
        return windows
    return windows.take(np.flatnonzero((first <= windows.windows) & (windows.windows <= last)))


def as_block(windows: Windows) -> Block:
    """Return the windows as a block whose `index` is the window number instead of the slice."""
    return Block(windows.windows, windows.keys, windows.names, windows.records, windows.partials, windows.dictionaries)


def show_window(shape: Shape, windows: Windows, row: int) -> str:
    """Return the text of a key and a window for error messages."""
    one = windows.take(np.array([row]))
    edges = shape.family.window_start(one.windows), one.ends_by(shape.family)
    start, end = (shape.family.show(int(edge[0])) for edge in edges)
    return f"{show_key(windows.names, windows.keys[row])} in window [{start}, {end})"


def null_if_incomplete(
    shape: Shape, number: int, windows: Windows, results: Callable[[Windows], list[pa.Array]]
) -> list[pa.Array]:
    """Return the results of a kernel by `results`; null for windows that may lack some of their records."""
    since = shape.since[number] if shape.since else None
    if since is None and windows.is_complete is None:
        return results(windows)
    is_complete = np.ones(len(windows), dtype=bool) if windows.is_complete is None else windows.is_complete
    if since is not None:
        is_complete = is_complete & np.asarray(shape.family.window_start(windows.windows) >= since)
    rows = pa.array(np.where(is_complete, np.cumsum(is_complete) - 1, 0), mask=~is_complete)
    return [array.take(rows) for array in results(windows.take(np.flatnonzero(is_complete)))]
