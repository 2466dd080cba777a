"""Find the newest ordinary slice, although a few records have event times far ahead of the others.

Slices with records are ordinarily at most a window apart, and most rows of a micro-batch are in current slices::

    slices     * * * * . * *                        *      reach: the slices of a window
               [ ordinary ]   a gap beyond reach    ahead
"""

from __future__ import annotations

import numpy as np

from slicing.aggregates.arrays import Array


def newest_ordinary(slices: Array, reach: int, start: int | None = None) -> int:
    """Return the newest slice that follows `start` without a gap of more than `reach`; `start` if none does.

    `slices` are in ascending order. The default of `start` is their median.
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
    """Return the newest slice of the spans that follow slice `start` without a gap of more than `reach`.

    `spans` is `int64[n, 2]`: the first slice and the end of each span.
    """
    firsts, ends = spans[np.argsort(spans[:, 0])].T
    reached = np.maximum.accumulate(np.append(start, ends - 1))
    gaps = np.flatnonzero(firsts > reached[:-1] + reach)
    return int(reached[gaps[0] if len(gaps) else -1])
