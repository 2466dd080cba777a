"""Windows that records have touched, from the slices around them: what goes out while windows are open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from slicing.assembly.assembling import assemble
from slicing.assembly.results import Windows
from slicing.blocks.block import Block, Shape
from slicing.blocks.folding import fold
from slicing.blocks.marks import all_of, of_keys
from slicing.blocks.pairs import Pairs
from slicing.windows.slices import FOREVER


def as_marks(shape: Shape, block: Block) -> Block:
    """The rows of a block, which may have no partials, with `init()` in all of them."""
    partials = [kernel.spread(len(block)) for kernel in shape.kernels]
    return replace(block, partials=partials, dictionaries=[kernel.no_dictionary for kernel in shape.kernels])


def touched(
    shape: Shape, trees: Sequence[str], block: Block, marks: Block, first: int, end: int = FOREVER
) -> Iterator[Windows]:
    """The windows `first` up to `end` that hold a row of `marks`, from the folded rows of all slices around.

    `marks` is a block of `as_marks`, and has rows of each key. The windows' `records` are those of the marks alone: to
    the assembly a window exists if it holds records, so only the marks are given any.
    """
    yield from assemble(
        shape, trees, fold(shape, [replace(block, records=np.zeros_like(block.records)), marks]), first, end
    )


def as_before(shape: Shape, trees: Sequence[str], block: Block, windows: Windows, first: int, end: int) -> Windows:
    """The same windows from the rows that were there before; empty ones have no records and hold `init()`."""
    names = windows.names
    frames = list(assemble(shape, trees, of_keys(block, all_of(names)), first, end))
    records = np.zeros(len(windows), dtype=np.int64)
    partials = [kernel.spread(len(windows)) for kernel in shape.kernels]
    dictionaries = [kernel.no_dictionary for kernel in shape.kernels]
    if frames:
        found = join(shape, frames)
        dictionaries = found.dictionaries
        pairs = Pairs.over(np.concatenate([windows.windows, found.windows]), len(names))
        there, here = (pairs.pack(some.keys, some.windows) for some in (windows, found))
        rows = np.argsort(here)
        at = np.minimum(np.searchsorted(here[rows], there), len(rows) - 1)
        same = here[rows][at] == there
        records[same] = found.records[rows[at[same]]]
        for columns, new in zip(partials, found.partials, strict=True):
            for column, item in zip(columns, new, strict=True):
                column[same] = item[rows[at[same]]]
    return Windows(windows.windows, windows.keys, names, records, partials, dictionaries)


def join(shape: Shape, frames: Sequence[Windows]) -> Windows:
    """Frames of one assembly, which share their names and dictionaries, as one."""
    windows, keys, records = (
        np.concatenate([getattr(f, name) for f in frames]) for name in ("windows", "keys", "records")
    )
    partials = [
        [np.concatenate([frame.partials[i][at] for frame in frames]) for at in range(kernel.width)]
        for i, kernel in enumerate(shape.kernels)
    ]
    return Windows(windows, keys, frames[0].names, records, partials, frames[0].dictionaries)
