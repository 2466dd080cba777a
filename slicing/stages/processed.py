"""Call the user's function for windows: for their records (`process`), or for their results (`then`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Partials
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.kernel import Kernel, locating
from slicing.aggregates.records import RecordsKernel
from slicing.aggregates.results import Nesting, named_results
from slicing.assembly.partitions import too_large, window_limit
from slicing.assembly.results import Windows, show_window
from slicing.content.block import Shape
from slicing.errors import RowFailure, TooLarge
from slicing.process.function import Process, Then
from slicing.process.remembered import FunctionStates
from slicing.stages.firings import context_of, firings_of
from slicing.triggers.trigger import FINAL, MicroBatchTime


@dataclass(frozen=True)
class FunctionCalls:
    """The settings for calls of functions: `then` with the nesting of its results, if given, and the states."""

    then: Then | None = None
    nesting: Nesting = ()
    remembered: FunctionStates | None = None


NO_CALLS = FunctionCalls()


class _Made(Kernel):
    """The kernel of rows returned by a function: partials are row numbers, and the dictionary has the rows."""

    def results_to_arrow(self, partials: Partials, dictionary: pa.Array | None) -> list[pa.Array]:
        assert dictionary is not None
        columns: list[pa.Array] = dictionary.take(pa.array(partials[0])).flatten()
        return columns


def processed(
    shape: Shape,
    windows: Windows,
    at: MicroBatchTime | None,
    remembered: FunctionStates | None = None,
    purged: bool = False,
) -> tuple[Shape, Windows]:
    """Return the rows that the function makes of windows of records, and their shape. Other windows are unchanged.

    Retractions are unchanged, too: they have no records. `purged` says whether this firing drops the records. Raises
    FunctionFailed, with key and window, if the function raises.
    """
    kernel = shape.kernels[0] if shape.kernels else None
    if not isinstance(kernel, RecordsKernel) or windows.kind == "merged":
        return shape, windows
    own = shape.over(shape.family.families[windows.family])
    _fill(remembered)
    windows = _in_order(own, _held(own, _whole(own, windows)), remembered)
    call: Process = kernel.aggregate.call
    (first, end), records = windows.partials[0], windows.dictionaries[0]
    with locating(lambda number: show_window(own, windows, number)):
        _check_sizes(kernel, windows)
        context = context_of(windows, at)
        firings = firings_of(own, windows, call, at)
        numbers, columns = call.rows(records, first, end, firings, context, remembered)
    _close(own, windows, call, at, remembered, purged)
    rows = pa.StructArray.from_arrays(columns, [f"r{i}" for i in range(len(columns))])
    made = windows.take(numbers)
    partials, dictionaries = [[np.arange(len(numbers))], *made.partials[1:]], [rows, *made.dictionaries[1:]]
    kernels = (_Made(kernel.label, kernel.aggregate), *shape.kernels[1:])
    return replace(shape, kernels=kernels), replace(made, partials=partials, dictionaries=dictionaries)


def _check_sizes(kernel: RecordsKernel, windows: Windows) -> None:
    """Raise RowFailure, with the number of the window, if the records of a window exceed the memory limit."""
    (first, end), records, limit = windows.partials[0], windows.dictionaries[0], window_limit(kernel.aggregate)
    if kernel.aggregate.by_parts or not len(windows) or records is None or records.nbytes <= limit:
        return
    sizes = kernel.sizes([first, end], records)
    number = int(sizes.argmax())
    if sizes[number] > limit:
        count = int(end[number] - first[number])
        raise RowFailure(TooLarge, *too_large(kernel.aggregate, float(sizes[number]), count), number)


def then_called(
    calling: FunctionCalls,
    shape: Shape,
    windows: Windows,
    results: Sequence[pa.Array],
    at: MicroBatchTime | None,
    purged: bool = False,
) -> tuple[Windows, list[pa.Array]]:
    """Return the rows that `then` makes of windows and their results; nulls for retractions. Otherwise as `processed`.

    `shape` is that of their family, and `results` are in the types of flat rows.
    """
    then, remembered = calling.then, calling.remembered
    assert then is not None, "who asks has one"
    if windows.kind == "merged":
        return windows, [pa.nulls(len(windows), arrow_type(field.kind)) for field in then.returns]
    _fill(remembered)
    order = _order(shape, windows, remembered)
    windows, values = windows.take(order), named_results(shape.kernels, results, calling.nesting).take(pa.array(order))
    with locating(lambda number: show_window(shape, windows, number)):
        firings = firings_of(shape, windows, then, at)
        numbers, columns = then.rows(values, firings, context_of(windows, at), remembered)
    _close(shape, windows, then, at, remembered, purged)
    return windows.take(numbers), columns


def _fill(remembered: FunctionStates | None) -> None:
    """Load the states before the first call: `clear` is called for forgotten keys, and no firing has its errors."""
    if remembered is not None:
        remembered.fill()


def _close(
    shape: Shape,
    windows: Windows,
    call: Process | Then,
    at: MicroBatchTime | None,
    remembered: FunctionStates | None,
    purged: bool,
) -> None:
    """Clear the states of purged windows, and of windows that fire only once: on bounded input, and count windows."""
    if remembered is not None and purged:
        remembered.clear_of(firings_of(shape, windows, call, at), context_of(windows, at))
    if remembered is not None and (at is None or call.window.counts):
        remembered.clear(lambda row: True, context_of(replace(windows, kind=FINAL), at))


def _in_order(shape: Shape, windows: Windows, remembered: FunctionStates | None) -> Windows:
    return windows if remembered is None else windows.take(_order(shape, windows, remembered))


def _order(shape: Shape, windows: Windows, remembered: FunctionStates | None) -> np.ndarray:
    """Return the order of calls, `int64[n]`: by the ends and starts of windows if there are states."""
    if remembered is None:
        return np.arange(len(windows))
    return np.lexsort((shape.family.window_start(windows.windows), windows.ends_by(shape.family)))


def _held(shape: Shape, windows: Windows) -> Windows:
    """Return the windows with records; a function is not called for others."""
    return windows.take(np.flatnonzero(windows.records > 0)) if shape.family.may_be_empty else windows


def _whole(shape: Shape, windows: Windows) -> Windows:
    """Return the windows that began after the function's columns were added: all of their records have them."""
    since = shape.since[0] if shape.since else None
    if since is None:
        return windows
    return windows.take(np.flatnonzero(shape.family.window_start(windows.windows) >= since))
