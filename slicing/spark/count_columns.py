"""Columns of count windows: the column that orders bounded input, and the record numbers of each window."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from slicing.errors import InvalidValue
from slicing.spark.columns import kind_of_type, logical
from slicing.spark.names import Names
from slicing.spark.query import Query
from slicing.spark.window_columns import WindowColumns
from slicing.stages import flat
from slicing.windows.counting import Counting


@dataclass(frozen=True)
class CountColumns(WindowColumns):
    """The columns of count windows."""

    window: Counting

    def resolved(self, names: Names) -> Counting:
        """Return the window with its order column spelled as in the schema. Raises InvalidValue and InvalidType."""
        if names.streaming:
            return self.window
        return replace(self.window, order_by=_order(names, self.window))

    def of_rows(self, query: Query) -> list[Column]:
        """Return `window`, null without a time column, and the numbers of the window's first and last record."""
        window = query.no_window
        if query.time:
            ends = flat.numbered(flat.RESULT, range(2), len(query.results()) - 2)
            first, last = map(F.col, ends)
            start, end = (logical(column, query.time_kind) for column in (first, last + 1))
            window = F.struct(start.alias("start"), end.alias("end"))
        numbers = F.col(flat.START).alias("first_record"), (F.col(flat.STOP) - 1).alias("last_record")
        return [window.alias("window"), *numbers]


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
