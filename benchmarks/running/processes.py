"""Memory and processor time of the child processes of this process. Linux only."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def workers(root: int | None = None) -> Iterator[dict[int, float]]:
    """Yield the peak MiB of each Python worker below a process (default: this one), sampled four times per second."""
    root = root or os.getpid()
    seen: dict[int, float] = {}

    def note() -> None:
        for process in _descendants(root):
            _note(process, seen)

    with _every(0.25, note):
        yield seen


@contextmanager
def peak() -> Iterator[list[float]]:
    """Yield the MiB of this process and all below it, sampled once per second; what they share counts once."""
    samples: list[float] = []

    def note() -> None:
        samples.append(sum(map(_share_of_memory, {os.getpid(), *_descendants(os.getpid())})))

    note()
    with _every(1.0, note):
        yield samples


@contextmanager
def _every(seconds: float, note: Callable[[], None]) -> Iterator[None]:
    """A thread that calls a function again and again."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(seconds):
            note()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def processor_seconds(root: int | None = None, without: int | None = None) -> float:
    """Return the processor seconds of a process (default: this one) and all processes below it, ended ones included.

    The process `without` is not counted.
    """
    ticks, root = 0, root or os.getpid()
    for process in {root, *_descendants(root)} - {without}:
        try:
            ticks += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue  # it has just ended
    return ticks / os.sysconf("SC_CLK_TCK")


def _descendants(root: int) -> list[int]:
    """The processes below `root`, found by the parents in /proc."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        children.setdefault(parent, []).append(int(path.parent.name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _note(process: int, seen: dict[int, float]) -> None:
    try:
        folder = Path(f"/proc/{process}")
        if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
            fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            # Not the recorded peak: a worker is forked, so that begins with the peak of its parent process.
            seen[process] = max(seen.get(process, 0.0), int(fields["VmRSS"].split()[0]) / 1024)
    except (OSError, KeyError):
        pass  # it has just ended


def _share_of_memory(process: int) -> float:
    """The MiB of a process; of a page that n processes share, an n-th."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0  # it has just ended
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
