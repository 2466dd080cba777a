"""A first stage that also ships the signals of conditions, in rows of their own; a trigger without any costs nothing.

::

    columns of a record    time  k0  v0  v1  | s0              s0: the signal "when", which the JVM has evaluated
    the stage inside       time  k0  v0  v1                    knows nothing of it
    signals                time  k0            s0              one row for each slice and key that sends one
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slicing.content.block import Block, empty
from slicing.content.codec import decode
from slicing.content.signals import ABSENT, FIRST, WHEN, with_signals
from slicing.stages.preaggregate import CHUNK_ROWS, Dropped, Numbers, Page, PreAggregate, Ship, _shipped
from slicing.stages.sub_sessions import PreMerge

COLUMN = "signals"


@dataclass(frozen=True)
class Signalled:
    """The first stage `of` a strategy, with the signals of these names. Of records it reads one column more: `when`."""

    of: PreAggregate | Ship
    names: tuple[str, ...]

    @property
    def schema(self) -> str:
        """The columns of its rows."""
        return f"{self.of.schema}, {COLUMN} binary"

    @cached_property
    def stage(self) -> PreAggregate:
        """The stage that folds signals: by slice and key, or, of sessions, by time, key and gap."""
        shape = with_signals(self.of.shape, len(self.names))
        arguments = tuple((-1,) if name == FIRST else (0,) for name in self.names)
        if isinstance(self.of, PreMerge):
            return replace(self.of, shape=shape, arguments=arguments, beside=False, merges=False)
        return PreAggregate(shape, arguments, self.of.labels)

    def __call__(self, batches: Iterable[pa.RecordBatch], partition: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the stage inside, then those of signals."""
        folding = _Folding(self.stage, FIRST in self.names, WHEN in self.names)
        for rows in self.of(map(folding.note, batches), partition):
            yield rows.append_column(COLUMN, pa.nulls(len(rows), pa.binary()))
        if pages := folding.pages():
            # Behind all other rows; only rows of one column are put in order.
            for rows in _shipped(pages, Numbers(partition), Dropped()):
                at = rows.schema.get_field_index("block")
                blocks, none = rows.column(at), pa.nulls(len(rows), pa.binary())
                rows = rows.set_column(at, "block", none)
                if self.of.schema.endswith("records binary"):
                    rows = rows.append_column("records", none)
                yield rows.append_column(COLUMN, blocks)

    def heard(self, rows: Mapping[Any, Iterable[bytes | None]]) -> list[Block]:
        """The signals that have been shipped, from the columns of the rows."""
        return [decode(self.stage.packed, data) for data in rows[COLUMN] if data is not None]


@dataclass
class _Folding:
    """The signals of one input partition; with `all_send` every record sends one, else those of `when` alone."""

    stage: PreAggregate
    all_send: bool
    has_column: bool
    held: dict[int, Block] = field(default_factory=dict)
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0

    def note(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take the signals of a batch; return it without their column."""
        keys = 1 + len(self.stage.shape.keys)
        columns = [*range(keys), *([batch.num_columns - 1] if self.has_column else [])]
        signals = batch.select(columns)
        if not self.all_send:
            signals = signals.filter(pc.not_equal(signals.column(keys), ABSENT))
        if len(signals):
            self.waiting.append(signals)
            self.rows += len(signals)
        if self.rows >= CHUNK_ROWS:
            self._fold()
        return batch.select(range(batch.num_columns - self.has_column))

    def pages(self) -> list[Page]:
        """What is shipped."""
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


def first_stage(of: PreAggregate | Ship, names: tuple[str, ...]) -> Any:
    """Return a first stage that ships these signals too: itself where there are none."""
    return Signalled(of, names) if names else of
