"""What a worker process keeps of a bucket between two micro-batches: its latest slices, and blocks made from them.

A process may run another bucket next, or this one after another process ran it. So what is kept is found by a random
nonce, which the header of the bucket carries too: it is there only if it is what that header was written with. Blocks
are never changed in place: a micro-batch that fails runs again on what was kept before it.
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
"""What a process keeps of all its buckets together. Slices are dropped first, those used longest ago before others:
what is made from them is smaller, and to make it anew all of them are read."""
SAMPLE = 256
"""Of so many Python objects, evenly spread, the size is asked."""


@dataclass(frozen=True)
class _Kept:
    """The slices from `first` on in parts, the older rows of a slice in earlier ones; and what is made from slices."""

    first: int
    parts: list[Block]
    beside: dict[str, Block]
    slices_bytes: int
    beside_bytes: int


_kept: OrderedDict[str, _Kept] = OrderedDict()


class Recent:
    """The slices from `first` on, or nothing yet; the rest is read.

    `read(first, end)` gives the rows of some slices, not folded: what is stored, and what has been added since. `what`
    names the emission: each keeps rows and blocks of its own, and one may follow another on the same state. So may
    functions for columns on functions for rows, or one view on another: partials are the same in pages and not in
    memory. `beside` has
    the blocks that were kept with the slices, by name.
    """

    def __init__(self, shape: Shape, nonce: str, what: str, read: Callable[[int, int], Iterable[Block]]):
        layout = ",".join(kernel.layout for kernel in shape.kernels)
        self.shape, self.nonce, self.what, self.read = shape, nonce, f"{what} {layout} ", read
        self.first = FOREVER
        self.beside: Mapping[str, Block] = {}
        self._parts: list[Block] = []
        self._changed = False
        if nonce in _kept and nonce.startswith(self.what):
            kept = _kept[nonce]
            self.first, self._parts, self.beside = kept.first, kept.parts, kept.beside

    def add(self, block: Block) -> None:
        """Count rows that came; they are the newer part of their slices."""
        if len(block):
            self._changed = True
            if self.first < FOREVER:
                self._parts = [*self._parts, block.between(self.first, FOREVER)]

    def slices(self, ranges: Sequence[tuple[int, int]], keep: int | None) -> Iterator[Block]:
        """The rows of disjoint ranges of slices, the older ones of a slice first; not folded, or not all together.

        What is read of slice `keep` and all later ones is kept, if it is not too much; there should be few of them
        outside these ranges.
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
        """The rows of slice `first` and all later ones, likewise, in the parts they came in; what is read is kept."""
        yield from self._reach(first)
        for part in self._parts:
            yield part.between(max(first, self.first), FOREVER)

    def replace(self, first: int, end: int, merged: Callable[[Block], Block]) -> None:
        """Let `merged` combine slices from `first` up to `end`, as it does in pages; a part of them is forgotten."""
        if first < self.first < end:
            self.drop()
        elif self.first <= first:
            edges = ((-FOREVER, first), (first, end), (end, FOREVER))
            self._parts = list(self._parts)  # what is kept is never changed in place
            for at, part in enumerate(self._parts):
                older, some, newer = (part.between(*edge) for edge in edges)
                if len(some):
                    self._parts[at] = concat(self.shape, [older, merged(some), newer])
            self._changed = True

    def drop(self) -> None:
        """Keep no slices."""
        self.first, self._parts, self._changed = FOREVER, [], True

    def keep(self, first: int, beside: Mapping[str, Block] | None = None) -> str:
        """Keep the slices from `first` on, and blocks, for the next micro-batch.

        Returns their nonce, empty if there is nothing.
        """
        beside = {name: block for name, block in (beside or {}).items() if len(block)}
        same = beside.keys() == self.beside.keys() and all(self.beside[name] is beside[name] for name in beside)
        if same and not self._changed and self.nonce.startswith(self.what):
            if self.nonce in _kept:
                _kept.move_to_end(self.nonce)
            return self.nonce
        _kept.pop(self.nonce, None)
        if self.first == FOREVER and not beside:
            return ""
        if any(SPILL.refers(chain.from_iterable(block.partials)) for block in (*self._parts, *beside.values())):
            return ""  # what cells refer to is released with the micro-batch; pages have it
        nonce = f"{self.what}{secrets.token_hex(8)}"
        oldest = self.first if self.first == FOREVER else max(first, self.first)
        parts = _stacked(self.shape, [_since(self.shape, part, oldest) for part in self._parts])
        made = {name: _compact(self.shape, block) for name, block in beside.items()}
        _kept[nonce] = _Kept(oldest, parts, made, _bytes(parts), _bytes(made.values()))
        _make_room()
        return nonce if nonce in _kept else ""

    def _reach(self, first: int) -> Iterator[Block]:
        """Read what is not there of slice `first` and all later ones, or yield it if it is too much to be kept."""
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
    """The same rows in parts of which each is more than twice as long as the next one.

    So there are few, and a row is folded a few times in all, not in every micro-batch.
    """
    found: list[Block] = []
    for part in parts:
        found.append(part)
        while len(found) > 1 and len(found[-2]) <= 2 * len(found[-1]):
            found[-2:] = [_compact(shape, fold(shape, found[-2:]))]
    return found


def _since(shape: Shape, block: Block, first: int) -> Block:
    """The block without rows before slice `first`, once these are half of it: a copy frees them, a view would not."""
    gone = int(np.searchsorted(block.index, first))
    return block if 2 * gone <= len(block) else _compact(shape, block.take(np.arange(gone, len(block))))


def _bytes(blocks: Iterable[Block]) -> int:
    """What blocks take in memory together: what they share once, and all of an array that they have a part of."""
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
    """About what the Python objects of an array take, by a sample of them."""
    some = items.reshape(-1)[:: max(1, items.size // SAMPLE)].tolist()
    sizes = [sum(map(getsizeof, (item, *item) if isinstance(item, tuple) else (item,))) for item in some]
    return items.size * sum(sizes) // max(1, len(sizes))


def _make_room() -> None:
    """Drop slices, then whole entries, until what is kept has its bound."""
    total = sum(kept.slices_bytes + kept.beside_bytes for kept in _kept.values())
    for nonce, kept in list(_kept.items()):
        if total > KEPT_BYTES:
            total -= kept.slices_bytes
            _kept[nonce] = replace(kept, first=FOREVER, parts=[], slices_bytes=0)
            if not kept.beside:
                del _kept[nonce]
    while total > KEPT_BYTES:
        total -= _kept.popitem(last=False)[1].beside_bytes


def _compact(shape: Shape, block: Block) -> Block:
    """The block without keys and values that none of its rows has, or they would pile up in a process for ever."""
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
    """Disjoint ranges that hold, for each of some ascending slices, all slices of all windows that cover it.

    What lies before slice `first` is left out.
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
