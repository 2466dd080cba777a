"""The interface of a query: it takes a DataFrame and a window, and returns keys, `window`, `records` and `total`.

Queries are values, so that comparisons can share the run of a query.
"""

from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from benchmarks.workloads.workload import KEY_COLUMNS


class Query(Protocol):
    """`query(frame, size, advance)`."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return the windows of a DataFrame."""


@dataclass(frozen=True)
class WindowsOf:
    """Keys and windows of a query without its results: those of sketches are equal only within their errors."""

    query: Query

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return the windows of a DataFrame, without results."""
        return self.query(frame, size, advance).select(*keys_of(frame), "window")


def keys_of(frame: DataFrame) -> list[str]:
    """Return the key columns of a workload."""
    return [name for name in KEY_COLUMNS["composite"] if name in frame.columns]


LABELLED = "v < 100"
"""The condition for records that are also labels, for which features are computed: one in ten."""


def labels_of(frame: DataFrame) -> DataFrame:
    """Return the labels of a workload: keys, times, and a number."""
    return frame.where(LABELLED).select(*keys_of(frame), "ts", F.col("v").alias("label"))


def window_struct(start: Column, end: Column) -> Column:
    """Return a column `window` like Spark's own, from microseconds."""
    return F.struct(F.timestamp_micros(start).alias("start"), F.timestamp_micros(end).alias("end")).alias("window")
