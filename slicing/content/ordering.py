"""The order that a column gives to records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array


def sorted_by(column: pa.Array) -> Array:
    """The rows in the order in which Spark sorts a column: nulls first, NaN last, equal ones as they are."""
    if pa.types.is_floating(column.type):
        # Arrow puts NaN beside nulls, and knows a negative zero.
        rows = np.argsort(np.asarray(column.fill_null(0.0)), kind="stable")
    else:
        rows = np.asarray(pc.sort_indices(column)).astype(np.int64)
    valid = np.asarray(column.is_valid())
    return rows[np.argsort(valid[rows], kind="stable")]
