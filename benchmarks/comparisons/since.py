"""A query against the same query at an older commit, each in its own process, in turns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.baselines.old_commit import Process, both
from benchmarks.comparisons.old_commit import difference
from benchmarks.running.run import Run
from benchmarks.workloads.workload import Workload

TINY = 0.002
"""A share of the records and keys so small that a worker's memory is only that of its imports."""


@dataclass(frozen=True)
class Since:
    """The two sides of a `Comparison`, a commit's and the current one, and the check of their rows.

    `functions` is an option of `old_commit_job.aggregated`. Both sides first run on the share `TINY` of the records,
    where rows are compared and workers count as idle; then on all records, in `turns`; the best one counts.
    """

    commit: str
    workload: Workload
    size: str
    advance: str
    functions: str
    bounded: bool = False
    turns: int = 2

    def sides(self) -> tuple[Run, Run]:
        """Return the run of the commit, and the current one."""
        return _runs(self)[0]

    def difference(self) -> str | None:
        """Return how the rows differ, or None."""
        return _runs(self)[1] or None

    @property
    def cut(self) -> Workload:
        """The workload on which rows are compared."""
        return self.workload.cut(TINY)

    def query(self, workload: Workload) -> dict[str, Any]:
        """Return the query as arguments for the job of a tree."""
        common = {"path": str(workload.path()), "schema": workload.schema, "functions": self.functions}
        common |= {"size": self.size, "advance": self.advance}
        if self.bounded:
            return common | {"bounded": True}
        return common | {"files": workload.parts, "delay": "5 seconds", "last": workload.batches - 2}


@cache
def _runs(since: Since) -> tuple[tuple[Run, Run], str]:
    with both(since.commit) as processes:
        now, then = (_Turns(since, process) for process in processes)
        differs = difference(now.idle, then.idle)
        for _ in range(since.turns):
            for turns in (now, then):
                turns.turn()
    return (then.run(), now.run()), differs


class _Turns:
    """The turns of one tree and their figures."""

    def __init__(self, since: Since, process: Process):
        self.since, self.process = since, process
        self.idle = process.watched(**since.query(since.cut), hashed=True)
        self.turns: list[dict[str, Any]] = []

    def turn(self) -> None:
        """Run the query once more and keep its figures."""
        self.turns.append(self.process.watched(**self.since.query(self.since.workload)))

    def run(self) -> Run:
        """Return the best turn, with the peak memory of all turns."""
        since, idle = self.since, self.idle["mib"]
        seconds, processor = (min(each[name] for each in self.turns) for name in ("seconds", "processor"))
        peak = max(each["mib"] for each in self.turns)
        return Run(
            seconds,
            since.workload.total if since.bounded else since.workload.records,
            worker_mib=peak,
            idle_mib=idle,
            note=f"{processor:.0f} s of processors in all; a worker has {peak:.0f} MiB at most, an idle one {idle:.0f}",
        )
