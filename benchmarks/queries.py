"""The queries that are compared: ours, and what a competent user writes without us.

A query takes a DataFrame and a window, and gives the keys, `window`, `records` and `total` (and more, if it says so).
Queries are values, so that a run of one can be shared by several comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import combinators as C
from benchmarks.workloads import KEY_COLUMNS
from slicing import Aggregate, Bound, Emission, fieldwise, group_by, hopping
from slicing.durations import microseconds
from slicing.emission import ON_CLOSE


class Query(Protocol):
    """`query(frame, size, advance)`."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """The windows of a DataFrame."""


def keys_of(frame: DataFrame) -> list[str]:
    """The key columns that a workload has."""
    return [name for name in KEY_COLUMNS["composite"] if name in frame.columns]


@dataclass(frozen=True)
class Ours:
    """Count and sum of a column with the framework; `tree` as `.assemble` takes it; `more` is a name in MORE."""

    column: str = "v"
    tree: str = "auto"
    more: str = ""
    emission: Emission = ON_CLOSE

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Windows with columns `records` and `total`, or those of `more`."""
        windowed = group_by(frame, *keys_of(frame)).window(hopping(size, advance), time="ts").assemble(self.tree)
        if self.more:
            return windowed.aggregate(**MORE[self.more])
        out = windowed.emit(self.emission).aggregate(records=C.count(), total=C.sum(self.column))
        return out if self.emission.once else out.drop("emission", "revision")


@dataclass(frozen=True)
class FourFunctions:
    """Count and sum of a long with four functions of our own, row by row."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Windows with a struct of both, taken apart."""
        windowed = group_by(frame, *keys_of(frame)).window(hopping(size, advance), time="ts")
        out = windowed.aggregate(
            lambda: (0, 0),
            lambda acc, v: (acc[0] + 1, acc[1] + v),
            lambda a, b: (a[0] + b[0], a[1] + b[1]),
            lambda a, b: (a[0] - b[0], a[1] - b[1]),
            value="v",
            partial="n long, total long",
        )
        return out.select(*keys_of(frame), "window", F.col("value.n").alias("records"), "value.total")


@dataclass(frozen=True)
class SparkWindow:
    """Spark's own `groupBy(window(...))`."""

    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Every record copied into every window."""
        grouped = frame.groupBy(*keys_of(frame), F.window("ts", size, advance))
        return grouped.agg(F.count("*").alias("records"), F.sum(self.column).alias("total"))


@dataclass(frozen=True)
class SparkExploded:
    """Bounded: the rows of `groupBy(window(...))` at any R, by a row for each window of a record.

    Spark plans `window()` as one projection per window: above some hundred of them that alone takes minutes.
    """

    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Every record copied into every window, by `explode`."""
        keys, step, length = keys_of(frame), microseconds(advance, "advance"), microseconds(size, "size")
        newest = F.unix_micros("ts") - F.pmod(F.unix_micros("ts"), F.lit(step))
        starts = F.sequence(newest - (length - step), newest, F.lit(step))
        grouped = frame.withColumn("start", F.explode(starts)).groupBy(*keys, "start")
        sums = grouped.agg(F.count("*").alias("records"), F.sum(self.column).alias("total"))
        return sums.select(*keys, _window_struct(F.col("start"), F.col("start") + length), "records", "total")


@dataclass(frozen=True)
class SparkTwoStep:
    """Spark's own two steps: tumbling windows of the advance, then `window()` over them."""

    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Every slice copied into every window."""
        keys = keys_of(frame)
        slices = _spark_slices(frame, advance, self.column)
        grouped = slices.groupBy(*keys, F.window("window", size, advance))
        return grouped.agg(F.sum("n").alias("records"), F.sum("s").alias("total"))


@dataclass(frozen=True)
class SparkRange:
    """Bounded: `sum(...).over(rangeBetween)` over slices, with a row for every window that holds a record.

    A window shows up where its newest slice is; slices without records, up to the next one or the end of the last
    window that still covers one, are put between, so that the rows are those of `groupBy(window(...))`.
    """

    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """One sum over a range per window."""
        keys, step = keys_of(frame), microseconds(advance, "advance")
        before = microseconds(size, "size") - step
        slices = _spark_slices(frame, advance, self.column).withColumn("at", F.unix_micros("window.start"))
        following = F.lead("at").over(Window.partitionBy(*keys).orderBy("at"))
        last = F.least(F.coalesce(following, F.col("at") + before + step) - step, F.col("at") + before)
        own = F.col("each") == F.col("at")
        each = F.explode(F.sequence("at", "last", F.lit(step)))
        filled = slices.withColumn("last", last).withColumn("each", each)
        filled = filled.select(*keys, "each", *[F.when(own, F.col(name)).alias(name) for name in ("n", "s")])
        over = Window.partitionBy(*keys).orderBy("each").rangeBetween(-before, 0)
        window = _window_struct(F.col("each") - before, F.col("each") + step)
        return filled.select(
            *keys, window, F.sum("n").over(over).alias("records"), F.sum("s").over(over).alias("total")
        )


@dataclass(frozen=True)
class ByHand:
    """A hand-written `transformWithStateInPandas` per key: a map of slices, a timer at the end of the next window."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Count and sum of `v`, on streams only."""
        processor = SlicesPerKey(microseconds(size, "size"), microseconds(advance, "advance"))
        out = frame.groupBy("key").transformWithStateInPandas(
            processor,
            "key bigint, start bigint, end bigint, records bigint, total bigint",
            outputMode="Append",
            timeMode="EventTime",
        )
        return out.select("key", _window_struct(F.col("start"), F.col("end")), "records", "total")


