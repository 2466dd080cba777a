"""What sessions ask of a call: refused with the remedy when the query is built."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from slicing.emission.emission import CHANGED, RESULT, Emission
from slicing.errors import InvalidType, InvalidValue
from slicing.windows.durations import show
from slicing.windows.session import SESSION, Session

_INTERVALS = (T.DayTimeIntervalType, T.YearMonthIntervalType, T.CalendarIntervalType)


def check_session(frame: DataFrame, window: Session, tree: str, by_clock: bool, emission: Emission) -> None:
    """Check the column of gaps, and refuse what has no meaning for sessions. Raises InvalidValue and InvalidType."""
    if window.gap_column is not None:
        _check_gaps(frame, window.gap_column)
    if tree != "auto":
        raise InvalidValue(f"sessions are merged, and have no slices to assemble; got `{tree}`. Leave `.assemble` out.")
    if by_clock and window.late_by == SESSION:
        raise InvalidValue(
            f"`late_by` is about late records, and nothing is late by the clock; got {window}. Leave it out."
        )
    if frame.isStreaming and window.gap is not None and window.gap < 1000:
        raise InvalidValue(
            f"`gap` must be at least 1 ms on a stream, whose watermark counts milliseconds; got {show(window.gap)}."
        )
    if emission.which == CHANGED:
        raise InvalidValue(
            f"{emission} compares a window with the one before it, and sessions of a key do not follow each other. "
            "Use on_close() or on_update()."
        )
    if emission.corrects and emission.what != RESULT:
        raise InvalidValue(
            f"{emission} is about one window again, and a session that late records change is another window: the old "
            'one goes out as `emission = "merged"` before it. Use on_close(corrections=True).'
        )


def _check_gaps(frame: DataFrame, name: str) -> None:
    if name not in frame.columns:
        raise InvalidValue(f"gap column `{name}` does not exist; the columns are {', '.join(frame.columns)}.")
    if frame.columns.count(name) > 1:
        raise InvalidValue(f"gap column `{name}` is ambiguous: several columns have this name. Rename one.")
    kind = frame.schema[name].dataType
    if not isinstance(kind, (T.LongType, *_INTERVALS)):
        raise InvalidType(
            f"gap column `{name}` must be an interval, or microseconds as long; got {kind.simpleString()}. "
            f'Convert it first, for example `withColumn("{name}", F.make_dt_interval(secs=F.col("{name}")))`.'
        )
