"""`after=`: fire when a delay has passed since the first record after the last firing, by the clock or by event time.

::

    after 10 s     a record of 12:00:03 arrives, then one of 12:00:01: by event time the window waits since 12:00:03
    watermark      12:00:09  12:00:13
                             fires with both, and with all other records that have arrived until then
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.memory import NEVER
from slicing.content.signals import ABSENT, FIRST
from slicing.triggers.candidates import Candidates, Memory, OpenPairs
from slicing.triggers.condition import Condition
from slicing.triggers.trigger import WATERMARK, MicroBatchTime
from slicing.windows.time.durations import show


@dataclass(frozen=True)
class _Delay(Condition):
    """True once a delay of `microseconds` is over."""

    microseconds: int

    def wakes(self, pairs: OpenPairs, at: MicroBatchTime) -> bool:
        """Whether the delay of at least one pair is over."""
        return bool(self._over(pairs.since, at).any())

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """Return the pairs whose delay is over: `bool[n]`."""
        return self._over(memory.since, at)

    def _over(self, since: Array, at: MicroBatchTime) -> Array:
        raise NotImplementedError


@dataclass(frozen=True)
class ByDelay(_Delay):
    """True `microseconds` after the micro-batch with the first record since the last firing."""

    @property
    def interval(self) -> int:
        """Return the delay."""
        return self.microseconds

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        return f"{show(self.microseconds)} have passed since the first record after the last firing"

    def _over(self, since: Array, at: MicroBatchTime) -> Array:
        over: Array = (since != NEVER) & (since + self.microseconds // 1000 <= at.clock // 1000)
        return over

    def __repr__(self) -> str:
        return f"after={show(self.microseconds)!r}"


@dataclass(frozen=True)
class ByEventDelay(_Delay):
    """True when the watermark is `microseconds` after the event time of the first record since the last firing.

    Records of one micro-batch have no order between input partitions: the first of them is the one with the earliest
    event time.
    """

    signals = (FIRST,)
    outlasts = True
    asks = frozenset({WATERMARK})

    @property
    def meanings(self) -> Mapping[str, str]:
        """Return the name of event times in place of clocks. A pair that waits by the clock begins to wait anew."""
        return {"since": "since event time"}

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        return f"the watermark is {show(self.microseconds)} past the first record after the last firing"

    def begins(self, pairs: Candidates, at: MicroBatchTime) -> Array:
        """Return the earliest event time of the new records of each pair: `int64[n]`.

        A pair that began to wait under another trigger waits from the current watermark on.
        """
        first = pairs.signals.get(FIRST, np.full(len(pairs), ABSENT))
        return _stored(np.where(first == ABSENT, at.watermark, first))

    def _over(self, since: Array, at: MicroBatchTime) -> Array:
        over: Array = (since != NEVER) & (_read(since) + self.microseconds <= at.watermark)
        return over

    def __repr__(self) -> str:
        return f"after={show(self.microseconds)!r}, by='event'"


# Times before 1970 are stored one microsecond too early, because -1 means `NEVER`.


def _stored(times: Array) -> Array:
    return np.where(times < 0, times - 1, times)


def _read(times: Array) -> Array:
    return np.where(times < 0, times + 1, times)
