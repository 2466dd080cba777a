"""Peak memory of Spark's Python workers with a million keys, and when a jump of the watermark closes 60 windows."""

from __future__ import annotations

import tempfile

from benchmarks import results
from benchmarks.measure import CORES, session, workers
from benchmarks.queries import Ours
from benchmarks.workloads import Workload

# Four minutes, each a micro-batch, then, in one micro-batch, records of one key up to an hour later.
_MINUTES = Workload("a million keys", 500_000, 1_000_000, 60, 4, parts=1)
_GAP = Workload("an hour later", 100, 1, 3_600, 1, parts=1, history=_MINUTES)


class Memory:
    """Peak MiB of a Python worker: 1 M keys, 500,000 records a minute, one window a micro-batch, then 60 at once."""

    timeout = 1800
    params = (("1 hour", "24 hours"), ("v", "d"))
    param_names = ("size", "column")
    unit = "MiB"
    goal = 1024.0

    def track_peak(self, size: str, column: str) -> float:
        """What asv records."""
        return self.measured(size, column).value

    def measured(self, size: str, column: str) -> results.Figure:
        """The figure, kept for the page."""
        kind = {"v": "long", "d": "double"}[column]
        title = f"peak memory of a Python worker, {size} by 1 minute, {kind}"
        name = f"Memory-{size.replace(' ', '_')}-{kind}"
        found = results.Figure(name, title, _peak(size, column), self.unit, self.goal, results.machine(CORES))
        results.keep(found)
        return found


def _peak(size: str, column: str) -> float:
    """The most memory, in MiB, that one Python worker had while the stream ran."""
    source = session().readStream.schema(_GAP.schema).option("maxFilesPerTrigger", 1).parquet(str(_GAP.path()))
    out = Ours(column)(source.withWatermark("ts", "0 seconds"), size, "1 minute")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint, workers() as peaks:
        writer = out.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    return max(peaks.values())
