"""Closes of windows with a tail: the total of whole tails, and a running total of the tail in which the windows end.

::

    tails     |   1   |   2   |   3   |   4   |
    windows           [=======================|=)           whole tails 2 and 3 ...
                      [=======================|===)         ... and a part of tail 4
                              [=======================)     tails 3 and 4: a new running total begins

The total of whole tails is that of a hopping window whose slices are tails, with a tree of its own. The tree moves once
per tail; then the running total enters it. So a close reads two nodes and the entering slices, for any window size, and
combines only keys with new rows. The order of addition is that of `assembly.tails`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from slicing.assembly.partitions import InOrder
from slicing.assembly.results import Windows, as_block
from slicing.assembly.tails import TailsAsSlices
from slicing.assembly.trees.cache import LATE_WHOLES, TOTAL, WHOLE, node_of
from slicing.assembly.trees.nodes import Node, Rows
from slicing.content.block import Block, concat
from slicing.content.folding import fold, regroup, with_index
from slicing.engines.sliced.closing import CloseRange, Closing, Frame, Stored, at_once, jumps
from slicing.engines.sliced.running_totals import RunningClose
from slicing.state.format.list_names import TAILED, TREES
from slicing.windows.families.tailed import tailed
from slicing.windows.time.slices import FOREVER

MOST_TAILS = 16
"""The tails whose totals are held at a time, each a node of all keys."""


@dataclass(frozen=True)
class StoredTails:
    """The slices in pages, read as tails, together with the rows of `more`, which are not stored yet.

    `end` is the first slice that had not entered before the micro-batch; it and later slices are not read from pages.
    """

    slice_groups: Stored
    tails: TailsAsSlices
    end: int
    more: InOrder | None = None

    def read(self, first: int, end: int) -> Iterator[Block]:
        """Yield all rows of tails `first` up to but excluding `end`, some tails at a time, combined slice by slice."""
        for low in range(first, end, MOST_TAILS):
            start, stop = self.tails.first(low), self.tails.first(min(end, low + MOST_TAILS))
            parts = [*self.slice_groups.read(start, min(self.end, stop))]
            parts += [] if self.more is None else self.more.parts(start, stop)
            yield from self.tails.folded([fold(self.tails.shape, parts)])


class TailedClose(RunningClose):
    """One close.

    Window `first` continues from the nodes of the window before it: the total of its whole tails, the running total of
    the tail in which it ended, and the tree of whole tails. Late records of older tails are kept until this tree moves.
    Without nodes, after a jump over a whole window, and for late records with an order, windows are assembled from
    slices.
    """

    def __init__(self, close_range: CloseRange):
        super().__init__(close_range)
        self.own = tailed(self.family)
        self.tails = TailsAsSlices(self.shape, self.family, self.own)
        self.stored = StoredTails(close_range.slice_groups, self.tails, close_range.entered)
        self.known = replace(self.stored, more=close_range.fresh)
        self.cache = close_range.cache(TAILED, self.shape)
        self.tail = self.own.tail_of_end(self.first - 1)
        moved = self.own.tail_of_end(self.until - 1) - self.tail
        self.jumps = not close_range.cached or jumps(self.own.wholes, moved)

    def windows(self) -> Iterator[Windows]:
        """Yield all windows that hold a record, in frames of bounded size."""
        late = [] if self.jumps else list(self.close_range.late_rows(self.tails.first(self.tail - self.own.whole)))
        if self.jumps or (late and any(kernel.aggregate.ordered for kernel in self.shape.kernels)):
            for frame, _ in at_once(self.close_range):
                yield frame
            self._rebuild()
        else:
            yield from self._from_nodes(late)

    # From nodes.

    def _from_nodes(self, late: list[Block]) -> Iterator[Windows]:
        whole, run = (node_of(self.live, self.chosen, self.cache.load(name)) for name in (WHOLE, TOTAL))
        self._add_late(late, whole, run)
        frame, low = Frame(self.live, self.fresh.block), self.first
        wholes, changed, oldest = dict[int, Block](), bool(late), None
        if self.fresh.block is not None:
            self._placed(self.fresh.block.take(slice(0)))
        while low < self.until:
            tail = self.own.tail_of_end(low)
            if tail > self.tail:
                run.append_slices(self._placed(self.fresh.between(self.family.entered(low), self.tails.first(tail))))
                if tail not in wholes:  # a zone may leave out whole tails, whose totals are left over
                    wholes = self._wholes(run)
                self.tail, whole, run = tail, self._node(wholes.pop(tail)), self.live.node(self.chosen)
                changed, oldest = True, None
            high = self._together(low, frame.at_once)
            begin = max(self.family.entered(low), self.tails.first(tail))
            rows = self._placed(self.fresh.between(begin, max(begin, self.family.entered(high))))
            if oldest != self.own.first_tail(low):
                oldest = self.own.first_tail(low)
                base = self._longer(whole, oldest)
                total = base.copy()
                total.join(run)
            frame.add(low, [self._windows_of(base, run, total, rows, low, high)])
            low = high
            if frame.is_full:
                yield frame.take()
        if self.leaves_nodes:
            self.cache.save(TOTAL, run.block())
            if changed:
                self.cache.save(WHOLE, whole.block())
        else:
            self._clear()
        if frame.rows:
            yield frame.take()

    def _windows_of(self, base: Node, run: Node, total: Node, rows: Rows, low: int, high: int) -> Node:
        """Return windows `low` up to `high`, one after another; `run` and `total` become those of the last one.

        Only keys with new rows are combined: their totals are `base`, then the running total.
        """
        if self.additive and self._sums_fit(total, rows) and self._sums_fit(run, rows):
            run.append_sums(rows)
            return self._summed(total, rows, low, high)
        running = self._scanned(run, rows)
        run.put(running)
        return self._at_ends(total, self._onto(base, running), low, high)

    def _together(self, low: int, most: int) -> int:
        """Return the end of the windows from `low` on with a common start, whose entering slices fit into memory.

        They also end in the same tail.
        """
        own = self.own
        return min(super()._together(low, most), own.first_open(own.tails.edge(own.tail_of_end(low) + 1) - 1))

    def _add_late(self, late: list[Block], whole: Node, run: Node) -> None:
        """Add late rows to the nodes; late rows of whole tails are also kept for the tree."""
        begin = self.tails.first(self.tail)
        for rows in late:
            run.append_slices(self._placed(rows.between(begin, FOREVER)))
            older = with_index(self.shape, (of := rows.between(-FOREVER, begin)), self.tails.of(of.index))
            whole.append_slices(self._placed(older))
            self.cache.append(LATE_WHOLES, older)

    def _wholes(self, run: Node) -> dict[int, Block]:
        """Return, for each of the next tails that begin in this close, the total of the whole tails before it.

        `run` is the total of the tail before them. The last of them holds the end of a window.
        """
        own, until = self.own, self.own.tails.edge(self.tail + MOST_TAILS)
        last = own.tail_of_end(min(self.until - 1, own.first_open(until - 1)))
        running = replace(run.block(), index=np.full(len(run.rows()), self.tail))
        following = self.fresh.parts(self.tails.first(self.tail + 1), self.tails.first(last))
        rows = [running, *self.tails.folded(following)]
        late = self.cache.load(LATE_WHOLES)
        self.cache.drop(LATE_WHOLES)
        return self._totals(self.known, self.tail + 1, last + 1, self.tail, rows, [] if late is None else [late])

    def _totals(
        self,
        stored: Stored,
        first: int,
        end: int,
        entered: int,
        rows: list[Block],
        late: list[Block],
        cached: bool = True,
    ) -> dict[int, Block]:
        """Return the totals of the whole tails before tails `first` up to `end`, by tail, from a close of the tree.

        `stored` has the tails before `entered`; `rows` has the rows of these that are not stored, and all later tails.
        """
        whole, shape = self.own.whole, self.shape.over(self.own.wholes)
        windows, found = (first - whole, end - whole, end - whole), list[Block]()
        with closing(InOrder(shape, rows)) as fresh, closing(InOrder(shape, late)) as old:
            close_range = CloseRange(
                shape, self.close_range.trees, stored, fresh, [old], self.close_range.cache, cached, *windows, entered
            )
            found += [as_block(frame) for frame in Closing(close_range).windows()]
        totals = regroup(shape, concat(shape, found))
        return {tail: totals.between(tail - whole, tail - whole + 1) for tail in range(first, end)}

    def _longer(self, whole: Node, first: int) -> Node:
        """Return the total of whole tails extended by older tails, for windows that begin at tail `first`."""
        oldest = self.tail - self.own.whole
        if first == oldest:
            return whole
        rows = fold(self.shape, [*self.known.read(first, oldest)])
        return whole.with_older(self._placed(with_index(self.shape, rows, np.zeros_like(rows.index))))

    def _node(self, block: Block) -> Node:
        return node_of(self.live, self.chosen, replace(block, index=np.zeros_like(block.index)))

    # From slices.

    def _rebuild(self) -> None:
        """Store the nodes of the window before `end`; none if the next close begins at another window."""
        self._clear()
        if not self.leaves_nodes:
            return
        self.tail = self.own.tail_of_end(self.end - 1)
        begin, end = self.tails.first(self.tail), self.family.entered(self.end)
        wholes = self._totals(self.known, self.tail, self.tail + 1, self.tail, [], [], cached=False)
        self.cache.save(WHOLE, self._node(wholes[self.tail]).block())
        parts = [
            *self.close_range.slice_groups.read(begin, min(end, self.close_range.entered)),
            *self.fresh.parts(begin, end),
        ]
        rows = with_index(self.shape, (of := fold(self.shape, parts)), np.zeros_like(of.index))
        self.cache.save(TOTAL, rows)

    def _clear(self) -> None:
        for cache in (self.cache, *(self.close_range.cache(tree, self.shape) for tree in TREES)):
            cache.clear()
