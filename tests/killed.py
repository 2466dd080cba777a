"""Queries in a process that is killed, continues and loses commits; for tests against servers and tables."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rooms import python_path


@dataclass(frozen=True)
class Job:
    """A file run with `arguments` and the way that it ends; `checkpoints` has the checkpoints of its queries by name.

    The file puts its log into `log`. `patience` is in seconds.
    """

    file: str
    arguments: tuple[str, ...]
    checkpoints: Path
    queries: tuple[str, ...]
    log: Path
    patience: int

    def killed(self, batches):
        """Run it until each query has committed a number of micro-batches, then end it as a power cut does."""
        with self._run("killed") as running:
            wait(lambda: self.committed() >= batches, lambda: running.poll() is None, self.patience)

    def finish(self):
        """Run it to the end of the input."""
        with self._run("end") as running:
            assert running.wait(self.patience) == 0, self.log.read_text(errors="replace")[-3000:]

    def committed(self):
        """The micro-batches of the query that has fewest."""
        return min(len(self._commits(name)) for name in self.queries)

    def lose_commits(self):
        """Remove the last commits, as a kill does that comes after the rows are written and before the commit."""
        for name in self.queries:
            last = self._commits(name)[-1]
            last.unlink()
            last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def _commits(self, name):
        return sorted((self.checkpoints / name / "commits").glob("[0-9]*"), key=lambda path: int(path.name))

    @contextmanager
    def _run(self, way):
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC", "PYTHONPATH": python_path()}
        with self.log.open("a") as log:
            command = [sys.executable, self.file, *self.arguments, way]
            running = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield running
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()


def wait(condition, runs, patience):
    """Wait until a condition holds, for at most `patience` seconds, and while something runs."""
    end = time.monotonic() + patience
    while not condition():
        assert runs()
        assert time.monotonic() < end
        time.sleep(0.05)
