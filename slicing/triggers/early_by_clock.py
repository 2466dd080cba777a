"""`early(every=)`: fire at every multiple of an interval by the clock, and when the window closes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import CLOSING, FINAL, WAITING, Engine, Firing, MicroBatchTime, Trigger, has_ticked
from slicing.windows.time.durations import show


@dataclass(frozen=True)
class EarlyByClock(Trigger):
    """Fires the open windows with records since the last tick; `microseconds` is the interval."""

    microseconds: int

    asks = frozenset({CLOSING, WAITING})
    meaning = "at every tick the open windows that got a record since, then each when it closes"
    by_clock = True
    fires_short = True

    def clock(self, last: int, now: int) -> int:
        """Return the clock of a micro-batch in microseconds: it may step back only by more than one interval.

        A larger step means that the clock was wrong before; without it, ticks would pause for that long. After a
        smaller step the last clock is kept, or a tick would fire twice.
        """
        return now if now + self.microseconds < last else max(last, now)

    def on_close(self, engine: Engine) -> Iterator[Firing]:
        """Fire the windows that close."""
        yield FINAL, engine.closing().results()

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the waiting open windows, if a tick has passed since the previous micro-batch."""
        if has_ticked(at, self.microseconds):
            yield "early", engine.waiting.all().results()
        else:
            engine.waiting.none()

    def __repr__(self) -> str:
        return f"early(every={show(self.microseconds)!r})"
