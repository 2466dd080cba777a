"""The columns of a kind of windows: which it reads of the input, and which say what window a row is of."""

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
    """Columns of windows that time decides; a subclass knows the type of its `window`."""

    window: Window

    def prepared(self, call: Call) -> Call:
        """Return the call over the DataFrame that these windows read: the same, if they need no other.

        Raises InvalidValue and InvalidType.
        """
        return call

    def check_call(self, name: str) -> None:
        """Refuse a call of a definition that these windows do not have. Raises InvalidValue."""

    def late_inputs(self, call: Call) -> tuple[str, ...]:
        """Return the columns that a late record has besides those of results."""
        return ()

    def own_time(self, query: Query) -> dict[str, Column]:
        """Return the time of a late record by its name, if it is not among its values."""
        return {query.time: logical(F.col(flat.TIME), query.time_kind).alias(query.time)}

    def shown(self, names: Sequence[str]) -> list[str]:
        """Return those of some keys or values that rows, and late records, have."""
        return list(names)

    def resolved(self, names: Names) -> Window:
        """Return the window with the columns that it names as the schema spells them.

        Raises InvalidValue and InvalidType.
        """
        return self.window

    def spelled(self, names: Names) -> WindowColumns:
        """Return these with the columns that the window names as the schema spells them."""
        return replace(self, window=self.resolved(names))

    def leaves(self, query: Query) -> list[Column]:
        """Return what each record carries after the leaves of its key."""
        return []

    def of_rows(self, query: Query) -> list[Column]:
        """Return the columns that identify the window of a row, from the flat columns."""
        return query.columns_by_time()
