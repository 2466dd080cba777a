"""Memory of Python workers: the peak with a million keys and 60 windows at once, and the growth over micro-batches."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass

from benchmarks import ROOT
from benchmarks.baselines.ours import Ours
from benchmarks.report import results
from benchmarks.running.held import FUNCTIONS
from benchmarks.running.processes import workers
from benchmarks.running.session import session
from benchmarks.running.side import CORES, Settings
from benchmarks.running.streams import noop, source
from benchmarks.workloads.inputs import HOUR, MINUTE, ONE_DAY, Workload

# Four minutes, one micro-batch each, then one micro-batch with records of one key up to an hour later.
_MINUTES = Workload("a million keys", 500_000, 1_000_000, 60, 4, parts=1)
_GAP = Workload("an hour later", 100, 1, 3_600, 1, parts=1, history=_MINUTES)


@dataclass(frozen=True)
class Peak:
    """MiB of a Python worker: 1 M keys, 500,000 records per minute, one window per micro-batch, then 60 at once."""

    size: str
    column: str
    kind: str

    @property
    def name(self) -> str:
        """A unique name."""
        return f"Memory-{self.size.replace(' ', '_')}-{self.kind}"

    def measured(self) -> results.Figure:
        """Return the peak in MiB; the goal is at most 1 GiB."""
        title = f"peak memory of a Python worker, {self.size} by {MINUTE}, {self.kind}"
        return results.Figure(self.name, title, self._mib(), "MiB", 1024.0, results.machine(CORES))

    def _mib(self) -> float:
        out = Ours(self.column)(source(session(), _GAP, "0 seconds"), self.size, MINUTE)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint, workers() as peaks:
            noop(out, Settings(), checkpoint).trigger(availableNow=True).start().awaitTermination()
        return max(peaks.values())


@dataclass(frozen=True)
class Held:
    """The growth in MiB of a process from its 10th to its 200th micro-batch with a user's function."""

    function: str

    @property
    def name(self) -> str:
        """A unique name."""
        return f"Held-{''.join(word.capitalize() for word in self.function.split())}".replace("'", "")

    def measured(self) -> results.Figure:
        """Return the growth; the goal is at most 5 MiB, as a worker's memory must not grow with the micro-batches."""
        title = f"growth of a worker from its 10th to its 200th micro-batch, partials: {self.function}"
        command = [sys.executable, "-m", "benchmarks.running.held", self.function]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        return results.Figure(self.name, title, float(done.stdout), "MiB", 5.0, results.machine(CORES))


BENCHMARKS = (
    *(Peak(size, *column) for size in (HOUR, ONE_DAY) for column in (("v", "long"), ("d", "double"))),
    *(Held(function) for function in FUNCTIONS),
)
