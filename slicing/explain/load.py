"""The average counts of one micro-batch: records, partials and rows of a stream with a given number of keys.

The records of a key are assumed to be independent of each other. So a given key has a record in the share
`1 - exp(-d * records per second / keys)` of all intervals of d seconds of event time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from slicing.explain.costs import Cost
from slicing.windows.families.family import Family

_TYPICAL = 1_700_000_000_000_000
_SAMPLE = 4096
"""The number of windows or slices over which distances are averaged."""


@dataclass(frozen=True)
class Pace:
    """The frequency of windows or slices per second of event time, and their length in seconds."""

    per_second: float
    seconds: float


def windows_of(family: Family) -> Pace:
    """Return the pace of the windows of one family."""
    first = int(family.first_open(_TYPICAL))
    last = first + _SAMPLE
    span = (int(family.window_end(last)) - int(family.window_end(first))) / 1e6
    length = sum(int(family.window_end(i)) - int(family.window_start(i)) for i in range(first, first + 64)) / 64e6
    return Pace(_SAMPLE / span if span > 0 else 0.0, length)


def slices_of(family: Family) -> Pace:
    """Return the pace of the slices that families share."""
    first = int(family.slice_at(_TYPICAL))
    span = (int(family.slice_start(first + _SAMPLE)) - int(family.slice_start(first))) / 1e6
    return Pace(_SAMPLE / span, span / _SAMPLE) if span > 0 else Pace(0.0, math.inf)


@dataclass(frozen=True)
class Load:
    """The work of a micro-batch.

    `shipped` counts the shuffled partials, `entered` the partials of slices that enter the state, `nodes` the nodes of
    trees that are read or written, `written` all partials that are written, `emitted` the emitted rows, and `closes`
    the windows that close, over all families.
    """

    records: float
    shipped: float
    entered: float
    nodes: float
    written: float
    emitted: float
    closes: float

    @property
    def partials(self) -> float:
        """The number of partials that are shuffled or enter the state."""
        return self.shipped + self.entered


def load_of(
    family: Family, per_window: Cost, keys: int, rate: float, cores: int, seconds: float, closing: bool = False
) -> Load:
    """Return the load of a micro-batch of `seconds`; with `closing`, of one in which at least one window closes."""
    slices, families = slices_of(family), [windows_of(each) for each in family.families]
    each = rate / keys

    def active(length: float, part: float = 1.0) -> float:
        return keys * -math.expm1(-each * part * length)

    count, length = max(1.0, seconds * slices.per_second), min(seconds, slices.seconds)
    shipped = cores * count * active(length, 1 / cores)
    closes = [max(1.0 if closing else 0.0, seconds * windows.per_second) for windows in families]
    entered = active(slices.seconds) * max(seconds * slices.per_second, max(closes) if closing else 0.0)
    emitted = sum(count * active(windows.seconds) for count, windows in zip(closes, families, strict=True))
    moving = sum(min(1.0, count) * active(windows.seconds) for count, windows in zip(closes, families, strict=True))
    # The nodes of a window are read and written once per micro-batch, even if several windows close.
    nodes, written = (
        max(1.0, of / len(families) - 1) for of in (per_window.reads + per_window.writes - 1, per_window.writes)
    )
    # Slices that look complete are written once, straight to their own pages: all but the newest of a micro-batch.
    slices_written = entered * (1 + 1 / count)
    longest = max(windows.seconds for windows in families)
    if seconds > longest:  # the slices of the windows that stay open are written again, to their slice groups
        slices_written += entered * longest / seconds
    return Load(
        rate * seconds, shipped, entered, nodes * moving, slices_written + written * moving, emitted, sum(closes)
    )
