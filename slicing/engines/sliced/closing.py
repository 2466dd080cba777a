"""One close of a bucket: the trees move over the slices that enter and leave, and windows are read from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np

from slicing.assembly.assembling import assemble
from slicing.assembly.partitions import PARTITION_BYTES, InOrder, key_partitions
from slicing.assembly.results import FRAME_ROWS, Windows
from slicing.assembly.trees.nodes import Live, Node, Rows
from slicing.assembly.trees.three_layer import ThreeLayer
from slicing.assembly.trees.two_layer import TwoLayer
from slicing.content.block import Block, Shape, concat, empty
from slicing.content.folding import fold
from slicing.content.sizes import memory
from slicing.state.format.list_names import THREE_LAYER, TWO_LAYER
from slicing.state.lists import PageLists
from slicing.windows.families.family import Family, regular
from slicing.windows.time.slices import FOREVER


class Stored(Protocol):
    """The interface of the stored slices that have entered."""

    def read(self, first: int, end: int) -> Iterator[Block]:
        """Yield all stored rows of slices `first` up to but not including `end`, late rows last."""


@dataclass(frozen=True)
class CloseRange:
    """The range of one close: windows `first` up to `until` close, and window `end` is the next to close after that.

    slice_groups: the slices that have entered, in pages.
    fresh: the new rows since the last close of slices before `entered`, all rows of slices that enter now, wherever
        they are stored, and some rows of later slices.
    late: rows of slices that had entered before, which the caches do not contain yet; they are late for some windows.
    cache: returns the lists for the nodes of some kernels, by the name of their tree.
    cached: whether these nodes are there for window `first`.
    entered: the first slice that had not entered before the micro-batch. A close may continue where another close of
        the same micro-batch ended.
    """

    shape: Shape
    trees: Sequence[str]
    slice_groups: Stored
    fresh: InOrder
    late: Sequence[InOrder]
    cache: Callable[[str, Shape], PageLists]
    cached: bool
    first: int
    until: int
    end: int
    entered: int

    def late_rows(self, oldest: int) -> Iterator[Block]:
        """Yield the rows that are late for some windows, from slice `oldest` on."""
        entered = self.shape.family.entered(self.first)
        return (part for rows in self.late for part in rows.parts(oldest, entered))


def at_once(close_range: CloseRange) -> Iterator[tuple[Windows, Block | None]]:
    """Yield the windows of a close, assembled from slices, with all these slices, folded, if they fit into memory."""
    shape, family = close_range.shape, close_range.shape.family
    oldest, end = family.first_slice(close_range.first), family.entered(close_range.until)
    sources = [
        close_range.slice_groups.read(oldest, min(end, close_range.entered)),
        close_range.fresh.parts(oldest, end),
    ]
    if shape.keeps_records:  # records are concatenated in their order, however they are grouped
        sources = [chain(*sources)]
    for partition in key_partitions(shape, sources, close_range.first, close_range.until):
        rows = fold(shape, partition.blocks)
        partition.blocks.clear()  # otherwise they would be in memory twice
        for frame in assemble(shape, close_range.trees, rows, partition.first, partition.end):
            yield frame, rows if partition.is_all else None


class Close(Protocol):
    """The interface of one close of a bucket."""

    @property
    def leaves_nodes(self) -> bool:
        """Whether its cached nodes are those for the next window to close."""

    def windows(self) -> Iterator[Windows]:
        """Yield all windows that hold a record, in frames of bounded size."""


class FromSlices:
    """A close of windows with different numbers of slices: each is assembled from its slices, which are read once."""

    leaves_nodes = False

    def __init__(self, close_range: CloseRange):
        self.close_range = close_range

    def windows(self) -> Iterator[Windows]:
        """Yield all windows that hold a record, in frames of bounded size."""
        return (frame for frame, _ in at_once(self.close_range))


def jumps(family: Family, windows: int) -> bool:
    """Whether a close of so many windows jumps over a whole window: then caches are useless, and none remain."""
    return windows * regular(family).per_advance >= family.longest


class Closing:
    """One close of windows with equal numbers of slices. It writes only the trees' nodes.

    `leaves_nodes` tells whether the nodes will be there for window `end`. Memory is bounded: slices are read together
    only as long as they fit, see `key_partitions`.
    """

    def __init__(self, close_range: CloseRange):
        self.close_range, self.trees = close_range, close_range.trees
        self.shape, self.family = close_range.shape, close_range.shape.family
        self.slice_groups, self.fresh = close_range.slice_groups, close_range.fresh
        self.first, self.until, self.end = close_range.first, close_range.until, close_range.end
        self.cached = close_range.cached
        self.live = Live(self.shape)
        self._frame = Frame(self.live, self.fresh.block)
        self._held, self._held_until = empty(self.shape), -FOREVER
        self.two = tuple(i for i, tree in enumerate(self.trees) if tree == "two_layer")
        self.three = tuple(i for i, tree in enumerate(self.trees) if tree == "three_layer")
        chosen = {TWO_LAYER: self.two, THREE_LAYER: self.three}
        self.nodes = {name: close_range.cache(name, self.shape.select(kernels)) for name, kernels in chosen.items()}
        self.jumps = jumps(self.family, self.until - self.first)

    @property
    def leaves_nodes(self) -> bool:
        """Whether nodes remain for window `end`. Not after a jump: the next close may jump, too, and not use them."""
        return self.until == self.end and not self.jumps

    def windows(self) -> Iterator[Windows]:
        """Yield all windows that hold a record, in frames of bounded size."""
        if self.jumps or not self.cached or not (self.two or self.three):
            return self._at_once()
        return self._one_by_one()

    def _slices(self, first: int, end: int) -> Block:
        """Return the folded rows of entered slices, both stored ones and those that enter in this close."""
        if end <= self._held_until:
            return self._held.between(first, end)
        before = min(end, self.close_range.entered)
        entered = fold(self.shape, [*self.slice_groups.read(first, before), self.fresh.between(first, before)])
        return fold(self.shape, [entered, self.fresh.between(max(first, before), end)])

    def _hold(self, first: int, end: int) -> None:
        """Hold the slices `first` up to `end` in memory, read once: both trees read the slices that leave next."""
        if end > max(first, self._held_until):
            known = max(first, self._held_until)
            self._held = fold(self.shape, [self._held.between(first, known), self._slices(known, end)])
            self._held_until = end

    def _rows(self, first: int, end: int) -> Rows:
        return self._placed(self._slices(first, end))

    def _placed(self, block: Block) -> Rows:
        return self.live.place(block, range(len(self.shape.kernels)))

    def _in_steps(self, first: int, end: int) -> Iterator[Rows]:
        """Yield the rows of entered slices; slices that are not in memory are read a few at a time."""
        while first < end:
            high = end if end <= self._held_until else min(end, first + self._frame.at_once)
            yield self._rows(first, high)
            first = high

    def _at_once(self) -> Iterator[Windows]:
        """Yield the windows from slices: after a jump over a whole window, or if the tree is `recompute`."""
        end = self.family.entered(self.until)
        for frame, rows in at_once(self.close_range):
            if rows is not None:
                self._held, self._held_until = rows, end
            yield frame
        if self.leaves_nodes:
            self._rebuild()
        else:
            for nodes in self.nodes.values():
                nodes.clear()

    def _rebuild(self) -> None:
        """Rebuild the caches: for the window before `end`, without the slices that leave before `end`."""
        oldest = self.family.first_slice(self.end)
        if self.two:
            two = TwoLayer(self.live, self.two, self.nodes[TWO_LAYER])
            two.reset(self.live.node(self.two))
            for rows in self._in_steps(oldest, self.family.entered(self.end)):
                two.late(rows)
            two.save()
        if self.three:
            three = self._three_layer()
            three.rebuild(oldest)
            three.save()

    def _three_layer(self) -> ThreeLayer:
        until = self.family.first_slice(self.until - 1)
        reading = self._rows, self._in_steps
        return ThreeLayer(self.live, self.three, self.nodes[THREE_LAYER], *reading, self.first, until)

    def _one_by_one(self) -> Iterator[Windows]:
        """Yield the windows from caches: slices enter, a window is read, slices leave."""
        two = TwoLayer(self.live, self.two, self.nodes[TWO_LAYER]) if self.two else None
        three = self._three_layer() if self.three else None
        self._add_late(two, three)
        if three and self.until > self.first + 1:
            three.learn_keys()
        low = self.first
        while low < self.until:
            end = self._ahead(low)
            yield from self._stretch(two, three, low, end)
            low = end
        if self.leaves_nodes:
            for tree in (two, three):
                if tree:
                    tree.save()
        if self._frame.rows:
            yield self._frame.take()

    def _add_late(self, two: TwoLayer | None, three: ThreeLayer | None) -> None:
        oldest = self.family.first_slice(self.first)
        for late in map(self._placed, self.close_range.late_rows(oldest)):
            if two:
                two.late(late)
            if three:
                three.late(late, oldest)

    def _stretch(self, two: TwoLayer | None, three: ThreeLayer | None, low: int, end: int) -> Iterator[Windows]:
        """Yield full frames of windows `low` up to `end`.

        The slices that enter and leave them are read together: about one row per emitted row.
        """
        entered, first_slice = self.family.entered, self.family.first_slice
        fresh = self._placed(self.fresh.between(entered(low), entered(end)))
        oldest, left = first_slice(low), first_slice(end)
        reach = three.reach(first_slice(end - 1)) if three else oldest
        self._hold(oldest, max(left, reach) if two else reach)
        if two:
            leaving = self._rows(oldest, left).only(self.two)
        while low < end:
            fresh = self.live.refresh(fresh)
            high = min(end, low + self._frame.at_once)
            if three:
                high = three.together(low, high)
            enter, nodes = range(entered(low), entered(high)), []
            if three:  # before the two-layer tree, as this may read keys that are new here
                nodes.append(three.windows(low, high, fresh.only(self.three).between(enter.start, enter.stop)))
            if two:
                leave = range(first_slice(low), first_slice(high))
                nodes.append(two.windows(fresh.only(self.two), enter, leaving, leave))
            self._frame.add(low, nodes)
            low = high
            if self._frame.is_full:
                yield self._frame.take()

    def _ahead(self, low: int) -> int:
        """Return the end of the windows from `low` on that fill a frame and whose entering slices fit into memory."""
        fits = self.family.first_window(self.fresh.reach(self.family.entered(low)))
        return min(self.until, low + self._frame.at_once, max(low + 1, fits))


class Frame:
    """Windows collected until they fill a frame; `sample` has rows of about the same size in bytes."""

    def __init__(self, live: Live, sample: Block | None):
        self.live = live
        self.rows = self.size = 0
        self._row = _row_memory(live.shape, sample) if sample is not None and len(sample) else 24.0
        self._windows: list[Rows] = []

    @property
    def at_once(self) -> int:
        """The number of windows, of all keys, that fill a frame; at least one."""
        rows = min(FRAME_ROWS, int(PARTITION_BYTES / self._row))
        return max(1, rows // max(1, len(self.live.names)))

    @property
    def is_full(self) -> bool:
        """Whether the collected windows fill a frame."""
        return self.rows >= FRAME_ROWS or self.size >= PARTITION_BYTES

    def add(self, first: int, nodes: Sequence[Node]) -> None:
        """Add consecutive windows from `first` on; each of the nodes holds some of the kernels for all windows."""
        all_rows = [node.rows() for node in nodes]
        rows = all_rows[0]
        if not len(rows):
            return
        partials = {i: columns for some in all_rows for i, columns in some.partials.items()}
        dictionaries = {i: dictionary for some in all_rows for i, dictionary in some.dictionaries.items()}
        windows, codes = np.divmod(np.asarray(rows.codes), len(self.live.names))
        together = Rows(first + windows, codes, rows.records, partials, dictionaries)
        self._windows.append(together)
        self._row = _row_memory(self.live.shape, self._block(together))
        self.rows += len(rows)
        self.size += int(self._row * len(rows))

    def _block(self, rows: Rows) -> Block:
        return self.live.block(rows, range(len(self.live.shape.kernels)))

    def take(self) -> Windows:
        """Return the windows collected so far, and begin a new frame."""
        blocks = [self._block(rows) for rows in self._windows]
        self._windows, self.rows, self.size = [], 0, 0
        block = concat(self.live.shape, blocks)
        return Windows(block.index, block.keys, block.names, block.records, block.partials, block.dictionaries)


def _row_memory(shape: Shape, block: Block) -> float:
    """Return the size of a row in memory, in bytes, without its key."""
    return (memory(shape, block) - int(block.names.nbytes)) / len(block)
