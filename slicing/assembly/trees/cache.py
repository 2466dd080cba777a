"""The store of a tree's nodes between two closes; a close is the closing of windows in one micro-batch."""

from __future__ import annotations

from typing import Protocol

from slicing.assembly.trees.nodes import Live, Node
from slicing.content.block import Block

TOTAL = "total"
"""The name of the only node of a tree that has one node."""
WHOLE, LATE_WHOLES = "whole", "late wholes"
"""With a tail: the total of the whole tails, and late rows that the tree of the whole tails does not contain yet."""


class Cache(Protocol):
    """The store of a tree's nodes between two closes: blocks by name, which hold the partials of the tree's kernels."""

    def load(self, name: str) -> Block | None:
        """Return the block of that name, None if there is none."""

    def save(self, name: str, block: Block) -> None:
        """Write or replace a block."""

    def drop(self, name: str) -> None:
        """Remove a block, if it exists."""

    def clear(self) -> None:
        """Remove all blocks."""

    def names(self) -> list[str]:
        """Return the names of all blocks."""

    def append(self, name: str, block: Block) -> None:
        """Add rows to a list of blocks; `load` returns the list folded into one block."""


def node_of(live: Live, chosen: tuple[int, ...], block: Block | None) -> Node:
    """Return a node with the partials of a block; a node without records for None."""
    rows = None if block is None else live.place(block, chosen)  # before the node is created: it may add keys
    node = live.node(chosen)
    if rows is not None:
        node.append(rows)
    return node
