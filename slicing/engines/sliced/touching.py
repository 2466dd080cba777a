"""Assemble the open windows that hold new records from the slices around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from slicing.assembly.assembling import assemble
from slicing.assembly.results import Windows, as_block
from slicing.content.block import Block, Shape, concat
from slicing.content.folding import fold
from slicing.content.marks import all_of, of_keys
from slicing.engines.sliced.aligned import matched
from slicing.windows.time.slices import FOREVER


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
    frames = assemble(shape, trees, of_keys(block, all_of(windows.names)), first, end)
    return matched(shape, windows, windows.windows, concat(shape, [as_block(frame) for frame in frames]))
