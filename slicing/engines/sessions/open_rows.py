"""The rows of sessions in a ledger: find the open rows, and keep void rows separate from new rows.

Rows are appended as they arrive, and merged into sessions when they are read. Rows of closed sessions are void, but are
not marked: after the merge the progress in the header tells that they are closed. New rows that would merge with void
rows must be kept separate from them; in this case all open rows are rewritten.
"""

from __future__ import annotations

from collections.abc import Callable

from slicing.aggregates.arrays import Array
from slicing.content.block import Block
from slicing.content.intervals import extents
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists

Merge = Callable[[Block], Block]
Meet = Callable[[Block, Block], bool]


class OpenRows:
    """The open rows of one list. `merge` merges rows to sessions; `meet` tells whether two blocks share a session."""

    def __init__(self, nodes: PageLists, name: str, cached: Block | None, merge: Merge, meet: Meet):
        self.ledger, self.name, self.merge, self.meet = Ledger(nodes, name, cached), name, merge, meet
        self._void: Block | None = None

    def load(self, is_open: Callable[[Block], Array]) -> Block:
        """Return the rows that are open, merged."""
        known = self.merge(self.ledger.rows())
        opened = is_open(known)
        self._void = extents(known.take(~opened))
        return known.take(opened)

    def put(self, rows: Block, live: Block, new_rows: Block, anew: bool = False) -> bool:
        """Append rows, sorted by start, or rewrite the list as `live`, all open rows; return whether it was rewritten.

        Must be called after `load`. The list is rewritten with `anew`, or if `new_rows` meet void rows, which would
        become a part of their sessions.
        """
        assert self._void is not None, "what is void is known once rows are loaded"
        if anew or self.meet(self._void, new_rows):
            self.ledger.nodes.save(self.name, live)
            self.ledger.cached = live
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
