"""Windows assigned by a function, run as sessions: start and end of a window become part of the key.

::

    record   user ts n        ->   user start end | time    gap
             ada  5  1             ada  0     10  | 0       10        a row for each window of a record
                                   ada  5     15  | 5       10

All rows of a key (user, start, end) have the same interval. They form one session, which closes when the window does.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.drafts.assigned_call import AT, END, START, TIME
from slicing.errors import InvalidType
from slicing.spark.columns import quoted
from slicing.spark.late import DELAY
from slicing.spark.watermarks import check_watermark
from slicing.windows.assigned import GAP, IS_FIRST, IS_LAST, Assigned
from slicing.windows.time.edges import AFTER, BEFORE

_WINDOWS = "__window"
_ASSIGNED = "array<struct<start: bigint, end: bigint, is_first: bigint, is_last: bigint>>"


def frame_of(df: DataFrame, window: Assigned, time: str) -> DataFrame:
    """Return the records, one row for each of their windows. Raises InvalidValue and InvalidType."""
    for what, name in (("time column", time), *(("column", name) for name in window.values)):
        if name not in df.columns:
            from slicing.hints import no_column

            raise no_column(f"{what} of {window}", name, df.columns)
    field = df.schema[time]
    if not isinstance(field.dataType, T.TimestampType):
        raise InvalidType(
            f"time column `{time}` must be a timestamp; got {field.dataType.simpleString()}. Cast it first."
        )
    if df.isStreaming:
        check_watermark(df, df.schema, field)
    assign = F.udf(_Assigning(window), _ASSIGNED, useArrow=False)
    instant = F.unix_micros(quoted(time))
    rows = df.withColumn(_WINDOWS, F.explode_outer(assign(instant, *map(quoted, window.values))))
    start, end, is_first, is_last = (F.col(_WINDOWS)[name] for name in ("start", "end", "is_first", "is_last"))
    delay = {DELAY: field.metadata[DELAY]} if DELAY in field.metadata else {}
    return rows.select(
        *map(quoted, df.columns),
        start.alias(START),
        end.alias(END),
        F.timestamp_micros(start).alias(AT, metadata=delay),
        F.greatest(end - start, F.when(end.isNotNull(), F.lit(1))).cast("bigint").alias(GAP),
        F.coalesce(instant, F.lit(0)).alias(TIME),
        is_first.alias(IS_FIRST),
        is_last.alias(IS_LAST),
    )


class _Assigning:
    """The assigning function as a UDF: null without a time, one window without an end if it assigns none.

    Windows whose bounds are no instants of int64 are left out; null too if there are no others.

    Of the windows of a record, the first and the last to end are marked.
    """

    def __init__(self, window: Assigned):
        self.window = window

    def __call__(self, time: int | None, *values: Any) -> list[tuple[int, int | None, int, int]] | None:
        if time is None:
            return None
        windows = self.window.of(time, *values)
        if not windows:
            return [(time, None, 0, 0)]
        # A window without a length closes a microsecond later.
        windows = [(start, end) for start, end in windows if BEFORE <= start and max(end, start + 1) < AFTER]
        if not windows:
            return None
        ends = [max(end, start + 1) for start, end in windows]
        first, last = ends.index(min(ends)), ends.index(max(ends))
        return [(*window, int(at == first), int(at == last)) for at, window in enumerate(windows)]
