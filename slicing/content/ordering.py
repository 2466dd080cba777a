"""The order of records by a column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array


def sorted_by(column: pa.Array) -> Array:
    """Return the rows in the order in which Spark sorts a column: nulls first, NaN last, equal values as before."""
    if pa.types.is_floating(column.type):
        # Arrow would put NaN next to nulls, and would distinguish -0.0 from 0.0.
        rows = np.argsort(np.asarray(column.fill_null(0.0)), kind="stable")
    else:
        rows = np.asarray(pc.sort_indices(column)).astype(np.int64)
    valid = np.asarray(column.is_valid())
    return rows[np.argsort(valid[rows], kind="stable")]
