"""Assemble all windows of bounded input, which has no late records. Several families share the same slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.assembling import assemble, without_repeats
from slicing.assembly.partitions import InOrder, key_partitions
from slicing.assembly.ranges.point_lookups import lookup_sorted
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.folding import by_key
from slicing.content.marks import under, without_partials
from slicing.engines.following import following
from slicing.windows.families.family import Family
from slicing.windows.families.several import primary
from slicing.windows.time.slices import FOREVER

Assemble: TypeAlias = Callable[[int, Shape, Sequence[str], Block], Iterator[Windows]]
"""Assembles the windows of one family, given the number of the family, its shape, its trees and its slices' rows."""


def every_window(number: int, shape: Shape, trees: Sequence[str], rows: Block) -> Iterator[Windows]:
    """Return all windows of a family that hold a record."""
    return assemble(shape, trees, rows)


def all_frames(
    shape: Shape,
    trees: Sequence[str],
    rows: Block,
    wide: bool = False,
    assembled: Assemble = every_window,
    empty: int = 0,
) -> Iterator[Windows]:
    """Yield the windows that hold a record of a folded block; `trees` are those of all families, one after another.

    With `wide`, yield only the windows of the primary family, together with their aligned windows. `assembled` may
    assemble only some of the windows. With `empty`, in microseconds, also yield the windows without records that follow
    those of their key.
    """
    families, count = shape.family.families, len(shape.kernels)
    leading = [primary(families) or 0] if wide else range(len(families))
    for number in leading:
        own = shape.over(families[number])
        frames = assembled(number, own, trees[number * count : (number + 1) * count], rows)
        if empty:
            frames = chain(frames, _following(own, rows, empty))
        if wide:
            frames = _with_aligned(shape, number, rows, frames)
        for frame in without_repeats(families[number], frames, by_end=wide):
            yield replace(frame, family=number) if number else frame


def _following(shape: Shape, rows: Block, empty: int) -> Iterator[Windows]:
    inside = np.flatnonzero(~np.asarray(shape.family.in_gap(rows.index))) if shape.family.has_gaps else slice(None)
    marks = by_key(shape.select(()), without_partials(rows.take(inside)))
    return following(shape, marks, empty, 1 - FOREVER, FOREVER) if len(marks) else iter(())


def frames_of_records(shape: Shape, trees: Sequence[str], blocks: Iterable[Block]) -> Iterator[Windows]:
    """Yield the windows that hold a record, from blocks of records. Records that do not fit into memory are spilled.

    Blocks are read one after another. Raises TooLarge for a window that does not fit into memory.
    """
    families, count = shape.family.families, len(shape.kernels)
    with ExitStack() as stack:
        again = stack.enter_context(closing(InOrder(shape, blocks))) if len(families) > 1 else None
        for number, family in enumerate(families):
            own, of_family = shape.over(family), trees[number * count : (number + 1) * count]
            rows = blocks if again is None else again.parts()
            for partition in key_partitions(own, [rows], 1 - FOREVER, FOREVER):
                frames = assemble(own, of_family, partition.blocks[0], partition.first, partition.end)
                for frame in without_repeats(family, frames):
                    yield replace(frame, family=number) if number else frame


def _with_aligned(shape: Shape, number: int, rows: Block, frames: Iterator[Windows]) -> Iterator[Windows]:
    family, sorted_rows = shape.family.families[number], by_key(shape, rows)
    others = [family for at, family in enumerate(shape.family.families) if at != number]
    for frame in frames:
        held = sorted_rows if frame.names is rows.names else by_key(shape, under(rows, frame.names))
        ends = family.window_end(frame.windows) - 1
        yield replace(frame, aligned=tuple(_picked(shape, other, held, frame, ends) for other in others))


def _picked(shape: Shape, family: Family, rows: Block, frame: Windows, ends: Array) -> Windows:
    return lookup_sorted(shape.over(family), rows, frame.keys, family.first_open(ends))
