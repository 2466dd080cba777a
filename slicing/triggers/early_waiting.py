"""`early(every=)` and `early(records=)` alone: fire the windows of the dirty set, and each window when it closes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicing.triggers.trigger import (
    CLOSING,
    FINAL,
    PER_KEY,
    WAITING,
    Engine,
    Firing,
    MicroBatchTime,
    Trigger,
    has_ticked,
)
from slicing.windows.time.durations import show


@dataclass(frozen=True)
class _EarlyWaiting(Trigger):
    """Fires open windows with records since the last firing."""

    asks = frozenset({CLOSING, WAITING})
    fires_short = True

    def on_close(self, engine: Engine) -> Iterator[Firing]:
        """Fire the windows that close."""
        yield FINAL, engine.closing().results()


@dataclass(frozen=True)
class EarlyByClock(_EarlyWaiting):
    """Fires the open windows with records since the last tick; `microseconds` is the interval."""

    microseconds: int

    meaning = "at every tick the open windows that got a record since, then each when it closes"
    by_clock = True

    def clock(self, last: int, now: int) -> int:
        """Return the clock of a micro-batch in microseconds: it may step back only by more than one interval.

        A larger step means that the clock was wrong before; without it, ticks would pause for that long. After a
        smaller step the last clock is kept, or a tick would fire twice.
        """
        return now if now + self.microseconds < last else max(last, now)

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the waiting open windows, if a tick has passed since the previous micro-batch."""
        if has_ticked(at, self.microseconds):
            yield "early", engine.waiting.all().results()
        else:
            engine.waiting.none()

    def __repr__(self) -> str:
        return f"early(every={show(self.microseconds)!r})"


@dataclass(frozen=True)
class EarlyByCount(_EarlyWaiting):
    """Fires the open windows with new records of every key that has `count` records since the last firing."""

    count: int

    asks = frozenset({CLOSING, WAITING, PER_KEY})
    meaning = "the open windows of a key after so many records, then each when it closes"

    def on_open(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the windows of keys with enough records."""
        yield "early", engine.waiting.ready(self._enough).results()

    def _enough(self, waiting: Any) -> Any:
        counts = np.bincount(waiting.keys, weights=waiting.records, minlength=len(waiting.names))
        return (counts >= self.count)[waiting.keys]

    def __repr__(self) -> str:
        return f"early(records={self.count})"
