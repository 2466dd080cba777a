"""The required delay of a record: the shortest watermark delay under which all of its windows accept it.

::

    delay 2 minutes, newest record 12:10, watermark 12:08

    a record of [12:00, 12:05) needs more than 12:10 - 12:05 = 5 minutes: it is late
    a record of [12:00, 12:09) needs more than 1 minute: it counts, and would not with a delay of 1 minute

The watermark is the time of the newest record minus the delay, and a window accepts records until its end and the grace
are behind the watermark. The first window that a record is in ends before the others, so its end decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.windows.time.slices import FOREVER

_SECOND, _MINUTE, _HOUR, _DAY = 10**6, 60 * 10**6, 3600 * 10**6, 24 * 3600 * 10**6
BOUNDS = (
    0,
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 3, 7)),
)
"""The delays, in microseconds, that records are counted between."""
_MILLISECOND = 1000


@dataclass(frozen=True)
class FirstEnds:
    """When the first windows of new records end: `ends` in microseconds, each of `records` records."""

    ends: Array
    records: Array


NO_ENDS = FirstEnds(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""Of windows that time does not end."""


def joined(several: Sequence[FirstEnds]) -> FirstEnds:
    """Those of several batches of records."""
    if not several:
        return NO_ENDS
    ends, records = zip(*((one.ends, one.records) for one in several), strict=True)
    return FirstEnds(np.concatenate(ends), np.concatenate(records))


def required_delays(first: FirstEnds, watermark: int, delay: int, grace: int) -> Array:
    """Return the required delays in microseconds, int64[n], FOREVER where no delay is long enough.

    Watermarks, and so delays, are whole milliseconds. A watermark is never before 1970, so windows that end before are
    late under any delay, and others are not before there is a watermark.
    """
    closes = np.clip(first.ends, -FOREVER, FOREVER) + grace
    passed = (watermark + delay if watermark else 0) - closes
    required = np.where(passed < 0, 0, (passed // _MILLISECOND + 1) * _MILLISECOND)
    return np.where(closes <= 0, FOREVER, required)


def counted(required: Array, records: Array) -> Array:
    """Return how many records need at most each of `BOUNDS` and more than the one before, then those that need more."""
    bounds = np.searchsorted(BOUNDS, required)
    # Sums of float64 are exact up to 2**53 records.
    return np.bincount(bounds, weights=records, minlength=len(BOUNDS) + 1).astype(np.int64)
