"""The columns of a kind of windows: those read from the input, and those that identify the window of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slicing.column_names import as_column, unquoted
from slicing.drafts.assigned_call import END, START, TIME, as_sessions
from slicing.drafts.call import Call
from slicing.errors import InvalidType, InvalidValue
from slicing.spark.assigned_columns import frame_of
from slicing.spark.columns import kind_of_type, logical, quoted
from slicing.spark.late import named
from slicing.spark.names import Names
from slicing.stages import flat
from slicing.stages.flat import Flat
from slicing.windows.assigned import GAP, IS_FIRST, IS_LAST, Assigned, AssignedSessions
from slicing.windows.counting import Counting
from slicing.windows.session import Session
from slicing.windows.unbounded import Unbounded
from slicing.windows.window import Window

_WINDOW = "spark.timeWindow"
_INTERVALS = (T.DayTimeIntervalType, T.YearMonthIntervalType, T.CalendarIntervalType)
Tag: TypeAlias = Callable[[Column, str, dict[str, Any]], Column]
"""Names the time column of results, and adds the metadata by which Spark and this package recognize it."""


@dataclass(frozen=True)
class Times:
    """The time of records: the name of its column, "" if there is none, and its Spark type."""

    name: str
    kind: str

    @property
    def ntz(self) -> bool:
        """Whether times are timestamp_ntz."""
        return self.kind == "timestamp_ntz"

    @property
    def no_window(self) -> Column:
        """A null `window`."""
        return F.lit(None).cast(f"struct<start:{self.kind},end:{self.kind}>")

    def window(self, start: Column, stop: Column) -> Column:
        """Return `window` with these bounds, in microseconds."""
        return F.struct(logical(start, self.kind).alias("start"), logical(stop, self.kind).alias("end"))


@dataclass(frozen=True)
class WindowColumns:
    """The columns of time windows; subclasses for other kinds narrow the type of `window`."""

    window: Window

    def prepared(self, call: Call) -> Call:
        """Return the call over the DataFrame that these windows read, by default the call itself.

        Raises InvalidValue and InvalidType.
        """
        return call

    def check_call(self, name: str) -> None:
        """Raise InvalidValue if these windows do not support this method of a definition."""

    def late_inputs(self, call: Call) -> tuple[str, ...]:
        """Return the input columns that late records have in addition to those of results."""
        return ()

    def own_time(self, times: Times) -> dict[str, Column]:
        """Return the time column of a late record by its name, unless it is one of its values."""
        return {times.name: logical(F.col(flat.TIME), times.kind).alias(times.name)}

    def event_time(self) -> Column | None:
        """Return the event time of a record in microseconds, None if it is the time of the row."""
        return None

    def shown(self, names: Sequence[str]) -> list[str]:
        """Return those names of keys or values that are columns of the output."""
        return list(names)

    def resolved(self, names: Names) -> Window:
        """Return the window with its columns spelled as in the schema.

        Raises InvalidValue and InvalidType.
        """
        return self.window

    def spelled(self, names: Names) -> WindowColumns:
        """Return a copy whose window has its columns spelled as in the schema."""
        return replace(self, window=self.resolved(names))

    def leaves(self, schema: T.StructType, time: Column, times: Times) -> list[Column]:
        """Return the columns that each record carries after the leaves of its key; `time` is that of the record."""
        return []

    def of_rows(self, row: Flat, times: Times, tag: Tag) -> list[Column]:
        """Return the columns that identify the window of a row, built from the flat columns.

        They are `window`, and the windows' name if each has its own rows; or `window_end` of aligned windows.
        """
        if self.window.wide:
            return [tag(logical(F.col(flat.START), times.kind), "window_end", {})]
        columns = [tag(times.window(F.col(flat.START), self.stop(row)), "window", {_WINDOW: True})]
        return [*columns, named(self.window.names).alias("windows")] if self.window.names else columns

    def stop(self, row: Flat) -> Column:
        """Return the end of the window of a row, in microseconds."""
        size = self.window.family.fixed_size
        return F.col(flat.STOP) if size is None else F.col(flat.START) + F.lit(size)


@dataclass(frozen=True)
class CountColumns(WindowColumns):
    """The columns of count windows."""

    window: Counting

    def resolved(self, names: Names) -> Counting:
        """Return the window with its order column spelled as in the schema. Raises InvalidValue and InvalidType."""
        if names.streaming:
            return self.window
        return replace(self.window, order_by=_order(names, self.window))

    def of_rows(self, row: Flat, times: Times, tag: Tag) -> list[Column]:
        """Return `window`, null without a time column, and the numbers of the window's first and last record."""
        window = times.no_window
        if times.name:
            first, last = map(F.col, flat.numbered(flat.RESULT, range(2), len(row.results) - 2))
            window = times.window(first, last + 1)
        numbers = F.col(flat.START).alias("first_record"), (F.col(flat.STOP) - 1).alias("last_record")
        return [window.alias("window"), *numbers]


