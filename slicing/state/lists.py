"""Named lists of pages that are read and written as a whole: nodes of trees, marks, dirty sets."""

from __future__ import annotations

from slicing.content.block import Block, Shape
from slicing.content.folding import fold
from slicing.state.format.header import Entry
from slicing.state.pages import Pages


class PageLists:
    """The blocks of one tree as lists of pages; implements `slicing.assembly.trees.cache.Cache`."""

    def __init__(self, pages: Pages, tree: str, shape: Shape):
        self.pages, self.prefix, self.shape = pages, f"{tree} ", shape
        self.lists = pages.head.lists

    def load(self, name: str) -> Block | None:
        """Return the block of that name, folded; None if there is none or it has no rows."""
        blocks = self.read(name)
        return fold(self.shape, blocks) if blocks else None

    def read(self, name: str) -> list[Block]:
        """Return the pages that were appended to a block, the oldest first."""
        return list(self.pages.take(self.entries(name), self.shape))

    def entries(self, name: str) -> list[Entry]:
        """Return the entries of the pages of a block; empty if the block was never saved."""
        return self.lists.get(self.prefix + name, [])

    def save(self, name: str, block: Block) -> None:
        """Write or replace a block."""
        self.drop(name)
        self.append(name, block)

    def append(self, name: str, block: Block) -> None:
        """Add rows to a block."""
        if len(block):
            self.pages.append(self.lists.setdefault(self.prefix + name, []), block, self.shape)

    def drop(self, name: str) -> None:
        """Remove a block if it exists."""
        self.pages.remove(self.lists.pop(self.prefix + name, []))

    def clear(self) -> None:
        """Remove all blocks."""
        for name in self.names():
            self.drop(name)

    def names(self) -> list[str]:
        """Return the names of all blocks."""
        return [name.removeprefix(self.prefix) for name in self.lists if name.startswith(self.prefix)]
