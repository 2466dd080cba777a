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

from slicing.aggregates.arrays import Array
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, empty
from slicing.content.folding import fold, regroup
from slicing.content.marks import of_keys
from slicing.engines.dirty_set import PENDING, pending
from slicing.engines.engine import Moment, begin
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.bucket_cache import Recent
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.ledger import Ledger
from slicing.state.lists import Nodes
from slicing.state.pages import Pages
from slicing.state.store import Store
from slicing.triggers.emission import UPDATE, Emission
from slicing.triggers.lateness import Late
from slicing.windows.time.slices import FOREVER

TOTALS = "totals"


class UnboundedBucket:
    """One bucket of a window that never closes, used as `sliced.bucket.Bucket` is; `ttl` in microseconds.

    Raises StateMismatch.
    """

    def __init__(
        self, shape: Shape, fingerprint: Fingerprint, store: Store, emission: Emission, ttl: int | None = None
    ):
        self.shape, self.emission, self.ttl = shape, emission, ttl
        self.pages = Pages(store, fingerprint, [0])
        self.head = self.pages.head
        self.recent = Recent(shape, self.head.nonce, str(emission), lambda first, end: ())
        held = self.recent.beside
        totals, self.marks = Nodes(self.pages, TOTALS, shape), Nodes(self.pages, "early", shape.select(()))
        known = held.get(TOTALS) if TOTALS in held or self._has(totals) else empty(shape)
        self.ledger = Ledger(totals, TOTALS, known)
        self.pending = pending(emission, self.head, self.marks, held.get(PENDING))
        self._came = empty(shape)

    def _has(self, nodes: Nodes) -> bool:
        return bool(nodes.entries(TOTALS))

    @of_stage(ASSEMBLE)
    def add(self, blocks: Sequence[Block]) -> Late[Block]:
        """Take the partials of a micro-batch; none of them is late."""
        self._came = fold(self.shape, blocks)
        return Late(0, 0, ())

    @of_stage(ASSEMBLE)
    def close(self, moment: Moment) -> Iterator[Windows]:
        """Yield what goes out in a micro-batch, then write the totals."""
        now = begin(self.head, self.emission, moment).clock
        marks = self._came
        totals = self._totals(now)
        if self.emission.when == UPDATE:
            yield from self._out(totals, marks, "update")
        if self.pending is not None:
            yield from self._out(totals, self.pending.due(marks, -FOREVER, now), "early")
        else:
            self.marks.clear()
        kept = {TOTALS: self.ledger.kept, PENDING: self.pending.kept if self.pending else None}
        self.head.nonce = self.recent.keep(0, {name: block for name, block in kept.items() if block})
        self.pages.save_header()

    def _totals(self, now: int) -> Block:
        """What each key has, by the clock of its last record; what came is appended to the ledger.

        Rows have the clock in milliseconds, in place of a slice.
        """
        now //= 1000
        stored, came = self.ledger.rows(), replace(self._came, slices=np.full(len(self._came), now))
        both = concat(self.shape, [stored, came])
        live = both if self.ttl is None else both.take(_live(both, now, self.ttl // 1000))
        newest = np.full(len(live.names), -FOREVER)
        np.maximum.at(newest, live.keys, live.slices)
        totals = regroup(self.shape, replace(live, slices=newest[live.keys]))
        self.ledger.put(both.take(slice(len(stored), None)), totals)
        return totals

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
        entries = [entry for entries in self.head.caches.values() for entry in entries]
        assert all(self.pages.store.get(f"p{entry[0]}") for entry in entries)


def _live(rows: Block, now: int, ttl: int) -> Array:
    """The rows, in their order, of keys that are not idle, since each was idle last: for more than `ttl`.

    ::

        time     3   4       9        20      25    ttl 10, now 26
        key a    *       *   |        *       *     begins anew at 20
        key b        *                              idle
    """
    by_key = np.lexsort((rows.slices, rows.keys))
    keys, times = rows.keys[by_key], rows.slices[by_key]
    begins = (np.diff(keys, prepend=-1) != 0) | (np.diff(times, prepend=now) > ttl)
    stretch = np.cumsum(begins)
    is_last = np.append(np.diff(keys) != 0, True)[: len(keys)]
    last = np.where(is_last & (times >= now - ttl), stretch, -1)
    return np.sort(by_key[np.isin(stretch, last)])
