"""A first stage that also shuffles the signals of conditions, in separate rows. Without signals it is not used.

::

    columns of a record    time  k0  v0  v1  | s0  s1          s0: whether "when" is true
    the inner stage        time  k0  v0  v1                    does not see them
    signals                time  k0            s0  s1          one row for each slice and key with a signal

A column `s1` has the event times for the signal "first" if the times of rows are not those of their records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slicing.content.block import Block, empty
from slicing.content.codec import decode
from slicing.content.records import decode_records
from slicing.content.signals import ABSENT, FIRST, NUMBER, SIGNALS, WHEN, Signal, Signals, folded, with_signals
from slicing.stages.preaggregate import (
    CHUNK_ROWS,
    Dropped,
    Numbers,
    Page,
    PreAggregate,
    ShuffleRecords,
    _encoded,
    _shipped,
)
from slicing.stages.sub_sessions import PreMerge

COLUMN, NUMBERS = "signals", "numbers"


@dataclass(frozen=True)
class Signalled:
    """The first stage `of` a plan, which also shuffles the signals `names`. It reads one more column for each signal.

    `first` has its column, the event times of records, only with `has_times`, if the times of rows are others. Of
    `number` the values of all records are shuffled, in their order.
    """

    of: PreAggregate | ShuffleRecords
    names: tuple[str, ...]
    has_times: bool = False

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """Return the signals that are folded before they are shuffled."""
        return folded(self.names)

    @property
    def schema(self) -> str:
        """Return the columns of the output rows as DDL."""
        return f"{self.of.schema}, {COLUMN} binary" + (f", {NUMBERS} binary" if NUMBER in self.names else "")

    @cached_property
    def _read(self) -> list[str]:
        """The folded signals that have columns; "first" may be the time of a row."""
        return [name for name in self.folded if name != FIRST or self.has_times]

    @cached_property
    def stage(self) -> PreAggregate:
        """Return the stage that folds signals: by slice and key, or, for sessions, by time, key and gap."""
        shape = with_signals(self.of.shape, len(self.folded))
        arguments = tuple((self._read.index(name) if name in self._read else -1,) for name in self.folded)
        if isinstance(self.of, PreMerge):
            return replace(self.of, shape=shape, arguments=arguments, with_records=False, merges=False)
        return PreAggregate(shape, arguments, self.of.labels)

    def __call__(self, batches: Iterable[pa.RecordBatch], partition: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the inner stage, the rows of values between its chunks, and the signals at the end."""
        folding = _Folding(self.stage, set(self.folded) != {WHEN}, [SIGNALS[name] for name in self._read])
        values = _Values(self.of)
        noted = map(values.note, batches) if NUMBER in self.names else batches
        between, part = partial(self._of_values, values, Numbers(partition)), Numbers(partition)
        for rows in self.of(map(folding.note, noted) if self.folded else noted, partition, between):
            if self._columns[-1] not in rows.schema.names:
                for name in self._columns:
                    rows = rows.append_column(name, pa.nulls(len(rows), pa.binary()))
            yield rows
        # Signals follow all other rows. Only rows of one column are sorted after the shuffle.
        yield from self._of_pages(folding.pages(), part, COLUMN)

    def _of_values(self, values: _Values, part: Numbers) -> Iterator[pa.RecordBatch]:
        return self._of_pages(values.pages(), part, NUMBERS)

    def _of_pages(self, pages: list[Page], part: Numbers, name: str) -> Iterator[pa.RecordBatch]:
        """Return rows with the pages in the column of that name; no rows without pages."""
        return (self._moved(rows, name) for rows in (_shipped(pages, part, Dropped()) if pages else ()))

    @property
    def _columns(self) -> tuple[str, ...]:
        return (COLUMN, NUMBERS) if NUMBER in self.names else (COLUMN,)

    def _moved(self, rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
        """Return rows with their blocks moved to the column of that name."""
        at = rows.schema.get_field_index("block")
        blocks, none = rows.column(at), pa.nulls(len(rows), pa.binary())
        rows = rows.set_column(at, "block", none)
        if self.of.schema.endswith("records binary"):
            rows = rows.append_column("records", none)
        for column in self._columns:
            rows = rows.append_column(column, blocks if column == name else none)
        return rows

    def heard(self, rows: Mapping[Any, Iterable[bytes | None]]) -> Signals:
        """Return the shuffled signals, from the columns of the sorted rows."""
        blocks = [decode(self.stage.packed, data) for data in rows[COLUMN] if data is not None]
        numbers = rows[NUMBERS] if NUMBER in self.names else ()
        return Signals(
            self.folded, blocks, [decode_records(self.of.shape, data) for data in numbers if data is not None]
        )


@dataclass
class _Folding:
    """The signals of one input partition. With `all_send` every record sends a signal, else only those of `when`.

    Records have columns for the signals `read`.
    """

    stage: PreAggregate
    all_send: bool
    read: Sequence[Signal]
    held: dict[int, Block] = field(default_factory=dict)
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0

    def note(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Collect the signals of a batch, and return the batch without their columns."""
        signals = batch.select(range(1 + len(self.stage.shape.keys)))
        for each in self.read:
            assert each.folded is not None, "others are in _Values"
            signals = signals.append_column(each.column, each.folded(batch.column(each.column)))
        if not self.all_send:
            signals = signals.filter(pc.not_equal(signals.column(SIGNALS[WHEN].column), ABSENT))
        if len(signals):
            self.waiting.append(signals)
            self.rows += len(signals)
        if self.rows >= CHUNK_ROWS:
            self._fold()
        return batch.drop_columns([each.column for each in self.read])

    def pages(self) -> list[Page]:
        """Return the pages of all signals."""
        self._fold()
        return list(self.stage._pages(self.held))

    def _fold(self) -> None:
        if not self.waiting:
            return
        records = self.stage._read(pa.Table.from_batches(self.waiting), Dropped())
        self.waiting, self.rows = [], 0
        if not len(records.index):
            return
        block, none = self.stage._block(records), empty(self.stage.packed)
        for label, rows in self.stage._by_bucket(block):
            self.held[label] = self.stage._fold([self.held.get(label, none), rows])


@dataclass
class _Values:
    """The values of records that are not yet shuffled, for conditions that compare values one by one."""

    of: PreAggregate | ShuffleRecords
    waiting: list[pa.RecordBatch] = field(default_factory=list)

    def note(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Collect the values of a batch except null and NaN, and return the batch without them."""
        name = SIGNALS[NUMBER].column
        counts = pc.fill_null(pc.invert(pc.is_nan(batch.column(name))), False)
        columns = batch.select([*batch.schema.names[: 1 + len(self.of.shape.keys)], name]).filter(counts)
        if len(columns):
            self.waiting.append(columns)
        return batch.drop_columns([name])

    def pages(self) -> list[Page]:
        """Return the pages of the values collected so far, and drop the values."""
        if not self.waiting:
            return []
        records = self.of._read(pa.Table.from_batches(self.waiting), Dropped())
        self.waiting = []
        if not len(records.index):
            return []
        return list(_encoded(self.of.shape, records, self.of._labels))


def first_stage(of: PreAggregate | ShuffleRecords, names: tuple[str, ...], has_times: bool = False) -> Any:
    """Return a first stage that also shuffles these signals, or `of` itself if there are none."""
    return Signalled(of, names, has_times) if names else of
