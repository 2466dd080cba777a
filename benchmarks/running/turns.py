"""Streams in turns: one micro-batch of each, so that a change of the machine's speed affects all of them.

Each stream waits for files in its own folder, to which its next micro-batch is added when it is its turn.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.running import streams
from benchmarks.running.run import Run
from benchmarks.running.session import configured
from benchmarks.running.side import Side
from benchmarks.workloads.workload import scratch

PAUSE = 0.1
WAITING = {
    # A waiting stream looks for files. At the default interval of 10 ms, two of them take more than half a core.
    "spark.sql.streaming.pollingDelay": "1s",
    # Spark would let the executors look for files if there were more folders than this.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # A stream with all files present runs no micro-batch without records in between; neither must a waiting one.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
"""Settings of a stream that waits for its turns."""


@cache
def run(*sides: Side) -> tuple[Run, ...]:
    """Return the steady micro-batches of each side, with noop sinks; equal sides are run once per process.

    Counting, warm-up and stopping are as in `streams.run`; if one side is stopped, the others continue. The memory of
    workers is left out, because it cannot be attributed to a side.
    """
    most = max(side.batches for side in sides)
    cold = {side: streams.warmed_up(side) for side in sides}
    runs = {side: run for side, run in cold.items() if run and run.stopped}
    with ExitStack() as stack:
        fed = {side: stack.enter_context(_fed(side)) for side in sides if side not in runs}
        for number in range(most):
            for side, stream in fed.items():
                if number < side.batches:
                    stream.next()
        runs |= {side: stream.run() for side, stream in fed.items()}
    return tuple(runs[side] for side in sides)


@dataclass
class _Fed:
    side: Side
    folder: Path
    files: Sequence[Path]
    running: StreamingQuery
    progress: list[Any] = field(default_factory=list)
    spent: float = 0.0  # seconds in its turns
    stopped: bool = False

    def next(self) -> None:
        """Add the next micro-batch and wait until it is done or the side exceeds its limit."""
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
        """Keep the micro-batch's progress once available: Spark keeps only 100 reports, idle ones included."""
        last = self.running.lastProgress
        done = bool(last and last["numInputRows"] and last["batchId"] == number)
        if done:
            self.progress.append(last)
        return done

    def run(self) -> Run:
        """Return the medians, as for a stream that runs alone."""
        if self.stopped:
            return Run(self.spent, self.side.workload.records, stopped=True, store=self.side.settings.store)
        written = streams.bytes_of(self.folder / "checkpoint" / "state")
        return replace(streams.medians(self.side, self.progress, written), took=self.spent)


@contextmanager
def _fed(side: Side) -> Iterator[_Fed]:
    """A running stream that waits for its first files."""
    with scratch() as folder:
        with configured(side.settings, WAITING) as spark:
            source = streams.source(spark, side.workload, side.settings.delay, path=f"{folder}/batch-*")
            out = side.query(source, side.size, side.advance)
            running = streams.noop(out, side.settings, folder / "checkpoint").start()
        try:
            yield _Fed(side, folder, side.workload.files(), running)
        finally:
            running.stop()


def _add(files: Sequence[Path], folder: Path) -> None:
    """Link the files into a new folder that appears with all of them at once."""
    scratch = folder.with_name(f"next-{folder.name}")
    scratch.mkdir()
    for file in files:
        os.link(file, scratch / file.name)
    scratch.rename(folder)
