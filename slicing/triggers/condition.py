"""What a condition of an early trigger is: one of several, of which the first one that is true fires a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.memory import Remembered
from slicing.triggers.candidates import OF_CONDITIONS, Candidates, Memory
from slicing.triggers.trigger import MicroBatchTime


@dataclass(frozen=True)
class Condition:
    """When pairs of key and window fire early. Printing one shows the arguments of `early` that make it."""

    remembers: ClassVar[bool] = True  # whether it asks what is remembered of pairs

    counts_keys: ClassVar[bool] = False  # whether it asks for the records of keys

    outlasts: ClassVar[bool] = False  # whether what waits for it when a window closes is emitted then

    memory: ClassVar[Remembered] = OF_CONDITIONS  # what is remembered of pairs

    signal: ClassVar[str] = ""  # the signal of new records that it asks for

    @property
    def asks(self) -> frozenset[str]:
        """What it asks of an engine besides open pairs."""
        return frozenset()

    @property
    def interval(self) -> int:
        """The time by the clock that it waits for, in microseconds; 0 if it goes by no clock."""
        return 0

    @property
    def meaning(self) -> str:
        """When it is true, in a few words."""
        raise NotImplementedError

    def passes(self, head: Any, at: MicroBatchTime) -> bool:
        """Whether it is true of all pairs in this micro-batch; asked once, and noted in the header."""
        return False

    def wakes(self, since: Array, at: MicroBatchTime) -> bool:
        """Whether it may be true of pairs without new records; `since` as in `Memory`."""
        return False

    def begins(self, pairs: Candidates, at: MicroBatchTime) -> Array | None:
        """When pairs begin to wait that have got their first record, if not by the clock: `int64[n]`."""
        return None

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """Of which pairs it is true: `bool[n]`."""
        return np.zeros(len(pairs), dtype=bool)

    def noted(self, pairs: Candidates, memory: Memory, own: Array, others: Array) -> Memory:
        """What it remembers besides, where pairs have fired by it, or by others: `bool[n]` each."""
        return memory

    def counted(self, held: Array, counted: Array) -> Array:
        """Where counting begins for pairs that have fired by it: `int64[n]`, as in `Memory`."""
        return held

    def left(self, counts: Array, own: Array, others: Array) -> Array:
        """What counts of the records of keys, where pairs have fired by it, or by others: `int64[n]`."""
        raise NotImplementedError
