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
    """Return the rows of a block, which may have no partials, with the partial `init()` in every row."""
    partials = [kernel.spread(len(block)) for kernel in shape.kernels]
    return replace(block, partials=partials, dictionaries=[kernel.no_dictionary for kernel in shape.kernels])


def touched(
    shape: Shape, trees: Sequence[str], block: Block, marks: Block, first: int, end: int = FOREVER
) -> Iterator[Windows]:
    """Yield the windows `first` up to `end` that hold a row of `marks`, from the folded rows of all slices around.

    `marks` is a block of `as_marks`, with rows of every key. The windows' `records` count the marks alone: assembly
    yields only windows that hold records, so only the marks have records here.
    """
    yield from assemble(
        shape, trees, fold(shape, [replace(block, records=np.zeros_like(block.records)), marks]), first, end
    )


def as_before(shape: Shape, trees: Sequence[str], block: Block, windows: Windows, first: int, end: int) -> Windows:
    """Return the same windows from the older rows in `block`; empty ones have no records and the partial `init()`."""
    frames = assemble(shape, trees, of_keys(block, all_of(windows.names)), first, end)
    return matched(shape, windows, windows.windows, concat(shape, [as_block(frame) for frame in frames]))
