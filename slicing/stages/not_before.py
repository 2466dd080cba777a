"""A first stage that drops records before an instant, which a warm start has from its history, and counts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slicing.stages.metrics import BEFORE_WARM


@dataclass
class _Dropped:
    """How many records have been dropped and not reported yet."""

    count: int = 0

    def take(self) -> int:
        """Return the number, and begin anew."""
        count, self.count = self.count, 0
        return count


@dataclass(frozen=True)
class NotBefore:
    """A first stage of the records from `until` on, in microseconds; the others are a column of counts of its rows.

    A record without a time is handed on, and counted as such there.
    """

    stage: Any
    until: int

    @property
    def schema(self) -> str:
        """The columns of its rows."""
        return f"{self.stage.schema}, {BEFORE_WARM} bigint"

    def __call__(self, batches: Iterable[pa.RecordBatch], partition: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the stage; the first one of each batch counts what was dropped since the one before."""
        dropped = _Dropped()
        for rows in self.stage(self._kept(batches, dropped), partition):
            yield _counted(rows, dropped.take())
        if dropped.count:
            # A stage without records is silent, but for the first partition's: a row of that one carries the count.
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
