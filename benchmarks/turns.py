"""Streams side by side: one micro-batch of each in turn, so that a machine that changes its speed does so for all.

Each stream waits for files of its own folder, to which the next micro-batch is added when it is its turn.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import measure
from benchmarks.measure import Run, Settings
from benchmarks.queries import Query
from benchmarks.workloads import FOLDER, Workload

PAUSE = 0.1
WAITING = {
    # One that waits looks for files. Every 10 ms, which is the default, two of them take more than half a core.
    "spark.sql.streaming.pollingDelay": "1s",
    # Of more folders than these Spark would have the executors look for files.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # A stream whose files are all there runs no micro-batch without records between two of them; nor does this one.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
"""Settings of a stream that waits for its turns."""


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
        return measure.batches(self.workload, self.settings)

    def warm_up(self) -> Run | None:
        """The run that warms up, if there is one."""
        return measure.warm_up(self.query, self.workload, self.size, self.advance, self.settings)


@cache
def turns(*sides: Side) -> tuple[Run, ...]:
    """The steady micro-batches of every side, into a noop sink; once per process for the same sides.

    They are counted and warmed up for as by `measure.stream`, and a side is stopped as there: the others go on. Memory
    of workers is not told apart: it is left out.
    """
    most = max(side.batches for side in sides)
    cold = {side: side.warm_up() for side in sides}
    runs = {side: run for side, run in cold.items() if run and run.stopped}
    with ExitStack() as stack:
        streams = {side: stack.enter_context(_fed(side)) for side in sides if side not in runs}
        for number in range(most):
            for side, stream in streams.items():
                if number < side.batches:
                    stream.next()
        runs |= {side: stream.run() for side, stream in streams.items()}
    return tuple(runs[side] for side in sides)


@dataclass
class _Fed:
    side: Side
    folder: Path
    files: Sequence[Path]
    running: StreamingQuery
    progress: list[Any] = field(default_factory=list)
    spent: float = 0.0  # seconds of its own turns
    stopped: bool = False

    def next(self) -> None:
        """Add the next micro-batch and wait until it is done, or the side has taken too long."""
        if self.stopped:
            return
        parts, number, start = self.side.workload.parts, len(self.progress), time.monotonic()
        _add(self.files[number * parts :][:parts], self.folder / f"batch-{number}")
        while not self._is_done(number):
            if error := self.running.exception():
                raise error
            if self.spent + time.monotonic() - start >= self.side.settings.limit:
                self.stopped = True
                self.running.stop()
                break
            assert self.running.isActive, "a stream that waits for files has ended"
            time.sleep(PAUSE)
        self.spent += time.monotonic() - start

    def _is_done(self, number: int) -> bool:
        """Keep the micro-batch's progress if it is there: Spark keeps a hundred, and a stream that waits has some."""
        last = self.running.lastProgress
        done = bool(last and last["numInputRows"] and last["batchId"] == number)
        if done:
            self.progress.append(last)
        return done

    def run(self) -> Run:
        """Medians, as those of a stream that has run alone."""
        workload, settings = self.side.workload, self.side.settings
        if self.stopped:
            return Run(self.spent, workload.records, stopped=True, store=settings.store)
        written = measure.bytes_of(self.folder / "checkpoint" / "state")
        return replace(measure.medians(self.progress, workload.before, settings, written), took=self.spent)


@contextmanager
def _fed(side: Side) -> Iterator[_Fed]:
    """A stream that waits for its first files."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir=FOLDER) as root:
        folder = Path(root)
        with measure.configured(side.settings, WAITING) as spark:
            source = measure.source(spark, side.workload, side.settings.delay, path=f"{folder}/batch-*")
            out = side.query(source, side.size, side.advance)
            running = measure.noop(out, side.settings, folder / "checkpoint").start()
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
