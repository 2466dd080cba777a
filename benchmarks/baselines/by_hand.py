"""A user's own windows with Spark's stateful operator: slices per key, in a few dozen lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.baselines.query import window_struct
from slicing.windows.time.durations import microseconds


@dataclass(frozen=True)
class ByHand:
    """A hand-written `transformWithStateInPandas` per key: a map of slices, a timer at the end of the next window."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return count and sum of `v`; the frame must be a stream."""
        processor = SlicesPerKey(microseconds(size, "size"), microseconds(advance, "advance"))
        out = frame.groupBy("key").transformWithStateInPandas(
            processor,
            "key bigint, start bigint, end bigint, records bigint, total bigint",
            outputMode="Append",
            timeMode="EventTime",
        )
        return out.select("key", window_struct(F.col("start"), F.col("end")), "records", "total")


class SlicesPerKey(StatefulProcessor):
    """The state of one key: records are folded into slices; when a window ends, its slices are read once and summed."""

    def __init__(self, size: int, advance: int):
        self.size, self.advance = size, advance

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once per partition and micro-batch."""
        self.handle = handle
        self.index = handle.getMapState("slices", "start bigint", "n bigint, s bigint")
        self.next = handle.getValueState("next", "timer bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Add the records of a micro-batch to their slices; Spark has dropped the records that are late."""
        frame = pd.concat(list(rows))
        starts = _micros(frame["ts"]) // self.advance * self.advance
        for start, values in frame["v"].groupby(starts):
            n, s = self.index.getValue((int(start),)) or (0, 0)
            self.index.updateValue((int(start),), (n + len(values), s + int(values.sum())))
        if not self.next.exists():
            # The first window that holds the oldest record and that the watermark has not passed.
            first = int(starts.min()) + self.advance
            passed = timerValues.getCurrentWatermarkInMs() * 1000
            self._set_timer(max(first, (passed // self.advance + 1) * self.advance if passed else first))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Emit each window that has ended, and drop the slices that no later window needs."""
        held = sorted((start[0], *sums) for start, sums in self.index.iterator())
        starts, n, s = (np.array(column) for column in zip(*held, strict=True))
        first, passed = self.next.get()[0], timerValues.getCurrentWatermarkInMs() * 1000
        ends = np.arange(first, passed + 1, self.advance)
        low, high = np.searchsorted(starts, ends - self.size), np.searchsorted(starts, ends)
        live = high > low
        counts, sums = (np.concatenate([[0], np.cumsum(column)]) for column in (n, s))
        following = int(ends[-1]) + self.advance
        for start in starts[starts < following - self.size]:
            self.index.removeKey((int(start),))
        self.next.clear()
        if starts[-1] >= following - self.size:
            self._set_timer(following)
        yield pd.DataFrame(
            {
                "key": key[0],
                "start": (ends - self.size)[live],
                "end": ends[live],
                "records": (counts[high] - counts[low])[live],
                "total": (sums[high] - sums[low])[live],
            }
        )

    def _set_timer(self, end: int) -> None:
        self.next.update((end,))
        self.handle.registerTimer(-(-end // 1000))

    def close(self) -> None:
        """Called by Spark once per partition and micro-batch."""


def _micros(times: pd.Series) -> pd.Series:
    return times.dt.tz_localize(None).astype("datetime64[us]").astype("int64")
