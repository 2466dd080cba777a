"""`records=`: fire after a number of new records of a window, or with `per="key"` of a key in any of its windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.triggers.candidates import Candidates, Memory
from slicing.triggers.condition import Condition
from slicing.triggers.panes import Panes
from slicing.triggers.trigger import PER_KEY, MicroBatchTime, Waiting


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


@dataclass(frozen=True)
class ByRecordsOfKey(Condition):
    """True after every `count` records of a key, for its open windows with new records.

    The remainder of a division counts for the next firing. If another condition fires a window of the key, the count
    restarts at zero.
    """

    count: int

    counts_keys = True
    asks = frozenset({PER_KEY})

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        return f"{self.count} more records of the key have come"

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """Return the pairs of keys with enough records since counting began: `bool[n]`."""
        assert pairs.of_key is not None, "the trigger has asked for it"
        due: Array = pairs.of_key >= self.count
        return due

    def left(self, counts: Array, own: Array, others: Array) -> Array:
        """Return the counts for the next firing after firings by this condition or by others: `int64[n]`."""
        return np.where(others, 0, np.where(own, counts % self.count, counts))

    def __repr__(self) -> str:
        return f"records={self.count}, per='key'"


@dataclass(frozen=True)
class ByWaitingRecords(Condition):
    """True for the waiting windows of a key with `count` records since the last firing. It is the only condition."""

    count: int

    remembers = False
    asks = frozenset({PER_KEY})
    alone = "the open windows of a key after so many records"

    def of_waiting(self, waiting: Waiting, at: MicroBatchTime) -> Panes:
        """Return the waiting pairs of keys with enough records."""
        return waiting.ready(self.enough)

    def enough(self, marks: Any) -> Any:
        """Return which marks are of a key with enough records: `bool[n]`."""
        counts = np.bincount(marks.keys, weights=marks.records, minlength=len(marks.names))
        return (counts >= self.count)[marks.keys]

    def __repr__(self) -> str:
        return f"records={self.count}"
