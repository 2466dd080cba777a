"""Closed windows whose result is not that of the window before: only where a slice with records enters or leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.comparing import differing, result_codes
from slicing.assembly.partitions import InOrder, portions
from slicing.assembly.ranges.point_lookups import pick
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.folding import fold
from slicing.content.marks import under
from slicing.content.pairs import Pairs
from slicing.content.sizes import memory
from slicing.engines.sliced.emitting import Emitting
from slicing.engines.sliced.family_windows import Walker
from slicing.triggers.emission import WITH_DRAINED
from slicing.windows.time.slices import FOREVER

STEP_BYTES = 8 << 20
"""Of so many bytes of rows the windows are picked at once, which takes some times as many."""


class Changes(Emitting):
    """`on_change()`: closed windows whose result differs from the one before."""

    def closed(self, walker: Walker, fresh: InOrder) -> Iterator[Windows]:
        """The changes among windows that close; what entered with them is kept to be compared with."""
        with closing(walker.news(fresh)) as news:
            first, until = walker.first, self._until(walker)
            known, oldest = walker.walk.kept < first, walker.family.first_slice(first - 1)
            entering = oldest, walker.family.entered(until)
            drained = self.emission.what == WITH_DRAINED
            sources = [self.slices.recent.slices([(oldest, FOREVER)], keep=oldest), news.parts(*entering)]
            for portion in portions(walker.shape, sources, first, until, before=1):
                (kept, came), inside = portion.blocks, portion.first > first
                some = portion.first, portion.end, known or inside, drained
                yield from changes(walker.shape, kept, came, *some, walker.compared, walker.whole, inside, walker.left)
            if walker is self.walkers[-1]:  # they close together
                self._remember(news)

    def _until(self, walker: Walker) -> int:
        return min(walker.end, walker.last + 2)

    def _remember(self, news: InOrder) -> None:
        if news.block is None:
            self.slices.recent.drop()
            return
        oldest = min(walker.family.first_slice(walker.first - 1) for walker in self.walkers)
        entered = max(walker.family.entered(self._until(walker)) for walker in self.walkers)
        self.slices.recent.add(news.block.between(oldest, entered))


def changes(
    shape: Shape,
    stored: Block,
    fresh: Block,
    first: int,
    until: int,
    known: bool,
    drained: bool,
    shown: Shape,
    whole: Callable[[Windows, Block], Windows],
    seen: bool = False,
    left: Sequence[Callable[[Array], Array]] = (),
) -> Iterator[Windows]:
    """The windows `first` up to `until` that differ from the one before, of every key.

    `stored` has the folded slices that window `first` - 1 saw, and `fresh` what came since. Without `known` the window
    before `first` is not, and every key with records in `first` has a row. With `seen` it saw what is fresh too. The
    last result of a key is not kept: it is that of the window before, which is made from slices too. `whole` completes
    windows of `shape`, made of some rows, to those of `shown`, which are compared and yielded. `left` give, for slices,
    the first windows that what is beside no longer sees them in.
    """
    slicing = shape.slicing
    everything = fold(shape, [stored, fresh])
    before, news = (everything if seen else stored), (fresh if known and not seen else everything)
    before, news = (under(block, everything.names) for block in (before, news))
    count = max(1, -(-memory(shape, everything) // STEP_BYTES))
    edges = np.linspace(0, len(everything.names), count + 1).astype(np.int64)
    for low, high in pairwise(edges.tolist()):
        old, new, rows = (
            block.take(np.flatnonzero((block.keys >= low) & (block.keys < high)))
            for block in (before, news, everything)
        )
        entering = np.maximum(slicing.first_window(new.slices), first)
        leaving = [slicing.last_window(rows.slices) + 1, *(of(rows.slices) for of in left)]
        keys = np.concatenate([new.keys, *[rows.keys] * len(leaving)])
        windows = np.concatenate([entering, *leaving])
        inside = (windows >= first) & (windows < until)
        pairs = Pairs.over(windows[inside], len(everything.names))
        keys, windows = pairs.unpack(np.unique(pairs.pack(keys[inside], windows[inside])))
        some = np.unique(keys)
        old = old if known else old.take(slice(0))
        there = whole(pick(shape, rows, keys, windows), rows)
        last_one = whole(pick(shape, old, some, np.full(len(some), first - 1)), old)
        now, last = result_codes(shown, [there, last_one])
        heads = np.diff(keys, prepend=-1) != 0
        previous = np.append(-1, now[:-1])
        previous[heads] = last
        yield from differing(there, now, previous, drained)
