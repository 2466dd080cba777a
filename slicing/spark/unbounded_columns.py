"""Columns of the unbounded window: its `window` is null."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column

from slicing.spark.query import EMISSION, Query
from slicing.spark.window_columns import WindowColumns
from slicing.windows.unbounded import Unbounded


@dataclass(frozen=True)
class UnboundedColumns(WindowColumns):
    """The columns of the unbounded window."""

    window: Unbounded

    def of_rows(self, query: Query) -> list[Column]:
        """Return `window`, which is null."""
        return [query.no_window.alias("window", metadata={EMISSION: str(query.trigger)})]
