"""Convert windows and late rows to flat Arrow tables, which streams and bounded input pass to the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Partials, shared_objects
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernel import Kernel, locating
from slicing.assembly.results import Windows, as_block, in_time, null_if_incomplete, show_window
from slicing.content.block import Block, Shape, place
from slicing.content.intervals import Ending, EndingRecords
from slicing.content.records import Records
from slicing.content.sizes import row_sizes, runs
from slicing.errors import ResultOverflow
from slicing.stages import flat
from slicing.stages.flat import numbered, physical
from slicing.stages.processed import NO_CALLS, FunctionCalls, processed, then_called
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import RefusedRows
from slicing.triggers.trigger import KINDS, MicroBatchTime, Trigger
from slicing.windows.families.family import Family

FRAME_BYTES = 64 << 20
"""The limit in bytes of keys and partials in a batch of rows; columns of Arrow hold 2 GiB."""

ENDING = Ending, EndingRecords
"""The types of rows that have their own ends."""
Rows = TypeVar("Rows", Windows, Block)


def framed(shape: Shape, rows: Rows) -> Iterator[Rows]:
    """Yield the rows in frames of at most `FRAME_BYTES` of keys and partials."""
    block = rows if isinstance(rows, Block) else as_block(rows)
    sizes = row_sizes(shape, block)
    total = sizes * len(rows) if isinstance(sizes, float) else sizes.sum()
    if total <= FRAME_BYTES:
        yield rows
        return
    for start, end in runs(sizes + np.zeros(len(rows)), FRAME_BYTES):
        yield rows.take(np.arange(start, end))


def flat_windows(
    shape: Shape,
    windows: Windows,
    trigger: Trigger = ON_CLOSE,
    revision: int = 0,
    wide: bool = False,
    at: MicroBatchTime | None = None,
    calling: FunctionCalls = NO_CALLS,
) -> pa.Table:
    """Return a row per window, or the rows that a function makes of its records or its results.

    The columns are the leaves of the key, the start in microseconds, and the results; with `wide` the results of all
    aligned windows and their end. If windows fire more than once, also the kind of the firing, the revision, and the
    replaced results. `shape` is that of all families. `at` is the time of the micro-batch, None on bounded input.
    """
    windows = in_time(shape.family.families[windows.family], windows, by_end=wide)
    shape, windows = processed(shape, windows, at, calling.remembered, trigger.drops(windows.kind))
    own = shape.over(shape.family.families[windows.family])
    if wide:
        results = side_by_side(shape, windows)
    else:
        of_rows = _results_of_held if windows.kind == "merged" or own.family.may_be_empty else _results_of_all
        results = of_rows(own, windows)
    if calling.then is not None:
        windows, rows = then_called(calling, own, windows, results, at, trigger.drops(windows.kind))
        results = [_travelling(array, field.kind) for array, field in zip(rows, calling.then.returns, strict=True)]
        if calling.then.spans:
            where = partial(show_window, own, windows)
            results += _results(own.kernels[-1], windows.partials[-1], windows.dictionaries[-1], where)
    columns = key_columns(shape, windows.names.take(pa.array(windows.keys)))
    end = pa.array(windows.ends_by(own.family))
    start = end if wide else pa.array(own.family.window_start(windows.windows))
    columns |= {flat.START: start, flat.STOP: end, flat.FAMILY: _all(len(windows), windows.family)}
    columns |= numbered(flat.RESULT, results)
    if "revision" in trigger.columns:
        kind = pa.repeat(pa.scalar(KINDS.index(windows.kind), pa.int8()), len(windows))
        columns |= {flat.KIND: kind, flat.REVISION: pa.repeat(revision, len(windows))}
    if "old" in trigger.columns:
        columns |= _replaced(shape, windows, wide)
    return pa.table(columns)


def _all(count: int, family: int) -> pa.Array:
    return pa.array(np.full(count, family, np.int32))


def side_by_side(shape: Shape, windows: Windows) -> list[pa.Array]:
    """Return the results of aligned windows, all families in order; null where a window is empty."""
    found = []
    for family, side in windows.by_family(shape.family.families):
        found += _results_of_held(shape.over(family), side)
    return found


def _results_of_all(shape: Shape, windows: Windows) -> list[pa.Array]:
    def lowered(number: int, some: Windows) -> list[pa.Array]:
        where = partial(show_window, shape, some)
        return _results(shape.kernels[number], some.partials[number], some.dictionaries[number], where)

    return _all_results(lambda number: null_if_incomplete(shape, number, windows, partial(lowered, number)), shape)


def _results_of_held(shape: Shape, windows: Windows) -> list[pa.Array]:
    """Return the results of windows, null for windows without records. `lower` is not called for these."""
    there = windows.records > 0
    if there.all():
        return _results_of_all(shape, windows)
    held = windows.take(np.flatnonzero(there))
    rows = pa.array(np.where(there, np.cumsum(there) - 1, 0), mask=~there)
    return [array.take(rows) for array in _results_of_all(shape, held)]


def _replaced(shape: Shape, windows: Windows, wide: bool) -> dict[str, pa.Array]:
    """Return the columns that say whether there was an earlier result, and its values."""
    there = np.zeros(len(windows), dtype=bool) if windows.old is None else windows.old.records > 0
    columns = {flat.REPLACES: pa.array(there)}
    if windows.old is None or not there.any():
        return columns
    own = shape.over(shape.family.families[windows.family])
    old = side_by_side(shape, windows.old) if wide else _results_of_held(own, windows.old)
    return columns | numbered(flat.OLD, old)


def flat_late_partials(
    shape: Shape, refused: RefusedRows[Any], block: Block, family: int = 0, wide: bool = False
) -> pa.Table:
    """Return one row per refused partial of a folded block, with the results of its records alone.

    `shape` is that of the family that refused them, and `family` its number.
    """
    columns = key_columns(shape, block.names.take(pa.array(block.keys)))

    def lowered(number: int) -> list[pa.Array]:
        kernel, partials, dictionary = shape.kernels[number], block.partials[number], block.dictionaries[number]
        return _results(
            kernel, partials, dictionary, lambda row: place(shape, block.names, block.keys[row], block.index[row])
        )

    results = _all_results(lowered, shape)
    columns |= numbered(flat.RESULT, results, family * len(results) if wide else 0)
    columns |= _met(shape.family, refused, block, family)
    return pa.table(columns | {flat.RECORDS: pa.array(block.records)})


def flat_late_records(
    shape: Shape, refused: RefusedRows[Any], records: Records, values: Sequence[Field], family: int = 0
) -> pa.Table:
    """Return one row per refused record, without results. `values` are the fields of the values."""
    columns = key_columns(shape, records.names) | _met(shape.family, refused, records, family)
    columns[flat.TIME] = pa.array(records.times)
    pairs = zip(records.values, values, strict=True)
    return pa.table(columns | numbered(flat.VALUE, [_travelling(array, field.kind) for array, field in pairs]))


def _met(family: Family, refused: RefusedRows[Any], rows: Block | Records, number: int) -> dict[str, pa.Array]:
    slices = rows.index
    missed, count = refused.missed_by(family, rows), len(slices)
    return {
        flat.CAUSE: pa.array(np.full(count, flat.LATE_ROW, np.int32)),
        flat.FAMILY: _all(count, number),
        flat.START: pa.array(family.slice_start(slices)),
        flat.END: pa.array(rows.ends if isinstance(rows, ENDING) else family.slice_start(slices + 1)),
        flat.WATERMARK: pa.array(np.full(count, refused.watermark)),
        flat.TAKEN: pa.array(family.window_start(missed.taken), mask=missed.by_all),
        flat.UNTIL: pa.array(family.window_end(missed.taken), mask=missed.by_all),
        flat.MISSED: pa.array(missed.windows),
    }


def _all_results(results: Callable[[int], list[pa.Array]], shape: Shape) -> list[pa.Array]:
    """Return the arrays that `results` returns for each kernel, in the types passed to the JVM."""
    return [
        _travelling(array, field.kind)
        for number, kernel in enumerate(shape.kernels)
        for array, field in zip(results(number), kernel.results, strict=True)
    ]


def key_columns(shape: Shape, names: pa.Table) -> dict[str, pa.Array]:
    """Return the leaves of keys by the names of their columns."""
    pairs = zip(names.columns, shape.keys, strict=True)
    return numbered(flat.KEY, [_travelling(column, field.kind) for column, field in pairs])


def _results(
    kernel: Kernel, partials: Partials, dictionary: pa.Array | None, where: Callable[[int], str]
) -> list[pa.Array]:
    try:
        if kernel.aggregate.lower is not None and (shared := shared_objects(partials)) is not None:
            rows, numbers = shared
            with locating(lambda row: where(int(rows[row]))):
                found = kernel.results_to_arrow([column[rows] for column in partials], dictionary)
            return [array.take(pa.array(numbers)) for array in found]
        with locating(where):
            return kernel.results_to_arrow(partials, dictionary)
    except ResultOverflow as error:
        # Overflow is rare, so only this path searches for the row: halve the rows until one is left.
        low, high = 0, len(partials[0])
        while high - low > 1:
            middle = (low + high) // 2
            try:
                kernel.results_to_arrow([column[low:middle] for column in partials], dictionary)
                low = middle
            except ResultOverflow:
                high = middle
        raise ResultOverflow(f"{error} Found for {where(low)}.") from None


def _travelling(array: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array | pa.ChunkedArray:
    target = arrow_type(physical(kind))
    return array if array.type == target else array.cast(target)
