"""Convert windows that fire to the arguments of users' functions: key values, and bounds as datetimes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from slicing.assembly.results import Windows
from slicing.content.block import Shape
from slicing.process.context import Context, Firing, Span, instant
from slicing.process.function import WindowFunction
from slicing.triggers.trigger import MicroBatchTime

NO_KEY = "(all)"
"""The name of the key field of a query without keys."""


def context_of(windows: Windows, at: MicroBatchTime | None) -> Context:
    """Return the context of the firings of a micro-batch; `at` is None on bounded input."""
    watermark, clock = (0, 0) if at is None else (at.watermark, at.clock)
    return Context(windows.kind, moment(watermark), moment(clock))


def moment(microseconds: int) -> datetime | None:
    """Return a watermark or a clock as a datetime, None if it is 0, that is unknown."""
    return instant(microseconds) if microseconds else None


def firings_of(shape: Shape, windows: Windows, function: WindowFunction, at: MicroBatchTime | None) -> Iterator[Firing]:
    """Yield the firing of each row of windows; `shape` is that of their family."""
    own, clock = function.window.own_keys, 0 if at is None else at.clock
    keys = _keys(shape, windows)
    by_clock = not function.window.closes or function.window.counts
    rows = zip(windows.keys.tolist(), windows.windows.tolist(), _spans(shape, windows, function), strict=True)
    for key, number, window in rows:
        at_time = clock if window is None or by_clock else window.end_us
        yield Firing(keys[key][: len(keys[key]) - own], window, number, windows.family, at_time)


def _keys(shape: Shape, windows: Windows) -> list[tuple[object, ...]]:
    """Return the values of each key, by its code; the fields of structs are separate values."""
    if shape.keys[0].name == NO_KEY:
        return [()] * len(windows.names)
    return list(zip(*(column.to_pylist() for column in windows.names.columns), strict=True))


def _spans(shape: Shape, windows: Windows, function: WindowFunction) -> Iterator[Span | None]:
    family, zoned = shape.family, function.zoned
    if not function.window.closes:
        yield from [None] * len(windows)
        return
    if function.window.own_keys:  # the keys have the assigned start and end, also for windows without a length
        start, end = (windows.names.column(at).to_pylist() for at in (-2, -1))
        yield from (Span(start[key], end[key], has_zone=zoned) for key in windows.keys.tolist())
        return
    starts, ends = family.window_start(windows.windows).tolist(), windows.ends_by(family).tolist()
    if not function.window.counts:
        yield from (Span(start, end, has_zone=zoned) for start, end in zip(starts, ends, strict=True))
        return
    times = [column.tolist() for column in windows.partials[-1]] if function.spans else [[0] * len(starts)] * 2
    for first, last, start, end in zip(*times, starts, ends, strict=True):
        yield Span(first, last + 1, start, end - 1, zoned)
