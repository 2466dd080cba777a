"""The latest window of each key, kept as a total: a new record costs one combine, for any number of slices.

A *total* is a row of a key in its newest slice, with the partials and the records of its window up to this slice:

    window 4        [=================)
    slices      | 1 | 0 | 2 | 1 | 1 | |    total 4 in the newest slice: all slices up to this one, combined
    a record in the newest slice           total + record; also in an older slice, unless partials have an order
    a record in a later slice              another window, whose total is computed from its slices

The window of a total is the first one that holds its slice. Once this window accepts no records the total is useless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.results import Windows, as_block
from slicing.content.block import Block, Shape, concat, empty
from slicing.content.folding import fold, regroup
from slicing.engines.sliced.family_windows import FamilyWindows
from slicing.windows.time.slices import FOREVER

TOTALS = "totals"


class Latest:
    """The totals of some families; `cached` has the totals from the bucket cache, by name."""

    def __init__(self, families: Sequence[FamilyWindows], cached: Mapping[str, Block]):
        self.families = families
        self.totals = {each.number: cached.get(_name(each), empty(each.shape)) for each in families}

    def newest(self, progress: FamilyWindows, new: Block) -> Iterator[Windows]:
        """Yield the latest windows that hold new rows, and update the totals."""
        totals, accepting, new = self.totals[progress.number], progress.state.first_accepting, progress.inside(new)
        frame, self.totals[progress.number] = newest_windows(progress.shape, totals, new, accepting, progress.look)
        if len(frame) and progress.aligned_families:
            yield from self._completed(progress, frame)
        elif len(frame):
            yield progress.joined(frame)

    def _completed(self, progress: FamilyWindows, frame: Windows) -> Iterator[Windows]:
        """Yield the windows with their aligned windows, for which the slices of all their keys are read."""
        for rows in progress.look(as_block(frame), int(progress.family.first_slice(frame.windows).min())):
            some = frame.take(np.flatnonzero(np.isin(frame.keys, rows.keys)))
            if len(some):
                yield progress.complete(some, rows)

    def to_cache(self) -> dict[str, Block]:
        """Return the totals of each family, by their name in the bucket cache."""
        return {_name(each): self.totals[each.number] for each in self.families}


def _name(progress: FamilyWindows) -> str:
    return f"{progress.prefix}{TOTALS}"


def newest_windows(
    shape: Shape, totals: Block, new: Block, first_accepting: int, look: Callable[[Block, int], Iterable[Block]]
) -> tuple[Windows, Block]:
    """Return the first window from `first_accepting` on that holds the newest row of each key, and the new totals.

    `new` has the new rows. Keys whose window holds none of them are left out. `look(marks, first)` returns the folded
    rows of the keys of `marks`, with its codes, from slice `first` on, some keys in each block. It is called only for
    keys that have no total, or have another window now, or whose order forbids adding the new rows.

    Cost per key: one combine for each new row; m - 1 combines if its window is looked up and has m slices.
    """
    both = concat(shape, [_open(shape, totals, first_accepting), new])
    split = len(both) - len(new)
    totals, new = both.take(slice(split)), both.take(slice(split, None))
    newest = _newest(both)
    new = _inside(shape, new, newest, first_accepting)
    stale = _is_stale(shape, totals, new, newest)
    marks = new.take(stale[new.keys])
    looked: list[Block] = []
    if len(marks):
        for rows in look(marks, int(_first_slices(shape, marks, newest, first_accepting).min())):
            np.maximum.at(newest, rows.keys, rows.index)
            touched = _has_rows(_inside(shape, new, newest, first_accepting))
            window = _inside(shape, rows.take(touched[rows.keys]), newest, first_accepting)
            looked.append(_at(shape, window, newest))
        new = _inside(shape, new, newest, first_accepting)
    touched = _has_rows(new)
    added = concat(shape, [totals.take((touched & ~stale)[totals.keys]), new.take(~stale[new.keys])])
    made = fold(shape, [_at(shape, added, newest), *looked])
    windows = np.maximum(shape.family.first_window(made.index), first_accepting)
    out = Windows(windows, made.keys, made.names, made.records, made.partials, made.dictionaries)
    return out, fold(shape, [totals.take(~touched[totals.keys]), _open(shape, made, first_accepting)])


def _at(shape: Shape, rows: Block, newest: Array) -> Block:
    """Combine all rows of a key, in its newest slice."""
    return regroup(shape, replace(rows, index=newest[rows.keys]))


def _has_rows(block: Block) -> Array:
    """Return which keys have rows in a block: `bool[keys]`."""
    found = np.zeros(len(block.names), dtype=bool)
    found[block.keys] = True
    return found


def _open(shape: Shape, totals: Block, first_accepting: int) -> Block:
    """Return the totals whose window is `first_accepting` or a later one."""
    return totals.between(shape.family.entered(first_accepting), FOREVER)


def _newest(block: Block) -> Array:
    """Return the newest slice of each key, -FOREVER for a key without rows."""
    newest = np.full(len(block.names), -FOREVER)
    np.maximum.at(newest, block.keys, block.index)
    return newest


def _is_stale(shape: Shape, totals: Block, new: Block, newest: Array) -> Array:
    """Return for each key whether its new rows `new` cannot be added to its total, or it has no total."""
    held, first_window = _newest(totals), shape.family.first_window
    # Keys without a total need a test of their own: a family with a first window has -FOREVER in that window.
    stale: Array = (held == -FOREVER) | (first_window(held) != first_window(newest))
    if any(kernel.aggregate.ordered for kernel in shape.kernels):
        stale[new.keys[new.index < held[new.keys]]] = True
    return stale


def _inside(shape: Shape, block: Block, newest: Array, first_accepting: int) -> Block:
    """Return the rows in the first window that holds the newest slice of their key."""
    return block.take(block.index >= _first_slices(shape, block, newest, first_accepting))


def _first_slices(shape: Shape, block: Block, newest: Array, first_accepting: int) -> Array:
    """Return for each row the first slice of the first window that holds the newest slice of its key."""
    family = shape.family
    return family.first_slice(np.maximum(family.first_window(newest[block.keys]), first_accepting))
