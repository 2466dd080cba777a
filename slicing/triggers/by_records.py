"""`records=`: so many more records of a window have come."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.aggregates.arrays import Array
from slicing.triggers.candidates import Candidates, Memory
from slicing.triggers.condition import Condition
from slicing.triggers.trigger import MicroBatchTime


@dataclass(frozen=True)
class ByRecords(Condition):
    """After each `count` records of a window; what is left of a division by it counts for the next firing.

    If no other condition fires a window, its records say how many count, and nothing is remembered.
    """

    count: int

    remembers = False

    @property
    def meaning(self) -> str:
        """When it is true, in a few words."""
        return f"{self.count} more records have come"

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """The pairs with so many records since counting began."""
        due: Array = pairs.held - memory.counted >= self.count
        return due

    def counted(self, held: Array, counted: Array) -> Array:
        """The records of whole firings are counted."""
        begins: Array = held - (held - counted) % self.count
        return begins

    def __repr__(self) -> str:
        return f"records={self.count}, per='window'"
