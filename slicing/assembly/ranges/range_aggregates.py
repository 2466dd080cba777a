"""Any runs of rows in order, combined: what a run comes to depends on its rows alone, whatever lies around it.

::

    rows     a   b   c   d   e   f   g
    twos     ab  bc  cd  de  ef  fg             each of two rows
    fours    abcd  bcde  cdef  defg             each of two twos
    run          [b   c   d   e   f   g)        6 rows = 2 + 4: bc, then defg

Where partials are added and subtracted field by field, a run is a difference of two cumulative sums. Else the rows are
doubled: for m rows of a run log2(m) combines for each row, which all runs share, and log2(m) at most for each run,
where a run joined row by row takes m - 1. Stripes, as those of the trees, would have to be as long as the data are
dense: then floats would come out different with other data around.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.kernel import Kernel, locating
from slicing.assembly.choice import is_additive


def before(column: Array) -> Array:
    """For every row, and for the end, the sum of the rows before; integers wrap, and differences undo it."""
    return np.concatenate([np.zeros(1, column.dtype), np.cumsum(column, dtype=column.dtype)])


def of_runs(kernel: Kernel, columns: Partials, low: Array, high: Array, place: Callable[[int], str]) -> Partials:
    """The partial of rows `low[i]` up to `high[i]`, none of which is empty, for every i; `place` names a row."""
    found = without_combines(kernel, columns, low, high)
    return _doubled(kernel, columns, low, high, place) if found is None else found


def without_combines(kernel: Kernel, columns: Partials, low: Array, high: Array) -> Partials | None:
    """Return the partials of runs from cumulative sums, or as the kernel knows them; None if rows are combined."""
    if is_additive(kernel) and kernel.sums_fit(columns):
        sums = [before(column) for column in columns]
        return [each[high] - each[low] for each in sums]
    return kernel.runs(columns, low, high)


def _doubled(kernel: Kernel, columns: Partials, low: Array, high: Array, place: Callable[[int], str]) -> Partials:
    """Runs by the bits of their lengths, the lowest first, so that a run is joined from its oldest row on."""
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
    """For each row the greatest end of a run that the row may be in: rows that no run has together are not joined."""
    reach = np.zeros(count, dtype=np.int64)
    np.maximum.at(reach, low, high)
    return np.maximum.accumulate(reach)


def _join(kernel: Kernel, into: Partials, rows: Array, newer: Partials, at: Array, place: Callable[[int], str]) -> None:
    """Combine newer partials, of rows from `at` on, with some of those that are there."""
    if len(rows):
        with locating(lambda index: place(int(at[index]))):
            joined = kernel.combine([column[rows] for column in into], newer)
        _put(into, rows, joined)


def _put(into: Partials, rows: Array, new: Partials) -> None:
    for column, some in zip(into, new, strict=True):
        column[rows] = some
