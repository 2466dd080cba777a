"""`every=`: fire when the clock, or the watermark, passes a multiple of an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slicing.triggers.condition import Condition
from slicing.triggers.trigger import WATERMARK, MicroBatchTime, passed_watermark
from slicing.windows.time.durations import show

CLOCK, EVENT = TIMES = ("clock", "event")
"""The times that a condition may depend on: the clock, or event time."""


@dataclass(frozen=True)
class ByInterval(Condition):
    """True for all pairs when a multiple of `microseconds` has passed.

    By event time, a multiple has passed when the watermark is later than it, as Flink's timers fire.
    """

    microseconds: int
    by: str = CLOCK

    @property
    def asks(self) -> frozenset[str]:
        """Ask for the watermark, if it depends on event time."""
        return frozenset({WATERMARK} if self.by == EVENT else ())

    @property
    def interval(self) -> int:
        """Return the interval, 0 if it depends on event time."""
        return self.microseconds if self.by == CLOCK else 0

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        return f"{'the clock' if self.by == CLOCK else 'the watermark'} passes a multiple of {show(self.microseconds)}"

    def passes(self, head: Any, at: MicroBatchTime) -> bool:
        """Whether a multiple has passed since the previous micro-batch."""
        last, now = head.tick, at.clock if self.by == CLOCK else max(0, at.watermark - 1)
        if last is not None and last < 0:  # the previous trigger has stored a watermark
            last = None if self.by == CLOCK else max(0, passed_watermark(last) - 1) // self.microseconds
        head.tick = now // self.microseconds
        if last is None:
            last = head.tick if self.by == CLOCK else 0
        return bool(head.tick > last)

    def __repr__(self) -> str:
        return f"every={show(self.microseconds)!r}" + ("" if self.by == CLOCK else f", by={self.by!r}")
