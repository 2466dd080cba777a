"""Measures the time of a stream's stages in Python, if `spark.slicing.timers` is true when the query is built.

Timing is on while a partition runs. The time outside of all stages is Spark's: reading the source, the shuffle, data
transfer to Python and back, the commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from slicing.profiling import Stopwatch, profiled
from slicing.spark import stream
from slicing.stages.metrics import PREAGGREGATE, timer
from slicing.stages.preaggregate import PreAggregate, ShuffleRecords


class TimedOperator(stream.WindowOperator):
    """The stateful operator with timed stages; rows from the first stage bring the time of that stage."""

    def init(self, handle: Any) -> None:
        """Called once per partition and micro-batch."""
        super().init(handle)
        self.stopwatch, self.shipped = Stopwatch(), 0
        self._profiled = profiled(self.stopwatch)
        self._profiled.__enter__()

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """As in `WindowOperator`."""
        tables = list(rows)
        self.shipped = sum(int(table[PREAGGREGATE].sum()) for table in tables)
        yield from super().handleInputRows(key, iter(tables), timerValues)

    def _counted(self, counts: dict[str, int]) -> Iterator[pd.DataFrame]:
        counts |= {timer(stage): micros for stage, micros in self.stopwatch.lap().items()}
        counts[PREAGGREGATE], self.shipped = self.shipped, 0
        yield from super()._counted(counts)

    def close(self) -> None:
        """Called once per partition and micro-batch."""
        self._profiled.__exit__(None, None, None)
        super().close()


@dataclass(frozen=True)
class TimedStage:
    """The first stage, with its duration in microseconds in the first row of each batch, without waiting for input."""

    stage: PreAggregate | ShuffleRecords

    @property
    def schema(self) -> str:
        """The schema of its rows, as DDL."""
        return f"{self.stage.schema}, {PREAGGREGATE} bigint"

    def __call__(self, batches: Iterator[pa.RecordBatch], partition: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the stage."""
        stopwatch = Stopwatch()
        for rows in stopwatch.each(PREAGGREGATE, self.stage(stopwatch.each("", batches), partition)):
            micros = [stopwatch.lap().get(PREAGGREGATE, 0), *[0] * (rows.num_rows - 1)]
            yield rows.append_column(PREAGGREGATE, pa.array(micros, pa.int64()))
