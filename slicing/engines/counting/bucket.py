"""One bucket of count windows: count the new records, emit the full windows, append the new rows.

::

    counting(6, advance=4), in slices of 2 records; a key has had 7:

    stored     | 3 4 | 5 6 | 7            slices of future windows, and the newest slice
    new                     8 9           the 8th record fills the window of records 3 to 8, which fires
    appended               | 8 | 9        parts of slices; the rows of 3 to 6 are void now, but are not marked

The newest slice of a key tells how many records the key has had, so it is stored even if no window needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.aggregates.sorting import argsorted, heads, sorted_rows
from slicing.assembly.ranges.merging import by_start
from slicing.assembly.results import Windows
from slicing.content.block import Block, concat, empty, encode_keys
from slicing.content.folding import reduced
from slicing.content.records import Records, joined, sorted_by
from slicing.engines.bucket import known_rows
from slicing.engines.counting.contents import Content
from slicing.engines.counting.record_counts import RecordCounts, put_origin, with_origin, without_origin
from slicing.engines.looking import Look
from slicing.engines.rows.bucket import RowsBucket
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.header import TTL
from slicing.state.format.list_names import COUNTED
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists
from slicing.state.store import Store
from slicing.triggers.lateness import Late
from slicing.triggers.panes import Panes, nothing
from slicing.triggers.trigger import Trigger
from slicing.windows.time.slices import FOREVER


class Counter:
    """Counts records, for micro-batches and bounded input.

    All rows are sorted by key and slice. `now` is the clock, and keys without a record from the clock `since` on are
    idle; both in milliseconds.
    """

    def __init__(self, content: Content, now: int = 0, since: int = -FOREVER):
        self.content, self.now, self.since = content, now, since
        self.family, self.shape = content.family, with_origin(content.stored)

    def folded(self, rows: Block) -> Block:
        """Combine rows to one row per key and slice; the rows of a slice are in order of arrival."""
        by_key = sorted_rows(rows.keys, rows.index)
        return reduced(self.shape, rows, by_key, heads(rows.keys[by_key], rows.index[by_key]))

    def count(self, rows: Block) -> RecordCounts:
        """Return the record counts of the keys of some rows."""
        return RecordCounts.of(rows, self.family.unit, self.since)

    def lifted(self, records: Records, codes: Array, names: pa.Table, counted: RecordCounts) -> Block:
        """Return the rows of new records, in order of arrival; record i has the key `names[codes[i]]`."""
        rows = argsorted(codes)
        of_key, each = codes[rows], np.bincount(codes)
        numbers = np.arange(len(rows)) - (np.cumsum(each) - each)[of_key] + counted.counts[of_key]
        slices = np.empty_like(codes)
        slices[rows] = counted.origins[of_key] + numbers // self.family.unit
        block = self.content.lifted(records, slices, codes, names, rows)
        return put_origin(block, counted.origins[block.keys], self.now)

    def full(self, rows: Block, before: RecordCounts, after: RecordCounts) -> Iterator[Windows]:
        """Yield the windows whose last record was counted between `before` and `after`."""
        first, end = (counted.counts // self.family.advance for counted in (before, after))
        rows = rows.take(np.flatnonzero((end > first)[rows.keys]))
        if len(rows):
            lows, counts = np.zeros_like(rows.keys), np.zeros_like(rows.keys)
            begins = np.flatnonzero(np.diff(rows.keys, prepend=-1))
            keys = rows.keys[begins]
            lows[begins], counts[begins] = first[keys], (end - first)[keys]
            yield from self.content.windows(without_origin(rows), lows, counts)

    def short(self, rows: Block, counted: RecordCounts) -> Iterator[Windows]:
        """Yield, for each key with records after the end of its last full window, the first window that is not full."""
        has_more = counted.counts % self.family.advance > 0
        rows = rows.take(np.flatnonzero(has_more[rows.keys]))
        if len(rows):
            yield from self.open(counted.live(rows, self.family), counted, latest=True)

    def open(self, rows: Block, counted: RecordCounts, latest: bool) -> Iterator[Windows]:
        """Yield the windows that hold records and are not full, or, with `latest`, the first of them for each key."""
        lows, counts = np.zeros_like(rows.keys), np.zeros_like(rows.keys)
        begins = np.flatnonzero(np.diff(rows.keys, prepend=-1))
        seen = counted.counts[rows.keys[begins]]
        lows[begins] = seen // self.family.advance
        each = self.family.last_window((seen - 1) // self.family.unit) + 1 - lows[begins]
        counts[begins] = np.minimum(each, 1) if latest else each
        for frame in self.content.windows(without_origin(rows), lows, counts):
            filled = counted.counts[frame.keys] + 1
            yield replace(frame, ends=np.minimum(self.family.window_end(frame.windows), filled))


class CountingBucket(RowsBucket):
    """One bucket of count windows; `ttl` in microseconds."""

    def __init__(
        self, content: Content, fingerprint: Fingerprint, store: Store, trigger: Trigger, ttl: int | None = None
    ):
        super().__init__(fingerprint, store, trigger, [0])
        self.content, self.ttl = content, None if ttl is None else ttl // 1000
        self.shape = with_origin(content.stored)
        self.cache = self.open_cache(self.shape)
        nodes = PageLists(self.pages, COUNTED, self.shape)
        self.ledger = Ledger(nodes, COUNTED, known_rows(nodes, COUNTED, self.cache.derived))
        self._ttl_before = self.head.parameters.get(TTL, self.ttl)
        self._since_before = self._since(self._ttl_before)
        self._accepted: list[Records] = []
        self.open_count = 0

    def _since(self, ttl: int | None) -> int:
        """Return the clock before which the last record of an idle key came, in milliseconds."""
        return -FOREVER if ttl is None else self.head.clock // 1000 - ttl

    @of_stage(ASSEMBLE)
    def accept(self, shipped: Sequence[Records]) -> Late[list[Records]]:
        """Keep the records of a micro-batch; none is late."""
        self._accepted = [records for records in shipped if len(records.index)]
        return Late(0, 0, ())

    def take_history(self, shipped: Sequence[Records], until: int) -> None:
        """Count the records of a history, which are in time order; the windows that they fill count as fired."""
        self.accept(shipped)
        self.advance(until)

    def forgotten(self) -> pa.Table:
        """Return the keys that have become idle since the previous micro-batch: their counting begins anew."""
        known, before = self._known, Counter(self.content, since=self._since_before)
        gone = (before.count(known).counts > 0) & (self._counter.count(known).counts == 0)
        return known.names.filter(pa.array(gone))

    def look(self, asked: Look) -> Iterator[Windows]:
        """Yield the windows that are not full, with their records so far."""
        counter = Counter(self.content, since=self._since_before)
        stored = counter.folded(asked.of_keys(self.ledger.rows()))
        counted = counter.count(stored)
        return counter.open(counted.live(stored, counter.family), counted, asked.latest)

    def closing(self) -> Panes:
        """Return the windows that the new records have filled."""
        return Panes(self._full)

    def advance(self, watermark: int) -> None:
        """Count the new records, whatever the watermark."""
        since = max(self._since_before, self._since(self.ttl))
        counter = self._counter = Counter(self.content, self.head.clock // 1000, since)
        stored, self._new = counter.folded(self.ledger.rows()), empty(self.shape)
        self._known = stored
        self._full: Callable[[], Iterator[Windows]] = nothing
        if not self._accepted:
            self._live = counter.count(stored).live(stored, counter.family)
            return
        records = joined(self._accepted)
        codes, names = encode_keys(pa.concat_tables([stored.names, records.names]))
        # Codes are assigned in the order of the names, so the codes of stored rows stay valid.
        stored, codes = replace(stored, names=names), codes[len(stored.names) :]
        before = counter.count(stored)
        after, known = before.add(codes), before.live(stored, counter.family)
        self._new = counter.lifted(records, codes, names, before)
        touched = (after.counts > before.counts)[known.keys]
        rows = counter.folded(concat(self.shape, [known.take(touched), self._new]))
        self._full = partial(counter.full, rows, before, after)
        self._live = concat(self.shape, [known.take(~touched), after.live(rows, counter.family)])

    def save(self) -> None:
        """Append the new rows, or rewrite all rows that future windows hold: what another `ttl` forgot stays so."""
        live = by_start(self._live)
        if self.ttl == self._ttl_before:
            self.ledger.put(by_start(self._new), live)
        else:
            self.ledger.rewrite(live)
        self.head.parameters[TTL] = self.ttl
        self.open_count = len(np.unique(self._live.keys))
        super().save()

    def rows_to_cache(self) -> dict[str, Block]:
        """Return the rows that the bucket cache keeps."""
        return {COUNTED: self.ledger.cached} if self.ledger.cached else {}

    def extent(self) -> dict[str, int]:
        """Count the keys with open windows, and the stored rows of these keys."""
        return {"open_windows": self.open_count, "slices": len(self.ledger.rows())}

    def check(self) -> None:
        """Assert that every page exists, that rows do not pile up, and that no slice has too many records."""
        super().check()
        counter = Counter(self.content, since=self._since_before)
        rows = counter.folded(self.ledger.rows())
        live = counter.count(rows).live(rows, counter.family)
        assert len(self.ledger.rows()) <= 2 * len(live)
        assert np.all(live.records <= counter.family.unit)


def all_counted(content: Content, batches: Sequence[Records], fires_short: bool = False) -> Iterator[Windows]:
    """Yield all windows of a bucket of bounded input, whose records are ordered by their last value.

    With `fires_short`, also yield the last window of each key if it is not full but has records of its own.
    """
    batches = [records for records in batches if len(records.index)]
    if batches:
        records, counter = joined(batches), Counter(content)
        records = records.take(sorted_by(records.values[-1]))
        codes, names = encode_keys(records.names)
        none = replace(empty(counter.shape), names=names)
        before = counter.count(none)
        rows, after = counter.lifted(records, codes, names, before), before.add(codes)
        yield from counter.full(rows, before, after)
        if fires_short:
            yield from counter.short(rows, after)
