"""The way of packed rows to the JVM and there into rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

from slicing.stages.packed import COUNT, ROWS, Packed


class ArrowBacked(pd.Series):
    """A column whose lists stay as they are.

    Spark converts a pandas column of lists by `apply`, which would make a Python object of every value. Arrow has the
    type already that Spark wants.
    """

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> ArrowBacked:  # type: ignore[override]
        """Return the same column."""
        return self


class PackedFrame(pd.DataFrame):
    """Packed rows as pandas has them, backed by Arrow, so that they reach Spark without a copy."""

    @property
    def _constructor(self) -> type[PackedFrame]:
        return PackedFrame

    @property
    def _constructor_sliced(self) -> type[ArrowBacked]:
        return ArrowBacked


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Packed rows as the stateful operator yields them."""
    columns = zip(table.column_names, table.columns, strict=True)
    return PackedFrame({name: pd.array(column, pd.ArrowDtype(column.type)) for name, column in columns})


def unpacked(rows: DataFrame, packed: Packed) -> DataFrame:
    """Take the lists apart. A row that counts has none, and nothing comes of it."""
    beside = (f"`{field.name}`" for field in packed.scalars if field.name != COUNT)
    return rows.selectExpr(*beside, f"inline(`{ROWS}`)")
