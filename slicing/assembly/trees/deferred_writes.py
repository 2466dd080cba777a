"""Write the nodes of a tree at the end of a close, so that nodes that are dropped before are never written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from slicing.assembly.trees.node_keys import NodeKey
from slicing.content.block import Block, Shape
from slicing.content.sizes import memory

if TYPE_CHECKING:
    from slicing.assembly.trees.cache import Cache

DEFERRED_BYTES = 4 << 20
"""Deferred blocks that take more bytes than this together are written immediately."""


class Deferring:
    """The nodes of a tree by key, over a cache that stores them by name.

    A node is written on `flush`, or when the deferred blocks exceed `DEFERRED_BYTES`. This class converts keys to the
    names of stored state and back.
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
        """Return the block of that key, None if there is none."""
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
        """Remove a block, if it exists."""
        if key in self._waiting:
            self._size -= memory(self.shape, self._waiting.pop(key))
        else:
            self.cache.drop(key.name)

    def clear(self) -> None:
        """Remove all blocks."""
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
        """Write all deferred blocks."""
        for key in [*self._waiting]:
            self._write(key)

    def _write(self, key: NodeKey) -> None:
        if key in self._waiting:
            block = self._waiting.pop(key)
            self._size -= memory(self.shape, block)
            self.cache.save(key.name, block)
