"""Assembled windows as flat Arrow tables, the form in which both streams and bounded input hand them to the JVM."""

from __future__ import annotations

import pyarrow as pa

from slicing.assembly import Windows
from slicing.blocks import Shape
from slicing.errors import ResultOverflow
from slicing.kernel import Kernel, Partials, locating
from slicing.kinds import arrow_type
from slicing.spark.columns import physical
from slicing.spark.query import COUNTERS
from slicing.windows import show_instant


def flat_windows(shape: Shape, windows: Windows) -> pa.Table:
    """One row per window: leaves of the key, `start` in microseconds, results, no counts."""
    keys = windows.names.take(pa.array(windows.keys))
    columns = {f"k{i}": _travelling(keys.column(i), field.kind) for i, field in enumerate(shape.keys)}
    columns["start"] = pa.array(shape.slicing.window_start(windows.windows))
    with locating(lambda row: _place(shape, windows, row)):
        results = [
            (array, field.kind)
            for kernel, partials, dictionary in zip(shape.kernels, windows.partials, windows.dictionaries, strict=True)
            for array, field in zip(_results(shape, windows, kernel, partials, dictionary), kernel.results, strict=True)
        ]
    columns |= {f"r{i}": _travelling(array, kind) for i, (array, kind) in enumerate(results)}
    return pa.table(columns | {"cause": pa.nulls(len(windows), pa.int32())})


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
        raise ResultOverflow(f"{error} Found for {_place(shape, windows, low)}.") from None


def flat_counts(shape: Shape, counts: dict[str, int]) -> pa.Table:
    """One row per count that is not zero; keys and results are null."""
    causes = [cause for cause, name in enumerate(COUNTERS) if counts.get(name)]
    columns = {f"k{i}": _nulls(field.kind, len(causes)) for i, field in enumerate(shape.keys)}
    columns["start"] = pa.array([counts[COUNTERS[cause]] for cause in causes], pa.int64())
    results = [field for kernel in shape.kernels for field in kernel.results]
    columns |= {f"r{i}": _nulls(field.kind, len(causes)) for i, field in enumerate(results)}
    return pa.table(columns | {"cause": pa.array(causes, pa.int32())})


def _nulls(kind: str, count: int) -> pa.Array:
    return pa.nulls(count, arrow_type(physical(kind)))


def _travelling(array: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array | pa.ChunkedArray:
    target = arrow_type(physical(kind))
    return array if array.type == target else array.cast(target)


def _place(shape: Shape, windows: Windows, row: int) -> str:
    key = tuple(windows.names.slice(int(windows.keys[row]), 1).to_pylist()[0].values())
    start, end = (edge(int(windows.windows[row])) for edge in (shape.slicing.window_start, shape.slicing.window_end))
    return f"key {key} in window [{show_instant(start)}, {show_instant(end)})"
