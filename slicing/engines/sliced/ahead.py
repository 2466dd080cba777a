"""Where records ordinarily are, though a few are far ahead of the others.

Slices are ordinarily no more than a window apart, and most rows of a micro-batch are where records come to now::

    slices     * * * * . * *                        *      reach: the slices of a window
               [ ordinary ]   a gap beyond reach    ahead
"""

from __future__ import annotations

import numpy as np

from slicing.aggregates.arrays import Array


def newest_ordinary(slices: Array, reach: int, start: int | None = None) -> int:
    """The newest of some ascending slices that follow slice `start`, else the median, without a gap beyond `reach`.

    `start` itself where none does.
    """
    start = int(slices[(len(slices) - 1) // 2]) if start is None else start
    newest = max(start, int(slices[-1]))
    if newest - start <= reach:
        return newest
    later = slices[np.searchsorted(slices, start, side="right") :]
    gaps = np.flatnonzero(np.diff(later, prepend=start) > reach)
    if not len(gaps):
        return newest
    return int(later[gaps[0] - 1]) if gaps[0] else start


def newest_reached(spans: Array, start: int, reach: int) -> int:
    """The newest slice of the spans that follow slice `start` without a gap beyond `reach`.

    A span is a row of its first slice and its end.
    """
    firsts, ends = spans[np.argsort(spans[:, 0])].T
    reached = np.maximum.accumulate(np.append(start, ends - 1))
    gaps = np.flatnonzero(firsts > reached[:-1] + reach)
    return int(reached[gaps[0] if len(gaps) else -1])
