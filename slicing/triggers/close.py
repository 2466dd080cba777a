"""Triggers that fire windows when they close: `on_close()`, with or without late firings, and `early(final=True)`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicing.triggers.accumulation import ACCUMULATING, DISCARDING, RETRACTING, Accumulation
from slicing.triggers.trigger import CLOSING, EMPTY, FINAL, LATE, Engine, Firing, MicroBatchTime, Trigger
from slicing.windows.time.durations import show

_MEANINGS: dict[Accumulation, str] = {
    ACCUMULATING: "every window at its end, again whenever late records came, until grace is over",
    RETRACTING: "as corrections, with the result that each one replaces",
    DISCARDING: "every window at its end, then what late records alone make",
}


@dataclass(frozen=True)
class OnClose(Trigger):
    """Fires each window once, at the watermark `end + grace`."""

    asks = frozenset({CLOSING})
    meaning = "every window once, when it closes"
    fires_once = True

    def on_close(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the windows that close."""
        yield FINAL, engine.closing().results()

    def __repr__(self) -> str:
        return "on_close()"


@dataclass(frozen=True)
class OnCloseEmpty(OnClose):
    """As `OnClose`; also fires windows without records, `lasting` microseconds long after the last one of the key."""

    lasting: int

    asks = frozenset({CLOSING, EMPTY})
    tombstones = True

    @property
    def empty(self) -> int:  # type: ignore[override]
        """Return how long windows without records fire."""
        return self.lasting

    @property
    def meaning(self) -> str:  # type: ignore[override]
        """Return which windows fire, and when, in one line."""
        return f"every window once, when it closes, also without records until {show(self.empty)} after the last one"

    def on_close(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the windows that close."""
        yield from super().on_close(engine, at)
        yield FINAL, engine.empty().results()

    def __repr__(self) -> str:
        return f"on_close(empty={show(self.empty)!r})"


@dataclass(frozen=True)
class OnCloseAndEnd(OnClose):
    """As `OnClose`; also fires the count windows that bounded input ends before they are full."""

    fires_short = True

    def __repr__(self) -> str:
        return "early(final=True)"


@dataclass(frozen=True)
class LateFirings(Trigger):
    """Fires each window at the watermark `end`, and again in each later micro-batch with new records for it."""

    mode: str = ""

    asks = frozenset({CLOSING, LATE})

    @property
    def accumulation(self) -> Accumulation:
        """Return the accumulation mode of late firings."""
        return next(mode for mode in _MEANINGS if mode.option == self.mode)

    @property
    def meaning(self) -> str:  # type: ignore[override]
        """Return which windows fire, and when, in one line."""
        return _MEANINGS[self.accumulation]

    def wait(self, grace: int) -> int:
        """Return 0: windows fire at their end."""
        return 0

    def on_records(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the windows that have fired before and have new records."""
        yield "correction", self.accumulation.rows(engine.late())

    def on_close(self, engine: Engine, at: MicroBatchTime) -> Iterator[Firing]:
        """Fire the windows that end."""
        yield FINAL, engine.closing().results()

    def __repr__(self) -> str:
        return f"on_close(corrections=True{f', {self.mode}=True' if self.mode else ''})"
