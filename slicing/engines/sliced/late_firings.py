"""`on_close(corrections=True)`: windows go out at their end, and again where late records came, until grace is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from slicing.assembly.assembling import assemble
from slicing.assembly.partitions import portions
from slicing.assembly.results import Windows
from slicing.content.block import Block
from slicing.content.folding import fold
from slicing.content.marks import of_keys
from slicing.engines.sliced.emitting import Emitting
from slicing.engines.sliced.family_windows import Walker
from slicing.engines.sliced.touching import as_before, as_marks, touched
from slicing.state.bucket_cache import around
from slicing.triggers.emission import ONLY_NEW, WITH_OLD
from slicing.windows.time.slices import FOREVER


class Corrections(Emitting):
    """Windows that have gone out and got a record, from their slices, or from what is new alone."""

    def before(self, came: Block) -> Iterator[Windows]:
        """What records have corrected."""
        for walker in self.walkers:
            late = came.between(-FOREVER, walker.family.entered(walker.walk.done))
            if len(late):
                new = self.emission.what == ONLY_NEW
                frames = self._new(walker, late) if new else self._corrected(walker, late)
                for frame in walker.shown(frames):
                    yield replace(frame, kind="correction")

    def _new(self, walker: Walker, late: Block) -> Iterator[Windows]:
        frames = assemble(walker.shape, walker.trees, late, walker.walk.taking, walker.walk.done)
        return (walker.complete(frame, late) for frame in frames)

    def _corrected(self, walker: Walker, late: Block) -> Iterator[Windows]:
        shape, trees, taking, done = walker.shape, walker.trees, walker.walk.taking, walker.walk.done
        ranges = around(walker.family, np.unique(late.slices), walker.family.first_slice(taking))
        stored = (of_keys(block, late) for low, high in ranges for block in self.slices.stored(low, high))
        for portion in portions(shape, [stored, [late]], taking, done):
            before, came = portion.blocks
            both, some = fold(shape, [before, came]), (portion.first, portion.end)
            for frame in touched(shape, trees, both, as_marks(shape, came), *some):
                old = None
                if self.emission.what == WITH_OLD:
                    old = walker.complete(as_before(shape, trees, before, frame, *some), before)
                yield replace(walker.complete(frame, both), old=old)
