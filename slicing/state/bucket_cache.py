"""The bucket cache: the latest slices of a bucket, and blocks derived from them, in the memory of a worker process.

A process may run another bucket next, or run this bucket again after another process has run it. Therefore a cache
entry is found by a random nonce, which is also stored in the header of the bucket: the entry is used only if it was
made together with that header. Blocks are never changed in place, because a micro-batch that fails is run again on the
entry of the micro-batch before it.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from sys import getsizeof

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.spill import SPILL
from slicing.content.block import Block, Shape, concat
from slicing.content.folding import fold
from slicing.windows.families.family import Family
from slicing.windows.time.slices import FOREVER

KEPT_BYTES = 128 << 20
"""The limit of the cache in bytes, for all buckets of a process together. The slices of the least recently used entries
are dropped first: derived blocks are smaller, and all slices would have to be read to compute them again."""
SAMPLE = 256
"""The number of evenly spread Python objects of an array whose size is measured."""


@dataclass(frozen=True)
class CacheEntry:
    """A cache entry: the slices from `first` on, in parts, and the derived blocks by name.

    Earlier parts hold the older rows of a slice.
    """

    first: int
    parts: list[Block]
    derived: dict[str, Block]
    slices_bytes: int
    derived_bytes: int


_entries: OrderedDict[str, CacheEntry] = OrderedDict()


def forget() -> None:
    """Drop all entries, as a restart does."""
    _entries.clear()


class BucketCache:
    """The cached slices of a bucket from `first` on; older slices are read. `first` is FOREVER while none is cached.

    `read(first, end)` yields the stored rows of some slices and the rows added since, not folded. `what` is the text of
    the trigger: triggers cache different rows and blocks, and a restarted query may have another trigger on the same
    state. The layout of the kernels is part of the nonce for the same reason: functions for columns and functions for
    rows, or two views, have the same partials in pages but not in memory. `derived` has the blocks that were cached
    together with the slices, by name.
    """

    def __init__(self, shape: Shape, nonce: str, what: str, read: Callable[[int, int], Iterable[Block]]):
        layout = ",".join(kernel.layout for kernel in shape.kernels)
        self.shape, self.nonce, self.what, self.read = shape, nonce, f"{what} {layout} ", read
        self.first = FOREVER
        self.derived: Mapping[str, Block] = {}
        self._parts: list[Block] = []
        self._changed = False
        if nonce in _entries and nonce.startswith(self.what):
            entry = _entries[nonce]
            self.first, self._parts, self.derived = entry.first, entry.parts, entry.derived

    def add(self, block: Block) -> None:
        """Add the new records. They come after the cached rows of their slices."""
        if len(block):
            self._changed = True
            if self.first < FOREVER:
                self._parts = [*self._parts, block.between(self.first, FOREVER)]

    def slices(self, ranges: Sequence[tuple[int, int]], keep: int | None) -> Iterator[Block]:
        """Yield the rows of disjoint ranges of slices, the older rows of a slice first.

        The rows of a slice may be in several blocks, not folded. Slice `keep` and all later slices are cached when they
        are read, if they fit into the cache; few of these should be outside the ranges.
        """
        until = self.first
        if keep is not None:
            for block in self._reach(keep):
                yield from (block.between(first, end) for first, end in ranges)
            until = min(keep, self.first)
        for first, end in ranges:
            if first < until:
                yield from self.read(first, min(end, until))
            if end > self.first:
                yield self._block().between(max(first, self.first), end)

    def since(self, first: int) -> Iterator[Block]:
        """Yield the rows of slice `first` and all later slices, part by part, and cache the slices that are read."""
        yield from self._reach(first)
        for part in self._parts:
            yield part.between(max(first, self.first), FOREVER)

    def replace(self, first: int, end: int, merged: Callable[[Block], Block]) -> None:
        """Apply `merged`, which the pages use too, to the cached slices from `first` up to `end`.

        If only some of these slices are cached, all cached slices are dropped. If none is, another process may have
        cached them, so its entry must not be used again.
        """
        if first < self.first < end:
            self.drop()
        elif self.first <= first:
            edges = ((-FOREVER, first), (first, end), (end, FOREVER))
            self._parts = list(self._parts)  # the cached list must not be changed in place
            for at, part in enumerate(self._parts):
                older, some, newer = (part.between(*edge) for edge in edges)
                if len(some):
                    self._parts[at] = concat(self.shape, [older, merged(some), newer])
        self._changed = True

    def drop(self) -> None:
        """Drop all cached slices."""
        self.first, self._parts, self._changed = FOREVER, [], True

    def keep(self, first: int, derived: Mapping[str, Block] | None = None) -> str:
        """Cache the slices from `first` on, and the `derived` blocks, for the next micro-batch.

        Returns the nonce of the cache entry, or an empty text if nothing is cached.
        """
        derived = {name: block for name, block in (derived or {}).items() if len(block)}
        same = derived.keys() == self.derived.keys() and all(self.derived[name] is derived[name] for name in derived)
        if same and not self._changed and self.nonce.startswith(self.what):
            if self.nonce in _entries:
                _entries.move_to_end(self.nonce)
            return self.nonce
        _entries.pop(self.nonce, None)
        if self.first == FOREVER and not derived:
            return ""
        if any(SPILL.refers(chain.from_iterable(block.partials)) for block in (*self._parts, *derived.values())):
            return ""  # these rows refer to spilled values, which are released with the micro-batch; pages have them
        nonce = f"{self.what}{secrets.token_hex(8)}"
        oldest = self.first if self.first == FOREVER else max(first, self.first)
        parts = _stacked(self.shape, [_since(self.shape, part, oldest) for part in self._parts])
        made = {name: _compact(self.shape, block) for name, block in derived.items()}
        _entries[nonce] = CacheEntry(oldest, parts, made, _bytes(parts), _bytes(made.values()))
        _make_room()
        return nonce if nonce in _entries else ""

    def _reach(self, first: int) -> Iterator[Block]:
        """Read and cache the missing slices from `first` on; if they exceed the limit, yield them instead."""
        if first >= self.first:
            return
        blocks, found, size = iter(self.read(first, self.first)), [], 0
        for block in blocks:
            found.append(block)
            size += _bytes([block])
            if size > KEPT_BYTES:
                while found:
                    yield found.pop(0)
                yield from blocks
                return
        kept = [part.between(self.first, FOREVER) for part in self._parts]
        self._parts = [fold(self.shape, found), *kept]
        self.first, self._changed = first, True

    def _block(self) -> Block:
        if len(self._parts) != 1:
            parts = [part.between(self.first, FOREVER) for part in self._parts]
            self._parts = [_compact(self.shape, fold(self.shape, parts))]
        return self._parts[0]


def _stacked(shape: Shape, parts: list[Block]) -> list[Block]:
    """Merge parts until each one is more than twice as long as the next one.

    There are then few parts, and a row is folded only a few times in total, not in every micro-batch.
    """
    found: list[Block] = []
    for part in parts:
        found.append(part)
        while len(found) > 1 and len(found[-2]) <= 2 * len(found[-1]):
            found[-2:] = [_compact(shape, fold(shape, found[-2:]))]
    return found


def _since(shape: Shape, block: Block, first: int) -> Block:
    """Return the block without the rows before slice `first` if these are more than half of it, else the block itself.

    The rows are copied: a view would not free the memory of the others.
    """
    gone = int(np.searchsorted(block.index, first))
    return block if 2 * gone <= len(block) else _compact(shape, block.take(np.arange(gone, len(block))))


def _bytes(blocks: Iterable[Block]) -> int:
    """Return the bytes that blocks take in memory together.

    Shared arrays count once. An array counts in full even if a block refers only to a part of it.
    """
    held: dict[int, int] = {}
    for block in blocks:
        for column in (block.index, block.keys, block.records, *chain.from_iterable(block.partials)):
            whole = column.base if isinstance(column.base, np.ndarray) else column
            held[id(whole)] = whole.nbytes + (_object_bytes(whole) if whole.dtype == np.object_ else 0)
        for values in (block.names, *block.dictionaries):
            if values is not None:
                held[id(values)] = values.get_total_buffer_size()
    return sum(held.values())


def _object_bytes(items: Array) -> int:
    """Estimate the bytes that the Python objects of an array take, from a sample of `SAMPLE` of them."""
    some = items.reshape(-1)[:: max(1, items.size // SAMPLE)].tolist()
    sizes = [sum(map(getsizeof, (item, *item) if isinstance(item, tuple) else (item,))) for item in some]
    return items.size * sum(sizes) // max(1, len(sizes))


def _make_room() -> None:
    """Drop slices, then whole entries, until the cache is within `KEPT_BYTES`; least recently used ones first."""
    total = sum(entry.slices_bytes + entry.derived_bytes for entry in _entries.values())
    for nonce, entry in list(_entries.items()):
        if total > KEPT_BYTES:
            total -= entry.slices_bytes
            _entries[nonce] = replace(entry, first=FOREVER, parts=[], slices_bytes=0)
            if not entry.derived:
                del _entries[nonce]
    while total > KEPT_BYTES:
        total -= _entries.popitem(last=False)[1].derived_bytes


def _compact(shape: Shape, block: Block) -> Block:
    """Return the block without unused keys and dictionary values, which would otherwise pile up in a process."""
    used = np.zeros(len(block.names), dtype=bool)
    used[block.keys] = True
    if not used.all():
        keys = (np.cumsum(used) - 1)[block.keys]
        block = replace(block, keys=keys, names=block.names.filter(pa.array(used)))
    for i, dictionary in enumerate(block.dictionaries):
        if dictionary is not None and len(dictionary) > 2 * len(block):
            partials, dictionaries = list(block.partials), list(block.dictionaries)
            partials[i], dictionaries[i] = shape.kernels[i].from_arrow(
                shape.kernels[i].to_arrow(partials[i], dictionary)
            )
            block = replace(block, partials=partials, dictionaries=dictionaries)
    return block


def around(family: Family, slices: Array, first: int) -> list[tuple[int, int]]:
    """Return disjoint ranges of slices that hold all slices of all windows that cover one of `slices`.

    `slices` ascend. The part of a range before slice `first` is left out.
    """
    found: list[tuple[int, int]] = []
    lows = np.maximum(family.first_slice(family.first_window(slices)), first).tolist()
    highs = family.end_slice(family.last_window(slices)).tolist()
    for low, high in zip(lows, highs, strict=True):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        elif low < high:
            found.append((low, high))
    assert all(a[1] < b[0] for a, b in pairwise(found))
    return found
