"""What a kind of sessions says: which rows are one session, which new rows are late, and which stored rows are needed.

::

    rows of a key    [0      30)       [50   70)         sorted by start
                          [20     40)            [70 80)
    derive           |                 |                 where sessions begin
    ends             40      40        80         80     decide which rows are late, and which are needed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.assembly.ranges.merging import chains, numbered, reached
from slicing.content.block import Block, Shape, concat
from slicing.content.folding import reduced
from slicing.content.intervals import ends_of, extents
from slicing.state.pages import Pages
from slicing.windows.session import SESSION, Session


class SessionKind:
    """A kind of sessions, here those of a greatest length. `marks` is the shape of rows that have only ends.

    If `splits`, a record may split a session: rows are stored by instant. Otherwise an open session is stored as one
    row. A kind with state of its own implements the last methods.
    """

    splits = True
    takes_ends = False  # whether signals end sessions

    def __init__(self, session: Session, marks: Shape):
        self.session, self.marks = session, marks

    def derive(self, rows: Block) -> tuple[Array, Array]:
        """Return the order of the rows by key and start, and the positions in it at which sessions begin."""
        return self.chained(rows, rows.keys)

    def chained(self, rows: Block, parts: Array) -> tuple[Array, Array]:
        """Return what `derive` does, with sessions in parts of keys: the part of each row, ascending in each key."""
        return chains(parts, rows.index, ends_of(rows), self.session.longest)

    def sessions(self, shape: Shape, rows: Block, order: Array, heads: Array) -> Block:
        """Return the sessions of the rows, sorted by key and start; `order` and `heads` are the result of `derive`."""
        found = reduced(shape, rows, order, heads)
        return replace(found, partials=[*found.partials[:-1], [self._lasting(found.keys, ends_of(found))]])

    def _lasting(self, keys: Array, ends: Array) -> Array:
        """Return the ends of sessions: of a greatest length none ends before an earlier one, whatever its gaps.

        So a record that moves the starts of open sessions never makes one that has ended already.
        """
        return ends if self.session.longest is None else reached(keys, ends)

    def deciding_ends(self, known: Block, new: Block) -> Array:
        """Return the end that decides lateness: of each new row, or of the session to which it belongs now."""
        if self.session.late_by != SESSION or not len(new):
            return ends_of(new)
        return self._ends(concat(self.marks, [extents(known), extents(new)]))[len(known) :]

    def needed(self, rows: Block, mark: int) -> Array:
        """Return which stored rows belong to sessions that end after a mark: `bool[n]`."""
        is_needed: Array = self._ends(rows) > mark
        return is_needed

    def _ends(self, rows: Block) -> Array:
        """Return the end of the session to which each row belongs: `int64[n]`."""
        order, heads = self.derive(rows)
        if not len(rows):
            return order
        ends = np.maximum.reduceat(ends_of(rows)[order], heads)
        return self._lasting(rows.keys[order][heads], ends)[numbered(order, heads)]

    def open(self, pages: Pages, cached: Mapping[str, Block]) -> None:
        """Open the lists of the kind."""

    def know(self, rows: Block) -> None:
        """Take the rows of the sessions that were open when the micro-batch began."""

    def take_signals(self, signals: Block, names: Sequence[str]) -> None:
        """Take the signals of these names of the new records."""

    def accept(self, accepted: Array) -> None:
        """Take which of the signals belong to accepted records: `bool[n]`."""

    def keep(self, void: Block, live: Block) -> None:
        """Take the rows that are void after the micro-batch, and those of open sessions."""

    def save(self, new_rows: Block, anew: bool) -> None:
        """Append what belongs to `new_rows`, or, with `anew`, rewrite what belongs to live rows."""

    def to_cache(self) -> dict[str, Block]:
        """Return the blocks that the bucket cache keeps, by name."""
        return {}

    def check(self, rows: int) -> None:
        """Assert that the kind stores no more than so many rows of sessions explain."""


class Merging(SessionKind):
    """Sessions of intervals that overlap or touch: rows that are merged stay merged."""

    splits = False

    def needed(self, rows: Block, mark: int) -> Array:
        """Return which sessions end after a mark: `bool[n]`."""
        is_needed: Array = ends_of(rows) > mark
        return is_needed
