"""Peak memory of Spark's Python workers with a million keys, and when a jump of the watermark closes 60 windows."""

import tempfile
from dataclasses import dataclass

from benchmarks.baselines.ours import Ours
from benchmarks.report import results
from benchmarks.running.processes import workers
from benchmarks.running.session import session
from benchmarks.running.side import CORES, Settings
from benchmarks.running.streams import noop, source
from benchmarks.workloads.inputs import HOUR, MINUTE, ONE_DAY, Workload

# Four minutes, each a micro-batch, then, in one micro-batch, records of one key up to an hour later.
_MINUTES = Workload("a million keys", 500_000, 1_000_000, 60, 4, parts=1)
_GAP = Workload("an hour later", 100, 1, 3_600, 1, parts=1, history=_MINUTES)


@dataclass(frozen=True)
class Peak:
    """MiB of a Python worker: 1 M keys, 500,000 records a minute, one window a micro-batch, then 60 at once."""

    size: str
    column: str
    kind: str

    @property
    def name(self) -> str:
        """A name that no other has."""
        return f"Memory-{self.size.replace(' ', '_')}-{self.kind}"

    def measured(self) -> results.Figure:
        """The peak, for which the goal is a GiB."""
        title = f"peak memory of a Python worker, {self.size} by {MINUTE}, {self.kind}"
        return results.Figure(self.name, title, self._mib(), "MiB", 1024.0, results.machine(CORES))

    def _mib(self) -> float:
        out = Ours(self.column)(source(session(), _GAP, "0 seconds"), self.size, MINUTE)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint, workers() as peaks:
            noop(out, Settings(), checkpoint).trigger(availableNow=True).start().awaitTermination()
        return max(peaks.values())


BENCHMARKS = tuple(Peak(size, *column) for size in (HOUR, ONE_DAY) for column in (("v", "long"), ("d", "double")))
