"""`every=`: fire when the clock, or the watermark, passes a multiple of an interval."""

from __future__ import annotations

from dataclasses import dataclass

from slicing.triggers.condition import Condition
from slicing.triggers.panes import Panes
from slicing.triggers.trigger import WATERMARK, MicroBatchTime, Waiting, has_ticked
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
    def asks(self) -> frozenset[str]:  # type: ignore[override]
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

    @property
    def alone(self) -> str:  # type: ignore[override]
        """Return which windows fire by the clock."""
        return "at every tick the open windows that got a record since" if self.by == CLOCK else ""

    def of_waiting(self, waiting: Waiting, at: MicroBatchTime) -> Panes:
        """Return all waiting pairs, if a multiple has passed."""
        return waiting.all() if self.passes(at) else waiting.none()

    def passes(self, at: MicroBatchTime) -> bool:
        """Whether a multiple has passed since the previous micro-batch, whatever the interval was then."""
        if self.by == CLOCK:
            return has_ticked(at, self.microseconds)
        # In milliseconds, the precision in which the header has the last watermark.
        times = (max(0, watermark // 1000 - 1) for watermark in (at.last_watermark, at.watermark))
        last, now = (time // (self.microseconds // 1000) for time in times)
        return now > last

    def __repr__(self) -> str:
        return f"every={show(self.microseconds)!r}" + ("" if self.by == CLOCK else f", by={self.by!r}")
