"""The required delay of a record: the shortest watermark delay under which all of its windows accept it.

::

    delay 2 minutes, newest record 12:10, watermark 12:08

    a record of [12:00, 12:05) needs more than 12:10 - 12:05 = 5 minutes: it is late
    a record of [12:00, 12:09) needs more than 1 minute: it counts, and would not with a delay of 1 minute

The watermark is the time of the newest record minus the delay. A window accepts records until the watermark reaches its
end plus grace. Of the windows of a record, the first one ends first, so its end decides.
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
"""The bounds of the histogram of required delays, in microseconds."""
_MILLISECOND = 1000


@dataclass(frozen=True)
class FirstEnds:
    """The ends of the first windows of new records: `ends` in microseconds, `records` the number of records of each."""

    ends: Array
    records: Array


NO_ENDS = FirstEnds(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""The value for windows that do not end by time."""


def joined(several: Sequence[FirstEnds]) -> FirstEnds:
    """Return the first ends of several batches of records together."""
    if not several:
        return NO_ENDS
    ends, records = zip(*((one.ends, one.records) for one in several), strict=True)
    return FirstEnds(np.concatenate(ends), np.concatenate(records))


def required_delays(first: FirstEnds, watermark: int, delay: int, grace: int) -> Array:
    """Return the required delays in microseconds: `int64[n]`, FOREVER where no delay is long enough.

    Watermarks, and therefore delays, are whole milliseconds. A watermark is never before 1970. Records of windows that
    end before 1970 are therefore late under any delay; other records need no delay until there is a watermark.
    """
    closes = np.clip(first.ends, -FOREVER, FOREVER) + grace
    passed = (watermark + delay if watermark else 0) - closes
    required = np.where(passed < 0, 0, (passed // _MILLISECOND + 1) * _MILLISECOND)
    return np.where(closes <= 0, FOREVER, required)


def counted(required: Array, records: Array) -> Array:
    """Return the histogram of required delays: `int64[len(BOUNDS) + 1]`.

    Item i counts the records whose required delay is at most `BOUNDS[i]` and above the previous bound; the last item
    counts the records above all bounds.
    """
    bounds = np.searchsorted(BOUNDS, required)
    # Sums of float64 are exact up to 2**53 records.
    return np.bincount(bounds, weights=records, minlength=len(BOUNDS) + 1).astype(np.int64)
