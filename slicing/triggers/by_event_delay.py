"""`after=, by="event"`: the watermark is so long past the first record that came after the last firing.

::

    after 10 s     a record of 12:00:03 comes, then one of 12:00:01: it waits since 12:00:03
    watermark      12:00:09  12:00:13
                             fires: with both, and whatever has come until then
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.memory import NEVER
from slicing.content.signals import ABSENT, FIRST
from slicing.triggers.candidates import Candidates, Memory
from slicing.triggers.condition import Condition
from slicing.triggers.trigger import WATERMARK, MicroBatchTime
from slicing.windows.time.durations import show


@dataclass(frozen=True)
class ByEventDelay(Condition):
    """`microseconds` after the event time of the first record since the last firing, as the watermark goes.

    Of the records of one micro-batch, which have no order between input partitions, the earliest is the first.
    """

    microseconds: int

    signal = FIRST
    outlasts = True

    @property
    def asks(self) -> frozenset[str]:
        """The watermark."""
        return frozenset({WATERMARK})

    @property
    def meaning(self) -> str:
        """When it is true, in a few words."""
        return f"the watermark is {show(self.microseconds)} past the first record after the last firing"

    def wakes(self, since: Array, at: MicroBatchTime) -> bool:
        """Whether the watermark is so far past a pair's first record."""
        return bool(self._over(since, at).any())

    def begins(self, pairs: Candidates, at: MicroBatchTime) -> Array:
        """The earliest event time of the new records; a pair that has waited under another trigger waits from now."""
        first = pairs.signals.get(FIRST, np.full(len(pairs), ABSENT))
        return _stored(np.where(first == ABSENT, at.watermark, first))

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """The pairs whose first record is so long ago."""
        return self._over(memory.since, at)

    def _over(self, since: Array, at: MicroBatchTime) -> Array:
        over: Array = (since != NEVER) & (_read(since) + self.microseconds <= at.watermark)
        return over

    def __repr__(self) -> str:
        return f"after={show(self.microseconds)!r}, by='event'"


# Times before 1970 are stored a microsecond earlier, as -1 is `NEVER`.


def _stored(times: Array) -> Array:
    return np.where(times < 0, times - 1, times)


def _read(times: Array) -> Array:
    return np.where(times < 0, times + 1, times)
