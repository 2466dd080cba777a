"""Packed rows: their way to the JVM without conversion, and their unpacking into rows there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

from slicing.stages.packed import COUNT, ROWS, Packed


class ArrowBacked(pd.Series):
    """A pandas column of Arrow lists that Spark does not convert.

    Spark converts a pandas column of lists by `apply`, which would create a Python object for each value. The Arrow
    type is the right one already.
    """

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> ArrowBacked:  # type: ignore[override]
        """Return the same column, without calling the function."""
        return self


class PackedFrame(pd.DataFrame):
    """Packed rows as a pandas frame that is backed by Arrow, so that they reach Spark without a copy."""

    @property
    def _constructor(self) -> type[PackedFrame]:
        return PackedFrame

    @property
    def _constructor_sliced(self) -> type[ArrowBacked]:
        return ArrowBacked


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return packed rows as the pandas frame that the stateful operator yields."""
    columns = zip(table.column_names, table.columns, strict=True)
    return PackedFrame({name: pd.array(column, pd.ArrowDtype(column.type)) for name, column in columns})


def unpacked(rows: DataFrame, packed: Packed) -> DataFrame:
    """Return one row per element of the packed lists. Rows with counts have no list and yield no row."""
    scalars = (f"`{field.name}`" for field in packed.scalars if field.name != COUNT)
    return rows.selectExpr(*scalars, f"inline(`{ROWS}`)")
