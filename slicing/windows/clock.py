"""Time by the clock of the trigger, in place of a column."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessingTime:
    """The value of `processing_time()`. Prints as that call."""

    def __repr__(self) -> str:
        return "processing_time()"


def processing_time() -> ProcessingTime:
    """Give windows the clock of the trigger for the time of records: `.window(..., time=processing_time())`.

    All records of a micro-batch have the time of its trigger, or the greatest that their bucket has seen, so that a
    clock which steps back makes nothing late. Windows close when the clock has passed their end; no watermark is
    needed, and nothing is late. For streams only. Not repeatable: another run cuts other micro-batches.

    >>> print(processing_time())
    processing_time()
    """
    return ProcessingTime()
