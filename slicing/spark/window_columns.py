"""The columns of a kind of windows: those read from the input, and those that identify the window of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from slicing.spark.columns import logical
from slicing.spark.names import Names
from slicing.spark.query import Query
from slicing.stages import flat
from slicing.windows.window import Window

if TYPE_CHECKING:
    from slicing.spark.resolution import Call


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

    def own_time(self, query: Query) -> dict[str, Column]:
        """Return the time column of a late record by its name, unless it is one of its values."""
        return {query.time: logical(F.col(flat.TIME), query.time_kind).alias(query.time)}

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

    def leaves(self, query: Query) -> list[Column]:
        """Return the columns that each record carries after the leaves of its key."""
        return []

    def of_rows(self, query: Query) -> list[Column]:
        """Return the columns that identify the window of a row, built from the flat columns."""
        return query.columns_by_time()
