"""The sides of lines by their names."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from pyspark.sql import DataFrame

from benchmarks.flink_sql.flink import Flink
from benchmarks.public.line import HASHMAP, OURS, ROCKSDB, SPARK, Line
from benchmarks.public.stream import Stream
from benchmarks.running.run import Run
from benchmarks.workloads.workload import Workload


class Measured(Protocol):
    """The interface of a side."""

    @property
    def closes_all(self) -> bool:
        """Whether its rows have the windows that the last record does not close."""

    def run(self, line: Line) -> Run:
        """Return what a micro-batch of the last ones takes."""

    def rows(self, line: Line, workload: Workload) -> AbstractContextManager[DataFrame]:
        """Yield the rows of a line over a workload."""


SIDES: Mapping[str, Measured] = {
    OURS: Stream(OURS),
    SPARK: Stream(SPARK),
    ROCKSDB: Flink("rocksdb"),
    HASHMAP: Flink("hashmap"),
}
