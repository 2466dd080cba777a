"""The way of packed rows to the JVM and there into rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

from slicing.stages import flat
from slicing.stages.packed import Packed

PLACE = "place"


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
    """Take the lists apart: a row for each of their values, null where a list has none."""
    scalars = [f"`{field.name}`" for field in packed.scalars]
    others = [f"`{field.name}`" for field in packed.lists if field.name != flat.START]
    placed = rows.selectExpr(*scalars, *others, f"posexplode(`{flat.START}`) AS (`{PLACE}`, `{flat.START}`)")
    values = (f"get({name}, `{PLACE}`) AS {name}" for name in others)
    return placed.selectExpr(*scalars, f"`{flat.START}`", *values)
