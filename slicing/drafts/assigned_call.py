"""A call of windows that a function assigns, as one of sessions: start and end of a window become part of the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slicing.aggregates.aggregate import EVENT_TIME, Bound, Struct
from slicing.drafts.call import Call
from slicing.errors import InvalidValue, excerpt
from slicing.windows.assigned import Assigned

START, END = "__window_start", "__window_end"
"""The two key columns that distinguish the windows of a key."""
AT, TIME = "__window_time", "__record_time"
"""The start of the window as a timestamp, and the record's own time in microseconds."""


def as_sessions(call: Call, window: Assigned) -> Call:
    """Return the call of sessions, one for each assigned window of a key. Raises InvalidValue."""
    if not isinstance(call.time, str):
        raise InvalidValue(
            f"`time` of {window} is the name of a column; got {excerpt(call.time)}. Compute it first, by "
            "`withColumn`, and name it."
        )
    return replace(call, keys=(*call.keys, START, END), window=window.sessions, time=AT, named=_results_of(call.named))


def _results_of(results: Mapping[str, Bound | Struct]) -> dict[str, Bound | Struct]:
    """The results with EVENT_TIME replaced by the record's time; the row's time is its window's start."""
    return {name: _by_column(result) for name, result in results.items()}


def _by_column(result: Bound | Struct) -> Bound | Struct:
    if isinstance(result, Struct):
        return replace(result, results=_results_of(result.results))
    return replace(result, columns=tuple(TIME if _is_time(column) else column for column in result.columns))


def _is_time(column: Any) -> bool:
    return isinstance(column, str) and column == EVENT_TIME
