"""The floor: the stages of our stream with all work taken out, so that what is left is Spark's and the transport's.

Records go to Python and are dropped there, one small row per bucket goes through the shuffle, a bucket reads and writes
its header and sets a timer, and rows that were made beforehand come back: as many and of the same columns as ours, in
lists as those of ours are. The floor of bounded input is the same without state.
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
from slicing.spark.labels import labels
from slicing.spark.packing import frame_of, unpacked
from slicing.stages.flat import Flat
from slicing.stages.packed import Packed
from slicing.windows.time.durations import microseconds

FRAME_ROWS = 250_000
SHIPPED = "bucket int, block binary"
PACKED = Packed(Flat(("bigint",), ("bigint", "bigint"), None, *[False] * 6))
"""A key, a start, the number of records and their sum."""


@dataclass(frozen=True)
class Floor:
    """A query that puts out `rows` rows in every micro-batch whose watermark has moved, whatever it reads."""

    rows: int

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Rows with the columns of `Ours`."""
        blocks, buckets = _dropped(frame)
        flat = blocks.groupBy("bucket").transformWithStateInPandas(
            Idle(self.rows // buckets), PACKED.schema, outputMode="Append", timeMode="EventTime"
        )
        return _windows(flat, size)


@dataclass(frozen=True)
class BoundedFloor:
    """A bounded query that puts out `rows` rows, whatever it reads."""

    rows: int

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Rows with the columns of `Ours`."""
        blocks, buckets = _dropped(frame)
        grouped = blocks.repartition("bucket").sortWithinPartitions("bucket")
        return _windows(grouped.mapInArrow(PutOut(self.rows // buckets), PACKED.schema), size)


def _dropped(frame: DataFrame) -> tuple[DataFrame, int]:
    """What is left of records before the shuffle, and for how many buckets."""
    spark = frame.sparkSession
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    buckets = labels(partitions, partitions)
    return frame.select("ts", "key", "v").mapInArrow(Drop(buckets), SHIPPED), partitions


def _windows(packed: DataFrame, size: str) -> DataFrame:
    window = window_struct(F.col("start"), F.col("start") + microseconds(size, "size"))
    found = unpacked(packed, PACKED)
    return found.select(F.col("k0").alias("key"), window, F.col("r0").alias("records"), F.col("r1").alias("total"))


def _rows(count: int) -> Iterator[pa.Table]:
    """So many rows that say nothing, a frame at a time."""
    column = pa.array(np.arange(min(count, FRAME_ROWS)))
    frame = pa.table(dict.fromkeys(("k0", "start", "r0", "r1"), column))
    for start in range(0, count, FRAME_ROWS):
        yield PACKED.rows(frame.slice(0, min(FRAME_ROWS, count - start)))


@dataclass(frozen=True)
class Drop:
    """The first stage: reads all records and ships a row for every bucket."""

    buckets: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows without content."""
        for _ in batches:
            pass
        columns = [pa.array(self.buckets, pa.int32()), pa.array([b""] * len(self.buckets))]
        yield pa.RecordBatch.from_arrays(columns, ["bucket", "block"])


@dataclass(frozen=True)
class PutOut:
    """The second stage of bounded input: so many rows for every bucket."""

    rows: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows that say nothing."""
        buckets = {bucket for batch in batches for bucket in batch["bucket"].to_pylist()}
        for _ in buckets:
            for table in _rows(self.rows):
                yield from table.to_batches()


class Idle(StatefulProcessor):
    """The second stage: a header of a usual size, the standing timer, and rows at every close."""

    def __init__(self, rows: int):
        self.rows = rows

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once per partition and micro-batch."""
        self.handle = handle
        self.header = handle.getValueState("header", StructType().add("value", "string"))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Read what came and write the header."""
        list(rows)
        if self.header.get() is None:
            self.handle.registerTimer(1)
        self.header.update(("-" * 1000,))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Put out the rows."""
        yield from map(frame_of, _rows(self.rows))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 1)

    def close(self) -> None:
        """Called once per partition and micro-batch."""
