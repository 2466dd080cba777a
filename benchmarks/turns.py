"""Streams side by side: one micro-batch of each in turn, so that a machine that changes its speed does so for all.

Each stream waits for files of its own folder, to which the next micro-batch is added when it is its turn.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import measure
from benchmarks.measure import Run, Settings
from benchmarks.queries import Query
from benchmarks.workloads import FOLDER, Workload

PAUSE = 0.02


@dataclass(frozen=True)
class Side:
    """One stream; the fields are the arguments of `measure.stream`."""

    query: Query
    workload: Workload
    size: str
    advance: str
    settings: Settings = field(default_factory=Settings)

    @property
    def batches(self) -> int:
        """Micro-batches to run, with those of the history."""
        return self.workload.before + self.settings.counted

    def warm_up(self) -> Run | None:
        """The run that warms up, if there is one."""
        return measure.warm_up(self.query, self.workload, self.size, self.advance, self.settings)


@cache
def turns(*sides: Side) -> tuple[Run, ...]:
    """The steady micro-batches of every side, into a noop sink; once per process for the same sides.

    They are counted and warmed up for as by `measure.stream`. Memory of workers is not told apart: it is left out.
    """
    for side in sides:
        side.warm_up()
    with ExitStack() as stack:
        streams = [stack.enter_context(_fed(side)) for side in sides]
        for number in range(max(side.batches for side in sides)):
            for stream in streams:
                if number < stream.side.batches:
                    stream.next()
        return tuple(stream.run() for stream in streams)


@dataclass
class _Fed:
    side: Side
    folder: Path
    files: Sequence[Path]
    running: StreamingQuery
    done: int = 0
    stopped: bool = False

    def next(self) -> None:
        """Add the next micro-batch and wait until it is done."""
        parts = self.side.workload.parts
        _add(self.files[self.done * parts :][:parts], self.folder / f"batch-{self.done}")
        deadline = time.monotonic() + self.side.settings.limit
        while not self.stopped and self._batches() <= self.done:
            if error := self.running.exception():
                raise error
            self.stopped = time.monotonic() >= deadline
            time.sleep(PAUSE)
        self.done += 1

    def _batches(self) -> int:
        last = self.running.lastProgress
        # One without records only says that the stream still waits for some.
        return last["batchId"] + bool(last["numInputRows"]) if last else 0

    def run(self) -> Run:
        """Medians, as those of a stream that has run alone."""
        if self.stopped:
            records = self.side.workload.records
            return Run(self.side.settings.limit, records, stopped=True, store=self.side.settings.store)
        written = measure.bytes_of(self.folder / "checkpoint" / "state")
        return measure.medians(self.running.recentProgress, self.side.workload.before, self.side.settings, written)


@contextmanager
def _fed(side: Side) -> Iterator[_Fed]:
    """A stream that waits for its first files."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir=FOLDER) as name:
        folder = Path(name)
        with measure.configured(side.settings) as spark:
            source = spark.readStream.schema(side.workload.schema).parquet(f"{folder}/batch-*")
            out = side.query(source.withWatermark("ts", side.settings.delay), side.size, side.advance)
            writer = out.writeStream.format("noop").outputMode(side.settings.mode)
            # As one micro-batch runs when its files are there, so it does when all files are: none without records.
            spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
            try:
                running = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
            finally:
                spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
        try:
            yield _Fed(side, folder, sorted(side.workload.path().glob("*.parquet")), running)
        finally:
            running.stop()


def _add(files: Sequence[Path], folder: Path) -> None:
    """Put links to the files into a new folder, which appears with all of them at once."""
    scratch = folder.with_name(f"next-{folder.name}")
    scratch.mkdir()
    for file in files:
        os.link(file, scratch / file.name)
    scratch.rename(folder)
