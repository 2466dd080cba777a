"""Removes implausible event times: one from the far future would move the watermark and make later records late."""

from __future__ import annotations

from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.column_names import unquoted
from slicing.errors import InvalidType, InvalidValue
from slicing.spark.columns import check_time_type, quoted
from slicing.spark.late import DELAY
from slicing.spark.names import is_case_sensitive
from slicing.stages.metrics import IMPLAUSIBLE
from slicing.windows.time.durations import Duration, microseconds

_LONGEST = 1 << 62
_calls = count(1)


def plausible(df: DataFrame, time: str, ahead: Duration, behind: Duration | None = None) -> DataFrame:
    """Replace implausible event times by null: more than `ahead` after now, or more than `behind` before now.

    A single time in the far future would move the watermark there, and all later records would be late. Call it before
    `withWatermark`. Null times are counted downstream as `no_time`. Those made here are also counted as `implausible`,
    in an observed metric named `implausible: `, the column, and the number of the call in this process. Now is Spark's
    `current_timestamp()`: on a stream the time of the trigger, which is the same when a micro-batch is repeated. A
    timestamp_ntz is read as wall clock time in the session's time zone, like Spark's cast. Without `behind`, a time may
    be arbitrarily old, as in a backfill. A time ahead by less moves the watermark, and costs a page of the state.

    `time` is the name of a column as Spark resolves it. The column keeps its place, its name and its metadata. Raises
    InvalidType, and InvalidValue for durations that are not positive and after `withWatermark`.
    """
    bounds = _length(ahead, "ahead"), None if behind is None else _length(behind, "behind")
    field = _resolved(df, time)
    check_time_type(time, field.dataType)
    if DELAY in (field.metadata or {}):
        raise InvalidValue(
            f"`plausible` comes before the watermark, and `{time}` has one, which has seen all its times. Take the "
            f'DataFrame before that call, and write `plausible(df, "{time}", ...).withWatermark("{time}", ...)`.'
        )
    column = quoted(field.name)
    inside = _inside(column, field.dataType, *bounds)
    counted = df.observe(f"{IMPLAUSIBLE}: {field.name} {next(_calls)}", F.count_if(~inside).alias(IMPLAUSIBLE))
    return counted.withColumn(field.name, F.when(inside, column).alias(field.name, metadata=field.metadata or {}))


def _length(duration: Duration, name: str) -> int:
    length = microseconds(duration, name)
    if not 0 < length < _LONGEST:
        raise InvalidValue(f"`{name}` must be positive, and less than 146,000 years; got {duration!r}.")
    return length


def _resolved(df: DataFrame, time: str) -> T.StructField:
    """The column with this name: exactly, or as Spark resolves it, without backquotes and in any case."""
    if not isinstance(time, str):
        raise InvalidType(f"`time` is the name of a column; got {time!r}.")
    fields = df.schema.fields
    exact = is_case_sensitive(df.sparkSession)
    plain = unquoted(time)
    found = [field for field in fields if field.name == plain or (not exact and field.name.lower() == plain.lower())]
    if not found:
        from slicing.hints import no_column

        raise no_column("time column", time, df.columns, "Take a field of a struct into a column of its own first.")
    if len(found) > 1:
        raise InvalidValue(f"time column `{time}` is ambiguous: {len(found)} columns have this name. Rename one.")
    return found[0]


def _inside(column: Column, data_type: T.DataType, ahead: int, behind: int | None) -> Column:
    """Whether a time is within the bounds around now; null for null."""
    # A day is 24 hours here. Added to a timestamp as an interval, it would be a calendar day of the session's time
    # zone.
    now = F.unix_micros(F.current_timestamp())
    latest, earliest = (F.timestamp_micros(now + F.lit(shift)).cast(data_type) for shift in (ahead, -(behind or 0)))
    return column <= latest if behind is None else (column <= latest) & (column >= earliest)
