"""Ours as it was: a work tree of a commit, and a process for each tree that runs queries when it is told to."""

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
    """A work tree of a commit, for as long as it is needed. Raises ValueError if there is no such commit."""
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
    """Processes of this tree and of that of a commit. Raises ValueError if there is no such commit."""
    with ExitStack() as stack:
        trees = (ROOT, stack.enter_context(tree_of(commit)))
        local = stack.enter_context(scratch())
        now, then = (stack.enter_context(Process(tree, local)) for tree in trees)
        yield now, then


class Process:
    """A Spark session over the packages of a tree; it does nothing while it is not asked."""

    def __init__(self, tree: Path, folder: Path):
        options = OPTIONS | {
            "spark.master": f"local[{CORES}]",
            "spark.sql.shuffle.partitions": str(CORES),
            "spark.driver.memory": "4g",  # there are two of them
            "spark.local.dir": str(folder),
        }
        environment = os.environ | {"PYTHONPATH": str(tree), "PYSPARK_PYTHON": sys.executable}
        environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        self.log = folder / f"{tree.name}.log"
        command = [sys.executable, "-P", str(JOB), json.dumps(options)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with self.log.open("w") as log:
            # In the tree, where Spark's workers look for packages before anywhere else.
            self.running = subprocess.Popen(command, cwd=tree, env=environment, stderr=log, text=True, **pipes)
        found = self._answer()["ready"]
        assert Path(found).is_relative_to(tree), f"{found} is not of {tree}"

    def watched(self, **query: Any) -> dict[str, Any]:
        """As `run`, with `mib`, the peak of the largest Python worker, and the `processor` seconds of all processes."""
        with workers(self.running.pid) as peaks:
            before = processor_seconds(self.running.pid)
            found = self.run(**query)
            processor = processor_seconds(self.running.pid) - before
        return found | {"mib": max(peaks.values(), default=0.0), "processor": processor}

    def run(self, **stream: Any) -> dict[str, Any]:
        """What a query took; the arguments are those of `stream` in the job, or with `bounded` those of `bounded`."""
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
        """Without more to read it ends, and its JVM with it."""
        try:
            self.running.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.running.kill()
