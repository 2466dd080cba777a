"""An append-only list of rows, rewritten when more than half of its rows are obsolete.

The list is read once per process, in whole. A row is a partial of a key; its slice index says when the row was
appended. The value of a key is the combination of all its rows, in the order in which they were appended. On average,
each row is written at most twice: once when it is appended, and once more by the rewrites.
"""

from __future__ import annotations

from slicing.content.block import Block, concat
from slicing.state.lists import PageLists


class Ledger:
    """The rows of one list. `cached` has all rows in order, not folded, or None if the process has not cached them."""

    def __init__(self, nodes: PageLists, name: str, cached: Block | None):
        self.nodes, self.name, self.cached = nodes, name, cached

    def rows(self) -> Block:
        """Return all rows, in the order in which they were appended."""
        if self.cached is None:
            self.cached = concat(self.nodes.shape, self.nodes.read(self.name))
        return self.cached

    def put(self, new_rows: Block, live: Block) -> None:
        """Append `new_rows`, or replace the whole list by `live`.

        `live` has the current row of each key, computed from the old and the new rows. It replaces the list as soon as
        the list would have more than twice as many rows.
        """
        rows = self.rows()
        if len(rows) + len(new_rows) > 2 * len(live):
            self.rewrite(live)
        elif len(new_rows):
            self.nodes.append(self.name, new_rows)
            self.cached = concat(self.nodes.shape, [rows, new_rows])

    def rewrite(self, rows: Block) -> None:
        """Replace all rows."""
        self.nodes.save(self.name, rows)
        self.cached = rows
