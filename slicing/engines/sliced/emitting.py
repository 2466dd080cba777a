"""What an emission does in a micro-batch: with what came, with windows that close, and once they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slicing.assembly.partitions import InOrder
from slicing.assembly.results import Windows
from slicing.content.block import Block
from slicing.engines.sliced.family_windows import Walker
from slicing.engines.sliced.slices import Slices
from slicing.triggers.emission import Emission


class Emitting:
    """`on_close()`: windows go out as they close, and nothing else does. Others put out more, or something else."""

    own: tuple[str, ...] = ()
    """How the names of the lists of pages begin that it keeps beside those of the families."""

    def __init__(self, emission: Emission, walkers: Sequence[Walker], slices: Slices):
        self.emission, self.walkers, self.slices = emission, walkers, slices

    def before(self, came: Block) -> Iterator[Windows]:
        """What goes out as records come, before windows close."""
        return iter(())

    def closed(self, walker: Walker, fresh: InOrder) -> Iterator[Windows]:
        """What goes out of the windows of a family that close."""
        return walker.close(fresh)

    def after(self, came: Block, now: int) -> Iterator[Windows]:
        """What goes out of the windows that are open, at a time in microseconds."""
        return iter(())

    def kept(self) -> Mapping[str, Block]:
        """What the process keeps beside the slices, by name."""
        return {}
