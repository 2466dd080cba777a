"""Running one side of a comparison: seconds of its steady micro-batches, or of one bounded query."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import combinators as C
from benchmarks.workloads import SCHEMA, Workload
from slicing import group_by, hopping

UNSTEADY = 2
LIMIT_SECONDS = 240.0
Query = Callable[[DataFrame, str, str], DataFrame]
_PREFIX = "spark.sql.streaming.stateStore."


@dataclass(frozen=True)
class Measured:
    """Median seconds of a steady micro-batch (or of the query), and what a result page needs beside it."""

    seconds: float
    batches: int
    records: int
    stopped: bool = False

    @property
    def per_record(self) -> float:
        """Seconds per record."""
        return self.seconds / self.records


@cache
def session() -> SparkSession:
    """The one session of a benchmark process: 2 cores, 2 shuffle partitions, RocksDB with changelog checkpoints."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.session.timeZone", "UTC")
        .config(_PREFIX + "providerClass", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
        .config(_PREFIX + "rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def ours(column: str = "v", **options: str) -> Query:
    """Count and sum of a column with the framework; `tree` names the tree."""

    def query(frame: DataFrame, size: str, advance: str) -> DataFrame:
        windowed = group_by(frame, "key").window(hopping(size, advance), time="ts")
        return windowed.assemble(options.get("tree", "auto")).aggregate(records=C.count(), total=C.sum(column))

    return query


def four_functions(frame: DataFrame, size: str, advance: str) -> DataFrame:
    """Count and sum of a long with four functions, row by row."""
    windowed = group_by(frame, "key").window(hopping(size, advance), time="ts")
    return windowed.aggregate(
        lambda: (0, 0),
        lambda acc, v: (acc[0] + 1, acc[1] + v),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda a, b: (a[0] - b[0], a[1] - b[1]),
        value="v",
        partial="n long, total long",
    )


def spark_window(frame: DataFrame, size: str, advance: str) -> DataFrame:
    """Count and sum with Spark's own `window()`."""
    return frame.groupBy("key", F.window("ts", size, advance)).agg(F.count("*"), F.sum("v"))


def spark_two_step(frame: DataFrame, size: str, advance: str) -> DataFrame:
    """Spark's own two steps: tumbling windows of the advance, then `window()` over them."""
    slices = frame.groupBy("key", F.window("ts", advance)).agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    return slices.groupBy("key", F.window("window", size, advance)).agg(F.sum("n"), F.sum("s"))


def stream(
    query: Query, workload: Workload, size: str, advance: str, files: int = 1, batches: int = 6, warm_up: int = 2
) -> Measured:
    """Median seconds of the steady micro-batches of a stream over `files` files each, into a noop sink.

    The micro-batches of a workload's history are not counted. The same query runs twice, each time from an empty
    checkpoint: the first run only lets the JVM compile what both sides are about to do.
    """
    before = UNSTEADY + (workload.history.files if workload.history else 0)
    _run(query, workload, size, advance, files, before + warm_up)
    progress, stopped = _run(query, workload, size, advance, files, before + batches)
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in progress]
    steady = seconds[before:] or [LIMIT_SECONDS]
    return Measured(statistics.median(steady), len(steady), workload.records // workload.files * files, stopped)


def _run(query: Query, workload: Workload, size: str, advance: str, files: int, batches: int) -> tuple[list[Any], bool]:
    """The progress of the first micro-batches with data, and whether time ran out before there were enough."""
    source = session().readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(workload.path()))
    out = query(source.withWatermark("ts", "5 seconds"), size, advance)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = out.writeStream.format("noop").option("checkpointLocation", checkpoint)
        running = writer.trigger(availableNow=True).start()
        deadline = time.monotonic() + LIMIT_SECONDS
        while running.isActive and len(running.recentProgress) < batches and time.monotonic() < deadline:
            time.sleep(0.1)
        stopped = running.isActive and time.monotonic() >= deadline
        running.stop()
        return [p for p in running.recentProgress if p["numInputRows"]], stopped


def bounded(query: Query, workload: Workload, size: str, advance: str, repeat: int = 1) -> Measured:
    """Median seconds of a bounded query into a noop sink, after a warm-up."""
    frame = session().read.schema(SCHEMA).parquet(str(workload.path()))
    seconds = []
    for _ in range(repeat + 1):
        start = time.monotonic()
        query(frame, size, advance).write.format("noop").mode("overwrite").save()
        seconds.append(time.monotonic() - start)
    return Measured(statistics.median(seconds[1:]), repeat, workload.records)
