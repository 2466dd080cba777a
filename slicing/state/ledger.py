"""Rows of keys that are appended: read whole once a process, and written anew when more than half of them are void.

A row is a partial of a key in the place of a slice, which says when it came. What a key has is all of its rows
combined, in the order in which they were appended. Each row is written twice at most: as it comes, and, on average over
those that are void, once more.
"""

from __future__ import annotations

from slicing.content.block import Block, concat
from slicing.state.lists import PageLists


class Ledger:
    """The rows of one list; `kept` are all of them, in their order and not folded, if the process still has them."""

    def __init__(self, nodes: PageLists, name: str, kept: Block | None):
        self.nodes, self.name, self.kept = nodes, name, kept

    def rows(self) -> Block:
        """All rows, in the order in which they were appended."""
        if self.kept is None:
            self.kept = concat(self.nodes.shape, self.nodes.read(self.name))
        return self.kept

    def put(self, came: Block, live: Block) -> None:
        """Append rows; `live` is what all rows come to, and replaces them when they are more than twice as many."""
        rows = self.rows()
        if len(rows) + len(came) > 2 * len(live):
            self.rewrite(live)
        elif len(came):
            self.nodes.append(self.name, came)
            self.kept = concat(self.nodes.shape, [rows, came])

    def rewrite(self, rows: Block) -> None:
        """Replace all rows."""
        self.nodes.save(self.name, rows)
        self.kept = rows
