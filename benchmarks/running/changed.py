"""The first micro-batch of a stream that is restarted on its checkpoint, with the same or another query."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.baselines.query import Query
from benchmarks.running.run import Run
from benchmarks.running.session import configured
from benchmarks.running.side import Settings
from benchmarks.workloads.workload import Workload

BEFORE, TURNS = 6, 5
"""Micro-batches before the restart, and restarts of each side, in turns; the first restart of each warms up."""


def run(workload: Workload, size: str, advance: str, before: Query, *after: Query) -> tuple[Run, ...]:
    """Return medians of the first micro-batch after a restart, for each query in `after`, all from one checkpoint."""
    settings = Settings()
    files, each = workload.files(), workload.parts
    with configured(settings) as spark, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        (root / "files").mkdir()

        def arrive(first: int, end: int) -> None:
            for file in files[first * each : end * each]:
                (root / "files" / Path(file).name).symlink_to(file)

        def frame(query: Query) -> DataFrame:
            return query(_stream(spark, workload, root / "files", settings), size, advance)

        arrive(0, BEFORE)
        _first_seconds(frame(before), root / "checkpoint")
        arrive(BEFORE, BEFORE + 1)
        found: dict[int, list[float]] = {number: [] for number in range(len(after))}
        for turn in range(TURNS):
            for number, query in enumerate(after):
                copied = shutil.copytree(root / "checkpoint", root / f"copy {turn} {number}")
                found[number].append(_first_seconds(frame(query), copied))
                shutil.rmtree(copied)
    records = workload.total * each // len(files)
    return tuple(Run(statistics.median(seconds[1:]), records, batches=TURNS - 1) for seconds in found.values())


def _stream(spark: SparkSession, workload: Workload, path: Path, settings: Settings) -> DataFrame:
    reader = spark.readStream.schema(workload.schema).option("maxFilesPerTrigger", workload.parts)
    return reader.parquet(str(path)).withWatermark("ts", settings.delay)


def _first_seconds(frame: DataFrame, checkpoint: Path) -> float:
    """Run a stream to its end and return the seconds of its first micro-batch."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return float(query.recentProgress[0]["durationMs"]["triggerExecution"]) / 1000
