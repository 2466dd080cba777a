"""What a query is: it takes a DataFrame and a window, and gives the keys, `window`, `records` and `total`.

Queries are values, so that a run of one can be shared by several comparisons.
"""

from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from benchmarks.workloads.workload import KEY_COLUMNS


class Query(Protocol):
    """`query(frame, size, advance)`."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """The windows of a DataFrame."""


@dataclass(frozen=True)
class WindowsOf:
    """Keys and windows of a query, without its results: those of sketches are equal within their errors only."""

    query: Query

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """The windows of a DataFrame."""
        return self.query(frame, size, advance).select(*keys_of(frame), "window")


def keys_of(frame: DataFrame) -> list[str]:
    """The key columns that a workload has."""
    return [name for name in KEY_COLUMNS["composite"] if name in frame.columns]


LABELLED = "v < 100"
"""Which records are labels too, of which features are asked: one in ten."""


def labels_of(frame: DataFrame) -> DataFrame:
    """The labels of a workload: keys, times, and a number."""
    return frame.where(LABELLED).select(*keys_of(frame), "ts", F.col("v").alias("label"))


def window_struct(start: Column, end: Column) -> Column:
    """`window`, as Spark's own, from microseconds."""
    return F.struct(F.timestamp_micros(start).alias("start"), F.timestamp_micros(end).alias("end")).alias("window")
