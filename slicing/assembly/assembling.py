"""Assembly by the kind of the family: never by what data there are, or the bits of floats would depend on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from slicing.assembly.ranges.row_runs import assemble_ranges
from slicing.assembly.results import Windows
from slicing.assembly.trees.matrix import assemble_cells
from slicing.content.block import Block, Shape
from slicing.windows.families.family import Family, repeats


def without_repeats(family: Family, frames: Iterable[Windows], by_end: bool = False) -> Iterator[Windows]:
    """The windows that may be emitted: a clock that leaves out an hour or a day makes empty windows and equal ones.

    Wide rows tell windows apart `by_end`.
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
    """The windows `first` up to but not including `end` (all, if left out) that hold a record of a folded block.

    Yields portions of bounded size, each sorted by key and window. Cost in combines per window: see `assemble_cells`
    for windows of as many slices each, and `assemble_ranges` for others.
    """
    if shape.family.step is None:
        return assemble_ranges(shape, block, first, end)
    return assemble_cells(shape, trees, block, first, end)
