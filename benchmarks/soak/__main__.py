"""Run the soak: `python -m benchmarks.soak [--minutes 60] [--keys 20000] [--records 4000] [--pace 5] [--kill 120]`.

A file of records arrives every `pace` seconds. The process of the query is ended with SIGKILL every `kill` seconds, and
started again; at half time it continues with `on_change()` in place of `on_close()`. At the end its rows are compared
with brute force over all records, and, in a run of 25 minutes or more, its last ten minutes with its second ten: they
may take 1.1 times as much. After an hour they are also compared with the second ten minutes after the change; worker
memory by these alone, as `on_change()` keeps slices in the memory of the workers. Exit code 1 if something differs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import ROOT
from benchmarks.soak.feed import Feed
from benchmarks.soak.steady import compared, read
from benchmarks.soak.truth import differences, keep, micro_batches

PATIENCE = 900
"""The seconds in which the query must finish the remaining files at the end."""


class Soak:
    """One run in a folder: files arrive, the query is killed and restarted."""

    def __init__(self, folder: Path, feed: Feed, pace: float):
        self.folder, self.feed, self.pace = folder, feed, pace
        self.trigger, self.arrived, self.kills, self.changed, self.changed_at = "on_close", 0, 0, 0, time.time()
        for each in ("files", "sink"):
            (folder / each).mkdir(parents=True)

    def start(self) -> None:
        """Start the process of the query."""
        paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TZ": "UTC"}
        command = [sys.executable, "-m", "benchmarks.soak.job", str(self.folder), self.trigger]
        with (self.folder / "log").open("a") as log:
            self.job = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        self.since, self.before = time.monotonic(), self.done()

    @property
    def kept(self) -> Path:
        """The folder with the copied offsets and commits of the checkpoint."""
        return self.folder / "kept"

    def done(self) -> int:
        """Return the number of completed micro-batches."""
        keep(self.folder / "checkpoint", self.kept)
        return sum(1 for _ in (self.kept / "commits").glob("[0-9]*"))

    def kill(self) -> None:
        """Kill the process and all processes below it, like a power failure."""
        if self.job.poll() is None:
            os.killpg(self.job.pid, signal.SIGKILL)
        self.job.wait()
        self.kills += 1

    def run(self, minutes: float, kill: float) -> None:
        """Add files for `minutes` minutes and kill the query repeatedly; then let it finish."""
        begin = time.monotonic()
        self.start()
        while (elapsed := time.monotonic() - begin) < 60 * minutes:
            if elapsed >= self.arrived * self.pace:
                self.feed.write(self.folder / "files", self.arrived)
                self.arrived += 1
            if self.job.poll() is not None:
                raise RuntimeError(f"the query has ended: {self.log()}")
            done = self.done()
            half = self.trigger == "on_close" and elapsed >= 30 * minutes and done > 1
            # A query that is always killed before its first commit would never make progress.
            if half or (time.monotonic() - self.since >= kill and done > self.before + 1):
                self.kill()
                if half:
                    self.trigger, self.changed, self.changed_at = "on_change", self.done(), time.time()
                self.start()
            time.sleep(0.1)
        (self.folder / "stop").touch()
        self.job.wait(PATIENCE)
        if self.job.returncode:
            raise RuntimeError(f"the query has failed: {self.log()}")

    def log(self) -> str:
        """Return the end of the output of the processes."""
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def verdict(self) -> list[str]:
        """Return the failures, one per line."""
        self.done()
        found = differences(self.folder / "files", self.folder / "sink", self.kept, self.changed)
        lines, done = read(self.folder / "figures"), micro_batches(self.kept)
        print(f"{len(done):,} micro-batches, {self.arrived:,} files, {self.kills:,} kills", flush=True)
        if done[-1][1] != self.arrived:
            found.append(f"{done[-1][1]:,} of {self.arrived:,} files were read")
        shown, grows = compared(lines, self.changed_at)
        print(*shown, sep="\n", flush=True)
        return found + grows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, compare and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=(__doc__ or "").partition("\n")[0])
    options = {"minutes": 60.0, "keys": 20_000, "records": 4000, "pace": 5.0, "kill": 120.0, "seed": 0}
    for option, default in options.items():
        parser.add_argument(f"--{option}", type=type(default), default=default)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        soak = Soak(Path(root) / "soak", Feed(asked.records, asked.keys, seed=asked.seed), asked.pace)
        try:
            soak.run(asked.minutes, asked.kill)
            found = soak.verdict()
        finally:
            soak.kill()
    print("\n".join(found) or "all rows are those of brute force")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
