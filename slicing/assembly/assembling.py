"""Choose the assembly by the family, never by the data: otherwise the bits of floats would depend on the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from slicing.assembly.ranges.row_runs import assemble_ranges
from slicing.assembly.results import Windows
from slicing.assembly.tails import assemble_tails
from slicing.assembly.trees.matrix import assemble_cells
from slicing.content.block import Block, Shape
from slicing.windows.families.family import TAILED, Family, repeats


def without_repeats(family: Family, frames: Iterable[Windows], by_end: bool = False) -> Iterator[Windows]:
    """Yield the windows that may be emitted, without the empty and duplicate windows of a clock change.

    When a time zone skips an hour or a day, some windows are empty or equal to another one. Wide rows identify windows
    by their end (`by_end`).
    """
    if not family.may_repeat:
        yield from frames
        return
    for frame in frames:
        windows, at = np.unique(frame.windows, return_inverse=True)
        left = ~repeats(family, windows, by_end)[at]
        yield frame if left.all() else frame.take(np.flatnonzero(left))


def assemble(
    shape: Shape, trees: Sequence[str], block: Block, first: int | None = None, end: int | None = None
) -> Iterator[Windows]:
    """Yield the windows `first` up to but not including `end` (default: all) that hold a record of a folded block.

    Each part has a bounded size. It is sorted by key and window, or by window and key if windows have one slice. Cost
    in combines per window: see `assemble_cells` if all windows have the same number of slices, `assemble_tails` if they
    have a tail, otherwise `assemble_ranges`.
    """
    if shape.family.assembled == TAILED and not shape.keeps_records:
        return assemble_tails(shape, trees, block, first, end)
    if shape.family.step is None:
        return assemble_ranges(shape, block, first, end)
    return assemble_cells(shape, trees, block, first, end)
