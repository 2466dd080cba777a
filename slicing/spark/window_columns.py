"""The columns of a kind of windows: which it reads of the input, and which say what window a row is of."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column

from slicing.spark.names import Names
from slicing.spark.query import Query
from slicing.windows.window import Window


@dataclass(frozen=True)
class WindowColumns:
    """Columns of windows that time decides; a subclass knows the type of its `window`."""

    window: Window

    def resolved(self, names: Names) -> Window:
        """Return the window with the columns that it names as the schema spells them.

        Raises InvalidValue and InvalidType.
        """
        return self.window

    def leaves(self, query: Query) -> list[Column]:
        """Return what each record carries after the leaves of its key."""
        return []

    def of_rows(self, query: Query) -> list[Column]:
        """Return the columns that identify the window of a row, from the flat columns."""
        return query.columns_by_time()
