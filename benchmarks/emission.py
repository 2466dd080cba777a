"""Emission against baselines: updates against Spark's update mode, changes of many sparse keys against closed windows.

`python -m benchmarks.emission` prints a line for each; both sides run in one process, after a warm-up each. Before a
ratio is printed, the rows of both sides over the same files are compared in number and by a hash of their content.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import combinators as C
from benchmarks.measure import LIMIT_SECONDS, session
from benchmarks.workloads import DENSE, SCHEMA, Workload
from slicing import Emission, group_by, hopping, on_change, on_close, on_update

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

HOUR = "1 hour"
SPARSE = Workload("sparse", 2_000_000, 1_000_000, 4 * 3_600, 20)
FILLED = 7
"""Files of SPARSE after which windows of an hour are full."""
MODES = on_close(), on_change()
Query = Callable[[DataFrame, str, str], DataFrame]


@dataclass(frozen=True)
class Measured:
    """Median seconds of a steady micro-batch, its records, and the rows of the micro-batches counted."""

    seconds: float
    records: int
    rows: int
    hashed: int

    @property
    def per_record(self) -> float:
        """Seconds per record."""
        return self.seconds / self.records


def ours(emission: Emission) -> Query:
    """Count and sum of a long, emitted so."""

    def query(frame: DataFrame, size: str, advance: str) -> DataFrame:
        windowed = group_by(frame, "key").window(hopping(size, advance), time="ts")
        return windowed.emit(emission).aggregate(records=C.count(), total=C.sum("v"))

    return query


def spark_window(frame: DataFrame, size: str, advance: str) -> DataFrame:
    """Count and sum with Spark's own `window()`."""
    window = F.window("ts", size, advance).alias("window")
    return frame.groupBy("key", window).agg(F.count("*").alias("records"), F.sum("v").alias("total"))


def measure(query: Query, workload: Workload, size: str, advance: str, mode: str, skip: int, batches: int) -> Measured:
    """The same query twice, each time from an empty checkpoint; the first `skip` micro-batches are not measured.

    The first run counts and hashes the rows, which costs time, and lets the JVM compile; the second one is measured.
    """
    session()  # columns cannot be made before there is one
    counted = _run(_counted(query), workload, size, advance, mode, skip + 1)
    content = [each["observedMetrics"]["content"] for each in counted[: skip + 1]]
    rows, hashed = (sum(int(row[name] or 0) for row in content) for name in ("rows", "hashed"))
    progress = _run(query, workload, size, advance, mode, skip + batches)
    steady = [each["durationMs"]["triggerExecution"] / 1000 for each in progress[skip : skip + batches]]
    if len(counted) <= skip or not steady:
        raise TimeoutError(f"stopped after {LIMIT_SECONDS:.0f} s: no steady micro-batch of {query}, no ratio")
    return Measured(statistics.median(steady), workload.records // workload.files, rows, hashed)


def _counted(query: Query) -> Query:
    # The remainder keeps the sum of hashes from overflowing.
    content = F.sum(F.pmod(F.xxhash64("key", "window", "records", "total"), F.lit(1 << 31)))
    counts = F.count("*").alias("rows"), content.alias("hashed")
    return lambda frame, size, advance: query(frame, size, advance).observe("content", *counts)


def _run(query: Query, workload: Workload, size: str, advance: str, mode: str, batches: int) -> list[Any]:
    """The progress of the micro-batches with data, about as many as asked for, fewer if time runs out."""
    source = session().readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(workload.path()))
    out = query(source.withWatermark("ts", "5 seconds"), size, advance)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = out.writeStream.format("noop").outputMode(mode).option("checkpointLocation", checkpoint)
        running = writer.trigger(availableNow=True).start()
        deadline = time.monotonic() + LIMIT_SECONDS
        while running.isActive and len(running.recentProgress) < batches and time.monotonic() < deadline:
            time.sleep(0.05)
        running.stop()
        return [each for each in running.recentProgress if each["numInputRows"]]


def updates(advance: str) -> tuple[Measured, Measured]:
    """Dense keys, Spark's update mode, then ours; raises if their rows differ."""
    sides = [measure(query, DENSE, HOUR, advance, "update", 1, 2) for query in (spark_window, ours(on_update()))]
    theirs, mine = sides
    if (theirs.rows, theirs.hashed) != (mine.rows, mine.hashed):
        raise AssertionError(f"rows differ: {theirs} and {mine}")
    return theirs, mine


def changes() -> tuple[Measured, Measured, Measured]:
    """A million sparse keys, once windows are full: Spark's tumbling windows, ours on close, ours on change."""
    tumbling = measure(spark_window, SPARSE, "1 minute", "1 minute", "append", FILLED, 3)
    closed, changed = (measure(ours(mode), SPARSE, HOUR, "1 minute", "append", FILLED, 3) for mode in MODES)
    return tumbling, closed, changed


def main(names: list[str]) -> None:
    """Print what was asked for, all if nothing was."""
    chosen = names or ["60", "360", "change"]
    for ratio, advance in (("60", "1 minute"), ("360", "10 seconds")):
        if ratio in chosen:
            theirs, mine = updates(advance)
            times = theirs.per_record / mine.per_record
            print(
                f"on_update, dense, R = {ratio}: {times:.1f} x Spark's update mode "
                f"({theirs.seconds:.2f} s / {mine.seconds:.2f} s, {mine.records:,} records, {mine.rows:,} rows)"
            )
    if "change" in chosen:
        tumbling, closed, changed = changes()
        print(
            f"on_change, 1 M sparse keys, R = 60: {changed.per_record / tumbling.per_record:.2f} x the time of Spark "
            f"tumbling, {changed.per_record / closed.per_record:.2f} x that of on_close; {changed.seconds:.2f} s, "
            f"{tumbling.seconds:.2f} s, {closed.seconds:.2f} s; rows {changed.rows:,} / {closed.rows:,} on close"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
