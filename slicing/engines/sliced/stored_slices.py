"""Lookups of the slices themselves: what a bucket stores of each key, and where a merged slice ends.

::

    slices     |    0    |    3    | 6 | 7 | 8 |       0 and 3 are merged of three slices each
    ends                 3         6   7   8   9
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.partitions import key_partitions
from slicing.content.block import Block, Shape
from slicing.engines.looking import StoredSlices


def stored_slices(
    shape: Shape, stored: Iterable[Block], next_separate: Callable[[Array], Array]
) -> Iterator[StoredSlices]:
    """Yield the slices of stored rows, older rows of a slice first, some keys at a time.

    `next_separate` returns for each slice the first one from it on that is not merged with an earlier one.
    """
    for partition in key_partitions(shape, [stored]):
        (rows,) = partition.blocks
        ends = shape.family.slice_start(next_separate(rows.index + 1))
        yield StoredSlices(shape.family, rows, np.asarray(ends))
