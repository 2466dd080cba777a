"""This framework at an older commit: a git work tree, and a process per tree that runs queries on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from benchmarks import ROOT
from benchmarks.running.processes import processor_seconds, workers
from benchmarks.running.session import OPTIONS
from benchmarks.running.side import CORES
from benchmarks.workloads.workload import scratch

JOB = Path(__file__).with_name("old_commit_job.py")


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """Yield a temporary work tree of a commit. Raises ValueError if the commit does not exist."""
    with scratch() as folder:
        tree = folder / "tree"
        made = _git("worktree", "add", "--detach", str(tree), commit)
        if made.returncode:
            raise ValueError(f"there must be a commit `{commit}`; git says: {made.stderr.strip()}")
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)


@contextmanager
def both(commit: str) -> Iterator[tuple[Process, Process]]:
    """Yield a process for this tree and one for a commit's tree. Raises ValueError if the commit does not exist."""
    with ExitStack() as stack:
        trees = (ROOT, stack.enter_context(tree_of(commit)))
        local = stack.enter_context(scratch())
        now, then = (stack.enter_context(Process(tree, local)) for tree in trees)
        yield now, then


class Process:
    """A process with a Spark session over the packages of a tree; it is idle between requests."""

    def __init__(self, tree: Path, folder: Path):
        options = OPTIONS | {
            "spark.master": f"local[{CORES}]",
            "spark.sql.shuffle.partitions": str(CORES),
            "spark.driver.memory": "4g",  # two sessions run at the same time
            "spark.local.dir": str(folder),
        }
        environment = os.environ | {"PYTHONPATH": str(tree), "PYSPARK_PYTHON": sys.executable}
        environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        self.log = folder / f"{tree.name}.log"
        command = [sys.executable, "-P", str(JOB), json.dumps(options)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with self.log.open("w") as log:
            # Run in the tree, because Spark's workers look for packages in the working directory first.
            self.running = subprocess.Popen(command, cwd=tree, env=environment, stderr=log, text=True, **pipes)
        found = self._answer()["ready"]
        assert Path(found).is_relative_to(tree), f"{found} is not of {tree}"

    def watched(self, **query: Any) -> dict[str, Any]:
        """Return the result of `run`, plus `mib`, the peak of a Python worker, and `processor`, the seconds of all."""
        with workers(self.running.pid) as peaks:
            before = processor_seconds(self.running.pid)
            found = self.run(**query)
            processor = processor_seconds(self.running.pid) - before
        return found | {"mib": max(peaks.values(), default=0.0), "processor": processor}

    def run(self, **stream: Any) -> dict[str, Any]:
        """Run a query and return its figures; arguments are those of `stream` or, with `bounded`, of `bounded`."""
        assert self.running.stdin is not None
        self.running.stdin.write(f"{json.dumps(stream)}\n")
        self.running.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.running.stdout is not None
        for line in self.running.stdout:
            if line.startswith("answer "):
                found: dict[str, Any] = json.loads(line.removeprefix("answer "))
                return found
        raise RuntimeError(f"a side has ended, and said last: {self.log.read_text()[-2000:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process and its JVM by closing its input."""
        try:
            self.running.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.running.kill()