class SlicesPerKey(StatefulProcessor):
    """One key: records are folded into slices; when a window ends, its slices are read once and summed."""

    def __init__(self, size: int, advance: int):
        self.size, self.advance = size, advance

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once per partition and micro-batch."""
        self.handle = handle
        self.slices = handle.getMapState("slices", "start bigint", "n bigint, s bigint")
        self.next = handle.getValueState("next", "timer bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Add the records of a micro-batch to their slices; Spark has dropped those behind the watermark."""
        frame = pd.concat(list(rows))
        starts = _micros(frame["ts"]) // self.advance * self.advance
        for start, values in frame["v"].groupby(starts):
            n, s = self.slices.getValue((int(start),)) or (0, 0)
            self.slices.updateValue((int(start),), (n + len(values), s + int(values.sum())))
        if not self.next.exists():
            # The first window to end that the watermark has not passed, of those that hold the oldest record.
            first = int(starts.min()) + self.advance
            passed = timerValues.getCurrentWatermarkInMs() * 1000
            self._wake(max(first, (passed // self.advance + 1) * self.advance if passed else first))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Emit every window that has ended, drop the slices that no later window needs."""
        held = sorted((start[0], *sums) for start, sums in self.slices.iterator())
        starts, n, s = (np.array(column) for column in zip(*held, strict=True))
        first, passed = self.next.get()[0], timerValues.getCurrentWatermarkInMs() * 1000
        ends = np.arange(first, passed + 1, self.advance)
        low, high = np.searchsorted(starts, ends - self.size), np.searchsorted(starts, ends)
        live = high > low
        counts, sums = (np.concatenate([[0], np.cumsum(column)]) for column in (n, s))
        following = int(ends[-1]) + self.advance
        for start in starts[starts < following - self.size]:
            self.slices.removeKey((int(start),))
        self.next.clear()
        if starts[-1] >= following - self.size:
            self._wake(following)
        yield pd.DataFrame(
            {
                "key": key[0],
                "start": (ends - self.size)[live],
                "end": ends[live],
                "records": (counts[high] - counts[low])[live],
                "total": (sums[high] - sums[low])[live],
            }
        )

    def _wake(self, end: int) -> None:
        self.next.update((end,))
        self.handle.registerTimer(-(-end // 1000))

    def close(self) -> None:
        """Called once per partition and micro-batch."""


def _micros(times: pd.Series) -> pd.Series:
    return times.dt.tz_localize(None).astype("datetime64[us]").astype("int64")


def _spark_slices(frame: DataFrame, advance: str, column: str) -> DataFrame:
    grouped = frame.groupBy(*keys_of(frame), F.window("ts", advance))
    return grouped.agg(F.count("*").alias("n"), F.sum(column).alias("s"))


def _window_struct(start: Column, end: Column) -> Column:
    return F.struct(F.timestamp_micros(start).alias("start"), F.timestamp_micros(end).alias("end")).alias("window")


def _wide(fields: int) -> Bound:
    """A sum of a long that carries its sum `fields` times: 8 bytes of partial each."""
    names = ", ".join(f"x{i} bigint" for i in range(fields))
    init = (0,) * fields if fields > 1 else 0

    def agg(acc: Any, v: Any) -> Any:
        return tuple(x + v for x in acc) if fields > 1 else acc + v

    return Aggregate(
        lambda: init,
        agg,
        fieldwise(*[np.add] * fields),
        fieldwise(*[np.subtract] * fields),
        lambda acc: acc[0] if fields > 1 else acc,
        partial=names,
        returns="bigint",
        columns=True,
    ).on("v")


_TEN = {
    "records": C.count(),
    "total": C.sum("v"),
    "largest": C.max("v"),
    "smallest": C.min("v"),
    "average": C.mean("v"),
    "total_d": C.sum("d"),
    "largest_d": C.max("d"),
    "smallest_d": C.min("d"),
    "average_d": C.mean("d"),
    "spread": C.stddev("d"),
}
_SUMS = {"records": C.count(), "total": C.sum("v")} | {f"average{i}": C.mean("v") for i in range(8)}
MORE: dict[str, dict[str, Bound]] = (
    {f"{count} aggregates": dict(list(_TEN.items())[:count]) for count in (1, 3, 10)}
    | {f"{count} invertible": dict(list(_SUMS.items())[:count]) for count in (1, 3, 10)}
    | {f"{8 * fields} bytes": {"total": _wide(fields)} for fields in (1, 4, 16, 128)}
)
