"""One close of a bucket: the trees move over the slices that enter and leave, and windows are read off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slicing.assembly import Windows, assemble
from slicing.blocks import Block, Shape, concat, empty, fold
from slicing.kinds import is_exact
from slicing.nodes import Live, Node, Rows
from slicing.pages import Nodes, Pages
from slicing.stripes import FOREVER, Stripes
from slicing.trees import ThreeLayer, TwoLayer

FRAME_ROWS = 250_000
MOVE_CELLS = 700
"""Moving the three-layer tree by a slice costs about as much as so many cells of windows that are assembled at once."""
SLICE_CELLS = 200
"""Reading a slice, for windows that are assembled at once, costs about as much as so many of their cells."""


class Closing:
    """Windows `first` up to `until` go out of a bucket, `end` is the next to close after that.

    `fresh` holds what came since the last close to slices that have entered before (it was late for some windows), all
    rows of slices that enter now, and some of later ones. Nothing is written but the trees' nodes. `cached` says
    whether they are there for window `first`, and `leaves_nodes` whether they will be for window `end`.
    """

    def __init__(
        self,
        shape: Shape,
        trees: Sequence[str],
        pages: Pages,
        stripes: Stripes,
        fresh: Block,
        windows: tuple[int, int, int],
        cached: bool,
    ):
        self.shape, self.slicing, self.trees, self.stripes, self.fresh = shape, shape.slicing, trees, stripes, fresh
        self.first, self.until, self.end = windows
        self.cached = cached
        self.entered_before = self.slicing.entered(self.first)
        self.live = Live(shape)
        self._held, self._held_until = empty(shape), -FOREVER
        self.two = tuple(i for i, tree in enumerate(trees) if tree == "two_layer")
        self.three = tuple(i for i, tree in enumerate(trees) if tree == "three_layer")
        self.nodes = {
            "two": Nodes(pages, "two", shape.select(self.two)),
            "three": Nodes(pages, "three", shape.select(self.three)),
        }
        self.jumps = self._jumps()

    @property
    def leaves_nodes(self) -> bool:
        """Not behind a jump: the next close may be another, which would not use them."""
        return self.until == self.end and not self.jumps

    def _jumps(self) -> bool:
        """Whether the caches are useless, or moved one slice after another at a higher cost than slices are read at.

        A close over a whole window is a jump. So is a smaller one of few keys, whose calls cost more than their cells,
        unless floats that came late would be combined in another order.
        """
        slices, n = (self.until - self.first) * self.slicing.per_advance, self.slicing.per_window
        price = (n + slices) / slices
        if slices >= n or price * SLICE_CELLS > MOVE_CELLS:
            return slices >= n
        if not (self.three and self.live.whole_arrays and self._same_order()):
            return False
        if self.cached:
            self._three_layer().learn_keys()
        keys = max(len(self.live.names), len(self.fresh.names))
        return price * (SLICE_CELLS + keys) <= MOVE_CELLS

    def _same_order(self) -> bool:
        fields = [field for i in self.three for field in self.shape.kernels[i].fields]
        late = self.stripes.late or len(self.fresh.between(self.slicing.first_slice(self.first), self.entered_before))
        return not late or all(is_exact(field.kind) for field in fields)

    def windows(self) -> Iterator[Windows]:
        """All windows that hold a record, in frames of bounded size."""
        if self.jumps or not self.cached or not (self.two or self.three):
            return self._at_once()
        return self._one_by_one()

    def _slices(self, first: int, end: int) -> Block:
        """The folded rows of entered slices, stored ones and those that enter in this close."""
        if end <= self._held_until:
            return self._held.between(first, end)
        before = min(end, self.entered_before)
        entered = fold(self.shape, [*self.stripes.read(first, before), self.fresh.between(first, before)])
        return fold(self.shape, [entered, self.fresh.between(before, end)])

    def _hold(self, first: int, end: int) -> None:
        """Keep the slices from `first` on, those up to `end` read once: both trees look at what is about to leave."""
        if end > max(first, self._held_until):
            known = max(first, self._held_until)
            self._held = fold(self.shape, [self._held.between(first, known), self._slices(known, end)])
            self._held_until = end

    def _rows(self, first: int, end: int) -> Rows:
        return self.live.place(self._slices(first, end), range(len(self.shape.kernels)))

    def _at_once(self) -> Iterator[Windows]:
        """From slices: a jump over a whole window makes the caches useless, and recomputing has none."""
        oldest = self.slicing.first_slice(self.first)
        self._hold(oldest, self.slicing.entered(self.until))
        yield from assemble(self.shape, self.trees, self._held, self.first, self.until)
        if self.leaves_nodes:
            self._rebuild()
        else:
            for nodes in self.nodes.values():
                nodes.clear()

    def _rebuild(self) -> None:
        """Caches for the window before `end`, less the slices that have left since."""
        oldest = self.slicing.first_slice(self.end)
        if self.two:
            two = TwoLayer(self.live, self.two, self.nodes["two"])
            two.reset(self.live.node(self.two))
            two.late(self._rows(oldest, self.slicing.entered(self.end)))
            two.save()
        if self.three:
            three = self._three_layer()
            three.rebuild(oldest)
            three.save()

    def _three_layer(self) -> ThreeLayer:
        until = self.slicing.first_slice(self.until - 1)
        return ThreeLayer(self.live, self.three, self.nodes["three"], self._rows, self.first, until)

    def _one_by_one(self) -> Iterator[Windows]:
        """From caches: slices enter, a window is read off, slices leave."""
        everything = range(len(self.shape.kernels))
        two = TwoLayer(self.live, self.two, self.nodes["two"]) if self.two else None
        three = self._three_layer() if self.three else None
        fresh = self.live.place(self.fresh, everything)
        oldest = self.slicing.first_slice(self.first)
        late = fresh.between(oldest, self.entered_before)
        if len(late):
            if two:
                two.late(late)
            if three:
                three.late(late, oldest)
        if three and self.until > self.first + 1:
            three.learn_keys()
        frame, ahead, low = _Frame(self.live), self.first, self.first
        while low < self.until:
            at_once = max(1, FRAME_ROWS // max(1, len(self.live.names)))
            oldest = self.slicing.first_slice(low)
            if low == ahead:
                # Read together what leaves in the next windows: about as many rows as they put out.
                ahead = min(self.until, low + at_once)
                end = self.slicing.first_slice(ahead)
                reach = three.reach(self.slicing.first_slice(ahead - 1)) if three else oldest
                self._hold(oldest, max(end, reach) if two else reach)
                if two:
                    leaving = self._rows(oldest, end).only(self.two)
            fresh = self.live.refresh(fresh)
            high = min(ahead, low + at_once, three.together(low) if three else ahead)
            entering, nodes = range(self.slicing.entered(low), self.slicing.entered(high)), []
            if three:  # first, as it may read keys that are new here
                rows = fresh.only(self.three).filled(self.live, entering.start, entering.stop)
                nodes.append(three.windows(oldest, rows))
            if two:
                leave = range(oldest, self.slicing.first_slice(high))
                nodes.append(two.windows(fresh.only(self.two), entering, leaving, leave))
            frame.add(low, nodes)
            low = high
            if frame.rows >= FRAME_ROWS:
                yield frame.take()
        if self.leaves_nodes:
            for tree in (two, three):
                if tree:
                    tree.save()
        if frame.rows:
            yield frame.take()


class _Frame:
    """Windows collected until they are worth a frame."""

    def __init__(self, live: Live):
        self.live = live
        self.rows = 0
        self._windows: list[Rows] = []

    def add(self, first: int, nodes: Sequence[Node]) -> None:
        """Take windows, from the one that is `first` on, of nodes on end that hold all kernels between them."""
        all_rows = [node.rows() for node in nodes]
        rows = all_rows[0]
        if not len(rows):
            return
        partials = {i: columns for some in all_rows for i, columns in some.partials.items()}
        dictionaries = {i: dictionary for some in all_rows for i, dictionary in some.dictionaries.items()}
        windows, codes = np.divmod(np.asarray(rows.codes), len(self.live.names))
        together = Rows(first + windows, codes, rows.records, partials, dictionaries)
        self._windows.append(together)
        self.rows += len(rows)

    def take(self) -> Windows:
        """The windows collected so far."""
        shape = self.live.shape
        blocks = [self.live.block(rows, range(len(shape.kernels))) for rows in self._windows]
        self._windows, self.rows = [], 0
        block = concat(shape, blocks)
        return Windows(block.slices, block.keys, block.names, block.records, block.partials, block.dictionaries)
