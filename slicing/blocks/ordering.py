"""The order that a column gives to records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array


def sorted_by(column: pa.Array) -> Array:
    """The rows in the order in which Spark sorts a column: nulls first, NaN last, equal ones as they are."""
    if not pa.types.is_floating(column.type):
        return np.asarray(pc.sort_indices(column, null_placement="at_start")).astype(np.int64)
    # Arrow puts NaN beside nulls.
    rows = np.argsort(np.asarray(column.fill_null(0.0)), kind="stable")
    null = np.asarray(column.is_null())
    return rows[np.argsort(~null[rows], kind="stable")]
