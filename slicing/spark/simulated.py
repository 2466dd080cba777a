"""Runs the stages of a stream in this process, without a JVM: Spark's shuffle, state, timers and types are simulated.

The first stage and the stateful operator are those of a stream. For each task, Spark starts with the functions as they
were pickled when the query started; so does this.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from slicing.aggregates.spill import spilling
from slicing.spark.build import spread
from slicing.spark.query import Query
from slicing.spark.stream import WindowOperator, fingerprint, stage_of
from slicing.state import bucket_cache


@dataclass
class _State:
    """A value or a map in Spark's state; `get` and `update` are those of a value."""

    rows: dict[Any, Any] = field(default_factory=dict)

    def get(self) -> Any:
        return self.rows.get(())

    def update(self, row: Any) -> None:
        self.rows[()] = row

    def getValue(self, key: Any) -> Any:  # noqa: N802
        return self.rows.get(key)

    def updateValue(self, key: Any, row: Any) -> None:  # noqa: N802
        self.rows[key] = row

    def removeKey(self, key: Any) -> None:  # noqa: N802
        self.rows.pop(key, None)


@dataclass
class _Handle:
    """The state and the timers of a bucket, as Spark's handle gives them to the operator."""

    states: dict[str, _State] = field(default_factory=lambda: defaultdict(_State))
    timers: set[int] = field(default_factory=set)

    def getValueState(self, name: str, schema: StructType) -> _State:  # noqa: N802
        return self.states[name]

    def getMapState(self, name: str, key: StructType, value: StructType) -> _State:  # noqa: N802
        return self.states[name]

    def registerTimer(self, at: int) -> None:  # noqa: N802
        self.timers.add(at)

    def deleteTimer(self, at: int) -> None:  # noqa: N802
        self.timers.discard(at)

    def due(self, now: int) -> Iterator[int]:
        """Yield the timers up to a time, those that are set meanwhile too, and remove them."""
        while due := [at for at in self.timers if at <= now]:
            self.timers.remove(min(due))
            yield min(due)


@dataclass(frozen=True)
class _TimerValues:
    """The watermark and the clock of a micro-batch, in milliseconds."""

    watermark: int
    clock: int

    def getCurrentWatermarkInMs(self) -> int:  # noqa: N802
        return self.watermark

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802
        return self.clock


class SimulatedStream:
    """The running stream of a query, with the state of its buckets."""

    def __init__(self, query: Query):
        labels, buckets = spread(query)
        self._stage = _pickled(stage_of(query, labels))
        self._operator = _pickled(WindowOperator(query.execution_plan, query, fingerprint(query, buckets)))
        self._handles: dict[int, _Handle] = defaultdict(_Handle)

    def step(self, records: pa.RecordBatch, watermark: int, clock: int) -> Iterator[dict[str, Any]]:
        """Run a micro-batch and yield its packed rows. `watermark` and `clock` are in milliseconds.

        `records` has the columns that the first stage reads. It sends a row to each bucket, also without records.
        """
        times = _TimerValues(watermark, clock)
        for label, rows in self._shuffled(records):
            for frame in self._frames(label, rows, times):
                yield from pa.Table.from_pandas(pd.DataFrame(frame), preserve_index=False).to_pylist()

    def _shuffled(self, records: pa.RecordBatch) -> Iterator[tuple[int, pd.DataFrame]]:
        """The rows of the first stage by bucket."""
        with spilling():
            batches = list(pickle.loads(self._stage)([records], 0))
        return iter(pa.Table.from_batches(batches).to_pandas().groupby("bucket"))

    def _frames(self, label: int, rows: pd.DataFrame, times: _TimerValues) -> Iterator[pd.DataFrame]:
        handle, operator = self._handles[label], pickle.loads(self._operator)
        operator.init(handle)
        yield from operator.handleInputRows((label,), iter([rows]), times)
        now = times.clock if operator.time_mode == "ProcessingTime" else times.watermark
        for _ in handle.due(now):
            yield from operator.handleExpiredTimer((label,), times, None)
        operator.close()

    def restart(self) -> None:
        """Forget what a process keeps in memory; the next micro-batch reads the stored state."""
        bucket_cache.forget()


def _pickled(function: Any) -> bytes:
    return bytes(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]


def schema_of(table: pa.Table) -> StructType:
    """Return Spark's types of the columns of an Arrow table; timestamps without a zone are `timestamp`, too."""
    return from_arrow_schema(table.schema, False)


def row_type(names: tuple[str, ...]) -> Callable[..., Row]:
    """Return the function that makes rows, as Spark collects them, of the values of these columns."""
    return Row(*names)
