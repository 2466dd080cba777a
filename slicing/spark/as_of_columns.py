"""The columns of rows as of instants: their results, and the starts of their windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from slicing.errors import InvalidValue
from slicing.spark.columns import logical
from slicing.spark.query import Query
from slicing.stages import flat
from slicing.stages.as_of import BEGIN, HELD

START, STARTS = "start", "starts"
"""The column with the start of the window, and that with the starts of named windows by name."""


def results_as_of(query: Query, names: Sequence[str]) -> Iterator[Column]:
    """Yield the results by these names, null for windows that have none."""
    columns = query.result_columns(flat.RESULT)
    each = len(columns) // query.widths
    for number, (name, column) in enumerate(zip(names, columns, strict=True)):
        yield F.when(F.col(f"{HELD}{number // each}"), column).alias(name)


def starts_column(query: Query) -> str:
    """Return the name of the column with the starts of windows."""
    return START if query.window.names is None else STARTS


def starts_as_of(query: Query) -> Column:
    """Return the start of the window, or a struct of those of named windows."""
    names = query.window.names or (START,)
    found = [logical(F.col(f"{BEGIN}{number}"), query.time_kind).alias(name) for number, name in enumerate(names)]
    return found[0] if query.window.names is None else F.struct(*found).alias(STARTS)


def check_free(names: Sequence[str], added: Sequence[str], what: str) -> None:
    """Raise InvalidValue if one of the columns that rows as of an instant add is there already."""
    there = set(map(str.casefold, names))
    for name in added:
        if name.casefold() in there:
            raise InvalidValue(
                f"rows as of an instant have a column `{name}` of their own, and so has {what}. Rename it."
            )
