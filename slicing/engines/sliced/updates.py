"""`on_update()`: in every micro-batch the open windows that got a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slicing.assembly.partitions import InOrder
from slicing.assembly.results import Windows
from slicing.content.block import Block
from slicing.engines.sliced.emitting import Emitting
from slicing.engines.sliced.family_windows import Walker


class Updates(Emitting):
    """The windows around what came, from their slices."""

    def before(self, came: Block) -> Iterator[Windows]:
        """What records have touched."""
        if len(came):
            for walker in self.walkers:
                for frame in walker.shown(walker.touched(came, walker.walk.taking)):
                    yield replace(frame, kind="update")

    def closed(self, walker: Walker, fresh: InOrder) -> Iterator[Windows]:
        """Nothing: it has gone out."""
        return iter(())
