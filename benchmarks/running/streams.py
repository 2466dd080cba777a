"""Runs a stream alone and returns its steady micro-batches; its sink is noop."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.running.processes import workers
from benchmarks.running.run import Run, of_progress, shown
from benchmarks.running.session import configured
from benchmarks.running.side import DELAY, Settings, Side
from benchmarks.workloads.workload import Workload
from slicing import describe


@cache
def run(side: Side) -> Run:
    """Return the steady micro-batches of a stream; equal sides are run once per process.

    Micro-batches of a workload's history are not counted. By default the query runs twice, each time from an empty
    checkpoint: the first run, on a part of the records, lets the JVM compile what both sides need. If it is stopped,
    there is no second run.
    """
    cold = warmed_up(side)
    return cold if cold and cold.stopped else _run(side)


def warmed_up(side: Side) -> Run | None:
    """Return the warm-up run, if there is one."""
    return _run(side.warm_up) if side.warm_up else None


def faster(side: Side) -> Run:
    """Return the run on the faster of Spark's two state stores; its note has both figures.

    The second run is stopped after 1.25 times the duration of the first one, because it is slower then.
    """
    default = run(side.but(store="default store"))
    limit = side.settings.limit if default.stopped else max(20.0, 1.25 * default.took)
    rocks = run(side.but(store="RocksDB", limit=limit))
    best = min(default, rocks, key=lambda run: (run.stopped, run.seconds))
    slower = rocks.stopped and not default.stopped  # not at the limit of all streams
    return replace(best, note=f"on default store {shown(default)}; on RocksDB {'slower' if slower else shown(rocks)}")


def _run(side: Side) -> Run:
    wanted, settings = side.batches, side.settings
    with (
        configured(settings) as spark,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint,
        workers() as peaks,
    ):
        out = side.query(source(spark, side.workload, settings.delay), side.size, side.advance)
        running = noop(out, settings, checkpoint).trigger(availableNow=True).start()
        start = time.monotonic()
        stopped = wait(running, wanted, start + settings.limit)
        progress = running.recentProgress
        written = bytes_of(Path(checkpoint) / "state")
        running.stop()
        seconds = time.monotonic() - start
        held = described(spark, checkpoint) if settings.describes and not stopped else None
    if stopped:
        return Run(seconds, side.workload.records, stopped=True, store=settings.store)
    found = replace(medians(side, progress, written), worker_mib=max(peaks.values(), default=0), took=seconds)
    return found if held is None else replace(found, state_bytes=held)


def described(spark: SparkSession, checkpoint: str) -> int:
    """Return the bytes of the stored pages of a checkpoint."""
    return sum(bucket.bytes for bucket in describe(spark, checkpoint).buckets)


def source(
    spark: SparkSession, workload: Workload, delay: str = DELAY, together: int = 1, path: str | None = None
) -> DataFrame:
    """Return the stream of a workload, `together` micro-batches in one, or of other files at `path`.

    Without a delay, it has no watermark.
    """
    reader = spark.readStream.schema(workload.schema).option("maxFilesPerTrigger", workload.parts * together)
    found = reader.parquet(path or str(workload.path()))
    return found.withWatermark("ts", delay) if delay else found


def noop(out: DataFrame, settings: Settings, checkpoint: str | Path) -> DataStreamWriter:
    """Return a writer that drops all rows."""
    writer = out.writeStream.format("noop").outputMode(settings.mode)
    return writer.option("checkpointLocation", str(checkpoint))


def wait(running: StreamingQuery, batches: int, deadline: float) -> bool:
    """Return whether the deadline passed before `batches` micro-batches with data were done.

    Raises the error of the query.
    """
    while running.isActive and len(running.recentProgress) < batches:
        if time.monotonic() >= deadline:
            return True
        time.sleep(0.05)
    if error := running.exception():
        raise error
    return False


def medians(side: Side, progress: Sequence[Any], written: int) -> Run:
    """Return the medians of a side's steady micro-batches; `written` are the bytes of state of all of them."""
    full = [each for each in progress if each["numInputRows"]]
    steady = full[side.batches - side.settings.steady : side.batches]
    assert len(steady) == side.settings.steady, f"{len(full)} micro-batches are too few"
    return of_progress(full, steady, written, side.settings.store)


def bytes_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
