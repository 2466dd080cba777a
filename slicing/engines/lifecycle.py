"""The one loop of a micro-batch, for all kinds of windows and all triggers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from slicing.assembly.results import Windows
from slicing.state.format.header import Header
from slicing.triggers.trigger import FINAL, Engine, Firing, MicroBatchTime, Trigger


class Stages(Engine, Protocol):
    """An engine as the loop sees it."""

    head: Header

    def advance(self, watermark: int) -> None:
        """Let a watermark, in microseconds, close windows."""

    def retire(self) -> None:
        """Store what is left, now that the closed windows have been read."""

    def save(self) -> None:
        """Write the header."""


def micro_batch(engine: Stages, trigger: Trigger, at: MicroBatchTime) -> Iterator[Windows]:
    """Yield all that fires in a micro-batch whose records have been accepted, then write the state that is left."""
    at = _enter(engine.head, trigger, at)
    yield from _fired(trigger.on_records(engine))
    engine.advance(at.watermark)
    yield from _fired(trigger.on_close(engine))
    engine.retire()
    yield from _fired(trigger.on_open(engine, at))
    engine.save()


def _enter(head: Header, trigger: Trigger, at: MicroBatchTime) -> MicroBatchTime:
    """Enter a micro-batch in the header; return the time to go by, as neither watermark nor clock steps back.

    Except for a clock that the trigger lets step back. Where windows are by the clock, the watermark is the greatest
    clock that was seen, and stays.
    """
    head.watermark, head.clock = max(head.watermark, at.watermark), trigger.clock(head.clock, at.clock)
    head.revision = trigger.revision(head.revision)
    return MicroBatchTime(head.watermark, head.clock)


def _fired(firings: Iterable[Firing]) -> Iterator[Windows]:
    """The windows of firings, with their kind; retractions and tombstones among them have one already."""
    for kind, frames in firings:
        for frame in frames:
            yield replace(frame, kind=kind) if frame.kind == FINAL != kind else frame
