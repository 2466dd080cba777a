"""Assembled windows as flat Arrow tables, the form in which both streams and bounded input hand them to the JVM."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slicing.assembly import Windows, show_window
from slicing.blocks import Shape
from slicing.emission import KINDS, ON_CLOSE, WITH_OLD, Emission
from slicing.errors import ResultOverflow
from slicing.kernel import Kernel, Partials, locating
from slicing.kinds import arrow_type
from slicing.spark.columns import physical
from slicing.spark.query import COUNTERS


def flat_windows(shape: Shape, windows: Windows, emission: Emission = ON_CLOSE, revision: int = 0) -> pa.Table:
    """One row per window: leaves of the key, `start` in microseconds, results, no counts.

    Where windows go out more than once also why, the revision, and the results that are replaced.
    """
    keys = windows.names.take(pa.array(windows.keys))
    columns = {f"k{i}": _travelling(keys.column(i), field.kind) for i, field in enumerate(shape.keys)}
    columns["start"] = pa.array(shape.slicing.window_start(windows.windows))
    columns |= {f"r{i}": array for i, array in enumerate(_all_results(shape, windows))}
    if not emission.once:
        kind = pa.repeat(pa.scalar(KINDS.index(windows.kind), pa.int8()), len(windows))
        columns |= {"kind": kind, "revision": pa.repeat(revision, len(windows))}
    if emission.what == WITH_OLD:
        columns |= _replaced(shape, windows)
    return pa.table(columns | {"cause": pa.nulls(len(windows), pa.int32())})


def _all_results(shape: Shape, windows: Windows) -> list[pa.Array]:
    with locating(lambda row: show_window(shape, windows, row)):
        return [
            _travelling(array, field.kind)
            for kernel, partials, dictionary in zip(shape.kernels, windows.partials, windows.dictionaries, strict=True)
            for array, field in zip(_results(shape, windows, kernel, partials, dictionary), kernel.results, strict=True)
        ]


def _replaced(shape: Shape, windows: Windows) -> dict[str, pa.Array]:
    """Whether there was a result before, and what it was; `lower` is not asked for the result of no records."""
    there = np.zeros(len(windows), dtype=bool) if windows.old is None else windows.old.records > 0
    rows = pa.array(np.where(there, np.cumsum(there) - 1, 0), mask=~there)
    columns = {"replaces": pa.array(there)}
    if windows.old is not None and there.any():
        results = [array.take(rows) for array in _all_results(shape, windows.old.take(np.flatnonzero(there)))]
    else:
        results = [_nulls(field.kind, len(windows)) for kernel in shape.kernels for field in kernel.results]
    return columns | {f"o{i}": array for i, array in enumerate(results)}


def _results(
    shape: Shape, windows: Windows, kernel: Kernel, partials: Partials, dictionary: pa.Array | None
) -> list[pa.Array]:
    try:
        return kernel.results_to_arrow(partials, dictionary)
    except ResultOverflow as error:
        # Rare, so the way of the many pays nothing for it: halve the rows until one is left.
        low, high = 0, len(windows)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                kernel.results_to_arrow([column[low:middle] for column in partials], dictionary)
                low = middle
            except ResultOverflow:
                high = middle
        raise ResultOverflow(f"{error} Found for {show_window(shape, windows, low)}.") from None


def flat_counts(shape: Shape, counts: dict[str, int], emission: Emission = ON_CLOSE) -> pa.Table:
    """One row per count that is not zero; keys and results are null."""
    causes = [cause for cause, name in enumerate(COUNTERS) if counts.get(name)]
    columns = {f"k{i}": _nulls(field.kind, len(causes)) for i, field in enumerate(shape.keys)}
    columns["start"] = pa.array([counts[COUNTERS[cause]] for cause in causes], pa.int64())
    results = [field for kernel in shape.kernels for field in kernel.results]
    columns |= {f"r{i}": _nulls(field.kind, len(causes)) for i, field in enumerate(results)}
    if not emission.once:
        columns |= {"kind": pa.nulls(len(causes), pa.int8()), "revision": pa.nulls(len(causes), pa.int64())}
    if emission.what == WITH_OLD:
        columns |= {"replaces": pa.nulls(len(causes), pa.bool_())}
        columns |= {f"o{i}": _nulls(field.kind, len(causes)) for i, field in enumerate(results)}
    return pa.table(columns | {"cause": pa.array(causes, pa.int32())})


def _nulls(kind: str, count: int) -> pa.Array:
    return pa.nulls(count, arrow_type(physical(kind)))


def _travelling(array: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array | pa.ChunkedArray:
    target = arrow_type(physical(kind))
    return array if array.type == target else array.cast(target)
