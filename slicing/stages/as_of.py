"""Convert windows as of instants to flat columns: of the rows of a spine, and of the keys of a lookup."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.arrow import cast
from slicing.aggregates.results import of_nothing
from slicing.assembly.results import Windows
from slicing.content.block import Shape
from slicing.stages.flat import RESULT, numbered
from slicing.stages.output import side_by_side

HELD, BEGIN = "h", "b"
"""Prefixes of numbered columns: whether a window has results, without which a struct is null and not only its fields;
and its start in microseconds."""


def held_columns(held: Sequence[Array]) -> dict[str, pa.Array]:
    """Return the columns that tell of the windows of each family whether they have results."""
    return numbered(HELD, map(pa.array, held))


def columns_as_of(shape: Shape, windows: Windows, held: Sequence[Array]) -> dict[str, pa.Array]:
    """Return the starts and the results of aligned windows; those without records have the results of nothing."""
    aligned = (windows, *windows.aligned)
    records = [each.records > 0 for each in aligned for kernel in shape.kernels for _ in kernel.results]
    nothing = [array for _ in aligned for kernel in shape.kernels for array in of_nothing(kernel)]
    results = list(map(_filled, side_by_side(shape, windows), records, nothing))
    starts = [pa.array(each.windows) for each in aligned]
    return held_columns(held) | numbered(RESULT, results) | numbered(BEGIN, starts)


def _filled(results: pa.Array, held: Array, nothing: pa.Array) -> pa.Array:
    """Return results with that of no records where a window has none."""
    both = pa.concat_arrays([results, cast(nothing, results.type)])
    return both.take(pa.array(np.where(held, np.arange(len(results)), len(results))))
