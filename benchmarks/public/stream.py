"""A side that is a stream of Spark: ours, or Spark's own."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from benchmarks.public.line import Line
from benchmarks.running import streams, written
from benchmarks.running.processes import peak, processor_seconds
from benchmarks.running.run import Run
from benchmarks.running.session import configured
from benchmarks.running.side import Side
from benchmarks.workloads.workload import Workload, scratch


@dataclass(frozen=True)
class Stream:
    """The stream of a name, as `Line.side` has it."""

    name: str
    closes_all = False

    def run(self, line: Line) -> Run:
        """Return the means of the steady micro-batches of a line."""
        return run(line.side(self.name))

    @contextmanager
    def rows(self, line: Line, workload: Workload) -> Iterator[DataFrame]:
        """Yield all rows over a workload."""
        side = line.side(self.name)
        with written.of_stream(side.query, workload, *line.window, mode=side.settings.mode) as found:
            yield found


def run(side: Side) -> Run:
    """Return the means of the steady micro-batches; `processor` is per micro-batch too."""
    settings, wanted = side.settings, side.batches
    side.workload.path()  # written before anything is measured
    with configured(settings) as spark, scratch() as checkpoint, peak() as memory:
        out = side.query(streams.source(spark, side.workload, settings.delay), side.size, side.advance)
        start = time.monotonic()
        running = streams.noop(out, settings, checkpoint).trigger(availableNow=True).start()
        stopped = streams.wait(running, wanted - settings.steady, start + settings.limit)
        before = processor_seconds()
        stopped = stopped or streams.wait(running, wanted, start + settings.limit)
        processor = (processor_seconds() - before) / settings.steady
        took, progress = time.monotonic() - start, running.recentProgress
        running.stop()
        if stopped:
            return Run(took, side.workload.records, stopped=True, store=settings.store)
        found = streams.medians(side, progress, streams.bytes_of(checkpoint / "state"))
    seconds = statistics.fmean(seconds for seconds, _ in found.each)
    return replace(found, seconds=seconds, processor=processor, took=took, peak_mib=max(memory))
