"""Range aggregates: combine any runs of consecutive rows. The partial of a run depends only on the rows of the run.

::

    rows     a   b   c   d   e   f   g
    twos     ab  bc  cd  de  ef  fg             each of two rows
    fours    abcd  bcde  cdef  defg             each of two twos
    run          [b   c   d   e   f   g)        6 rows = 2 + 4: bc, then defg

If partials are added and subtracted field by field, a run is the difference of two cumulative sums. Otherwise runs of
1, 2, 4, ... rows are precomputed (a sparse table). For runs of m rows this costs log2(m) combines per row, shared by
all runs, and at most log2(m) per run; joining row by row costs m - 1 per run. Slice groups, as in the trees, are not
used: their length would depend on the density of the data, so a float result would depend on other rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.assembly.choice import is_additive


def before(column: Array) -> Array:
    """Return the sum of the rows before each row, and of all rows at the end: `dtype[n + 1]`.

    Integers may wrap around; differences of two sums are still correct.
    """
    return np.concatenate([np.zeros(1, column.dtype), np.cumsum(column, dtype=column.dtype)])


def range_aggregates(
    kernel: Kernel, columns: Partials, low: Array, high: Array, place: Callable[[int], str]
) -> Partials:
    """Return the partial of rows `low[i]` up to but not including `high[i]`, for every i; `init()` of empty runs.

    `place` names a row in error messages.
    """
    if not (low < high).all():
        every, held = kernel.spread(len(low)), np.flatnonzero(low < high)
        if len(held):
            _put(every, held, range_aggregates(kernel, columns, low[held], high[held], place))
        return every
    found = without_combines(kernel, columns, low, high)
    return _by_sparse_table(kernel, columns, low, high, place) if found is None else found


def without_combines(kernel: Kernel, columns: Partials, low: Array, high: Array) -> Partials | None:
    """Return the partials of runs from cumulative sums or from `kernel.runs`; None if rows must be combined."""
    if is_additive(kernel) and kernel.sums_fit(columns):
        sums = [before(column) for column in columns]
        return [each[high] - each[low] for each in sums]
    return kernel.runs(columns, low, high)


def _by_sparse_table(
    kernel: Kernel, columns: Partials, low: Array, high: Array, place: Callable[[int], str]
) -> Partials:
    """Return the partials of runs: one precomputed run per set bit of the length, the lowest bit first.

    This order combines a run from its oldest row on.
    """
    reach = reach_of(low, high, len(columns[0]))
    spans, length = [column.copy() for column in columns], 1
    out, at, left = [column[low] for column in columns], low.copy(), high - low
    while True:
        due = np.flatnonzero(left & length)
        begins = at[due] == low[due]
        first, more = due[begins], due[~begins]
        _put(out, first, [span[at[first]] for span in spans])
        _join(kernel, out, more, [span[at[more]] for span in spans], at[more], place)
        at[due] += length
        left[due] -= length
        if not left.any():
            return out
        rows = np.flatnonzero(np.arange(len(reach)) + 2 * length <= reach)
        _join(kernel, spans, rows, [span[rows + length] for span in spans], rows, place)
        length *= 2


def reach_of(low: Array, high: Array, count: int) -> Array:
    """Return for each row the greatest end of a run that starts at or before the row: `int64[count]`.

    It limits the precomputed runs: rows that are in no common run are not combined.
    """
    reach = np.zeros(count, dtype=np.int64)
    np.maximum.at(reach, low, high)
    return np.maximum.accumulate(reach)


def _join(kernel: Kernel, into: Partials, rows: Array, newer: Partials, at: Array, place: Callable[[int], str]) -> None:
    """Combine `newer` into the partials at `rows`; `at` has the first row of each newer partial, for messages."""
    if len(rows):
        with locating(lambda index: place(int(at[index]))):
            joined = kernel.combine([column[rows] for column in into], newer)
        _put(into, rows, joined)


def _put(into: Partials, rows: Array, new: Partials) -> None:
    for column, some in zip(into, new, strict=True):
        column[rows] = some
