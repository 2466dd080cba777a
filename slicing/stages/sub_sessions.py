"""The first stage of sessions: records become rows per (key, time), or sub-sessions if lateness allows it.

Lateness is known only after the shuffle. If the lateness of each record depends on its own interval, only records with
equal key, time and gap may be combined before. If it depends on the session, or if no record is late, all records
that overlap or touch may be combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field
from slicing.assembly.ranges.merging import by_start, chains, merged
from slicing.content.block import Block, Shape, concat, encode_keys
from slicing.content.folding import from_runs
from slicing.content.intervals import EndingRecords, with_ends
from slicing.content.records import Records
from slicing.stages.labels import labels_of
from slicing.stages.preaggregate import Dropped, PreAggregate, records_of
from slicing.windows.session import MOST_GAP, Session
from slicing.windows.time.edges import AFTER

GAP = Field("gap", "bigint")
"""The additional key field of records that have their own gap: the gap in microseconds."""


def of_records(shape: Shape, session: Session) -> Shape:
    """Return the shape of the records that are read: that of results, with the gap as a key field if it is a column."""
    return shape if session.gap is not None else replace(shape, keys=(*shape.keys, GAP))


def lengths(session: Session, records: Records) -> Array:
    """Return the gap of each record, or of all records: `int64[n]` or `int64[]`, microseconds."""
    return np.asarray(records.names.columns[-1].combine_chunks() if session.gap is None else session.gap)


def ends(session: Session, records: Records) -> Array:
    """Return the end of the interval of each record: `int64[n]`, microseconds."""
    return records.times + lengths(session, records)


def with_own_ends(session: Session, records: Records) -> EndingRecords:
    """Return records with the ends of their intervals, and without the gap in their keys."""
    stop = ends(session, records) + session.unit
    names = records.names if session.gap is not None else records.names.select(range(records.names.num_columns - 1))
    return EndingRecords(records.index, records.times, names, records.values, stop)


@dataclass(frozen=True)
class PreMerge(PreAggregate):
    """`PreAggregate` for sessions; `shape` is that of `of_records`. With `merges` it shuffles sub-sessions."""

    session: Session = field(kw_only=True)
    merges: bool = field(kw_only=True)

    @property
    def packed(self) -> Shape:
        """Return the shape of the shuffled blocks."""
        return with_ends(self._of_keys) if self.merges else self.shape

    @property
    def _of_keys(self) -> Shape:
        return self.shape if self.session.gap is not None else replace(self.shape, keys=self.shape.keys[:-1])

    def _read(self, chunk: pa.Table, refused: Dropped) -> Records:
        """Return the records with a time, a positive gap and an end. Others are counted, by cause."""
        if self.session.gap is None:
            at = len(self.shape.keys)
            positive = pc.fill_null(pc.greater(chunk.column(at), 0), False)
            kept = pc.or_(chunk["time"].is_null(), positive)
            refused.no_window += len(chunk) - pc.sum(kept).as_py() if len(chunk) else 0
            chunk = chunk.filter(kept)
            gaps = pc.min_element_wise(chunk.column(at), pa.scalar(MOST_GAP))
            chunk = chunk.set_column(at, chunk.field(at), gaps)
        records = records_of(self.shape, chunk, refused)
        held = records.times < AFTER - self.session.unit - lengths(self.session, records)
        if np.all(held):
            return records
        refused.no_time += int(np.sum(~held))
        return records.take(np.flatnonzero(held))

    def _labels(self, names: pa.Table) -> Array:
        return labels_of(names.select(range(len(self._of_keys.keys))), self.labels)

    def _block(self, records: Records) -> Block:
        if not self.merges:
            return super()._block(records)
        records = with_own_ends(replace(self.session, unit=0), records)
        codes, names = encode_keys(records.names)
        times = pa.array(records.times)
        arguments = [[times if i < 0 else records.values[i] for i in positions] for positions in self.arguments]
        runs = chains(codes, records.index, records.ends)
        arguments.append([pa.array(records.ends)])
        return by_start(from_runs(self.packed, records.index, codes, names, arguments, *runs))

    def _fold(self, blocks: Sequence[Block]) -> Block:
        if not self.merges:
            return super()._fold(blocks)
        known = [block for block in blocks if len(block)]
        return known[0] if len(known) == 1 else by_start(merged(self.packed, concat(self.packed, known)))
