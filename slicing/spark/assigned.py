"""Windows that a function assigns, as sessions of keys of their own.

::

    record   user ts n        ->   user start end | time    gap
             ada  5  1             ada  0     10  | 0       10        a row for each window of a record
                                   ada  5     15  | 5       10

All rows of a key (user, start, end) have one interval, so it is one session, which closes as the window does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.aggregates.aggregate import EVENT_TIME, Bound, Struct
from slicing.errors import InvalidType, InvalidValue, excerpt
from slicing.spark.columns import quoted
from slicing.spark.late import DELAY
from slicing.windows.assigned import Assigned

_WINDOWS = "__window"
OWN_KEYS = START, END = "__window_start", "__window_end"
"""The keys that windows are told apart by."""
AT, GAP, TIME = "__window_time", "__window_gap", "__record_time"
"""Where windows start and how long they are, and the time of the record in microseconds."""


def frame_of(df: DataFrame, window: Assigned, time: Any) -> DataFrame:
    """The records, a row for each of their windows. Raises InvalidType and InvalidValue."""
    if not isinstance(time, str) or time not in df.columns:
        raise InvalidValue(f"`time` of {window} is the name of a column; got {excerpt(time)}. Compute it first.")
    field = df.schema[time]
    if not isinstance(field.dataType, T.TimestampType):
        raise InvalidType(
            f"time column `{time}` must be a timestamp; got {field.dataType.simpleString()}. Cast it first."
        )
    if df.isStreaming and DELAY not in field.metadata:
        raise InvalidValue(f'a stream needs a watermark: `df.withWatermark("{time}", "10 minutes")` before `group_by`.')
    assign = F.udf(_Assigning(window), "array<struct<start: bigint, end: bigint>>", useArrow=False)
    instant = F.unix_micros(quoted(time))
    rows = df.withColumn(_WINDOWS, F.explode_outer(assign(instant, *map(quoted, window.values))))
    start, end = (F.col(_WINDOWS)[name] for name in ("start", "end"))
    delay = {DELAY: field.metadata[DELAY]} if DELAY in field.metadata else {}
    return rows.select(
        *map(quoted, df.columns),
        start.alias(START),
        end.alias(END),
        F.timestamp_micros(start).alias(AT, metadata=delay),
        F.greatest(end - start, F.when(end.isNotNull(), F.lit(1))).cast("bigint").alias(GAP),
        F.coalesce(instant, F.lit(0)).alias(TIME),
    )


class _Assigning:
    """The function of Spark: no windows of a record without a time, and one without an end of a record without any."""

    def __init__(self, window: Assigned):
        self.window = window

    def __call__(self, time: int | None, *values: Any) -> list[tuple[int, int | None]] | None:
        if time is None:
            return None
        return list(self.window.of(time, *values)) or [(time, None)]


def results_of(results: Mapping[str, Bound | Struct]) -> dict[str, Bound | Struct]:
    """The results, with the time of records as a column: rows have that of their window."""
    return {name: _by_column(result) for name, result in results.items()}


def _by_column(result: Bound | Struct) -> Bound | Struct:
    if isinstance(result, Struct):
        return replace(result, results=results_of(result.results))
    return replace(result, columns=tuple(TIME if _is_time(column) else column for column in result.columns))


def _is_time(column: Any) -> bool:
    return isinstance(column, str) and column == EVENT_TIME


def finished(made: DataFrame) -> DataFrame:
    """The rows without the keys of windows; a window of no length is shown as such."""
    window = F.col("window")
    nothing = F.struct(window["start"].alias("start"), window["start"].alias("end"))
    shown = F.when(F.col(START) == F.col(END), nothing).otherwise(window)
    columns = [
        shown.alias("window", metadata=made.schema["window"].metadata) if name == "window" else quoted(name)
        for name in made.columns
        if name not in OWN_KEYS
    ]
    return made.select(*columns)
