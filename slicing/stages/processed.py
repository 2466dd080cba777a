"""Windows with records become the rows of the user's function, before they are flat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.aggregates.records import RecordsKernel
from slicing.assembly.results import Windows, show_window
from slicing.content.block import Shape
from slicing.process.context import Context, Span, instant
from slicing.process.function import Firing, Process
from slicing.triggers.trigger import MicroBatchTime

NO_KEY = "(all)"
"""The name of the key field of a query without keys."""


class _Made(Kernel):
    """The kernel of rows that a function has returned; partials are their numbers, the dictionary has their columns."""

    def results_to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        assert dictionary is not None
        columns: list[pa.Array] = dictionary.take(pa.array(partials[0])).flatten()
        return columns


def processed(shape: Shape, windows: Windows, at: MicroBatchTime | None) -> tuple[Shape, Windows]:
    """Return windows of records as the rows of their function, and their shape; other windows as they are.

    Retractions have no records. Raises FunctionFailed, with key and window, for a function that raises.
    """
    kernel = shape.kernels[0] if shape.kernels else None
    if not isinstance(kernel, RecordsKernel) or windows.kind == "merged":
        return shape, windows
    own = shape.over(shape.family.families[windows.family])
    windows = _whole(own, windows)
    with locating(lambda number: show_window(own, windows, number)):
        call: Process = kernel.aggregate.call
        (first, end), records = windows.partials[0], windows.dictionaries[0]
        context = Context(windows.kind, *_times(at))
        numbers, columns = call.rows(records, first, end, _firings(own, windows, call), context)
    rows = pa.StructArray.from_arrays(columns, [f"r{i}" for i in range(len(columns))])
    made = windows.take(numbers)
    partials, dictionaries = [[np.arange(len(numbers))], *made.partials[1:]], [rows, *made.dictionaries[1:]]
    kernels = (_Made(kernel.label, kernel.aggregate), *shape.kernels[1:])
    return replace(shape, kernels=kernels), replace(made, partials=partials, dictionaries=dictionaries)


def _whole(shape: Shape, windows: Windows) -> Windows:
    """The windows of which all records have the columns of the function, as they began after these were asked for."""
    since = shape.since[0] if shape.since else None
    if since is None:
        return windows
    return windows.take(np.flatnonzero(shape.family.window_start(windows.windows) >= since))


def _times(at: MicroBatchTime | None) -> tuple[datetime | None, datetime | None]:
    """The watermark and the clock of a micro-batch, None for those that there are not yet."""
    watermark, clock = (0, 0) if at is None else (at.watermark, at.clock)
    return instant(watermark) if watermark else None, instant(clock) if clock else None


def _firings(shape: Shape, windows: Windows, call: Process) -> Iterator[Firing]:
    keys = _keys(shape, windows.names)
    for key, window in zip(windows.keys.tolist(), _spans(shape, windows, call), strict=True):
        yield keys[key], window


def _keys(shape: Shape, names: pa.Table) -> list[tuple[object, ...]]:
    """The values of key columns, of all keys by their codes; structs have their fields one by one."""
    if shape.keys[0].name == NO_KEY:
        return [()] * len(names)
    return list(zip(*(column.to_pylist() for column in names.columns), strict=True))


def _spans(shape: Shape, windows: Windows, call: Process) -> Iterator[Span | None]:
    family, zoned = shape.family, call.zoned
    if not call.window.closes:
        yield from [None] * len(windows)
        return
    starts, ends = family.window_start(windows.windows).tolist(), windows.ends_by(family).tolist()
    if not call.window.counts:
        yield from (Span(start, end, has_zone=zoned) for start, end in zip(starts, ends, strict=True))
        return
    # Of counted windows the last kernel, if there is a time, has their first and last event time.
    times = (
        [column.tolist() for column in windows.partials[-1]] if len(windows.partials) > 1 else [[0] * len(starts)] * 2
    )
    for first, last, start, end in zip(*times, starts, ends, strict=True):
        yield Span(first, last + 1, start, end - 1, zoned)
