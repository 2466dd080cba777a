"""`after=`: fire when a delay by the clock has passed since the first record after the last firing."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.aggregates.arrays import Array
from slicing.content.memory import NEVER
from slicing.triggers.candidates import Candidates, Memory
from slicing.triggers.condition import Condition
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.time.durations import show


@dataclass(frozen=True)
class ByDelay(Condition):
    """True `microseconds` after the micro-batch with the first record since the last firing."""

    microseconds: int

    @property
    def interval(self) -> int:
        """Return the delay."""
        return self.microseconds

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        return f"{show(self.microseconds)} have passed since the first record after the last firing"

    def wakes(self, since: Array, at: MicroBatchTime) -> bool:
        """Whether the delay of at least one pair is over."""
        return bool(self._over(since, at).any())

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """Return the pairs whose delay is over: `bool[n]`."""
        return self._over(memory.since, at)

    def _over(self, since: Array, at: MicroBatchTime) -> Array:
        over: Array = (since != NEVER) & (since + self.microseconds // 1000 <= at.clock // 1000)
        return over

    def __repr__(self) -> str:
        return f"after={show(self.microseconds)!r}"
