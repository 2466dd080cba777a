"""The counts of one micro-batch: records, partials and rows of a stream of so many keys, on average.

Records of a key come independently of each other. So of pieces of event time of d seconds the share
`1 - exp(-d * records per second / keys)` has a record of a given key.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from slicing.explain.costs import Cost
from slicing.windows.families.family import Family

_TYPICAL = 1_700_000_000_000_000
_SAMPLE = 4096
"""Windows over which lengths and distances are averaged."""


@dataclass(frozen=True)
class Pace:
    """How often something comes per second of event time, and how many seconds it is long."""

    per_second: float
    seconds: float


def windows_of(family: Family) -> Pace:
    """The pace of the windows of one family."""
    first = int(family.first_open(_TYPICAL))
    last = first + _SAMPLE
    span = (int(family.window_end(last)) - int(family.window_end(first))) / 1e6
    length = sum(int(family.window_end(i)) - int(family.window_start(i)) for i in range(first, first + 64)) / 64e6
    return Pace(_SAMPLE / span if span > 0 else 0.0, length)


def slices_of(family: Family) -> Pace:
    """The pace of the slices that families share."""
    first = int(family.slice_at(_TYPICAL))
    span = (int(family.slice_start(first + _SAMPLE)) - int(family.slice_start(first))) / 1e6
    return Pace(_SAMPLE / span, span / _SAMPLE) if span > 0 else Pace(0.0, math.inf)


@dataclass(frozen=True)
class Load:
    """What a micro-batch has to do. `closes` are the windows of each family that close in it.

    `shipped` are partials that are shuffled, `entered` those of slices that are stored, `nodes` the nodes of trees that
    are read or written, `written` all partials that are written, and `emitted` the rows.
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
        """Partials that are shuffled, and those that enter state."""
        return self.shipped + self.entered


def load_of(
    family: Family, per_window: Cost, keys: int, rate: float, cores: int, seconds: float, closing: bool = False
) -> Load:
    """The load of a micro-batch of some seconds; with `closing` of one in which at least one window closes."""
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
    # What a window costs beside its slices is read and written once in a micro-batch, however many close.
    nodes, written = (
        max(1.0, of / len(families) - 1) for of in (per_window.reads + per_window.writes - 1, per_window.writes)
    )
    # Of slices that come together all but the newest are written once, straight into their own pages.
    slices_written = entered * (1 + 1 / count)
    return Load(
        rate * seconds, shipped, entered, nodes * moving, slices_written + written * moving, emitted, sum(closes)
    )
