"""`records=`: fire after a number of new records of a window."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.aggregates.arrays import Array
from slicing.triggers.candidates import Candidates, Memory
from slicing.triggers.condition import Condition
from slicing.triggers.trigger import MicroBatchTime


@dataclass(frozen=True)
class ByRecords(Condition):
    """True after every `count` records of a window. The remainder of a division counts for the next firing.

    If there is no other condition, the count follows from the record count of the window, and no memory is stored.
    """

    count: int

    remembers = False
    by_record = True

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        return f"{self.count} more records have come"

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """Return the pairs with enough records since counting began: `bool[n]`."""
        due: Array = pairs.held - memory.counted >= self.count
        return due

    def counted(self, held: Array, counted: Array) -> Array:
        """Return the count origin after a firing, a whole multiple of `count` after the last one: `int64[n]`."""
        begins: Array = held - (held - counted) % self.count
        return begins

    def __repr__(self) -> str:
        return f"records={self.count}, per='window'"
