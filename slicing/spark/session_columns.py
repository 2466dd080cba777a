"""Columns of sessions; each record may have its own gap."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.column_names import as_column
from slicing.errors import InvalidType
from slicing.spark.columns import quoted
from slicing.spark.names import Names
from slicing.spark.query import Query
from slicing.spark.window_columns import WindowColumns
from slicing.windows.session import Session

_INTERVALS = (T.DayTimeIntervalType, T.YearMonthIntervalType, T.CalendarIntervalType)


@dataclass(frozen=True)
class SessionColumns(WindowColumns):
    """The columns of session windows."""

    window: Session

    def resolved(self, names: Names) -> Session:
        """Return the session with its gap column spelled as in the schema. Raises InvalidValue and InvalidType."""
        if self.window.gap_column is None:
            return self.window
        return replace(self.window, gap_column=_gaps(names, self.window.gap_column))

    def leaves(self, query: Query) -> list[Column]:
        """Return the gap of each record in microseconds, if records carry one."""
        column = self.window.gap_column
        if column is None:
            return []
        if isinstance(query.schema[column].dataType, T.LongType):
            return [quoted(column)]
        time = query.record_time()
        # A calendar interval's length depends on where it begins. Without a time zone, a day always has the same
        # length.
        later = time + quoted(column)
        return [
            F.timestamp_diff("MICROSECOND", time, later) if query.ntz else F.unix_micros(later) - F.unix_micros(time)
        ]


def _as_gap(found: T.StructField, column: str) -> str:
    """The remedy for a gap of another type; `column` is its code."""
    if isinstance(found.dataType, T.StringType):
        return f'Write `withColumn("{found.name}", {column}.cast("interval"))` for text such as "5 minutes".'
    if isinstance(found.dataType, T.NumericType):
        return f'If it counts seconds, write `withColumn("{found.name}", F.make_dt_interval(secs={column}))`.'
    return "Compute one of these, by `withColumn`."


def _gaps(names: Names, given: str) -> str:
    """The name of the gap column."""
    found = names.named(given, "gap column")
    if not isinstance(found.dataType, (T.LongType, *_INTERVALS)):
        raise InvalidType(
            f"gap column `{given}` must be an interval, or microseconds as long; got {found.dataType.simpleString()}. "
            f"{_as_gap(found, as_column(names.code(found.name)))}"
        )
    return found.name
