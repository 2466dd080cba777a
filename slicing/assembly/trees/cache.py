"""A tree as a cache that moves forward from close to close: what the trees share."""

from __future__ import annotations

from typing import Protocol

from slicing.assembly.trees.nodes import Live, Node
from slicing.content.block import Block

TOTAL = "total"
"""The name of the one node of a tree that keeps one."""
WHOLE, LATE_WHOLES = "whole", "late wholes"
"""Of windows with a coarse start: the total of whole tails, and late rows that the tree of these does not hold yet."""


class Cache(Protocol):
    """The store of a tree's nodes between two closes: blocks by name. Blocks are of the tree's kernels."""

    def load(self, name: str) -> Block | None:
        """The block of that name, None if there is none."""

    def save(self, name: str, block: Block) -> None:
        """Write or replace a block."""

    def drop(self, name: str) -> None:
        """Forget a block, if it is there."""

    def clear(self) -> None:
        """Forget all blocks."""

    def names(self) -> list[str]:
        """The names of all blocks."""

    def append(self, name: str, block: Block) -> None:
        """Add rows to a list of blocks, which `load` gives folded into one."""


def node_of(live: Live, chosen: tuple[int, ...], block: Block | None) -> Node:
    """A node of the partials of a block, one of no records for None."""
    rows = None if block is None else live.place(block, chosen)  # before the node is made: it may bring new keys
    node = live.node(chosen)
    if rows is not None:
        node.append(rows)
    return node
