"""The first stage of sessions: records become rows of a key and a time, or sub-sessions where nothing is lost by it.

Who is late is known only behind the shuffle. If each record is judged by its own interval, those of one key, time and
gap are judged as one, and no more of them may become one; if sessions are judged, or nothing is late, all that overlap
or touch may.
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

GAP = Field("gap", "bigint")
"""The additional key field of records that have gaps of their own: the gap in microseconds."""


def of_records(shape: Shape, session: Session) -> Shape:
    """The shape of records as they are read; that of results knows no gaps."""
    return shape if session.gap is not None else replace(shape, keys=(*shape.keys, GAP))


def ends(session: Session, records: Records) -> Array:
    """Return the end of the interval of each record."""
    gaps = session.gap if session.gap is not None else np.asarray(records.names.columns[-1].combine_chunks())
    return records.times + gaps


def with_own_ends(session: Session, records: Records) -> EndingRecords:
    """Records, by their keys alone, that say where their intervals end."""
    stop = ends(session, records) + session.unit
    names = records.names if session.gap is not None else records.names.select(range(records.names.num_columns - 1))
    return EndingRecords(records.index, records.times, names, records.values, stop)


@dataclass(frozen=True)
class PreMerge(PreAggregate):
    """`PreAggregate` of sessions; `shape` is what `of_records` gives. If it `merges`, it ships sub-sessions."""

    session: Session = field(kw_only=True)
    merges: bool = field(kw_only=True)

    @property
    def packed(self) -> Shape:
        """The shape of the blocks that it ships."""
        return with_ends(self._of_keys) if self.merges else self.shape

    @property
    def _of_keys(self) -> Shape:
        return self.shape if self.session.gap is not None else replace(self.shape, keys=self.shape.keys[:-1])

    def _read(self, chunk: pa.Table, refused: Dropped) -> Records:
        """The records that have a time and a gap; other ones are counted, those without a time as such."""
        if self.session.gap is None:
            at = len(self.shape.keys)
            positive = pc.fill_null(pc.greater(chunk.column(at), 0), False)
            kept = pc.or_(chunk["time"].is_null(), positive)
            refused.no_window += len(chunk) - pc.sum(kept).as_py() if len(chunk) else 0
            chunk = chunk.filter(kept)
            gaps = pc.min_element_wise(chunk.column(at), pa.scalar(MOST_GAP))
            chunk = chunk.set_column(at, chunk.field(at), gaps)
        return records_of(self.shape, chunk, refused)

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
