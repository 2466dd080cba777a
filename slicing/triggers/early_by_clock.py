"""`early(every=)`: at every multiple of an interval by the clock, then when the window closes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.trigger import CLOSING, FINAL, WAITING, Engine, Firing, MicroBatchTime, Trigger
from slicing.windows.time.durations import show


@dataclass(frozen=True)
class EarlyByClock(Trigger):
    """Open windows with records since the last tick; `microseconds` is the interval."""

    microseconds: int

    asks = frozenset({CLOSING, WAITING})
    meaning = "at every tick the open windows that got a record since, then each when it closes"
    by_clock = True

    def clock(self, last: int, now: int) -> int:
        """A clock that steps back by more than an interval was wrong before, and ticks would wait for as long.

        A smaller step is waited for, or a tick would come twice.
        """
        return now if now + self.microseconds < last else max(last, now)

    def on_close(self, engine: Engine) -> Iterator[Firing]:
        """The windows that close."""
        yield FINAL, engine.closing().results()

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """The open windows, if a tick has passed since the micro-batch before."""
        tick, last = at.clock // self.microseconds, engine.head.tick
        engine.head.tick = tick
        if last is None or last < 0 or tick <= last:
            engine.waiting.none()
        else:
            yield "early", engine.waiting.all().results()

    def __repr__(self) -> str:
        return f"early(every={show(self.microseconds)!r})"
