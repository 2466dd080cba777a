"""`on_close(empty=)`: the windows without records that follow the records of their key.

::

    windows of 10, empty=20     [0 10)  [10 20)  [20 30)  [30 40)  [40 50)
    records of a key               *                          *
    fires                          x       0        0         x       0 ...

A window without records fires if it ends at most `empty` after the first window of an earlier record of its key. A mark
is stored for each slice and key with records, and of slices that all closed windows know only the newest one of a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat
from slicing.content.folding import by_key, fold
from slicing.content.marks import newest_slices, without_partials
from slicing.content.pairs import Pairs
from slicing.engines.lateness import FamilyProgress
from slicing.engines.slice_pairs import Reached
from slicing.state.format.list_names import RECENT
from slicing.state.lists import PageLists
from slicing.windows.families.family import Family
from slicing.windows.time.slices import FOREVER


def last_following(family: Family, slices: Array, lasting: int) -> Array:
    """Return the last window that fires because of records in each slice, with or without records: `int64[n]`."""
    ends = family.window_end(family.first_window(slices)) + lasting
    last = np.minimum(family.first_open(ends) - 1, family.limits[1])
    return np.maximum(family.last_window(slices), last)


def first_followed(family: Family, window: int, lasting: int) -> int:
    """Return the first window whose records `window` follows."""
    return int(family.first_open(family.window_end(window) - lasting - 1, 0))


def following(shape: Shape, marks: Block, lasting: int, first: int, until: int) -> Iterator[Windows]:
    """Yield the windows `first` up to `until` without records that follow marks, in parts of bounded size.

    `marks` are rows of a family's windows, sorted by key and slice; `lasting` is in microseconds.
    """
    family = shape.family
    held, held_keys = Reached.by(family, marks, first, until).windows()
    every = Reached.by(family, marks, first, until, last_following(family, marks.index, lasting))
    pairs = Pairs.over(np.concatenate([every.low, every.end]), len(marks.names))
    known = pairs.pack(held_keys, held)
    for some in every.some_keys():
        windows, keys = some.windows()
        left = np.flatnonzero(~np.isin(pairs.pack(keys, windows), known))
        if len(left):
            yield without_records(shape, windows[left], keys[left], marks)


def without_records(shape: Shape, windows: Array, keys: Array, marks: Block) -> Windows:
    """Return windows without records, whose partials are `init()`."""
    partials = [kernel.spread(len(windows)) for kernel in shape.kernels]
    dictionaries = [kernel.no_dictionary for kernel in shape.kernels]
    return Windows(windows, keys, marks.names, np.zeros_like(windows), partials, dictionaries)


@dataclass(frozen=True)
class RecentSlices:
    """The stored marks of a bucket; the shape of `nodes` has no kernels. `lasting` is in microseconds.

    `new` are the rows of this micro-batch.
    """

    nodes: PageLists
    families: Sequence[FamilyProgress]
    lasting: int
    new: Block

    def closing(self, each: FamilyProgress) -> Iterator[Windows]:
        """Yield the windows without records of a family that close in this micro-batch."""
        marks = by_key(self.nodes.shape, each.inside(self._marks))
        if len(marks):
            yield from following(each.shape, marks, self.lasting, each.first, each.end)

    def save(self, is_closing: bool) -> None:
        """Add the new marks; if windows have closed, forget those that no later window follows."""
        if is_closing:
            self.nodes.save(RECENT, self._needed())
        else:
            self.nodes.append(RECENT, without_partials(self.new))

    @cached_property
    def _marks(self) -> Block:
        """The stored marks and the new ones."""
        return fold(self.nodes.shape, [*self.nodes.read(RECENT), without_partials(self.new)])

    def _needed(self) -> Block:
        marks = self._marks
        followed = [
            last_following(each.family, marks.index, self.lasting) >= each.state.next_to_fire for each in self.families
        ]
        marks = marks.take(np.flatnonzero(np.logical_or.reduce(followed)))
        known = min(each.family.entered(each.state.next_to_fire) for each in self.families)
        newest = newest_slices(marks.between(-FOREVER, known))
        return fold(self.nodes.shape, [concat(self.nodes.shape, [newest, marks.between(known, FOREVER)])])
