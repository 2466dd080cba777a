"""Windows that a function assigns to each record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicing.column_names import unquoted
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, check_takes, excerpt, raised
from slicing.windows.families.family import Family
from slicing.windows.session import Session
from slicing.windows.time.durations import show_instant
from slicing.windows.time.instants import microseconds_of
from slicing.windows.window import Window

Interval = tuple[int, int]
GAP = "__window_gap"
"""The column with the length of a window, in microseconds."""
IS_FIRST, IS_LAST = "__window_is_first", "__window_is_last"
"""Columns of a copy of a record, 1 or 0: whether its window is the first, or the last, of the record's to end."""
_REMEDY = (
    "Return a list of pairs of instants, each with start <= end, and an empty list for a record in no window; then "
    "start again: the micro-batch is repeated."
)


@dataclass(frozen=True)
class Assigned(Window):
    """The result of `assigned_by`. `values` are the columns whose values the function gets in addition to the time."""

    function: Callable[..., Any]
    values: tuple[str, ...] = ()

    alone = "as a function assigns them"
    own_keys = 2
    keeps = "keeps partials of whole windows"

    @property
    def family(self) -> Family:
        """Refused: only the function knows which windows exist. Raises InvalidValue."""
        raise InvalidValue(
            f"which windows {self} makes is decided by its records. Ask its rows, or call `.of(time, *values)`."
        )

    @property
    def cost(self) -> str:
        """Return the cost of the windows, in a sentence."""
        return (
            f"{self}: every record is copied into each of its windows before the shuffle, R times, and a window keeps "
            "a partial of its own: nothing is shared. Windows that time decides cost one copy and one write."
        )

    def of(self, time: int, *values: Any) -> list[Interval]:
        """Return the windows of a record, each once, `[start, end)` in microseconds.

        Raises FunctionFailed, naming the record.
        """
        try:
            return list(dict.fromkeys(self._interval(each) for each in self.function(time, *values)))
        except Exception as error:
            with_values = f" with {', '.join(map(excerpt, values))}" if values else ""
            raise FunctionFailed(
                f"`{self.name}` gives the windows of a record as [(start, end), ...]; of the record at "
                f"{show_instant(time)}{with_values}: {raised(error)}. {_REMEDY}"
            ) from error

    def _interval(self, given: Any) -> Interval:
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise InvalidType(f"a window is a pair of its start and its end; got {excerpt(given)}")
        start, end = map(microseconds_of, given)
        if end < start:
            raise InvalidValue(f"a window does not end before it starts; got {excerpt(given)}")
        return start, end

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def sessions(self) -> AssignedSessions:
        """Return the sessions that run these windows."""
        return AssignedSessions(gap_column=GAP, of=self)

    def __repr__(self) -> str:
        return f"assigned_by({self.name}{f', columns={list(self.values)}' if self.values else ''})"


@dataclass(frozen=True)
class AssignedSessions(Session):
    """The sessions that run assigned windows. Start and end of a window are part of the key, so no two windows merge.

    They print as the windows that run as them: messages are about these.
    """

    of: Assigned = field(kw_only=True)

    alone, keeps = Assigned.alone, Assigned.keeps
    merges = False

    @property
    def plain(self) -> Session:
        """Return the same sessions without the function, as tasks need them."""
        return Session(self.gap, self.gap_column)

    def __repr__(self) -> str:
        return repr(self.of)


def assigned_by(function: Callable[..., Any], columns: Sequence[str] | str = ()) -> Assigned:
    """Return windows that `function(time, *values)` assigns to each record, a list of `(start, end)`.

    `time` is the event time of the record in microseconds since 1970 in UTC, and `values` are the values of `columns`.
    Starts and ends are microseconds since 1970, or datetimes or ISO text with a zone; ends are exclusive. Equal
    intervals of a key are one window. A window whose end equals its start holds the records assigned to it, and closes
    like a window of one microsecond. A record without windows is counted as `no_window`. The function must be
    deterministic, or a repeated micro-batch gives other windows. A record is late for each of its windows that has
    closed, counts in the others, and has a late row for each, with `missed` 1. Windows of a key never merge, so a
    trigger needs no `on_merge`. Triggers that count or choose by key, not by window, are refused, and so are
    `on_change()` and `ends=True`.

    Cost: one call and R copies of each record before the shuffle, and R writes; no slices are shared. `hopping`,
    calendar windows and `by_edges` are cheaper where time alone determines the windows. Raises InvalidType.

    >>> assigned_by(lambda time: [(time, time + 1000)]).of(5)
    [(5, 1005)]
    """
    if not callable(function):
        raise InvalidType(
            f"`assigned_by` takes a function (time, *values) -> [(start, end), ...]; got {excerpt(function)}. "
            "Write for example `assigned_by(lambda time: [(time, time + 60_000_000)])`."
        )
    names = tuple(columns) if isinstance(columns, (list, tuple)) else (columns,)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise InvalidType(
            f"`columns` are names of columns, whose values the function gets; got {excerpt(wrong[0])}. "
            "Compute an expression before, by `withColumn`, and name it."
        )
    check_takes(function, "the function of `assigned_by`", "time", *names)
    return Assigned(function, tuple(map(unquoted, names)))
