"""Late firings: windows that have fired and hold new, delayed records, until grace is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from slicing.assembly.assembling import assemble
from slicing.assembly.partitions import key_partitions
from slicing.assembly.results import Windows
from slicing.content.block import Block
from slicing.content.folding import fold
from slicing.content.marks import of_keys
from slicing.engines.sliced.family_windows import FamilyWindows
from slicing.engines.sliced.slices import Slices
from slicing.engines.sliced.touching import as_before, as_marks, touched
from slicing.state.bucket_cache import around
from slicing.triggers.panes import BEFORE, NEW
from slicing.windows.time.slices import FOREVER


def late_rows(progress: FamilyWindows, new: Block) -> Block:
    """Return the new rows of slices that fired windows hold."""
    return new.between(-FOREVER, progress.family.entered(progress.state.next_to_fire))


def of_new_rows(progress: FamilyWindows, new: Block) -> Iterator[Windows]:
    """Yield the fired windows that hold new rows, assembled from the new rows alone."""
    late = late_rows(progress, new)
    if len(late):
        frames = assemble(
            progress.shape, progress.trees, late, progress.state.first_accepting, progress.state.next_to_fire
        )
        yield from (progress.complete(frame, late, NEW) for frame in frames)


def fired_again(progress: FamilyWindows, slices: Slices, new: Block, with_old: bool) -> Iterator[Windows]:
    """Yield the fired windows that hold new rows, from all their slices; `with_old` adds results without new rows."""
    late = late_rows(progress, new)
    if not len(late):
        return
    shape, trees, state = progress.shape, progress.trees, progress.state
    ranges = around(progress.family, np.unique(late.index), progress.family.first_slice(state.first_accepting))
    stored = (of_keys(block, late) for low, high in ranges for block in slices.stored(low, high))
    sources = [chain(stored, [late]), [as_marks(shape, late)]] if shape.keeps_records else [stored, [late]]
    for partition in key_partitions(shape, sources, state.first_accepting, state.next_to_fire):
        before, some = partition.blocks
        both = before if shape.keeps_records else fold(shape, [before, some])
        windows = partition.first, partition.end
        for frame in touched(shape, trees, both, as_marks(shape, some), *windows):
            old = None
            if with_old:
                old = progress.complete(as_before(shape, trees, before, frame, *windows), before, BEFORE)
            yield replace(progress.complete(frame, both), old=old)
