"""The times of a micro-batch and its firings, for all kinds of windows and all triggers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from slicing.assembly.results import Windows
from slicing.state.format.header import Header
from slicing.triggers.trigger import FINAL, Firing, MicroBatchTime, Trigger


def noted(head: Header, trigger: Trigger, at: MicroBatchTime) -> MicroBatchTime:
    """Note the time of a micro-batch in the header; return the time to use, as neither watermark nor clock steps back.

    Some triggers let the clock step back. For windows over processing time the watermark is the greatest clock seen
    so far, and never steps back.
    """
    last_watermark, last_clock = head.watermark, head.clock
    head.clock = trigger.clock(head.clock, at.clock)
    head.watermark = max(head.watermark, _idle_watermark(head, at) if at.idle_after else at.watermark)
    head.revision = trigger.revision(head.revision)
    return MicroBatchTime(head.watermark, head.clock, last_watermark=last_watermark, last_clock=last_clock)


def restart_idle(head: Header, shipped: Sequence[Any]) -> None:
    """Restart the idle time of a bucket that has got records, late ones included.

    Every bucket gets a row in each micro-batch with data. Such a row without a block is no record of the bucket.
    """
    if shipped:
        head.idle = []


def _idle_watermark(head: Header, at: MicroBatchTime) -> int:
    """Return the watermark of a bucket. While the input is idle and Spark's watermark stalls, it follows the clock.

    ::

        clock       12:00:00   12:00:30   12:01:00   12:01:30        idle after 1 minute
        input          *
        watermark   11:50:00   11:50:00   11:51:00   11:51:30

    `head.idle` has, in milliseconds, the clock when Spark's watermark last moved, the watermark of the bucket then, and
    Spark's, which is behind it after an idle time; older checkpoints lack the last. `restart_idle` clears it.
    """
    clock, watermark = head.clock // 1000, at.watermark // 1000
    if len(head.idle) < 3 or watermark > head.idle[2]:
        head.idle = [clock, max(watermark, head.watermark // 1000), watermark]
    waited = clock - head.idle[0]
    # Before the first watermark there is no event time to advance.
    return (head.idle[1] + waited) * 1000 if head.idle[1] and waited * 1000 >= at.idle_after else at.watermark


def fired(firings: Iterable[Firing]) -> Iterator[Windows]:
    """Yield the windows of firings with the kind of the firing; retractions and tombstones already have a kind."""
    for kind, frames in firings:
        for frame in frames:
            yield replace(frame, kind=kind) if frame.kind == FINAL != kind else frame