@dataclass(frozen=True)
class SessionColumns(WindowColumns):
    """The columns of session windows."""

    window: Session

    def resolved(self, names: Names) -> Session:
        """Return the session with its gap column spelled as in the schema. Raises InvalidValue and InvalidType."""
        if self.window.gap_column is None:
            return self.window
        return replace(self.window, gap_column=_gaps(names, self.window.gap_column))

    def leaves(self, schema: T.StructType, time: Column, times: Times) -> list[Column]:
        """Return the gap of each record in microseconds, if records carry one."""
        column = self.window.gap_column
        if column is None:
            return []
        if isinstance(schema[column].dataType, T.LongType):
            return [quoted(column)]
        # A calendar interval's length depends on where it begins. Without a time zone, a day always has the same
        # length.
        later = time + quoted(column)
        return [
            F.timestamp_diff("MICROSECOND", time, later) if times.ntz else F.unix_micros(later) - F.unix_micros(time)
        ]


@dataclass(frozen=True)
class UnboundedColumns(WindowColumns):
    """The columns of the unbounded window."""

    window: Unbounded

    def of_rows(self, row: Flat, times: Times, tag: Tag) -> list[Column]:
        """Return `window`, which is null."""
        return [tag(times.no_window, "window", {})]


@dataclass(frozen=True)
class AssignedColumns(WindowColumns):
    """The columns of windows that a function assigns."""

    window: Assigned

    def prepared(self, call: Call) -> Call:
        """Return the call over a DataFrame with one row per record and window. Raises InvalidValue and InvalidType."""
        found = as_sessions(call, self.window)
        if call.declared is not None:
            self.check_call("declare")
        assert call.frame is not None, "who prepares has a DataFrame"
        return replace(found, frame=frame_of(call.frame, self.window, unquoted(call.time)))

    def check_call(self, name: str) -> None:
        """Raise InvalidValue: these windows do not support the calls that come here."""
        raise InvalidValue(
            f"`{name}` is not built for {self.window}, whose state has windows of keys as keys. Use windows that time "
            "decides, such as `hopping` or `by_edges`, or build the query without it."
        )

    def late_inputs(self, call: Call) -> tuple[str, ...]:
        """Return the name of the record's time column; the time of a row here is the start of its window."""
        return (unquoted(call.time),)

    def own_time(self, times: Times) -> dict[str, Column]:
        """Return nothing: the time of the record is one of its values, see `late_inputs`."""
        return {}

    def event_time(self) -> Column:
        """Return the time of the record; the time of a row is the start of its window."""
        return quoted(TIME)

    def shown(self, names: Sequence[str]) -> list[str]:
        """Return the names without those of the columns that `frame_of` adds."""
        return [name for name in names if name not in (START, END, TIME, IS_FIRST, IS_LAST)]

    def resolved(self, names: Names) -> AssignedSessions:
        """Return sessions whose gap is the length of the assigned window."""
        return self.window.sessions

    def spelled(self, names: Names) -> AssignedColumns:
        """Return itself: `prepared` has named the columns that the function reads."""
        return self

    def leaves(self, schema: T.StructType, time: Column, times: Times) -> list[Column]:
        """Return the length of the row's window in microseconds, as the gap of a session."""
        return [quoted(GAP)]

    def stop(self, row: Flat) -> Column:
        """Return the end of the window. A window of length 0 has a gap of 1 microsecond in the state."""
        start, end = list(map(F.col, flat.numbered(flat.KEY, row.keys)))[-2:]
        return F.when(start == end, F.col(flat.START)).otherwise(F.col(flat.STOP))


_COLUMNS: dict[type[Window], type[WindowColumns]] = {
    Assigned: AssignedColumns,
    Counting: CountColumns,
    Session: SessionColumns,
    Unbounded: UnboundedColumns,
}


def columns_of(window: Window) -> WindowColumns:
    """Return the columns of windows of this kind."""
    return _COLUMNS.get(type(window), WindowColumns)(window)


def _order(names: Names, window: Counting) -> str:
    """The name of the column that orders bounded input."""
    if window.order_by is None:
        raise InvalidValue(
            f"bounded input has no order in which records come; got {window}. Name the column that gives it: "
            f'counting({window.size}, advance={window.advance}, order_by="seq").'
        )
    found = names.named(window.order_by, "order column")
    kind_of_type(found.dataType, window.order_by, "order column", names.code(found.name))
    return found.name


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
