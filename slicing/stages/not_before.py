"""A first stage that drops and counts records before an instant: a warm start has them from its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slicing.stages.metrics import BEFORE_WARM


@dataclass
class _Dropped:
    """The number of dropped records that have not been reported yet."""

    count: int = 0

    def take(self) -> int:
        """Return the number, and reset it to 0."""
        count, self.count = self.count, 0
        return count


@dataclass(frozen=True)
class NotBefore:
    """The first stage `stage`, without records before `until` (microseconds). Their number is an additional column.

    A record without a time is passed on: the inner stage counts it.
    """

    stage: Any
    until: int

    @property
    def schema(self) -> str:
        """Return the columns of the output rows as DDL."""
        return f"{self.stage.schema}, {BEFORE_WARM} bigint"

    def __call__(self, batches: Iterable[pa.RecordBatch], partition: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the stage. The first row of each batch has the number of records dropped since the last."""
        dropped = _Dropped()
        for rows in self.stage(self._kept(batches, dropped), partition):
            yield _counted(rows, dropped.take())
        if dropped.count:
            # Without records only the stage of partition 0 yields rows: take one of these to report the count.
            yield _counted(next(self.stage(iter(()), 0)).slice(0, 1), dropped.take())

    def _kept(self, batches: Iterable[pa.RecordBatch], dropped: _Dropped) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            times = batch.column(batch.schema.get_field_index("time")).cast(pa.int64())
            kept = pc.fill_null(pc.greater_equal(times, self.until), True)
            found = batch if pc.all(kept).as_py() is not False else batch.filter(kept)
            dropped.count += batch.num_rows - found.num_rows
            yield found


def _counted(rows: pa.RecordBatch, count: int) -> pa.RecordBatch:
    return rows.append_column(BEFORE_WARM, pa.array([count, *[0] * (rows.num_rows - 1)], pa.int64()))
