"""The floor: the stages of our stream without any work, so that the time left is that of Spark and of the transport.

Records are sent to Python and dropped there. One small row per bucket is shuffled. Each bucket reads and writes its
header, sets a timer and emits prepared rows, as many and with the same columns as ours, packed in lists like ours. The
floor of bounded input is the same without state.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from benchmarks.baselines.query import window_struct
from slicing.spark.packing import frame_of, unpacked
from slicing.stages.flat import Flat
from slicing.stages.packed import Packed
from slicing.state.format.labels import labels
from slicing.windows.time.durations import microseconds

FRAME_ROWS = 250_000
SHIPPED = "bucket int, block binary"
PACKED = Packed(Flat(("bigint",), ("bigint", "bigint"), None, *[False] * 6))
"""Key, start of the window, number of records and their sum."""


@dataclass(frozen=True)
class Floor:
    """A stream that emits `rows` rows in each micro-batch whose watermark has advanced, whatever its input."""

    rows: int

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return rows with the columns of `Ours`."""
        buckets = buckets_of(frame)
        flat = (
            _dropped(frame, buckets)
            .groupBy("bucket")
            .transformWithStateInPandas(
                Idle(self.rows // len(buckets)), PACKED.schema, outputMode="Append", timeMode="EventTime"
            )
        )
        return windows_of(flat, size)


@dataclass(frozen=True)
class BoundedFloor:
    """A bounded query that emits `rows` rows, whatever its input."""

    rows: int

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return rows with the columns of `Ours`."""
        buckets = buckets_of(frame)
        grouped = _dropped(frame, buckets).repartition("bucket").sortWithinPartitions("bucket")
        return windows_of(grouped.mapInArrow(EmitRows(self.rows // len(buckets)), PACKED.schema), size)


def buckets_of(frame: DataFrame) -> tuple[int, ...]:
    """Return the labels of as many buckets as there are shuffle partitions, one for each."""
    partitions = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    return labels(partitions, partitions)


def _dropped(frame: DataFrame, buckets: tuple[int, ...]) -> DataFrame:
    """The rows that are shuffled in place of records."""
    return frame.select("ts", "key", "v").mapInArrow(Drop(buckets), SHIPPED)


def windows_of(packed: DataFrame, size: str) -> DataFrame:
    """Return packed rows with the columns of `Ours`."""
    window = window_struct(F.col("start"), F.col("start") + microseconds(size, "size"))
    found = unpacked(packed, PACKED)
    return found.select(F.col("k0").alias("key"), window, F.col("r0").alias("records"), F.col("r1").alias("total"))


def _rows(count: int) -> Iterator[pa.Table]:
    """`count` rows with arbitrary content, one frame at a time."""
    column = pa.array(np.arange(min(count, FRAME_ROWS)))
    frame = pa.table(dict.fromkeys(("k0", "start", "r0", "r1"), column))
    for start in range(0, count, FRAME_ROWS):
        yield PACKED.rows(frame.slice(0, min(FRAME_ROWS, count - start)))


def in_rows(windows: pa.Table) -> Iterator[pa.Table]:
    """Yield a table of key, start, count and sum in packed rows, one frame at a time."""
    return (PACKED.rows(windows.slice(start, FRAME_ROWS)) for start in range(0, len(windows), FRAME_ROWS))


@dataclass(frozen=True)
class Drop:
    """The first stage: reads all records and ships one row per bucket."""

    buckets: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one empty row per bucket."""
        for _ in batches:
            pass
        columns = [pa.array(self.buckets, pa.int32()), pa.array([b""] * len(self.buckets))]
        yield pa.RecordBatch.from_arrays(columns, ["bucket", "block"])


@dataclass(frozen=True)
class EmitRows:
    """The second stage on bounded input: emits `rows` rows for each bucket."""

    rows: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows with arbitrary content."""
        buckets = {bucket for batch in batches for bucket in batch["bucket"].to_pylist()}
        for _ in buckets:
            for table in _rows(self.rows):
                yield from table.to_batches()


class Idle(StatefulProcessor):
    """The second stage on a stream: a header of typical size, a timer, and rows at every close."""

    def __init__(self, rows: int):
        self.rows = rows

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once per partition and micro-batch."""
        self.handle = handle
        self.header = handle.getValueState("header", StructType().add("value", "string"))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Read the input and write the header."""
        list(rows)
        if self.header.get() is None:
            self.handle.registerTimer(1)
        self.header.update(("-" * 1000,))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Emit the rows and set the next timer."""
        yield from map(frame_of, _rows(self.rows))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 1)

    def close(self) -> None:
        """Called by Spark once per partition and micro-batch."""
