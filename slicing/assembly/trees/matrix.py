"""Assemble all windows of a range of slices at once: matrices in, results out; no state, no Spark.

Bounded input is assembled here; so is a stream whose watermark jumps over a whole window. Windows that close one after
another are assembled from caches (`slicing.assembly.trees.cache`). Both combine the partial of a window in the same
order, so floats agree to the last bit.

Partials are laid out in *cells*: one per slice, key after key. Gaps of a window or more between the slices of a key
have no cells, so there are about as many cells as result rows, however sparse the keys are. Three kernels work on
cells: a running total (for exact addition and subtraction), the aligned three-layer tree, and recomputing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.assembly.choice import FEW_SLICES, is_additive
from slicing.assembly.results import Windows
from slicing.assembly.trees.cells import Cells, Spans, layout, stretch_runs
from slicing.assembly.trees.scans import recompute, three_layer, two_layer
from slicing.content.block import Block, Shape
from slicing.content.folding import by_key
from slicing.content.sizes import ASSEMBLY_BYTES, at_once, even_runs, memory
from slicing.windows.families.family import Regular, regular

WIDE = 1 << 10
"""From this size of a cell on, in bytes, assembling some cells twice is better than holding many at once."""


def assemble_cells(
    shape: Shape, trees: Sequence[str], block: Block, first: int | None = None, end: int | None = None
) -> Iterator[Windows]:
    """Yield the windows `first` up to but not including `end` (default: all) that hold a record of a folded block.

    Each part has cells of at most about ASSEMBLY_BYTES and is sorted by key and window, or by window and key if windows
    have one slice. Cost in combines per window: none for additive aggregates and for windows of one slice, about 4 for
    the three-layer tree, n - 1 for recompute.
    """
    family = regular(shape.family)
    if not len(block):
        return
    low, high = int(family.first_window(block.index[0])), int(family.last_window(block.index[-1])) + 1
    first, end = (low if first is None else max(low, first)), (high if end is None else min(high, end))
    block = block.between(family.first_slice(first), family.end_slice(end - 1))
    if first >= end or not len(block):
        return
    if family.per_window == 1:
        for rows in even_runs(0, len(block), at_once(ASSEMBLY_BYTES, memory(shape, block) / len(block))):
            yield _slices_as_windows(family, block.take(slice(*rows)))
        return
    block = by_key(shape, block)
    aligned = not all(map(_running, shape.kernels, trees, block.partials))
    # A cell holds a partial as large as one of the rows; so do both scans and the windows.
    width = 16 + 4 * (memory(shape, block) - block.names.nbytes - 24 * len(block)) / len(block)
    limit = at_once(ASSEMBLY_BYTES, width)
    for some, cells in stretch_runs(block, layout(block, family, aligned, first, end), limit):
        if cells.count <= limit:
            yield _assemble_cells(shape, trees, some, cells, first, end)
            continue
        step = max(limit, (4 if width < WIDE else 1) * family.per_window)
        start = max(first, int(family.first_window(some.index[0])))
        stop = min(end, int(family.last_window(some.index[-1])) + 1)
        for low, high in even_runs(start, stop, step):
            part = some.between(family.first_slice(low), family.end_slice(high - 1))
            if len(part):
                yield _assemble_cells(shape, trees, part, layout(part, family, aligned, low, high), low, high)


def _slices_as_windows(family: Regular, block: Block) -> Windows:
    """Return the windows of one slice: copies of the rows that have records, without slices between the windows."""
    is_window = (block.records > 0) & ((block.index - family.shift) % family.per_advance == 0)
    rows = block.take(np.flatnonzero(is_window))
    windows = (rows.index - family.shift) // family.per_advance
    return Windows(windows, rows.keys, rows.names, rows.records, rows.partials, rows.dictionaries)


def _running(kernel: Kernel, tree: str, columns: Partials) -> bool:
    return tree == "two_layer" and is_additive(kernel) and kernel.sums_fit(columns)


def _assemble_cells(shape: Shape, trees: Sequence[str], block: Block, cells: Cells, first: int, end: int) -> Windows:
    at, windows, keys = cells.ends(first, end)
    spans = Spans.of(cells, at)
    records = spans.total(block.records)
    if not records.all():
        live = np.flatnonzero(records)
        at, windows, keys, spans, records = at[live], windows[live], keys[live], spans.take(live), records[live]
    partials = [
        _totals(columns, spans, block.records, records)
        if _running(kernel, tree, columns)
        else _kernel_windows(kernel, tree, columns, cells, spans, at)
        for kernel, tree, columns in zip(shape.kernels, trees, block.partials, strict=True)
    ]
    return Windows(windows, keys, block.names, records, partials, block.dictionaries)


def _totals(columns: Partials, spans: Spans, counted: Array, records: Array) -> Partials:
    """Return running totals. A column equal to the record counts, as of a count or a sum of ones, uses `records`."""
    # A copy of the column's own type: code that changes it in place must not change the counts.
    return [records.astype(c.dtype) if np.array_equal(c, counted) else spans.total(c) for c in columns]


def _kernel_windows(kernel: Kernel, tree: str, columns: Partials, cells: Cells, spans: Spans, at: Array) -> Partials:
    n = cells.family.per_window
    if tree == "two_layer":
        return two_layer(kernel, columns, cells, at)
    if (runs := kernel.runs(columns, spans.first, spans.end)) is not None:
        return runs
    spread = kernel.spread(cells.count)
    for cell, column in zip(spread, columns, strict=True):
        cell[cells.position] = column
    if tree == "recompute" or n <= FEW_SLICES:
        with locating(lambda index: cells.place(int(at[index]))):
            return recompute(kernel, spread, at, n)
    return three_layer(kernel, spread, cells, at)
