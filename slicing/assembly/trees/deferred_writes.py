"""Nodes of a tree that are written when a close is over, so that those that do not last until then never are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slicing.content.block import Block, Shape
from slicing.content.sizes import memory

if TYPE_CHECKING:
    from slicing.assembly.trees.cache import Cache

DEFERRED_BYTES = 4 << 20
"""Blocks that take more than this together are written at once."""


class Deferring:
    """A `trees.Cache` over another one, to which it writes on `flush`, or when too much waits."""

    def __init__(self, cache: Cache, shape: Shape):
        self.cache, self.shape = cache, shape
        self._waiting: dict[str, Block] = {}
        self._size = 0

    def load(self, name: str) -> Block | None:
        """The block of that name, None if there is none."""
        return self._waiting[name] if name in self._waiting else self.cache.load(name)

    def save(self, name: str, block: Block) -> None:
        """Write or replace a block."""
        self.drop(name)
        if len(block):
            self._waiting[name] = block
            self._size += memory(self.shape, block)
            if self._size > DEFERRED_BYTES:
                self.flush()

    def drop(self, name: str) -> None:
        """Forget a block, if it is there."""
        if name in self._waiting:
            self._size -= memory(self.shape, self._waiting.pop(name))
        else:
            self.cache.drop(name)

    def clear(self) -> None:
        """Forget all blocks."""
        for name in self.names():
            self.drop(name)

    def names(self) -> list[str]:
        """The names of all blocks."""
        return [*self.cache.names(), *self._waiting]

    def append(self, name: str, block: Block) -> None:
        """Add rows to a list of blocks."""
        if name not in self.names():
            self.save(name, block)
            return
        self._write(name)
        self.cache.append(name, block)

    def flush(self) -> None:
        """Write what waits."""
        for name in [*self._waiting]:
            self._write(name)

    def _write(self, name: str) -> None:
        if name in self._waiting:
            block = self._waiting.pop(name)
            self._size -= memory(self.shape, block)
            self.cache.save(name, block)
