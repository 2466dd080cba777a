"""Rows of a ledger that become sessions: which of them are open, and how what is void is kept from what comes.

Rows are appended as they come, and merged when they are read. Those of sessions that have closed are void, and nobody
says so: merged, they are closed by the same mark in the header. Only what would merge with void rows has to be kept
from them, and then what is open is written anew.
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
    """The open rows of one list; `merge` makes sessions of rows, `meet` tells whether some of two would be one."""

    def __init__(self, nodes: PageLists, name: str, kept: Block | None, merge: Merge, meet: Meet):
        self.ledger, self.name, self.merge, self.meet = Ledger(nodes, name, kept), name, merge, meet
        self._void: Block | None = None

    def load(self, is_open: Callable[[Block], Array]) -> Block:
        """The sessions that are open, by key and start."""
        known = self.merge(self.ledger.rows())
        opened = is_open(known)
        self._void = extents(known.take(~opened))
        return known.take(opened)

    def put(self, rows: Block, live: Block, came: Block, anew: bool = False) -> bool:
        """Append rows, sorted by start, after `load`; `live` is what is open now, written in their place if `anew`.

        Returns whether it has been written. It is too where what came, of sessions, meets void rows: they would be
        taken for a part of it from now on.
        """
        assert self._void is not None, "what is void is known once rows are loaded"
        if anew or self.meet(self._void, came):
            self.ledger.nodes.save(self.name, live)
            self.ledger.kept = live
        else:
            self.ledger.put(rows, live)
        return self.ledger.kept is live

    @property
    def count(self) -> int:
        """How many rows are stored."""
        return len(self.ledger.rows())

    def clear(self) -> None:
        """Forget all rows."""
        self.ledger.nodes.clear()
        self.ledger.kept = self.ledger.rows().take(slice(0))
