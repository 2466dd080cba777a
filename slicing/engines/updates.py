"""`on_update()`: in every micro-batch the open windows that got a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slicing.assembly.portions import InOrder
from slicing.assembly.results import Windows
from slicing.blocks.block import Block
from slicing.engines.emitting import Emitting
from slicing.engines.walker import Walker


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
