"""Decide which windows accept records, which a watermark closes, and which are still needed: the rule of lateness.

::

    windows of a minute, grace 2 minutes, watermark 12:05:30

    fire at their close      12:00 | 12:01 | 12:02 | 12:03 | 12:04 | 12:05
                               have fired    ^ open, and accept records
    fire at their end          have fired, accept records ^| open

Windows are numbered in the order in which they end: by their family, or, for sessions, by the end itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Self, TypeVar

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.assembling import without_repeats
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.engines.wide_rows import told
from slicing.state.format.header import FamilyState
from slicing.state.format.list_names import of_family
from slicing.state.pages import Pages
from slicing.triggers.lateness import is_late
from slicing.triggers.required_delay import NO_ENDS, FirstEnds
from slicing.windows.families.family import Family, emitted_before
from slicing.windows.families.several import primary
from slicing.windows.time.slices import FOREVER


class Progress:
    """The progress of one family: watermarks advance `state`, which is the family's entry in the header.

    `first_open(watermark, wait)` returns the first window that does not end `wait` microseconds before a watermark.
    Windows fire `wait` after their end and accept records until `grace` is over; `wait <= grace`. The progress does not
    step back when grace or trigger change: a window that has fired stays fired.
    """

    def __init__(
        self, state: FamilyState, first_open: Callable[[int, int], int], wait: int, grace: int, is_new: bool = False
    ):
        self.state, self.first_open, self.waits, self.grace = state, first_open, wait, grace
        self.fires_late = wait < grace
        self.first = self.end = state.next_to_fire  # the windows that close in this micro-batch
        if not self.fires_late:
            # Windows that another trigger has fired at their end accept no more records.
            state.first_accepting = state.next_to_fire
        elif is_new:
            state.first_accepting = state.retained_from = first_open(0, grace)
        state.first_accepting = max(state.first_accepting, state.retained_from)

    def advance(self, watermark: int) -> bool:
        """Find the windows that a watermark, in microseconds, closes; return whether there are any."""
        state = self.state
        self.first, self.end = state.next_to_fire, self.closes(watermark)
        accepting = self.first_open(watermark, self.grace)
        state.first_accepting = max(state.first_accepting, accepting) if self.fires_late else self.end
        return self.end > self.first

    def closes(self, watermark: int) -> int:
        """Return the end, exclusive, of the windows that a watermark, in microseconds, closes."""
        return max(self.state.next_to_fire, self.first_open(watermark, self.waits))

    def pass_closed(self) -> None:
        """Note that the windows that close have fired."""
        self.state.next_to_fire = self.end

    def pass_until(self, instant: int) -> None:
        """Count the windows that end by an instant, in microseconds, as fired; they accept no more records."""
        self.first = self.end = self.state.next_to_fire = self.state.first_accepting = self.first_open(instant, 0)


class FamilyProgress(Progress):
    """The progress of a family of windows, and how its rows are emitted. `number` is the position of the family.

    `compares` tells whether each window is compared with the previous one. The windows of `aligned_families` are not
    longer; their results are in the wide rows of this family.
    """

    def __init__(self, number: int, shape: Shape, pages: Pages, wait: int, grace: int, compares: bool):
        super().__init__(pages.head.families[number], shape.family.first_open, wait, grace, pages.is_new)
        self.number, self.shape, self.family, self.compares = number, shape, shape.family, compares
        self.prefix = of_family(self.state.id)
        self.by_end = False  # whether windows are identified by their ends alone
        self.aligned_families: Sequence[Self] = ()
        self.primary: Family | None = None  # the primary family of its wide rows

    purge: Callable[[Block], None] | None = None
    """Drops the records of pairs, if windows do not share them; rows have a window in place of a slice."""

    def touched(self, marks: Block, first: int) -> Iterator[Windows]:
        """Yield the windows from `first` on that hold a row of `marks`."""
        raise NotImplementedError

    def put_aligned(self, others: Sequence[Self]) -> None:
        """Emit the results of other families in the wide rows of this one."""
        self.aligned_families, self.by_end = others, True
        for each in others:
            each.primary, each.by_end = self.family, True

    def aligned(self, windows: Array) -> Array:
        """Return the windows of this family that end with some windows of its primary family."""
        assert self.primary is not None
        return self.family.first_open(self.primary.window_end(windows) - 1)

    def emitted(self, frames: Iterator[Windows]) -> Iterator[Windows]:
        """Yield the frames as they are emitted: without repeated windows, and with the family's number."""
        frames = without_repeats(self.family, frames, by_end=self.by_end)
        for frame in told(frames, [self.state, *(each.state for each in self.aligned_families)]):
            yield self._numbered(frame) if self.number else frame

    def _numbered(self, frame: Windows) -> Windows:
        return replace(frame, family=self.number, old=frame.old and replace(frame.old, family=self.number))

    def lateness_instants(self, watermark: int) -> list[int]:
        """Return the instants after which open and accepting windows end; none without a watermark."""
        return [watermark - self.waits, watermark - self.grace] if watermark else []

    def accepted_and_late(self, slices: Array) -> tuple[Array, Array]:
        """Return which slices a window accepts, and which are late for at least one window: `bool[n]` each."""
        accepting, last = self.state.first_accepting, self.family.last_window(slices)
        accepted = last >= accepting
        if self.family.has_gaps:
            accepted &= ~np.asarray(self.family.in_gap(slices))
        return accepted, is_late(self.family, slices, accepting)

    def first_end(self, slices: Array) -> Array:
        """Return the end of the first window of each slice, in microseconds; FOREVER for a slice in a gap."""
        ends: Array = self.family.window_end(self.family.first_window(slices))
        return np.where(self.family.in_gap(slices), FOREVER, ends) if self.family.has_gaps else ends

    @property
    def keep(self) -> int:
        """The first window that is still needed: `on_change` compares with the window that fired last."""
        if self.compares:
            return emitted_before(self.family, self.end, self.by_end)
        return min(self.end, self.state.first_accepting)

    def pass_until(self, instant: int) -> None:
        """Count the windows that end by an instant as fired; retain the window that the next is compared with."""
        super().pass_until(self.family.placed(instant))
        self.state.retained_from, self.state.nodes = self.keep, None

    @property
    def oldest(self) -> int:
        """The first slice of the next window to fire."""
        return self.family.first_slice(self.state.next_to_fire)

    def inside(self, block: Block) -> Block:
        """Return the rows that lie in windows; slices in gaps of this family may be in windows of another one."""
        if not self.family.has_gaps:
            return block
        return block.take(np.flatnonzero(~np.asarray(self.family.in_gap(block.index))))


def first_ends(families: Sequence[FamilyProgress], index: Array, records: Array) -> FirstEnds:
    """Return the end of the first window of each row, summarised for each run of rows of the same slice."""
    if not len(index):
        return NO_ENDS
    starts = np.flatnonzero(np.diff(index, prepend=index[0] - 1))
    ends = np.minimum.reduce([each.first_end(index[starts]) for each in families])
    return FirstEnds(ends, np.add.reduceat(records, starts))


OfFamily = TypeVar("OfFamily", bound=FamilyProgress)


def led(families: Sequence[OfFamily]) -> list[OfFamily]:
    """Return the primary family of several aligned families, after making its rows wide rows with all others."""
    number = primary([each.family for each in families])
    assert number is not None, "the windows are aligned"
    first = families[number]
    first.put_aligned([each for each in families if each is not first])
    return [first]
