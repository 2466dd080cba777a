"""Lookups: queries on the state of a bucket, which they do not change.

::

    stored slices              [3][4][5][6][7]
    windows of three slices    [2 3 4)           incomplete: slice 2 has been removed
                                  [3 4 5)
                                     [4 5 6)     the latest of a key whose newest record is in slice 6
                                        [5 6 7)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.assembly.results import Windows
from slicing.assembly.trees.covering import Covering
from slicing.content.block import Block, Shape
from slicing.content.marks import all_of, of_keys
from slicing.windows.families.family import Family
from slicing.windows.families.several import Several
from slicing.windows.time.slices import FOREVER

WINDOWS, PIECES, SLICES = "windows", "pieces", "slices"
"""What is returned: windows, the slices of each window of one key, or stored slices that have all their records."""


@dataclass(frozen=True)
class Other:
    """Windows other than those of the query; the stored slices have their edges."""

    families: tuple[Family, ...]
    wide: bool = False


@dataclass(frozen=True)
class Look:
    """A lookup: the keys and windows to look up.

    keys: distinct keys, as columns of their leaves; all keys if None.
    starts: the first and the last microsecond at which a window may start, both included.
    latest: only the first window of each key that holds its newest record.
    incomplete: also windows some of whose slices have been removed; their results are of the remaining slices.
    other: windows other than those of the query.
    unknown: also windows that are named, by their starts or as the latest of a key, and are not whole.
    form: WINDOWS, PIECES or SLICES.
    """

    keys: pa.Table | None = None
    starts: tuple[int, int] | None = None
    latest: bool = False
    incomplete: bool = False
    other: Other | None = None
    unknown: bool = False
    form: str = WINDOWS

    def of_keys(self, block: Block) -> Block:
        """Return the rows of the keys that are looked up."""
        return block if self.keys is None else of_keys(_narrowed(block, self.keys), all_of(self.keys))

    def starting(self, starts: Array) -> Array:
        """Return which windows start in the range that is looked up, given their starts in microseconds: `bool[n]`."""
        low, high = self.starts or (-FOREVER, FOREVER)
        inside: Array = (starts >= low) & (starts <= high)
        return inside

    def windows(self, family: Family, since: int) -> tuple[int, int]:
        """Return the first window of a family that is looked up, and the end; `since` is the first complete slice."""
        first = int(family.first_window(since) if self.incomplete else after(family, since - 1))
        if self.starts is None:
            return first, FOREVER
        low, high = (int(family.slice_at(instant)) for instant in self.starts)
        return max(first, after(family, low - 1)), int(family.last_window(high)) + 1


@dataclass(frozen=True)
class Pieces:
    """The slices of the window `window` of one key, in time order.

    `rows` has one row per slice with records, `late` the number of its late records that are stored separately, and
    `accepts` whether the slice still accepts records. `shape` has the family of the window. `nodes` has the name of the
    tree and the node for each tree node that covers the window; `stored` names the nodes in the state.
    """

    shape: Shape
    window: int
    rows: Block
    late: Array
    accepts: Array
    nodes: tuple[tuple[str, Covering], ...] = ()
    stored: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class StoredSlices:
    """Slices that have all their records, as rows of their partials; row i ends at `ends[i]`, in microseconds.

    `family` has the edges of stored slices. A merged slice has the number of its first slice, and the end of its last.
    `known` is the microsecond from which on all slices have all their records.
    """

    family: Family
    rows: Block
    ends: Array
    known: int


@dataclass(frozen=True)
class Unknown:
    """Windows of one family, and the codes of their keys into `names`; `known` is from when on their records are known.

    All arrays are `int64[n]`, and `known` is in microseconds.
    """

    family: int
    windows: Array
    keys: Array
    names: pa.Table
    known: Array


Found: TypeAlias = Windows | Unknown | Pieces | StoredSlices
"""A part of the answer to a lookup."""


def _narrowed(block: Block, keys: pa.Table) -> Block:
    """Return a superset of the rows of some keys, as a cheap filter: each leaf of a key is compared separately."""
    there = np.ones(len(block.names), dtype=bool)
    for column, wanted in zip(block.names.columns, keys.columns, strict=True):
        there &= np.asarray(pc.is_in(column, value_set=wanted.combine_chunks()).combine_chunks())
    codes = np.flatnonzero(there)
    rows = block.take(np.flatnonzero(there[block.keys]))
    return replace(rows, keys=np.searchsorted(codes, rows.keys), names=block.names.take(pa.array(codes)))


def after(family: Family, index: int) -> int:
    """Return the first window that starts after a slice."""
    return int(family.last_window(index)) + 1


def last_rows(block: Block) -> Array:
    """Return the position of the last row with records of each key, in a block sorted by key and slice."""
    rows = np.flatnonzero(block.records > 0)
    keys = block.keys[rows]
    last: Array = rows[np.append(keys[1:] != keys[:-1], True)[: len(keys)]]
    return last


def over_one_cut(families: Sequence[Family]) -> Family:
    """Return several families over the same slice edges as one `Several`; a single family is returned unchanged."""
    return families[0] if len(families) == 1 else cast("Family", Several(tuple(families), families[0].cut))
