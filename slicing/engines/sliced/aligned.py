"""Assemble aligned windows, row by row for the primary windows; a window that does not exist has no records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.results import Windows, as_block
from slicing.content.block import Block, Shape, concat
from slicing.content.marks import all_of, of_keys
from slicing.content.pairs import Pairs


def matched(shape: Shape, frame: Windows, windows: Array, found: Block) -> Windows:
    """Return for row i of a frame the window `windows[i]` of its key, out of `found`.

    `found` has windows in place of slices. A window that it lacks has no records and the partial `init()`.
    """
    names, count = frame.names, len(frame)
    records, partials = np.zeros(count, np.int64), [kernel.spread(count) for kernel in shape.kernels]
    dictionaries = [kernel.no_dictionary for kernel in shape.kernels]
    found = of_keys(found, all_of(names))
    if len(found):
        dictionaries = found.dictionaries
        pairs = Pairs.over(np.concatenate([windows, found.index]), len(names))
        there, here = pairs.pack(frame.keys, windows), pairs.pack(found.keys, found.index)
        rows = np.argsort(here)
        at = np.minimum(np.searchsorted(here[rows], there), len(rows) - 1)
        same = here[rows][at] == there
        records[same] = found.records[rows[at[same]]]
        for columns, new in zip(partials, found.partials, strict=True):
            for column, item in zip(columns, new, strict=True):
                column[same] = item[rows[at[same]]]
    return Windows(windows, frame.keys, names, records, partials, dictionaries)


def aligned_all(
    own: Sequence[Windows], members: Sequence[tuple[Shape, Callable[[Array], Array]]], others: Sequence[list[Windows]]
) -> Iterator[Windows]:
    """Yield frames with the aligned windows of other families.

    `members` has for each family its shape and the function from primary to aligned windows; `others` has for each
    family all frames that may be needed.
    """
    found = [
        concat(shape, [as_block(frame) for frame in frames]) for (shape, _), frames in zip(members, others, strict=True)
    ]
    for frame in own:
        sides = (
            matched(shape, frame, aligned(frame.windows), block)
            for (shape, aligned), block in zip(members, found, strict=True)
        )
        yield replace(frame, aligned=tuple(sides))
