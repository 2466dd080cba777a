"""Peak memory of Spark's Python workers with a million keys, and when a jump of the watermark closes 60 windows."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import ours, session
from benchmarks.workloads import FOLDER, SCHEMA, START

KEYS = 1_000_000
RECORDS = 500_000
MINUTE = 60 * 10**6


class Memory:
    """Peak MiB of a Python worker: 1 M keys, 500,000 records a minute, one window a micro-batch, then 60 at once."""

    timeout = 1800
    params = (("1 hour", "24 hours"), ("v", "d"))
    param_names = ("size", "column")
    unit = "MiB"
    goal = "<= 1024"

    def track_peak(self, size: str, column: str) -> float:
        """What asv records."""
        return peak(size, column)


def peak(size: str, column: str) -> float:
    """The most memory, in MiB, that one Python worker had while the stream ran."""
    source = session().readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(_files()))
    out = ours(column)(source.withWatermark("ts", "0 seconds"), size, "1 minute")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint, _watching() as seen:
        writer = out.writeStream.format("noop").option("checkpointLocation", checkpoint)
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
    return max(seen.values()) / 1024


def _files() -> Path:
    """Four minutes, each in a file of its own, and a record an hour later."""
    root = FOLDER / f"memory {KEYS} {RECORDS}"
    if not (root / "done").exists():
        (root / "data").mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        for minute in range(4):
            times = START + minute * MINUTE + np.sort(rng.integers(0, MINUTE, RECORDS))
            pq.write_table(_table(rng, times), root / "data" / f"part-{minute}.parquet")
        pq.write_table(_table(rng, np.array([START + 64 * MINUTE])), root / "data" / "part-4.parquet")
        (root / "done").touch()
    return root / "data"


def _table(rng: np.random.Generator, times: np.ndarray) -> pa.Table:
    values = rng.integers(0, 1000, len(times))
    columns = {"key": rng.integers(0, KEYS, len(times)), "ts": pa.array(times, pa.timestamp("us", "UTC"))}
    return pa.table(columns | {"v": values, "d": values.astype(np.float64)})


@contextmanager
def _watching() -> Iterator[dict[int, int]]:
    """KiB that each Python worker has had at most, by process, looked up twice a second. Linux only."""
    seen: dict[int, int] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            for status in Path("/proc").glob("[0-9]*/status"):
                _note(status, seen)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def _note(status: Path, seen: dict[int, int]) -> None:
    try:
        if b"pyspark.daemon" in (status.parent / "cmdline").read_bytes():
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
            seen[int(status.parent.name)] = int(fields["VmHWM"].split()[0])
    except (OSError, KeyError):
        pass  # it has just ended
