"""Selects the `WindowColumns` of each kind of windows; kinds without an entry use the columns of time windows."""

from __future__ import annotations

from slicing.spark.assigned_columns import AssignedColumns
from slicing.spark.count_columns import CountColumns
from slicing.spark.session_columns import SessionColumns
from slicing.spark.unbounded_columns import UnboundedColumns
from slicing.spark.window_columns import WindowColumns
from slicing.windows.assigned import Assigned
from slicing.windows.counting import Counting
from slicing.windows.session import Session
from slicing.windows.unbounded import Unbounded
from slicing.windows.window import Window

_COLUMNS: dict[type[Window], type[WindowColumns]] = {
    Assigned: AssignedColumns,
    Counting: CountColumns,
    Session: SessionColumns,
    Unbounded: UnboundedColumns,
}


def columns_of(window: Window) -> WindowColumns:
    """Return the columns of windows of this kind."""
    return _COLUMNS.get(type(window), WindowColumns)(window)
