"""Nodes of a tree that are written when a close is over, so that those that do not last until then never are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from slicing.assembly.trees.node_keys import NodeKey
from slicing.content.block import Block, Shape
from slicing.content.sizes import memory

if TYPE_CHECKING:
    from slicing.assembly.trees.cache import Cache

DEFERRED_BYTES = 4 << 20
"""Blocks that take more than this together are written at once."""


class Deferring:
    """The nodes of a tree by key, over a cache that has them by name: it is written on `flush`, or as too much waits.

    Here keys become the names of stored state, and names keys.
    """

    def __init__(self, cache: Cache, shape: Shape):
        self.cache, self.shape = cache, shape
        self._waiting: dict[NodeKey, Block] = {}
        self._size = 0

    def __contains__(self, key: NodeKey) -> bool:
        return key in self._waiting or key.name in self.cache.names()

    def __iter__(self) -> Iterator[NodeKey]:
        yield from [*map(NodeKey.named, self.cache.names()), *self._waiting]

    def load(self, key: NodeKey) -> Block | None:
        """The block of that key, None if there is none."""
        return self._waiting[key] if key in self._waiting else self.cache.load(key.name)

    def save(self, key: NodeKey, block: Block) -> None:
        """Write or replace a block."""
        self.drop(key)
        if len(block):
            self._waiting[key] = block
            self._size += memory(self.shape, block)
            if self._size > DEFERRED_BYTES:
                self.flush()

    def drop(self, key: NodeKey) -> None:
        """Forget a block, if it is there."""
        if key in self._waiting:
            self._size -= memory(self.shape, self._waiting.pop(key))
        else:
            self.cache.drop(key.name)

    def clear(self) -> None:
        """Forget all blocks."""
        self.cache.clear()
        self._waiting.clear()
        self._size = 0

    def append(self, key: NodeKey, block: Block) -> None:
        """Add rows to a list of blocks."""
        if key not in self:
            self.save(key, block)
            return
        self._write(key)
        self.cache.append(key.name, block)

    def flush(self) -> None:
        """Write what waits."""
        for key in [*self._waiting]:
            self._write(key)

    def _write(self, key: NodeKey) -> None:
        if key in self._waiting:
            block = self._waiting.pop(key)
            self._size -= memory(self.shape, block)
            self.cache.save(key.name, block)
