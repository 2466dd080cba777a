"""Which windows accept records, which a watermark closes, and which are still looked at: the one rule of lateness.

::

    windows of a minute, grace 2 minutes, watermark 12:05:30

    fire at their close      12:00 | 12:01 | 12:02 | 12:03 | 12:04 | 12:05
                               have fired    ^ open, and accept records
    fire at their end          have fired, accept records ^| open

Windows are numbered in the order in which they end, whatever they are: by a family, or, of sessions, by the end itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.content.block import Block
from slicing.state.format.header import Walk
from slicing.triggers.lateness import is_late
from slicing.triggers.required_delay import NO_ENDS, FirstEnds
from slicing.windows.families.family import Family, emitted_before
from slicing.windows.families.several import primary
from slicing.windows.time.slices import FOREVER


class Progress:
    """How far the windows of one family are: `marks`, which are those of the header, are moved by watermarks.

    `first_open(watermark, wait)` gives the first window that does not end `wait` microseconds before a watermark.
    Windows fire `wait` after their end and accept records until `grace` is over, which is not shorter. Both marks stay
    where they are when grace or trigger become others: what has fired has fired.
    """

    def __init__(self, marks: Walk, first_open: Callable[[int, int], int], wait: int, grace: int, is_new: bool = False):
        self.marks, self.first_open, self.waits, self.grace = marks, first_open, wait, grace
        self.fires_late = wait < grace
        self.first = self.end = marks.done  # the windows that close in this micro-batch
        if not self.fires_late:
            marks.taking = marks.done  # what another trigger fired at its end accepts no more records
        elif is_new:
            marks.taking = marks.kept = first_open(0, grace)
        marks.taking = max(marks.taking, marks.kept)

    def advance(self, watermark: int) -> bool:
        """Find the windows that a watermark, in microseconds, closes; return whether there are any."""
        marks = self.marks
        self.first, self.end = marks.done, self.closes(watermark)
        accepting = self.first_open(watermark, self.grace)
        marks.taking = max(marks.taking, accepting) if self.fires_late else self.end
        return self.end > self.first

    def closes(self, watermark: int) -> int:
        """The end of the windows that a watermark, in microseconds, closes; the first one is the next to fire."""
        return max(self.marks.done, self.first_open(watermark, self.waits))

    def pass_closed(self) -> None:
        """The windows that close have fired."""
        self.marks.done = self.end

    def pass_until(self, instant: int) -> None:
        """Count the windows that end by an instant as fired, and accept no records for them."""
        self.first = self.end = self.marks.done = self.marks.taking = self.first_open(instant, 0)


class FamilyProgress(Progress):
    """The progress of a family of windows; `compares` says whether each is compared with the one before."""

    def __init__(self, family: Family, marks: Walk, wait: int, grace: int, is_new: bool, compares: bool):
        super().__init__(marks, family.first_open, wait, grace, is_new)
        self.family, self.compares = family, compares
        self.by_end = False  # whether windows are told apart by their ends alone

    def judged_at(self, watermark: int) -> list[int]:
        """The instants whose windows are the first that are open, and that accept records; none before a watermark."""
        return [watermark - self.waits, watermark - self.grace] if watermark else []

    def judge(self, slices: Array) -> tuple[Array, Array]:
        """Which slices a window accepts, and which are late for one window at least."""
        accepting, last = self.marks.taking, self.family.last_window(slices)
        accepted = last >= accepting
        if self.family.has_gaps:
            accepted &= ~np.asarray(self.family.in_gap(slices))
        return accepted, is_late(self.family, slices, accepting)

    def first_end(self, slices: Array) -> Array:
        """When the first window of each slice ends, FOREVER in a gap."""
        ends: Array = self.family.window_end(self.family.first_window(slices))
        return np.where(self.family.in_gap(slices), FOREVER, ends) if self.family.has_gaps else ends

    @property
    def keep(self) -> int:
        """The first window that is still looked at: changes compare with the window that fired last."""
        if self.compares:
            return emitted_before(self.family, self.end, self.by_end)
        return min(self.end, self.marks.taking)

    def pass_until(self, instant: int) -> None:
        """Count the windows that end by an instant as fired, and keep what the next ones are compared with."""
        super().pass_until(instant)
        self.marks.kept, self.marks.nodes = self.keep, None

    @property
    def oldest(self) -> int:
        """The first slice that a window needs which has not fired."""
        return self.family.first_slice(self.marks.done)

    def inside(self, block: Block) -> Block:
        """The rows that lie in windows: where this family has a gap another one may have none."""
        if not self.family.has_gaps:
            return block
        return block.take(np.flatnonzero(~np.asarray(self.family.in_gap(block.index))))


def first_ends(families: Sequence[FamilyProgress], index: Array, records: Array) -> FirstEnds:
    """Return when the first window of each of some rows ends, one for each run of rows of one slice."""
    if not len(index):
        return NO_ENDS
    starts = np.flatnonzero(np.diff(index, prepend=index[0] - 1))
    ends = np.minimum.reduce([each.first_end(index[starts]) for each in families])
    return FirstEnds(ends, np.add.reduceat(records, starts))


class Aligned(Protocol):
    """One family of windows that end together with others."""

    family: Family

    def put_beside(self, others: Sequence[Any]) -> None:
        """Give the rows of this family the windows of the others that end with them."""


OfFamily = TypeVar("OfFamily", bound=Aligned)


def led(families: Sequence[OfFamily]) -> list[OfFamily]:
    """Return the one of several aligned families whose rows have the windows of all others, after giving it these."""
    number = primary([each.family for each in families])
    assert number is not None, "the windows are aligned"
    first = families[number]
    first.put_beside([each for each in families if each is not first])
    return [first]
