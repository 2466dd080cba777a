"""Totals of keys in a window that never closes, and what goes out of them.

::

    stored    a: 3   b: 1   a: 2   c: 7   b: 4         rows as they came, by the clock
    totals    a: 5   b: 5          c: 7                what they come to; c is idle, and forgotten after `ttl`
    came      a: 1                                     out: a: 6
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, empty
from slicing.content.folding import fold, regroup
from slicing.content.marks import of_keys
from slicing.engines.dirty_set import pending
from slicing.engines.engine import Moment, begin
from slicing.engines.unbounded.idleness import corrected, live
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.bucket_cache import Recent
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import EARLY, PENDING, TOTALS
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.state.store import Store
from slicing.triggers.emission import UPDATE, Emission
from slicing.triggers.lateness import Late
from slicing.windows.time.slices import FOREVER


class UnboundedBucket:
    """One bucket of a window that never closes, used as `sliced.bucket.Bucket` is; `ttl` in microseconds.

    Raises StateMismatch.
    """

    def __init__(
        self, shape: Shape, fingerprint: Fingerprint, store: Store, emission: Emission, ttl: int | None = None
    ):
        self.shape, self.emission, self.ttl = shape, emission, None if ttl is None else ttl // 1000
        self.pages = Pages(store, fingerprint, [0])
        self.head = self.pages.head
        self.recent = Recent(shape, self.head.nonce, str(emission), lambda first, end: ())
        held = self.recent.beside
        totals, self.marks = PageLists(self.pages, TOTALS, shape), PageLists(self.pages, EARLY, shape.select(()))
        known = held.get(TOTALS) if TOTALS in held or self._has(totals) else empty(shape)
        self.ledger = Ledger(totals, TOTALS, known)
        self.pending = pending(emission, self.head, self.marks, held.get(PENDING), self._live_marks)
        self._came = empty(shape)

    def _has(self, nodes: PageLists) -> bool:
        return bool(nodes.entries(TOTALS))

    @of_stage(ASSEMBLE)
    def add(self, blocks: Sequence[Block]) -> Late[Block]:
        """Take the partials of a micro-batch; none of them is late."""
        self._came = fold(self.shape, blocks)
        return Late(0, 0, ())

    @of_stage(ASSEMBLE)
    def close(self, moment: Moment) -> Iterator[Windows]:
        """Yield what goes out in a micro-batch, then write the totals."""
        before = self.head.clock // 1000
        clock = begin(self.head, self.emission, moment).clock
        now = clock // 1000
        if now < before:
            self.ledger.rewrite(corrected(self.ledger.rows(), before, now, self.ttl))
        totals = self._totals(now)
        if self.emission.when == UPDATE:
            yield from self._out(totals, self._came, "update")
        if self.pending is not None:
            marks = replace(self._came, slices=np.full(len(self._came), max(now, 1)))
            yield from self._out(totals, self.pending.due(marks, -FOREVER, clock), "early")
        else:
            self.marks.clear()
        kept = {TOTALS: self.ledger.kept, PENDING: self.pending.kept if self.pending else None}
        self.head.nonce = self.recent.keep(0, {name: block for name, block in kept.items() if block})
        self.pages.save_header()

    def _totals(self, now: int) -> Block:
        """Return the total of each key, by the clock of its last record; the new records are appended to the ledger.

        Rows have the clock in milliseconds, in place of a slice.
        """
        stored, came = self.ledger.rows(), replace(self._came, slices=np.full(len(self._came), now))
        both = concat(self.shape, [stored, came])
        rows = live(both, now, self.ttl)
        newest = np.full(len(rows.names), -FOREVER)
        np.maximum.at(newest, rows.keys, rows.slices)
        totals = regroup(self.shape, replace(rows, slices=newest[rows.keys]))
        self.ledger.put(both.take(slice(len(stored), None)), totals)
        return totals

    def _live_marks(self, marks: Block) -> Block:
        """Return the marks of keys that are not idle; a stamp below 1, a slice in older checkpoints, is of now."""
        now = self.head.clock // 1000
        return live(marks, now, self.ttl, np.where(marks.slices < 1, now, marks.slices))

    def _out(self, totals: Block, marks: Block, kind: str) -> Iterator[Windows]:
        """The totals of the keys of some marks."""
        found = of_keys(totals, marks) if len(marks) else marks
        if len(found):
            window = np.zeros(len(found), dtype=np.int64)
            yield Windows(window, found.keys, found.names, found.records, found.partials, found.dictionaries, kind=kind)

    def extent(self) -> dict[str, int]:
        """One window, of one slice, once there is a record."""
        held = int(bool(self._has(self.ledger.nodes)))
        return {"open_windows": held, "slices": held}

    def check(self) -> None:
        """Assert that every page is there, and that rows do not pile up."""
        entries = [entry for entries in self.head.lists.values() for entry in entries]
        assert all(self.pages.store.get(f"p{entry[0]}") for entry in entries)
