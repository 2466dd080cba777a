"""Find closed windows whose result differs from the previous one's: only slices that enter or leave change results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.comparing import differing, result_codes
from slicing.assembly.partitions import InOrder, key_partitions
from slicing.assembly.ranges.point_lookups import lookup
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.folding import fold
from slicing.content.marks import under
from slicing.content.pairs import Pairs
from slicing.content.sizes import memory
from slicing.engines.sliced.family_windows import FamilyWindows
from slicing.engines.sliced.slices import Slices
from slicing.windows.families.family import emitted_before, emitted_from, repeats
from slicing.windows.time.slices import FOREVER

STEP_BYTES = 8 << 20
"""The size of the rows whose windows are selected at once, in bytes; the selection takes a small multiple of it."""


class Changes:
    """Closed windows whose result differs from the previous window's, of families that close together.

    A family that was added to a checkpoint closes with the others once it has complete windows.
    """

    def __init__(self, families: Sequence[FamilyWindows], slices: Slices, tombstones: bool):
        self.slices, self.tombstones = slices, tombstones
        self.families = [progress for progress in families if progress.end > progress.first]
        marks = {progress.family.entered(progress.first) for progress in families}
        self._together = marks == {slices.entered}

    def closed(self, progress: FamilyWindows, fresh: InOrder) -> Iterator[Windows]:
        """Yield the changed windows of those that close; keep the slices that entered, for the next comparison."""
        with closing(progress.news(fresh)) as news:
            first, until = progress.first, self._until(progress)
            known, oldest = progress.state.retained_from < first, self._oldest(progress)
            entering = oldest, progress.family.entered(until)
            entered = FOREVER if self._together else progress.family.entered(first)
            sources = [self.slices.cache.slices([(oldest, entered)], keep=oldest), news.parts(*entering)]
            before = _distance(progress, first, until)
            for partition in key_partitions(progress.shape, sources, first, until, before):
                (stored, new), inside = partition.blocks, partition.first > first
                some = partition.first, partition.end, known or inside, self.tombstones
                yield from changes(
                    progress.shape, stored, new, *some, progress.compared, progress.whole, inside, progress.left
                )
            if progress is self.families[-1]:  # they close together
                self._remember(news)

    def _until(self, progress: FamilyWindows) -> int:
        after = np.array([progress.last + 1])
        return min(progress.end, int(emitted_from(progress.family, after, progress.by_end)[0]) + 1)

    def _oldest(self, progress: FamilyWindows) -> int:
        """Return the first slice of the window with which the first closing window is compared."""
        return progress.family.first_slice(emitted_before(progress.family, progress.first, progress.by_end))

    def _remember(self, news: InOrder) -> None:
        if news.block is None or not self._together:
            self.slices.cache.drop()  # rows that are new to one family may already be in slice groups for another
            return
        oldest = min(map(self._oldest, self.families))
        entered = max(progress.family.entered(self._until(progress)) for progress in self.families)
        self.slices.cache.add(news.block.between(oldest, entered))


def _distance(progress: FamilyWindows, first: int, until: int) -> int:
    """Return the greatest distance, in windows, between a window of a range and the one that it is compared with."""
    if not progress.family.may_repeat:
        return 1
    windows = np.arange(emitted_before(progress.family, first, progress.by_end), until)
    emitted = windows[~repeats(progress.family, windows, progress.by_end)]
    return int(np.diff(emitted, append=until).max(initial=1))


def changes(
    shape: Shape,
    stored: Block,
    fresh: Block,
    first: int,
    until: int,
    known: bool,
    drained: bool,
    compared: Shape,
    whole: Callable[[Windows, Block], Windows],
    seen: bool = False,
    left: Sequence[Callable[[Array], Array]] = (),
) -> Iterator[Windows]:
    """Yield the windows `first` up to `until` of every key whose result differs from the previous window's.

    The previous window is the last one that may be emitted: repeated windows are skipped. Results are not stored: the
    result of the previous window is assembled from slices, too.

    stored: the folded slices that the window before `first` had seen.
    fresh: the newer rows; with `seen`, the window before `first` had seen these, too.
    known: whether the window before `first` is known; if not, every key with records in `first` has a row.
    whole: completes windows of `shape`, assembled from given rows, to windows of the shape `compared`.
    left: for each aligned family, a function from slices to the first windows whose aligned window lacks them.
    """
    family, by_end = shape.family, bool(left)
    before_first = emitted_before(family, first, by_end)
    # A result that was added differs, for every key, in the first window that has it.
    begins = family.slice_at(np.array([at - 1 for at in set(compared.since) if at is not None], dtype=np.int64))
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
        entering = np.maximum(family.first_window(new.index), first)
        held = np.unique(rows.keys) if len(begins) else rows.keys[:0]
        left_slices = np.concatenate([rows.index, np.repeat(begins, len(held))])
        leaving = [family.last_window(left_slices) + 1, *(of(left_slices) for of in left)]
        left_keys = np.concatenate([rows.keys, np.tile(held, len(begins))])
        keys = np.concatenate([new.keys, *[left_keys] * len(leaving)])
        windows = emitted_from(family, np.concatenate([entering, *leaving]), by_end)
        inside = (windows >= first) & (windows < until)
        pairs = Pairs.over(windows[inside], len(everything.names))
        keys, windows = pairs.unpack(np.unique(pairs.pack(keys[inside], windows[inside])))
        some = np.unique(keys)
        old = old if known else old.take(slice(0))
        there = whole(lookup(shape, rows, keys, windows), rows)
        last_one = whole(lookup(shape, old, some, np.full(len(some), before_first)), old)
        now, last = result_codes(compared, [there, last_one])
        heads = np.diff(keys, prepend=-1) != 0
        previous = np.append(-1, now[:-1])
        previous[heads] = last
        yield from differing(there, now, previous, drained)
