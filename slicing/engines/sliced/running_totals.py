"""Closes of windows with a common start, such as cumulating windows: a running total is read at each end.

::

    slices    | 0 | 1 | 2 | 3 | 4 | 5 |
    windows   [=0=)
              [===1===)
              [=====2=====)
                          [=3=)               here a new total begins
                          [===4===)

Cost per window and key: one combine, and the slices that entered since the previous window; no slice is read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.sorting import argsorted
from slicing.assembly.choice import is_additive
from slicing.assembly.ranges.point_lookups import running
from slicing.assembly.results import Windows
from slicing.assembly.tails import Combined
from slicing.assembly.trees.cache import TOTAL, node_of
from slicing.assembly.trees.nodes import Live, Node, Rows
from slicing.content.block import Block, show_key
from slicing.content.folding import fold
from slicing.engines.sliced.closing import CloseRange, Frame, at_once
from slicing.state.format.list_names import RUNNING


class RunningClose:
    """One close.

    After a jump over more windows than have a common start, or without a stored total, windows are assembled from
    slices.
    """

    def __init__(self, close_range: CloseRange):
        self.close_range, self.fresh = close_range, close_range.fresh
        self.shape, self.family = close_range.shape, close_range.shape.family
        self.first, self.until, self.end = close_range.first, close_range.until, close_range.end
        self.live, self.chosen = Live(self.shape), tuple(range(len(self.shape.kernels)))
        self.cache = close_range.cache(RUNNING, self.shape)
        self.additive = all(map(is_additive, self.shape.kernels))
        self.jumps = not close_range.cached or self.until - self.first > self.family.longest

    @property
    def leaves_nodes(self) -> bool:
        """Whether the stored total is that of the window before `end`."""
        return self.until == self.end

    def windows(self) -> Iterator[Windows]:
        """Yield all windows that hold a record, in frames of bounded size."""
        if self.jumps:
            for frame, _ in at_once(self.close_range):
                yield frame
            self._save(self._from_slices(self.end) if self.leaves_nodes else self.live.node(self.chosen))
        else:
            yield from self._one_by_one(self._with_late())

    def _with_late(self) -> Node:
        """Return the total of the window before `first`, with late records; computed anew for ordered aggregates."""
        late = list(self.close_range.late_rows(self.family.first_slice(self.first)))
        if late and any(kernel.aggregate.ordered for kernel in self.shape.kernels):
            return self._from_slices(self.first)
        total = node_of(self.live, self.chosen, self.cache.load(TOTAL))
        for part in late:
            total.append_slices(self._placed(part))
        return total

    def _one_by_one(self, total: Node) -> Iterator[Windows]:
        block = self.fresh.block
        if block is not None:
            self._placed(block.take(slice(0)))  # adds all keys, which limit how many windows are assembled together
        frame, low = Frame(self.live, block), self.first
        while low < self.until:
            if self._begins(low):
                total = self.live.node(self.chosen)
            high = self._together(low, frame.at_once)
            rows = self._placed(self.fresh.between(self.family.entered(low), self.family.entered(high)))
            frame.add(low, [self._windows(total, rows, low, high)])
            low = high
            if frame.is_full:
                yield frame.take()
        self._save(total)
        if frame.rows:
            yield frame.take()

    def _begins(self, window: int) -> bool:
        """Whether a window begins later than the one before it."""
        return self.family.first_slice(window) > self.family.first_slice(window - 1)

    def _together(self, low: int, most: int) -> int:
        """Return the end of the windows from `low` on that start alike and whose entering slices fit into memory."""
        alike = self.family.last_window(self.family.first_slice(low)) + 1
        fits = self.family.first_window(self.fresh.reach(self.family.entered(low)))
        return min(self.until, alike, low + most, max(low + 1, fits))

    def _windows(self, total: Node, rows: Rows, low: int, high: int) -> Node:
        """Return windows `low` up to `high`, one after another; `total` becomes that of the last one."""
        if self.additive and self._sums_fit(total, rows):
            return self._summed(total, rows, low, high)
        return self._at_ends(total, self._scanned(total, rows), low, high)

    def _scanned(self, total: Node, rows: Rows) -> Rows:
        """Return rows sorted by key and slice; each has the total with all rows of the key up to this one."""
        rows = self.live.refresh(rows)
        rows = rows.take(argsorted(np.asarray(rows.codes)))
        begins = np.diff(np.asarray(rows.codes), prepend=-1) != 0
        segment, starts = np.cumsum(begins) - 1, np.flatnonzero(begins)
        first, counts, partials = self._onto(total, rows.take(starts)), rows.records.copy(), dict[int, Partials]()
        for i in self.chosen:
            for column, new in zip(rows.partials[i], first.partials[i], strict=True):
                column[starts] = new
            partials[i] = running(self.shape.kernels[i], rows.partials[i], segment, starts, self._places(rows))
        counts[starts] = first.records
        sums = np.cumsum(counts)
        return replace(rows, records=sums - (sums - counts)[starts][segment], partials=partials)

    def _onto(self, node: Node, rows: Rows) -> Rows:
        """Return rows as the newer part of the node's partials of their keys."""
        older, every = node.at(np.asarray(rows.codes)), np.arange(len(rows))
        for i in self.chosen:
            parts = Combined(self.shape.kernels[i], older.partials[i], older.records > 0, self._places(rows))
            parts.add(every, rows.partials[i], every)
        return replace(rows, records=older.records + rows.records, partials=older.partials)

    def _places(self, rows: Rows) -> Callable[[int], str]:
        return lambda row: show_key(self.live.names, int(np.asarray(rows.codes)[row]))

    def _at_ends(self, before: Node, rows: Rows, low: int, high: int) -> Node:
        """Return windows `low` up to `high`, one after another: of each key the last row before the end of the window.

        Rows are sorted by key and slice. A key without such a row has its partial of `before`, which becomes that of
        the last window.
        """
        keys, ends = len(self.live.names), self.family.end_slice(np.arange(low, high))
        last = np.zeros((high - low, keys), dtype=np.int64)
        last[0] = np.arange(keys)
        last[np.searchsorted(ends, rows.index, side="right"), rows.codes] = keys + np.arange(len(rows))
        at = np.maximum.accumulate(last, axis=0).ravel()
        pairs = {i: zip(before.partials[i], rows.partials[i], strict=True) for i in self.chosen}
        partials = {i: [np.concatenate(pair)[at] for pair in pairs[i]] for i in self.chosen}
        windows = Node(self.live, self.chosen, np.append(before.records, rows.records)[at], partials)
        before.put(rows)
        return windows

    def _sums_fit(self, total: Node, rows: Rows) -> bool:
        return all(self.shape.kernels[i].sums_fit(total.partials[i], rows.partials[i]) for i in self.chosen)

    def _summed(self, total: Node, rows: Rows, low: int, high: int) -> Node:
        keys = len(self.live.names)
        at = (self.family.first_window(rows.index) - low) * keys + np.asarray(rows.codes)

        def sums(held: Array, more: Array) -> Array:
            grid = np.zeros((high - low) * keys, dtype=held.dtype)
            grid[:keys] = held
            np.add.at(grid, at, more)
            table = grid.reshape(high - low, keys)
            np.cumsum(table, axis=0, out=table)
            held[:] = table[-1]
            return grid

        records = sums(total.records, rows.records)
        partials = {i: [sums(*of) for of in zip(total.partials[i], rows.partials[i], strict=True)] for i in self.chosen}
        return Node(self.live, self.chosen, records, partials)

    def _from_slices(self, window: int) -> Node:
        """Return the total of the window before `window`, computed from the slices that both hold."""
        total = self.live.node(self.chosen)
        first, end = self.family.first_slice(window), self.family.entered(window)
        stored, step = self.close_range.entered, Frame(self.live, self.fresh.block).at_once
        for low in range(first, end, step):
            high = min(end, low + step)
            parts = [*self.close_range.slice_groups.read(low, min(high, stored)), self.fresh.between(low, high)]
            total.append_slices(self._placed(fold(self.shape, parts)))
        return total

    def _save(self, total: Node) -> None:
        if self.leaves_nodes and not self._begins(self.end):
            self.cache.save(TOTAL, total.block())
        else:
            self.cache.clear()

    def _placed(self, block: Block) -> Rows:
        return self.live.place(block, self.chosen)
