"""Find closed windows whose result differs from the previous one's: only slices that enter or leave change results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.comparing import differing, result_codes
from slicing.assembly.partitions import InOrder, Partition, key_partitions
from slicing.assembly.ranges.point_lookups import lookup
from slicing.assembly.results import Windows
from slicing.content.block import Block, with_common_names
from slicing.content.folding import fold
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

    The previous window is the last one that may be emitted: repeated windows are skipped. Results are not stored: the
    result of the previous window is assembled from slices, too. A family that was added to a checkpoint closes with the
    others once it has complete windows.
    """

    def __init__(self, families: Sequence[FamilyWindows], slices: Slices, tombstones: bool):
        self.slices, self.tombstones = slices, tombstones
        self.families = [progress for progress in families if progress.end > progress.first]
        marks = {progress.family.entered(progress.first) for progress in families}
        self._together = marks == {slices.entered}

    def closed(self, progress: FamilyWindows, fresh: InOrder) -> Iterator[Windows]:
        """Yield the changed windows of those that close; keep the slices that entered, for the next comparison."""
        with closing(progress.news(fresh)) as news:
            first, until, oldest = progress.first, self._until(progress), self._oldest(progress)
            entered = FOREVER if self._together else progress.family.entered(first)
            sources = [
                self.slices.cache.slices([(oldest, entered)], keep=oldest),
                news.parts(oldest, progress.family.entered(until)),
            ]
            for partition in key_partitions(progress.shape, sources, first, until, _distance(progress, first, until)):
                yield from self._changed(progress, partition)
            if progress is self.families[-1]:  # they close together
                self._remember(news)

    def _until(self, progress: FamilyWindows) -> int:
        after = np.array([progress.last + 1])
        return min(progress.end, int(emitted_from(progress.family, after, progress.by_end)[0]) + 1)

    def _oldest(self, progress: FamilyWindows) -> int:
        """Return the first slice of the window with which the first closing window is compared."""
        return progress.family.first_slice(emitted_before(progress.family, progress.first, progress.by_end))

    def _changed(self, progress: FamilyWindows, partition: Partition) -> Iterator[Windows]:
        """Yield the changed windows of a partition, which has slices that the previous window had seen, and new rows.

        In a later range of windows, the previous window has seen the new rows, too. If the first window of all has no
        previous one, every key with records in it has a row.
        """
        stored, fresh = blocks = with_common_names(partition.blocks)
        everything, is_later = fold(progress.shape, blocks), partition.first > progress.first
        is_known = is_later or progress.state.retained_from < progress.first
        seen = everything if is_later else stored if is_known else stored.take(slice(0))
        news = fresh if is_known and not is_later else everything
        count = max(1, -(-memory(progress.shape, everything) // STEP_BYTES))
        edges = np.linspace(0, len(everything.names), count + 1).astype(np.int64)
        for low, high in pairwise(edges.tolist()):
            old, new, rows = (
                block.take(np.flatnonzero((block.keys >= low) & (block.keys < high)))
                for block in (seen, news, everything)
            )
            keys, windows = _candidates(progress, rows, new, partition.first, partition.end)
            yield from self._differing(progress, rows, old, keys, windows, partition.first)

    def _differing(
        self, progress: FamilyWindows, rows: Block, seen: Block, keys: Array, windows: Array, first: int
    ) -> Iterator[Windows]:
        """Yield the windows that differ from the one before them; `seen` has the rows of the window before `first`."""
        shape, whole, is_first = progress.shape, progress.complete, np.diff(keys, prepend=-1) != 0
        some, is_asked = keys[is_first], np.zeros(len(rows.names), dtype=bool)
        is_asked[some] = True
        rows, seen = (block.take(np.flatnonzero(is_asked[block.keys])) for block in (rows, seen))
        before = np.full(len(some), emitted_before(progress.family, first, progress.by_end))
        there = whole(lookup(shape, rows, keys, windows), rows)
        now, last = result_codes(progress.compared, [there, whole(lookup(shape, seen, some, before), seen)])
        previous = np.append(-1, now[:-1])
        previous[is_first] = last
        yield from differing(there, now, previous, self.tombstones)

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


def _candidates(progress: FamilyWindows, rows: Block, new: Block, first: int, until: int) -> tuple[Array, Array]:
    """Return the keys and the windows `first` up to `until` whose results may differ from those before, in order.

    They are the first windows with a new row, and the first ones without a row of `rows`.
    """
    family, since = progress.family, set(progress.compared.since)
    # A result that was added differs, for every key, in the first window that has it.
    begins = family.slice_at(np.array([at - 1 for at in since if at is not None], dtype=np.int64))
    held = np.unique(rows.keys) if len(begins) else rows.keys[:0]
    leaving = progress.left(np.concatenate([rows.index, np.repeat(begins, len(held))]))
    left = np.concatenate([rows.keys, np.tile(held, len(begins))])
    entering = np.maximum(family.first_window(new.index), first)
    keys = np.concatenate([new.keys, *[left] * len(leaving)])
    windows = emitted_from(family, np.concatenate([entering, *leaving]), progress.by_end)
    inside = (windows >= first) & (windows < until)
    pairs = Pairs.over(windows[inside], len(rows.names))
    packed = np.sort(pairs.pack(keys[inside], windows[inside]))  # np.unique may hash first: most are distinct already
    return pairs.unpack(packed[np.diff(packed, prepend=-1) != 0])
