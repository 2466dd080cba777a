"""One bucket of the unbounded window: a total per key.

::

    stored    a: 3   b: 1   a: 2   c: 7   b: 4         rows in order of arrival, with the clock
    totals    a: 5   b: 5          c: 7                their sums; c is idle, and forgotten after `ttl`
    new       a: 1                                     fires: a: 6
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape, concat, empty, encode_keys
from slicing.content.folding import fold, regroup
from slicing.content.marks import of_keys, under, without_keys
from slicing.content.records import Records
from slicing.content.signals import least_of
from slicing.engines.bucket import known_rows
from slicing.engines.dirty_set import DirtySet, WaitingSlices
from slicing.engines.key_counts import has_key
from slicing.engines.looking import Look
from slicing.engines.rows.bucket import RowsBucket
from slicing.engines.rows.pairs import CLOSING, FIRED, WindowPairs
from slicing.engines.unbounded.idleness import last_clocks, live, settled
from slicing.engines.values_of_pairs import values_by
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.header import TTL
from slicing.state.format.list_names import TOTALS
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists
from slicing.state.store import Store
from slicing.triggers.lateness import Late
from slicing.triggers.panes import NONE, Panes
from slicing.triggers.trigger import Trigger
from slicing.windows.time.slices import FOREVER


def numbers_of_keys(numbers: Sequence[Records], totals: Block) -> tuple[Array, Array]:
    """Return the values of new records: the row of each in `totals`, and the value, by row and in order of arrival."""

    def rows(records: Records) -> Array:
        codes, every = encode_keys(pa.concat_tables([totals.names, records.names]))
        row = np.full(len(every), -1)
        row[totals.keys] = np.arange(len(totals))
        return row[codes[len(totals.names) :]]

    return values_by(numbers, rows)


class UnboundedBucket(RowsBucket):
    """One bucket of the unbounded window; `ttl` is in microseconds."""

    def __init__(self, shape: Shape, fingerprint: Fingerprint, store: Store, trigger: Trigger, ttl: int | None = None):
        super().__init__(fingerprint, store, trigger, [0])
        self.shape, self.ttl = shape, None if ttl is None else ttl // 1000
        self.cache = self.open_cache(shape)
        nodes = PageLists(self.pages, TOTALS, shape)
        self.ledger = Ledger(nodes, TOTALS, known_rows(nodes, TOTALS, self.cache.derived))
        self.new = empty(shape)
        self._clock_before = self.head.clock // 1000
        self._ttl_before = self.head.parameters.get(TTL, self.ttl)
        self._gone: list[Block] = []  # totals whose records are dropped at the end of the micro-batch

    @of_stage(ASSEMBLE)
    def accept(self, shipped: Sequence[Block]) -> Late[Block]:
        """Keep the partials of a micro-batch; none is late."""
        self.new = fold(self.shape, shipped)
        return Late(0, 0, ())

    def take_history(self, shipped: Sequence[Block], until: int) -> None:
        """Add the partials of a history to the totals, with the present clock."""
        self.accept(shipped)
        self.retire()

    @property
    def _now(self) -> int:
        return self.head.clock // 1000

    @cached_property
    def _totals(self) -> Block:
        """The total of each key, with the clock of its last record; the new records are appended to the ledger.

        Rows have the clock, in milliseconds, in place of a slice.
        """
        now, _ = self._now, self._known
        stored, new = self.ledger.rows(), replace(self.new, index=np.full(len(self.new), now))
        both = concat(self.shape, [stored, new])
        rows = live(both, now, self.ttl)
        self._purged_rows = rows.take(np.flatnonzero(rows.records == 0))
        totals = regroup(self.shape, replace(rows, index=last_clocks(rows)))
        self.ledger.put(both.take(slice(len(stored), None)), totals)
        return totals

    @cached_property
    def _known(self) -> Block:
        """The rows that were stored when the micro-batch began."""
        if self._settles:
            self.ledger.rewrite(self._settled(self.shape, self.ledger.rows()))
        return self.ledger.rows()

    @property
    def _settles(self) -> bool:
        """Whether the keys that are forgotten do not follow from the present clock and `ttl`."""
        return self._now < self._clock_before or self.ttl != self._ttl_before

    def _settled(self, shape: Shape, rows: Block) -> Block:
        return regroup(shape, settled(rows, self._clock_before, self._now, self._ttl_before))

    @cached_property
    def _idle(self) -> Block:
        """The rows of keys that have become idle since the previous micro-batch; new records begin new totals."""
        known = live(self._known, self._clock_before, self._ttl_before)
        return without_keys(known, live(known, self._now, self.ttl))

    @property
    def _forgotten(self) -> Block:
        """The totals of keys that have become idle since the previous micro-batch."""
        return regroup(self.shape, replace(self._idle, index=np.zeros_like(self._idle.index)))

    def forgotten(self) -> pa.Table:
        """Return the keys that have become idle since the previous micro-batch."""
        return self._idle.names.take(pa.array(np.unique(self._idle.keys)))

    def look(self, asked: Look) -> Iterator[Windows]:
        """Yield the totals of the keys that are looked up and not idle."""
        rows = live(asked.of_keys(self.ledger.rows()), self._now, self._ttl_before)
        return self._windows(regroup(self.shape, replace(rows, index=np.zeros_like(rows.index))))

    # Called by triggers.

    def closing(self) -> Panes:
        """Return no pairs: the window never closes."""
        return NONE

    def waiting_in(self, nodes: PageLists, cached: Block | None) -> WaitingSlices:
        """Return the totals of the keys in the dirty set."""
        dirty = DirtySet(nodes, cached, self._live_marks)
        if self._settles:
            dirty.rewrite(lambda marks: self._settled(nodes.shape, replace(marks, index=self._stamps(marks))))
        return WaitingSlices(dirty, self._marks, lambda: -FOREVER, self._of_keys)

    def window_pairs(self, among: str, everything: bool) -> WindowPairs:
        """Return a pair for each key, or, among CLOSING, for each key that is forgotten because it has become idle."""
        if among == FIRED:
            self._unanswered("late")
        if among == CLOSING:
            gone = self._forgotten
            return self._of_totals(gone, lambda: gone.records, np.ones(len(gone), dtype=bool))
        totals = self._totals if everything else of_keys(self._totals, self.new)
        pairs = self._of_totals(totals, lambda: self._before(totals), self._was_purged(totals))
        return pairs if everything else replace(pairs, known_changed=np.ones(len(totals), dtype=bool))

    def has_pairs(self, among: str) -> Callable[[Block], Array]:
        """Return a function that tells which rows are of keys that are not forgotten, or of those that are."""
        return has_key(self._forgotten if among == CLOSING else self._totals)

    def has_records(self) -> Callable[[Block], Array]:
        """Return a function that tells which rows are of keys with records before this micro-batch, and not idle."""
        return self._was_there

    def _was_there(self, rows: Block) -> Array:
        """Return which rows belong to keys that had records before this micro-batch and have not become idle."""
        totals = self._totals
        return has_key(totals.take((self._before(totals) > 0) | self._was_purged(totals)))(rows)

    def _was_purged(self, totals: Block) -> Array:
        """Return which keys had records that have been dropped: `bool[n]`."""
        purged = self._purged_rows
        return has_key(purged)(totals) if len(purged) else np.zeros(len(totals), dtype=bool)

    def _before(self, totals: Block) -> Array:
        counts, new = np.zeros(len(totals.names), dtype=np.int64), under(self.new, totals.names)
        np.add.at(counts, new.keys, new.records)
        before: Array = totals.records - counts[totals.keys]
        return before

    def _of_totals(self, totals: Block, before: Callable[[], Array], purged: Array) -> WindowPairs:
        """Return the pairs of some keys. They had `before()` records before; `purged` ones had more."""
        count, names = len(totals), totals.names
        return WindowPairs(
            np.zeros(count, dtype=np.int64),
            totals.keys,
            names,
            counts=lambda: (totals.records, before()),
            panes=lambda chosen: Panes(lambda: self._windows(totals, chosen)),
            new=lambda: under(self.new, names),
            bounds=lambda: (np.full(count, -FOREVER), np.full(count, FOREVER)),
            signals=lambda: self._signals(totals),
            latest=lambda: np.ones(count, dtype=bool),
            purge=lambda chosen: self._gone.append(totals.take(np.flatnonzero(chosen))),
            numbers=partial(numbers_of_keys, self.heard.numbers, totals),
            existed=lambda pairs: purged | (pairs.before > 0),
        )

    def _drop_purged(self) -> None:
        """Rewrite the totals; a key whose records are dropped keeps a row without records, so that it stays known."""
        gone = concat(self.shape, self._gone)
        if not len(gone):
            return
        partials = [kernel.spread(len(gone)) for kernel in self.shape.kernels]
        dictionaries = [kernel.no_dictionary for kernel in self.shape.kernels]
        none = replace(gone, records=np.zeros_like(gone.records), partials=partials, dictionaries=dictionaries)
        rest = without_keys(self._totals, gone)
        self.ledger.rewrite(regroup(self.shape, concat(self.shape, [rest, none])))

    def _signals(self, totals: Block) -> dict[str, Array]:
        """Return the signals of the new records of each key, by name."""
        asked = self.heard.names
        if not asked:
            return {}
        rows = under(self.heard.together(self.shape), totals.names)
        least = [least_of(rows.partials[at][0], rows.keys, len(totals.names)) for at in range(len(asked))]
        return {name: found[totals.keys] for name, found in zip(asked, least, strict=True)}

    def _marks(self) -> Block:
        return replace(self.new, index=np.full(len(self.new), max(self._now, 1)))

    def _live_marks(self, marks: Block) -> Block:
        """Return the marks of keys that are not idle."""
        return live(marks, self._now, self.ttl, self._stamps(marks))

    def _stamps(self, marks: Block) -> Array:
        """Return the clock of each mark: `int64[n]`.

        A stamp below 1 is a slice, which older checkpoints have; it counts as the present clock.
        """
        return np.where(marks.index < 1, self._now, marks.index)

    def _of_keys(self, marks: Block) -> Panes:
        return Panes(lambda: self._windows(of_keys(self._totals, marks)) if len(marks) else iter(()))

    def _windows(self, totals: Block, chosen: Array | bool = True) -> Iterator[Windows]:
        totals = totals.take(np.flatnonzero(chosen & (totals.records > 0)))
        if len(totals):
            window = np.zeros(len(totals), dtype=np.int64)
            yield Windows(window, totals.keys, totals.names, totals.records, totals.partials, totals.dictionaries)

    # Steps of a micro-batch.

    def retire(self) -> None:
        """Add the new records to the totals."""
        _ = self._totals  # computed here even if nothing fires

    def save(self) -> None:
        """Drop purged records, store the trigger's state and write the header."""
        self._drop_purged()
        self.note_early()
        self.head.parameters[TTL] = self.ttl
        super().save()

    def rows_to_cache(self) -> dict[str, Block]:
        """Return the rows of totals that the bucket cache keeps."""
        return {TOTALS: self.ledger.cached} if self.ledger.cached else {}

    def extent(self) -> dict[str, int]:
        """Return one window of one slice, or none if no record is stored."""
        held = int(bool(self.ledger.nodes.entries(TOTALS)))
        return {"open_windows": held, "slices": held}
