"""The states of functions of windows, in separate pages of a bucket. They are committed with the micro-batch.

::

    list                 rows
    states key           for each key: its state, and the greatest end of a window that its function was called for
    states window        for each key and window: its state, and the start and the end of the window
    1 states key         the same for the windows of family 1

Rows are appended, and the newest row of a key or window counts. Rows that have expired by `key_ttl`, or whose window
has closed, are left out when they are read. A state that is cleared for another reason gets a row without values: its
key was forgotten by `ttl=`, the records of its window were dropped, or all fields of a key's state were set to None.
The list is rewritten when it has more than twice as many rows as are live, and when grace or `key_ttl` change: what has
closed or expired stays so.

States are read in the micro-batches in which a function is called, a window with a state may close or `ttl=` forgets a
key. Whether a window may close follows from the header: it has the range of the windows of each page.

Keys are forgotten by `ttl=` when the engine forgets them, by the clock of their last record. Before `Header.forgets`
was stored, states expired by the clock of their last firing. Such states are read once more by that rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array, Partials
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.records import RecordKernel, kept_records
from slicing.aggregates.sorting import order
from slicing.content.block import Block, Shape, concat, encode_keys
from slicing.content.memory import newest
from slicing.engines.bucket import OpenBucket
from slicing.process.context import Context, Span
from slicing.process.function import WindowFunction
from slicing.process.remembered import FunctionStates, KeyRow, OfKey, OfWindow, WindowRow, same_key
from slicing.stages.firings import NO_KEY, moment
from slicing.state.format.header import GRACE, KEY_TTL
from slicing.state.format.list_names import OF_KEY, OF_WINDOW, STATES, of_family
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists
from slicing.windows.families.family import Family

_AT, _START = Field("at", "bigint"), Field("start", "bigint")


class _Close(NamedTuple):
    """What decides which states of windows in time are kept after a micro-batch; all in microseconds."""

    watermark: int
    grace: int
    key_ttl: int | None

    def closes(self, end: int) -> bool:
        """Return whether a window that ends at `end` is closed."""
        return end + self.grace <= self.watermark

    def expires(self, end: int) -> bool:
        """Return whether the state of a key is gone whose latest window ends at `end`."""
        return self.key_ttl is not None and end + self.key_ttl + self.grace < self.watermark


class StoredStates:
    """The states of a function in an open bucket; `save` is called after all firings of the micro-batch."""

    def __init__(self, function: WindowFunction, shape: Shape, bucket: OpenBucket, grace: int):
        self.function, self.bucket = function, bucket
        self.window, states = function.window, function.states
        self._by_time = self.window.closes and not self.window.counts
        self.no_key, self.families = shape.keys[0].name == NO_KEY, shape.family.families
        self.sides = {OF_KEY: (_AT, *states.key), OF_WINDOW: (_AT, _START, *states.window)}
        self.shapes = {
            side: _with_states(shape, [field.kind for field in fields]) for side, fields in self.sides.items()
        }
        self.remembered = FunctionStates(states, self._read)
        known, self._own = bucket.head.parameters, {GRACE: grace, KEY_TTL: states.key_ttl}
        self._before = self._close(self._own | known)  # of the previous micro-batch
        self._changes = self._before != self._close(self._own)
        if self._by_time:
            known |= self._own

    def _close(self, parameters: Mapping[str, int | None]) -> _Close:
        return _Close(self.bucket.head.watermark, parameters[GRACE] or 0, parameters[KEY_TTL])

    # Read.

    def _read(self, remembered: FunctionStates) -> None:
        keys: dict[OfKey, KeyRow] = {}
        windows: dict[OfWindow, WindowRow] = {}
        for number, _ in enumerate(self.bucket.head.families):
            for place, values in self._stored(number, OF_KEY):
                key_row = KeyRow(values[1:], values[0])
                if not self._before.expires(key_row.at):
                    keys[number, place[0]] = key_row
            for place, (at, start, *own) in self._stored(number, OF_WINDOW):
                window = Span(start, at, has_zone=self.function.zoned) if self.window.closes else None
                row = WindowRow(tuple(own), at, window)
                if not self._is_closed(row, self._before):
                    windows[number, *place] = row
        remembered.load(keys, windows)
        if (ttl := self.window.ttl) is not None:
            if not self.bucket.head.forgets:
                remembered.expire(lambda at: self.bucket.head.clock - at >= ttl)
            remembered.forget(self._forgotten, self._context)

    def _stored(self, number: int, side: str) -> Iterator[tuple[tuple[tuple[Any, ...], int], tuple[Any, ...]]]:
        """Yield the newest rows of a list: the key and the window, and the values."""
        rows = newest(self._ledger(number, side).rows())
        keys = self._keys(rows.names)
        columns = self.shapes[side].kernels[0].to_arrow(rows.partials[0], rows.dictionaries[0])
        values = zip(*(column.to_pylist() for column in columns), strict=True)
        for code, window, own in zip(rows.keys.tolist(), rows.index.tolist(), values, strict=True):
            yield (keys[code], window), own

    def _keys(self, names: pa.Table) -> list[tuple[Any, ...]]:
        if self.no_key:
            return [()] * len(names)
        return list(map(same_key, zip(*(column.to_pylist() for column in names.columns), strict=True)))

    def _ledger(self, number: int, side: str) -> Ledger:
        prefix = of_family(self.bucket.head.families[number].id)
        return Ledger(PageLists(self.bucket.pages, f"{prefix}{STATES}", self.shapes[side]), side, None)

    # Expired states.

    def _is_closed(self, row: WindowRow, close: _Close) -> bool:
        return self.window.counts or (self._by_time and close.closes(row.at))

    @cached_property
    def _forgotten(self) -> frozenset[tuple[Any, ...]]:
        """The keys that `ttl=` has forgotten since the previous micro-batch."""
        return frozenset(self._keys(self.bucket.forgotten()))

    @property
    def _must_read(self) -> bool:
        """Whether stored states may have to be cleared although no function was called."""
        has_any = self._has(OF_KEY) or self._has(OF_WINDOW)
        if self.window.ttl is not None:
            return has_any and bool(self._forgotten)
        return has_any and (self._changes or any(self._closes(at, family) for at, family in enumerate(self.families)))

    def _closes(self, number: int, family: Family) -> bool:
        """Whether the watermark of this micro-batch closes windows that have the numbers of stored states."""
        pages = self._ledger(number, OF_WINDOW).nodes.entries(OF_WINDOW)
        if not pages or not self._by_time:
            return False
        closes = self._before, self._close(self._own)
        first, end = (family.first_open(each.watermark, each.grace) for each in closes)
        return any(low < end and first < high for _, low, high, *_ in pages)

    def _has(self, side: str) -> bool:
        return any(self._ledger(at, side).nodes.names() for at in range(len(self.bucket.head.families)))

    @property
    def _context(self) -> Context:
        """The context of calls of `clear` that no firing leads to."""
        return Context("final", moment(self.bucket.head.watermark), moment(self.bucket.head.clock))

    # Write.

    def save(self) -> None:
        """Clear the states of closed windows and expired keys, and store the others with the micro-batch."""
        head, remembered, now = self.bucket.head, self.remembered, self._close(self._own)
        if self._must_read:
            remembered.fill()
        if not remembered.is_read:
            return
        remembered.clear(lambda row: self._is_closed(row, now), self._context)
        remembered.forget_keys(lambda row: now.expires(row.at))
        head.forgets = not self._by_time
        for number, _ in enumerate(head.families):
            keys, windows = remembered.of_family(number)
            self._put(number, OF_KEY, _places(keys), {*_places(remembered.set_keys)}, {*_places(remembered.gone_keys)})
            self._put(number, OF_WINDOW, list(windows), remembered.set_windows, remembered.gone_windows)
        self.bucket.pages.save_header()

    def _put(self, number: int, side: str, pairs: list[OfWindow], changed: set[OfWindow], gone: set[OfWindow]) -> None:
        """Write the rows of a list: those that were changed, and those without values of states that are gone."""
        ledger = self._ledger(number, side)
        if not pairs:
            ledger.nodes.drop(side)
            return
        void = [at for at in gone.difference(pairs) if at[0] == number]
        new = [at for at in pairs if at in changed]
        if self._changes:  # the rows that were dropped by the old parameters must not be there for the new ones
            ledger.rewrite(self._block(side, pairs))
        else:
            ledger.put(self._block(side, new + void), self._block(side, pairs))

    def _block(self, side: str, pairs: Sequence[OfWindow]) -> Block:
        shape = self.shapes[side]
        if not pairs:
            return concat(shape, [])
        table = _table(shape.key_schema, [(True,) if self.no_key else at[1] for at in pairs])
        codes, names = encode_keys(table)
        index = np.array([at[2] for at in pairs], dtype=np.int64)
        rows = [self._values(side, at) for at in pairs]
        columns = [
            pa.array([row[i] for row in rows], arrow_type(field.kind)) for i, field in enumerate(self.sides[side])
        ]
        return _state_rows(shape, index, codes, names, columns)

    def _values(self, side: str, at: OfWindow) -> tuple[object, ...]:
        row = self.remembered.keys.get(at[:2]) if side == OF_KEY else self.remembered.windows.get(at)
        if row is None:
            instants = 1 if side == OF_KEY else 2
            return (0,) * instants + (None,) * (len(self.sides[side]) - instants)
        if isinstance(row, KeyRow):
            return (row.at, *row.values)
        return (row.at, row.window.start_us if row.window else 0, *row.values)


def _places(keys: Iterable[OfKey]) -> list[OfWindow]:
    """Return the places of keys in their list: those of window 0."""
    return [(*key, 0) for key in keys]


def _table(schema: pa.Schema, rows: Iterable[tuple[object, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(list(column), type_) for column, type_ in zip(columns, schema.types, strict=True)], schema=schema
    )


class _StatesKernel(RecordKernel):
    """The kernel of states: of rows with equal place and key, the newest one replaces the older ones."""

    def joined(self, partials: Partials, dictionary: pa.Array | None, starts: Array) -> tuple[Partials, pa.Array]:
        """Return the last row of each run."""
        assert dictionary is not None
        last = partials[0][np.append(starts[1:], len(partials[0])) - 1] if len(starts) else partials[0][:0]
        return [last, last + 1], dictionary


def _with_states(shape: Shape, kinds: Sequence[str]) -> Shape:
    """Return the shape of rows of states with the same keys, and with values of these types."""
    fields = [Field(f"v{at}", kind) for at, kind in enumerate(kinds)]
    return shape.select(()).with_marks(_StatesKernel("states", kept_records(fields, None)))


def _state_rows(shape: Shape, places: Array, keys: Array, names: pa.Table, columns: Sequence[pa.Array]) -> Block:
    """Return rows of states as a block, sorted by place and key. `columns` has a column for each value."""
    partials, dictionary = shape.kernels[0].singles(columns) or ([], None)
    rows, _ = order(places, keys)
    ones = np.ones(len(places), dtype=np.int64)
    return Block(places, keys, names, ones, [partials], [dictionary]).take(rows)
