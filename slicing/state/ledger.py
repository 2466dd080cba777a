"""An append-only list of rows, rewritten when more than half of its rows are obsolete.

The list is read once per process, in whole. A row is a partial of a key; its slice index says when the row was
appended. The value of a key is the combination of all its rows, in the order in which they were appended. On average,
each row is written at most twice: once when it is appended, and once more by the rewrites.
"""

from __future__ import annotations

from slicing.content.block import Block, concat
from slicing.state.lists import PageLists


class Ledger:
    """The rows of one list. `kept` has all rows in order, not folded, or None if the process has not cached them."""

    def __init__(self, nodes: PageLists, name: str, kept: Block | None):
        self.nodes, self.name, self.kept = nodes, name, kept

    def rows(self) -> Block:
        """Return all rows, in the order in which they were appended."""
        if self.kept is None:
            self.kept = concat(self.nodes.shape, self.nodes.read(self.name))
        return self.kept

    def put(self, came: Block, live: Block) -> None:
        """Append the new rows `came`, or replace the whole list by `live`.

        `live` has the current row of each key, computed from the old and the new rows. It replaces the list as soon as
        the list would have more than twice as many rows.
        """
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
