"""Places: which sliding windows exist for a key, from the slices that are there, and what they hold.

::

    rows of a key, n = 4     2   3       6
    left windows             [-1 .. 2]  [0 .. 3]  [3 .. 6]       each ends with a row
    right windows            [3 .. 6]   [4 .. 7]                 each begins behind a row, and holds another one
    places                   -1  0  3  4                         the same window once

What a key costs are its rows, two windows for each at most, however fine the slices are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slicing.aggregates.arrays import Array, is_varying
from slicing.assembly.ranges.range_aggregates import before, of_runs
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, order, show_place
from slicing.content.folding import by_key
from slicing.content.pairs import Pairs
from slicing.content.sizes import PORTION_BYTES, at_once, even_runs, memory
from slicing.windows.sliding import SlidingFamily
from slicing.windows.time.slices import FOREVER


@dataclass(frozen=True)
class Places:
    """Windows of a folded block that is sorted by key and slice: window `windows[i]` of the key with code `keys[i]`
    holds its rows `low[i]` up to `high[i]`, one at least. Sorted by key and window, each once."""

    windows: Array
    keys: Array
    low: Array
    high: Array

    def __len__(self) -> int:
        return len(self.windows)

    def take(self, rows: Array | slice) -> Places:
        """Some of them."""
        return Places(self.windows[rows], self.keys[rows], self.low[rows], self.high[rows])


def places(family: SlidingFamily, block: Block, first: int = -FOREVER, end: int = FOREVER) -> Places:
    """The windows `first` up to but not including `end` that exist for the keys of a block, sorted by key and slice."""
    windows, keys = _within(block.index - family.reach, block.keys, first, end)
    if family.right:
        held = _before_next(family, block)
        behind, of = _within(block.index[held] + 1, block.keys[held], first, end)
        windows, keys = np.concatenate([windows, behind]), np.concatenate([keys, of])
        rows, heads = order(keys, windows)
        windows, keys = windows[rows[heads]], keys[rows[heads]]
    return located(family, block, windows, keys)


def _within(windows: Array, keys: Array, first: int, end: int) -> tuple[Array, Array]:
    """Return the references of a range."""
    inside = np.flatnonzero((windows >= first) & (windows < end))
    return windows[inside], keys[inside]


def located(family: SlidingFamily, block: Block, windows: Array, keys: Array) -> Places:
    """The rows of a block, sorted by key and slice, that windows hold."""
    pairs = Pairs.over(block.index, len(block.names))
    at = pairs.pack(block.keys, block.index)
    low, high = (np.searchsorted(at, pairs.pack(keys, edge)) for edge in (windows, windows + family.longest))
    return Places(windows, keys, low, high)


def _before_next(family: SlidingFamily, block: Block) -> Array:
    """The rows whose right window holds the next row of the key, and does not end with it: that is its left window."""
    same = block.keys[1:] == block.keys[:-1]
    near = block.index[1:] - block.index[:-1] <= family.reach
    return np.flatnonzero(same & near)


def all_places(shape: Shape, blocks: Sequence[Block]) -> Iterator[Windows]:
    """All windows of a bucket of bounded input."""
    rows = by_key(shape, concat(shape, blocks))
    return assemble_places(shape, rows, places(family_of(shape), rows))


def family_of(shape: Shape) -> SlidingFamily:
    """The windows of a shape, of which it is known that they slide."""
    assert isinstance(shape.family, SlidingFamily), "these windows are everywhere"
    return shape.family


def assemble_places(shape: Shape, block: Block, at: Places) -> Iterator[Windows]:
    """Yield the windows of a folded block that is sorted by key and slice, in parts.

    Combines: none for additive aggregates, else log2(m) for each row and each window of m rows.
    """
    return (assembled(shape, block, some) for some in portions(shape, block, at))


def portions(shape: Shape, block: Block, at: Places) -> Iterator[Places]:
    """The windows of about PORTION_BYTES at a time."""
    limit = at_once(PORTION_BYTES, _width(shape, block, at)) if len(at) else 1
    return (at.take(slice(*some)) for some in even_runs(0, len(at), limit))


def assembled(shape: Shape, block: Block, at: Places) -> Windows:
    """The windows of some places, at least one, from the rows that they hold."""
    first, end = int(at.low[0]), int(at.high[-1])
    held, low, high = block.take(slice(first, end)), at.low - first, at.high - first
    records = before(held.records)

    def place(row: int) -> str:
        return show_place(shape.family, held.names, held.keys[row], held.index[row])

    pairs = zip(shape.kernels, held.partials, strict=True)
    partials = [of_runs(kernel, columns, low, high, place) for kernel, columns in pairs]
    return Windows(at.windows, at.keys, held.names, records[high] - records[low], partials, held.dictionaries)


def _width(shape: Shape, block: Block, at: Places) -> float:
    """About how many bytes a window takes while it is made; partials that grow have what those of its rows have."""
    row: float = (memory(shape, block) - block.names.nbytes) / max(1, len(block))
    grows = any(kernel.has_long_objects or any(map(is_varying, kernel.fields)) for kernel in shape.kernels)
    return 48 + 4 * row * (float(np.mean(at.high - at.low)) if grows else 1)
