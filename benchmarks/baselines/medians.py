"""The median of each window by numpy: with our `process`, with `applyInPandas`, and hand-written on a stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.baselines.query import keys_of, window_struct
from slicing import group_by, hopping
from slicing.windows.time.durations import microseconds


def _median(_key: Any, _window: Any, records: pa.Table, _context: Any) -> list[tuple[int, float]]:
    values = records["v"].to_numpy()
    return [(len(values), float(np.median(values)))]


def _applied(records: pd.DataFrame) -> pd.DataFrame:
    values = records["v"].to_numpy()
    first = records[[name for name in records.columns if name != "v"]].iloc[:1]
    return first.assign(records=len(values), total=float(np.median(values)))


@dataclass(frozen=True)
class OurMedians:
    """Our `process` with numpy's median."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with columns `records` and `total`, which is the median."""
        windowed = group_by(frame, *keys_of(frame)).window(hopping(size, advance), time="ts")
        return windowed.process(_median, returns="records long, total double", columns=["v"])


@dataclass(frozen=True)
class AppliedMedians:
    """Bounded: every record is copied into each of its windows; `applyInPandas` is called for each window."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with columns `records` and `total`, which is the median."""
        keys, step, length = keys_of(frame), microseconds(advance, "advance"), microseconds(size, "size")
        newest = F.unix_micros("ts") - F.pmod(F.unix_micros("ts"), F.lit(step))
        starts = F.sequence(newest - (length - step), newest, F.lit(step))
        copied = frame.select(*keys, F.explode(starts).alias("start"), "v")
        kinds = ", ".join(
            f"{field.name} {field.dataType.simpleString()}" for field in copied.schema if field.name != "v"
        )
        made = copied.groupBy(*keys, "start").applyInPandas(_applied, f"{kinds}, records long, total double")
        return made.select(*keys, window_struct(F.col("start"), F.col("start") + length), "records", "total")


@dataclass(frozen=True)
class MediansByHand:
    """On streams: a hand-written `transformWithStateInPandas` with a list of records and a timer per window."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows with columns `records` and `total`, which is the median."""
        step, length = microseconds(advance, "advance"), microseconds(size, "size")
        newest = F.unix_micros("ts") - F.pmod(F.unix_micros("ts"), F.lit(step))
        starts = F.sequence(newest - (length - step), newest, F.lit(step))
        made = (
            frame.select("key", "ts", F.explode(starts).alias("start"), "v")
            .groupBy("key", "start")
            .transformWithStateInPandas(
                ListOfWindow(length),
                "key bigint, start bigint, records long, total double",
                outputMode="Append",
                timeMode="EventTime",
            )
        )
        return made.select("key", window_struct(F.col("start"), F.col("start") + length), "records", "total")


class ListOfWindow(StatefulProcessor):
    """The state of one key and window: its records in a `ListState`, a timer at its end."""

    def __init__(self, size: int):
        self.size = size

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once per partition and micro-batch."""
        self.handle = handle
        self.values = handle.getListState("values", "v bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Append the records of a micro-batch, unless the window has ended."""
        end = (key[1] + self.size) // 1000
        if end > timerValues.getCurrentWatermarkInMs():
            if not self.values.exists():
                self.handle.registerTimer(end)
            self.values.appendList([(int(v),) for each in rows for v in each["v"]])
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Emit the window and clear its state."""
        values = np.array([each[0] for each in self.values.get()])
        self.values.clear()
        row = {"key": key[0], "start": key[1], "records": len(values), "total": float(np.median(values))}
        yield pd.DataFrame([row])

    def close(self) -> None:
        """Called by Spark once per partition and micro-batch."""
