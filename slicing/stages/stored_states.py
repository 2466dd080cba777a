"""The states of functions of windows, in separate pages of a bucket. They are committed with the micro-batch.

::

    list                 rows
    states key           for each key: its state, and the greatest end of a window that its function was called for
    states window        for each key and window: its state, and the start and the end of the window
    1 states key         the same for the windows of family 1

Rows are appended, and the newest row of a key or window counts. Rows that have expired by their TTL, or whose window
has closed, are left out when they are read. The list is rewritten when it has more than twice as many rows as are live.
It is also rewritten when a state was cleared for another reason: the records of its window were dropped, or all fields
of a key's state were set to None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.fields import Field, arrow_type
from slicing.content.block import Block, Shape, concat, encode_keys
from slicing.content.memory import newest
from slicing.content.states import state_rows, with_states
from slicing.engines.bucket import OpenBucket
from slicing.process.context import Context, Span
from slicing.process.function import WindowFunction
from slicing.process.remembered import FunctionStates, KeyRow, OfKey, OfWindow, WindowRow, same_key
from slicing.stages.firings import NO_KEY, moment
from slicing.state.format.list_names import OF_KEY, OF_WINDOW, STATES, of_family
from slicing.state.ledger import Ledger
from slicing.state.lists import PageLists

_AT, _START = Field("at", "bigint"), Field("start", "bigint")


class StoredStates:
    """The states of a function in an open bucket; `save` is called after all firings of the micro-batch."""

    def __init__(self, function: WindowFunction, shape: Shape, bucket: OpenBucket, grace: int):
        self.function, self.bucket, self.grace = function, bucket, grace
        self.window, states = function.window, function.states
        self.no_key = shape.keys[0].name == NO_KEY
        self.sides = {OF_KEY: (_AT, *states.key), OF_WINDOW: (_AT, _START, *states.window)}
        self.shapes = {
            side: with_states(shape, [field.kind for field in fields]) for side, fields in self.sides.items()
        }
        self.remembered = FunctionStates(states, self._read)
        self._watermark = bucket.head.watermark  # of the previous micro-batch

    # Read.

    def _read(self, remembered: FunctionStates) -> None:
        for number, _ in enumerate(self.bucket.head.families):
            for place, values in self._stored(number, OF_KEY):
                key_row = KeyRow(values[1:], values[0])
                if not self._is_forgotten(key_row, self._watermark):
                    remembered.keys[number, same_key(place[0])] = key_row
            for place, (at, start, *own) in self._stored(number, OF_WINDOW):
                window = Span(start, at, has_zone=self.function.zoned) if self.window.closes else None
                row = WindowRow(tuple(own), at, window)
                if not self._is_closed(row, self._watermark):
                    remembered.windows[number, same_key(place[0]), place[1]] = row

    def _stored(self, number: int, side: str) -> Iterator[tuple[tuple[tuple[Any, ...], int], tuple[Any, ...]]]:
        """Yield the newest rows of a list: the key and the window, and the values."""
        rows = newest(self._ledger(number, side).rows())
        keys = list(zip(*(column.to_pylist() for column in rows.names.columns), strict=True))
        columns = self.shapes[side].kernels[0].to_arrow(rows.partials[0], rows.dictionaries[0])
        values = zip(*(column.to_pylist() for column in columns), strict=True)
        for code, window, own in zip(rows.keys.tolist(), rows.index.tolist(), values, strict=True):
            yield (() if self.no_key else keys[code], window), own

    def _ledger(self, number: int, side: str) -> Ledger:
        prefix = of_family(self.bucket.head.families[number].id)
        return Ledger(PageLists(self.bucket.pages, f"{prefix}{STATES}", self.shapes[side]), side, None)

    # Expired states.

    def _is_closed(self, row: WindowRow, watermark: int) -> bool:
        if not self.window.closes:
            return self._is_idle(row.at)
        return self.window.counts or row.at + self.grace <= watermark

    def _is_forgotten(self, row: KeyRow, watermark: int) -> bool:
        ttl = self.remembered.states.key_ttl
        return self._is_idle(row.at) if ttl is None else row.at + ttl + self.grace < watermark

    def _is_idle(self, clock: int) -> bool:
        ttl = self.window.ttl
        return ttl is not None and self.bucket.head.clock - clock >= ttl

    # Write.

    def save(self) -> None:
        """Clear the states of closed windows and expired keys, and store the others with the micro-batch."""
        head, remembered, states = self.bucket.head, self.remembered, self.remembered.states
        if states.window and any(self._ledger(at, OF_WINDOW).nodes.names() for at in range(len(head.families))):
            remembered.fill()
        if not remembered.is_read:
            return
        context = Context("final", moment(head.watermark), moment(head.clock))
        remembered.clear(lambda row: self._is_closed(row, head.watermark), context)
        remembered.forget_keys(lambda row: self._is_forgotten(row, head.watermark))
        for number, _ in enumerate(head.families):
            keys, windows = remembered.of_family(number)
            self._put(number, OF_KEY, [(*at, 0) for at in keys], remembered.set_keys)
            self._put(number, OF_WINDOW, list(windows), remembered.set_windows)
        self.bucket.pages.save_header()

    def _put(self, number: int, side: str, pairs: list[OfWindow], changed: set[OfKey] | set[OfWindow]) -> None:
        ledger = self._ledger(number, side)
        if not pairs:
            ledger.nodes.drop(side)
            return
        is_new = [(at[:2] if side == OF_KEY else at) in changed for at in pairs]
        live = self._block(side, pairs)
        new = self._block(side, [at for at, new in zip(pairs, is_new, strict=True) if new])
        length = 2 if side == OF_KEY else 3
        if any(at[0] == number and len(at) == length for at in self.remembered.gone):
            ledger.rewrite(live)
        else:
            ledger.put(new, live)

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
        return state_rows(shape, index, codes, names, columns)

    def _values(self, side: str, at: OfWindow) -> tuple[object, ...]:
        if side == OF_KEY:
            row = self.remembered.keys[at[:2]]
            return (row.at, *row.values)
        own = self.remembered.windows[at]
        return (own.at, own.window.start_us if own.window else 0, *own.values)


def _table(schema: pa.Schema, rows: Iterable[tuple[object, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(list(column), type_) for column, type_ in zip(columns, schema.types, strict=True)], schema=schema
    )
