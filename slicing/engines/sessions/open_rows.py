"""The rows of sessions in a ledger: find the open rows, and know the void ones.

Rows are appended as they arrive, and merged into sessions when they are read. Rows of closed sessions are void, but are
not marked: after the merge the progress in the header tells that they are closed. So if void rows would be read as rows
of an open session, all open rows are rewritten.
"""

from __future__ import annotations

from collections.abc import Callable

from slicing.aggregates.arrays import Array
from slicing.content.block import Block
from slicing.content.intervals import extents
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists


class OpenRows:
    """The open rows of one list. `folded` combines the rows of the list when they are read."""

    void: Block
    """The extents of stored rows that are not open, once rows are loaded."""

    def __init__(self, nodes: PageLists, name: str, cached: Block | None, folded: Callable[[Block], Block]):
        self.ledger, self.name, self.folded = Ledger(nodes, name, cached), name, folded

    def load(self, is_open: Callable[[Block], Array]) -> Block:
        """Return the rows that are open, folded."""
        known = self.folded(self.ledger.rows())
        opened = is_open(known)
        self.void = extents(known.take(~opened))
        return known.take(opened)

    def put(self, rows: Block, live: Block, anew: bool) -> bool:
        """Append rows, sorted by start, or rewrite the list as `live`, all open rows; return whether it was rewritten.

        It is rewritten with `anew`, or if most of its rows are void.
        """
        if anew:
            self.ledger.rewrite(live)
        else:
            self.ledger.put(rows, live)
        return self.ledger.cached is live

    @property
    def count(self) -> int:
        """The number of stored rows."""
        return len(self.ledger.rows())

    def clear(self) -> None:
        """Remove all rows."""
        self.ledger.nodes.clear()
        self.ledger.cached = self.ledger.rows().take(slice(0))
