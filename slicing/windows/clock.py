"""Processing time: the clock of the trigger instead of a time column."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessingTime:
    """The result of `processing_time()`. Its repr is that call."""

    def __repr__(self) -> str:
        return "processing_time()"


def processing_time() -> ProcessingTime:
    """Use processing time, the clock of the trigger, as the time of records: `.window(..., time=processing_time())`.

    All records of a micro-batch have the time of its trigger, or the greatest time that their bucket has seen if that
    is later: a clock that steps back does not make records late. Windows close when the clock has passed their end. No
    watermark is needed, and no record is late. For streams only. Results are not reproducible: another run has other
    micro-batches. A repeated micro-batch keeps its time.

    Spark runs micro-batches without input, so that windows close. With `availableNow` such a query does not end, unless
    `spark.sql.streaming.noDataMicroBatches.enabled` is false when it starts; open windows then wait for the next run.
    A checkpoint keeps its type of timers: a query cannot change to or from processing time.

    >>> print(processing_time())
    processing_time()
    """
    return ProcessingTime()
