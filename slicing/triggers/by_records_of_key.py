"""`records=, per="key"`: so many more records of a key have come, for whichever of its windows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.triggers.candidates import Candidates, Memory
from slicing.triggers.condition import Condition
from slicing.triggers.trigger import MicroBatchTime


@dataclass(frozen=True)
class ByRecordsOfKey(Condition):
    """After each `count` records of a key, of its open windows with new records.

    What is left of a division counts for the next firing. A firing of one of its windows by another condition begins
    the count anew.
    """

    count: int

    counts_keys = True

    @property
    def meaning(self) -> str:
        """When it is true, in a few words."""
        return f"{self.count} more records of the key have come"

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """The pairs of keys with so many records since counting began."""
        assert pairs.of_key is not None, "the trigger has asked for it"
        due: Array = pairs.of_key >= self.count
        return due

    def left(self, counts: Array, own: Array, others: Array) -> Array:
        """What counts for the next firing, where pairs have fired by it, or by others: `int64[n]`."""
        return np.where(others, 0, np.where(own, counts % self.count, counts))

    def __repr__(self) -> str:
        return f"records={self.count}, per='key'"
