"""Windows and late rows as flat Arrow tables, the form in which streams and bounded input hand them to the JVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.assembly import Windows
from slicing.blocks import Block, Shape, place
from slicing.eager import Records
from slicing.errors import ResultOverflow
from slicing.kernel import Array, Kernel, Partials, locating
from slicing.kinds import Field, arrow_type
from slicing.lateness import Late
from slicing.slices import Slicing
from slicing.spark.columns import physical
from slicing.spark.late import LATE_CAUSE
from slicing.spark.query import COUNTERS
from slicing.windows import show_instant


def flat_windows(shape: Shape, windows: Windows) -> pa.Table:
    """One row per window: leaves of the key, `start` in microseconds, results, no counts."""
    start = pa.array(shape.slicing.window_start(windows.windows))
    columns = _flat(shape, windows, start, lambda row: _place(shape, windows, row))
    return pa.table(columns | {"cause": pa.nulls(len(windows), pa.int32())})


def flat_late_partials(shape: Shape, late: Late[Any], block: Block) -> pa.Table:
    """One row per partial of a folded block that was refused, with what `block.records` records would have given."""
    start = pa.array(shape.slicing.slice_start(block.slices))
    columns = _flat(shape, block, start, lambda row: place(shape, block.names, block.keys[row], block.slices[row]))
    return pa.table(columns | _met(shape.slicing, late, block.slices) | {"records": pa.array(block.records)})


def flat_late_records(shape: Shape, late: Late[Any], records: Records, values: Sequence[Field]) -> pa.Table:
    """One row per refused record; results are null. `values` are the columns of values."""
    columns = _keys(shape, records.names)
    columns["start"] = pa.array(shape.slicing.slice_start(records.slices))
    results = [field for kernel in shape.kernels for field in kernel.results]
    columns |= {f"r{i}": _nulls(field.kind, len(records.slices)) for i, field in enumerate(results)}
    columns |= _met(shape.slicing, late, records.slices)
    columns["time"] = pa.array(records.times)
    pairs = zip(records.values, values, strict=True)
    return pa.table(columns | {f"v{i}": _travelling(array, field.kind) for i, (array, field) in enumerate(pairs)})


def _met(slicing: Slicing, late: Late[Any], slices: Array) -> dict[str, pa.Array]:
    missed, count = late.missed(slicing, slices), len(slices)
    return {
        "cause": pa.array(np.full(count, LATE_CAUSE, np.int32)),
        "end": pa.array(slicing.slice_start(slices + 1)),
        "watermark": pa.array(np.full(count, late.watermark * 1000)),
        "taken": pa.array(slicing.window_start(missed.taken), mask=missed.by_all),
        "missed": pa.array(missed.windows),
    }


def _flat(shape: Shape, rows: Windows | Block, start: pa.Array, where: Callable[[int], str]) -> dict[str, pa.Array]:
    """Keys, `start` and results; `where(row)` says in an error which window or slice a row is of."""
    with locating(where):
        results = [
            (array, field.kind)
            for kernel, partials, dictionary in zip(shape.kernels, rows.partials, rows.dictionaries, strict=True)
            for array, field in zip(_results(kernel, partials, dictionary, where), kernel.results, strict=True)
        ]
    columns = _keys(shape, rows.names.take(pa.array(rows.keys))) | {"start": start}
    return columns | {f"r{i}": _travelling(array, kind) for i, (array, kind) in enumerate(results)}


def _keys(shape: Shape, names: pa.Table) -> dict[str, pa.Array]:
    return {f"k{i}": _travelling(names.column(i), field.kind) for i, field in enumerate(shape.keys)}


def _results(
    kernel: Kernel, partials: Partials, dictionary: pa.Array | None, where: Callable[[int], str]
) -> list[pa.Array]:
    try:
        return kernel.results_to_arrow(partials, dictionary)
    except ResultOverflow as error:
        # Rare, so the way of the many pays nothing for it: halve the rows until one is left.
        low, high = 0, len(partials[0])
        while high - low > 1:
            middle = (low + high) // 2
            try:
                kernel.results_to_arrow([column[low:middle] for column in partials], dictionary)
                low = middle
            except ResultOverflow:
                high = middle
        raise ResultOverflow(f"{error} Found for {where(low)}.") from None


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
