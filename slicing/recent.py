"""The latest slices of a bucket, kept by the worker process between two micro-batches.

A process may run another bucket next, or this one after another process ran it. So what is kept is found by a random
nonce, which the header of the bucket carries too: it is there only if it is what that header was written with.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from slicing.blocks import Block, Shape, fold, row_bytes
from slicing.stripes import FOREVER

KEPT_BYTES = 256 << 20
"""What a process keeps of all its buckets together; those used longest ago are dropped first."""

_kept: OrderedDict[str, tuple[int, Block, int]] = OrderedDict()


class Recent:
    """The slices from `first` on, folded, or nothing yet; the rest is read.

    `read(first, end)` gives the rows of some slices, not folded: what is stored, and what has been added since. `what`
    names them: emissions keep different rows, and one may follow another on the same state. So may functions for
    columns on functions for rows, whose partials are the same in pages and not in memory.
    """

    def __init__(self, shape: Shape, nonce: str, what: str, read: Callable[[int, int], list[Block]]):
        layout = ",".join(f"{type(kernel).__name__}/{kernel.width}" for kernel in shape.kernels)
        self.shape, self.nonce, self.what, self.read = shape, nonce, f"{what} {layout} ", read
        self.first = FOREVER
        self._parts: list[Block] = []
        self._changed = False
        if nonce in _kept and nonce.startswith(what):
            self.first, block, _ = _kept[nonce]
            self._parts = [block]

    def add(self, block: Block) -> None:
        """Count rows that came; they are the newer part of their slices."""
        if len(block):
            self._changed = True
            if self.first < FOREVER:
                self._parts.append(block.between(self.first, FOREVER))

    def slices(self, ranges: Sequence[tuple[int, int]], newest: int) -> Block:
        """The folded rows of disjoint ranges of slices, in order; a range that reaches beyond `newest` is kept."""
        found: list[Block] = []
        for first, end in ranges:
            if end > newest and first < self.first:
                self._parts = [*self.read(first, self.first), *self._parts]
                self.first, self._changed = first, True
            if first < self.first:
                found.append(fold(self.shape, self.read(first, min(end, self.first))))
            if end > self.first:
                found.append(self._block().between(first, end))
        return fold(self.shape, found)

    def keep(self, first: int) -> str:
        """Keep the slices from `first` on for the next micro-batch; returns their nonce, empty if there are none."""
        if not self._changed and self.nonce.startswith(self.what):
            return self.nonce
        _kept.pop(self.nonce, None)
        if self.first == FOREVER:
            return ""
        block = _compact(self.shape, self._block().between(first, FOREVER))
        nonce = f"{self.what}{secrets.token_hex(8)}"
        _kept[nonce] = max(first, self.first), block, int(len(block) * row_bytes(self.shape, block))
        while sum(size for _, _, size in _kept.values()) > KEPT_BYTES:
            _kept.popitem(last=False)
        return nonce if nonce in _kept else ""

    def _block(self) -> Block:
        if len(self._parts) != 1:
            self._parts = [fold(self.shape, self._parts)]
        return self._parts[0]


def _compact(shape: Shape, block: Block) -> Block:
    """The block without keys and values that none of its rows has, or they would pile up in a process for ever."""
    used = np.zeros(len(block.names), dtype=bool)
    used[block.keys] = True
    if not used.all():
        keys = (np.cumsum(used) - 1)[block.keys]
        block = replace(block, keys=keys, names=block.names.filter(pa.array(used)))
    for i, (kernel, dictionary) in enumerate(zip(shape.kernels, block.dictionaries, strict=True)):
        if dictionary is not None and len(dictionary) > 2 * len(block):
            partials, dictionaries = list(block.partials), list(block.dictionaries)
            partials[i], dictionaries[i] = kernel.from_arrow(kernel.to_arrow(partials[i], dictionary))
            block = replace(block, partials=partials, dictionaries=dictionaries)
    return block


def around(slices: list[int], before: int, after: int, first: int) -> list[tuple[int, int]]:
    """Disjoint ranges that hold, for each of some ascending slices, `before` slices before it and `after` after it.

    What lies before slice `first` is left out.
    """
    found: list[tuple[int, int]] = []
    for index in slices:
        low, high = max(first, index - before), index + after + 1
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        elif low < high:
            found.append((low, high))
    assert all(a[1] < b[0] for a, b in pairwise(found))
    return found
