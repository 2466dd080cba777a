"""Which windows of a family take records, which a watermark closes, and which are still looked at.

::

    windows of a minute, grace 2 minutes, watermark 12:05:30

    on close                 12:00 | 12:01 | 12:02 | 12:03 | 12:04 | 12:05
                               went out      ^ open, and take records
    with corrections           went out, take records ^    | open     (`kept` is the same)
"""

from __future__ import annotations

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.state.format.header import Walk
from slicing.triggers.emission import CHANGED, Emission
from slicing.triggers.lateness import is_late
from slicing.windows.families.family import Family, emitted_before


class Judging:
    """How far the windows of one family are; `walk` has the marks, and is moved. `grace` is in microseconds.

    `first` up to `end` are the windows that close in this micro-batch.
    """

    def __init__(self, family: Family, walk: Walk, emission: Emission, grace: int, is_new: bool):
        self.family, self.walk, self.emission, self.grace = family, walk, emission, grace
        self.by_end = False  # whether windows are told apart by their ends alone
        self.wait = waits(emission, grace)
        self.first = self.end = walk.done
        self._fit_emission(is_new)

    def _fit_emission(self, is_new: bool) -> None:
        """What another emission has written: windows that went out take no records unless they are corrected."""
        walk = self.walk
        if not self.emission.corrects:
            walk.taking = walk.done
        elif is_new:
            walk.taking = walk.kept = self.family.first_open(0, self.grace)
        walk.taking = max(walk.taking, walk.kept)

    def judge(self, slices: Array) -> tuple[Array, Array]:
        """Which slices a window takes, and which come late for one window at least."""
        taking, last = self.walk.taking, self.family.last_window(slices)
        accepted = last >= taking
        if self.family.has_gaps:
            accepted &= ~np.asarray(self.family.in_gap(slices))
        return accepted, is_late(self.family, slices, taking)

    def move(self, watermark: int) -> bool:
        """Find the windows that a watermark, in microseconds, closes; whether there are any."""
        self.first, self.end = self.walk.done, max(self.walk.done, self.family.first_open(watermark, self.wait))
        still_taking = self.family.first_open(watermark, self.grace)
        self.walk.taking = max(self.walk.taking, still_taking) if self.emission.corrects else self.end
        return self.end > self.first

    def judged_at(self, watermark: int) -> list[int]:
        """The instants whose windows are the first that are open, and that take records; none before a watermark."""
        return [watermark - self.wait, watermark - self.grace] if watermark else []

    @property
    def keep(self) -> int:
        """The first window that is still looked at: changes compare with the window that was emitted last."""
        if self.emission.which == CHANGED:
            return emitted_before(self.family, self.end, self.by_end)
        return min(self.end, self.walk.taking)

    @property
    def oldest(self) -> int:
        """The first slice that a window needs that has not gone out."""
        return self.family.first_slice(self.walk.done)


def waits(emission: Emission, grace: int) -> int:
    """How long after their end windows close, in microseconds: those that are corrected go out before the grace."""
    return 0 if emission.corrects else grace
