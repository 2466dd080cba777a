"""Window references: the sliding windows that exist for a key, and the rows that each of them holds.

::

    rows of a key, n = 4     2   3       6
    left windows             [-1 .. 2]  [0 .. 3]  [3 .. 6]       each ends with a row
    right windows            [3 .. 6]   [4 .. 7]                 each starts after a row, and holds another one
    references               -1  0  3  4                         without duplicates

A key has at most two windows per row, so its cost depends on its rows, not on the number of slices. References are to
the longest windows of a query; shorter ones that end with them are ranges of the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slicing.aggregates.arrays import Array, is_varying
from slicing.aggregates.sorting import order
from slicing.assembly.ranges.range_aggregates import before, range_aggregates
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, show_place
from slicing.content.folding import by_key
from slicing.content.pairs import Pairs
from slicing.content.sizes import ASSEMBLY_BYTES, at_once, even_runs, memory
from slicing.windows.sliding import SlidingFamily
from slicing.windows.time.edges import AFTER, BEFORE


@dataclass(frozen=True)
class WindowReferences:
    """References to windows of a block that is sorted by key and slice.

    Window `windows[i]` of the key with code `keys[i]` holds the rows `low[i]` up to but not including `high[i]`; none
    only if the family may have empty windows. References are distinct and sorted by key and window.
    """

    windows: Array
    keys: Array
    low: Array
    high: Array

    def __len__(self) -> int:
        return len(self.windows)

    def take(self, rows: Array | slice) -> WindowReferences:
        """Return the references at `rows`."""
        return WindowReferences(self.windows[rows], self.keys[rows], self.low[rows], self.high[rows])


def window_references(family: SlidingFamily, block: Block, first: int = BEFORE, end: int = AFTER) -> WindowReferences:
    """Return the windows `first` up to but not including `end` that exist for the keys of a block.

    The block must be sorted by key and slice.
    """
    windows, keys = _within(block.index - family.reach, block.keys, first, end)
    if family.right:
        held = _before_next(family, block)
        after, of = _within(block.index[held] + 1, block.keys[held], first, end)
        windows, keys = np.concatenate([windows, after]), np.concatenate([keys, of])
        rows, heads = order(keys, windows)
        windows, keys = windows[rows[heads]], keys[rows[heads]]
    return located(family, block, windows, keys)


def _within(windows: Array, keys: Array, first: int, end: int) -> tuple[Array, Array]:
    """Return the windows from `first` up to but not including `end`, and their keys."""
    inside = np.flatnonzero((windows >= first) & (windows < end))
    return windows[inside], keys[inside]


def located(family: SlidingFamily, block: Block, windows: Array, keys: Array) -> WindowReferences:
    """Return references to the given windows, with the rows that they hold; the block is sorted by key and slice."""
    pairs = Pairs.over(block.index, len(block.names))
    at = pairs.pack(block.keys, block.index)
    edges = family.first_slice(windows), family.end_slice(windows)
    low, high = (np.searchsorted(at, pairs.pack(keys, edge)) for edge in edges)
    return WindowReferences(windows, keys, low, high)


def _before_next(family: SlidingFamily, block: Block) -> Array:
    """Return the rows whose right window holds the next row of the key, but does not end with it.

    A right window that ends with the next row equals the left window of that row.
    """
    same = block.keys[1:] == block.keys[:-1]
    near = block.index[1:] - block.index[:-1] <= family.reach
    return np.flatnonzero(same & near)


def all_references(shape: Shape, blocks: Sequence[Block]) -> Iterator[Windows]:
    """Yield all windows of a bucket of bounded input."""
    rows = by_key(shape, concat(shape, blocks))
    return assemble_references(shape, rows, window_references(family_of(shape), rows))


def family_of(shape: Shape) -> SlidingFamily:
    """Return the longest family of a shape, which must be one of sliding windows."""
    return max(_families(shape), key=lambda each: each.size)


def _families(shape: Shape) -> list[SlidingFamily]:
    return [each for each in shape.family.families if isinstance(each, SlidingFamily)]


def assemble_references(shape: Shape, block: Block, at: WindowReferences) -> Iterator[Windows]:
    """Yield the windows of a folded block that is sorted by key and slice, in parts of about ASSEMBLY_BYTES.

    Combines: none for additive aggregates, else log2(m) per row and log2(m) per window of m rows.
    """
    return (assembled(shape, block, some) for some in in_parts(shape, block, at))


def in_parts(shape: Shape, block: Block, at: WindowReferences) -> Iterator[WindowReferences]:
    """Yield the references in parts whose windows take about ASSEMBLY_BYTES."""
    limit = at_once(ASSEMBLY_BYTES, len(shape.family.families) * _width(shape, block, at)) if len(at) else 1
    return (at.take(slice(*some)) for some in even_runs(0, len(at), limit))


def assembled(shape: Shape, block: Block, at: WindowReferences) -> Windows:
    """Return the referenced windows, at least one, combined from the rows that they hold.

    The windows of other families that end with them are aligned with them.
    """
    families, first = _families(shape), int(at.low.min())
    longest = family_of(shape)
    held = block.take(slice(first, int(at.high[-1])))
    own = replace(at, low=at.low - first, high=at.high - first)
    starts = (at.windows + longest.reach - each.reach for each in families)
    pairs = zip(families, starts, strict=True)
    sides = [own if each is longest else located(each, held, windows, at.keys) for each, windows in pairs]
    low, high = (np.concatenate([getattr(each, bound) for each in sides]) for bound in ("low", "high"))
    total = before(held.records)
    records = total[high] - total[low]

    def place(row: int) -> str:
        return show_place(shape.family, held.names, held.keys[row], held.index[row])

    partials = [
        range_aggregates(kernel, columns, low, high, place)
        for kernel, columns in zip(shape.kernels, held.partials, strict=True)
    ]
    frames = []
    for number, side in enumerate(sides):
        rows = slice(number * len(at), (number + 1) * len(at))
        each = [[column[rows] for column in columns] for columns in partials]
        frames.append(Windows(side.windows, at.keys, held.names, records[rows], each, held.dictionaries, family=number))
    lead = frames.pop(families.index(longest))
    return replace(lead, aligned=tuple(frames))


def _width(shape: Shape, block: Block, at: WindowReferences) -> float:
    """Return the approximate bytes per window during assembly; growing partials take as much as their rows together."""
    row: float = (memory(shape, block) - block.names.nbytes) / max(1, len(block))
    grows = any(kernel.has_long_objects or any(map(is_varying, kernel.fields)) for kernel in shape.kernels)
    return 48 + 4 * row * (float(np.mean(at.high - at.low)) if grows else 1)
