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
    head.clock = trigger.clock(head.clock, at.clock)
    head.watermark = max(head.watermark, _going_on(head, at) if at.idle_after else at.watermark)
    head.revision = trigger.revision(head.revision)
    return MicroBatchTime(head.watermark, head.clock)


def _going_on(head: Header, at: MicroBatchTime) -> int:
    """The watermark of a bucket that may be idle: without input, while Spark's stands still, it follows the clock.

    ::

        clock       12:00:00   12:00:30   12:01:00   12:01:30        idle after 1 minute
        input          *
        watermark   11:50:00   11:50:00   11:51:00   11:51:30

    The header has the clock and the watermark of when one of them moved last, in milliseconds; input empties it.
    """
    clock, watermark = head.clock // 1000, at.watermark // 1000
    if not head.idle or watermark > head.idle[1]:
        head.idle = [clock, max(watermark, head.watermark // 1000)]
    waited = clock - head.idle[0]
    # Before there is a watermark no time is known that could go on.
    return (head.idle[1] + waited) * 1000 if head.idle[1] and waited * 1000 >= at.idle_after else at.watermark


def _fired(firings: Iterable[Firing]) -> Iterator[Windows]:
    """The windows of firings, with their kind; retractions and tombstones among them have one already."""
    for kind, frames in firings:
        for frame in frames:
            yield replace(frame, kind=kind) if frame.kind == FINAL != kind else frame
