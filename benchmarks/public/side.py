"""A part of a line in a process of its own: `python -m benchmarks.public.side NAME ours`, or `spark`, or `check`.

So the memory and the processor time of a side are those of all processes below this one. The last line of the output
is the answer in JSON.
"""

import json
import statistics
import sys
import time
from dataclasses import asdict, replace

from benchmarks.public import check
from benchmarks.public.catalogue import line
from benchmarks.running import streams
from benchmarks.running.processes import peak, processor_seconds
from benchmarks.running.run import Run
from benchmarks.running.session import configured, stop
from benchmarks.running.side import Side
from benchmarks.workloads.workload import scratch


def main(name: str, part: str) -> None:
    """Print the figures of a side, or how rows differ."""
    found = check.differences(line(name)) if part == "check" else asdict(run(line(name).side(part)))
    stop()
    print(json.dumps(found))


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


if __name__ == "__main__":
    main(*sys.argv[1:])
