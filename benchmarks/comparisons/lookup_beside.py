"""Lookups during a running query: micro-batches while a key is looked up repeatedly, against those without lookups.

The micro-batches of one query are fed one by one. In every other block of them a thread looks up a key, with a pause
after each lookup. Both share the cores of the machine, as they would share a cluster.
"""

import shutil
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.comparisons.comparison import TIME, Comparison
from benchmarks.comparisons.lookup import PARTITIONS, SLICES, OneKey, definition, records
from benchmarks.running.run import Run
from benchmarks.running.session import configured
from benchmarks.running.side import SLOWER
from benchmarks.workloads import workload
from slicing.definition import Definition

KEYS, BLOCKS, BLOCK, WARM, PAUSE = 200_000, 8, 5, 4, 10.0
"""Keys, blocks, micro-batches per block, micro-batches before the first block, seconds between lookups."""


@dataclass
class Lookups:
    """A thread that looks up a key while `on` is set, with a pause after each lookup; `seconds` has their durations."""

    made: Definition
    checkpoint: str
    key: int
    pause: float
    on: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    seconds: list[float] = field(default_factory=list)
    failed: list[Exception] = field(default_factory=list)

    def run(self) -> None:
        """Look up repeatedly until `over` is set."""
        while not self.over.is_set():
            if not self.on.wait(0.2):
                continue
            begin = time.perf_counter()
            try:
                self.made.lookup(self.checkpoint, keys=[self.key], latest=True).collect()
            except Exception as error:
                self.failed.append(error)
            self.seconds.append(time.perf_counter() - begin)
            self.over.wait(self.pause)


def fed(spark: SparkSession, folder: Path, keys: int, pause: float) -> tuple[list[float], list[float], Lookups]:
    """Return the seconds of micro-batches without lookups, of those with lookups, and the lookups."""
    staged, source, checkpoint = folder / "staged", folder / "source", str(folder / "checkpoint")
    source.mkdir()
    for number in range(1 + (WARM + BLOCKS * BLOCK) // SLICES):
        records(spark, keys).write.parquet(str(staged / str(number)))
    files = sorted(staged.rglob("*.parquet"))[: WARM + BLOCKS * BLOCK]
    made = definition(spark, str(source))
    query = made.dataframe().writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    asking = Lookups(made, checkpoint, keys // 2, pause)
    thread = threading.Thread(target=asking.run)
    alone: list[float] = []
    together: list[float] = []
    try:
        for number, file in enumerate(files):
            with_lookups = number >= WARM and (number - WARM) // BLOCK % 2 == 1
            if number == WARM:
                thread.start()
            (asking.on.set if with_lookups else asking.on.clear)()
            file.rename(source / f"{number:04}.parquet")
            query.processAllAvailable()
            if number >= WARM:
                (together if with_lookups else alone).append(_took(query.recentProgress))
    finally:
        asking.over.set()
        if thread.ident is not None:
            thread.join()
        query.stop()
    return alone, together, asking


def _took(progress: Any) -> float:
    """The seconds of the last micro-batch with records."""
    return next(p["durationMs"]["triggerExecution"] / 1000 for p in reversed(progress) if p["numInputRows"])


def timed(keys: int, pause: float) -> tuple[Run, Run]:
    """Return the run of the micro-batches without lookups, and of those with lookups."""
    folder = Path(tempfile.mkdtemp(dir=workload.FOLDER))
    try:
        with configured(replace(SLOWER, partitions=PARTITIONS)) as spark:
            alone, together, asking = fed(spark, folder, keys, pause)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if asking.failed:
        raise asking.failed[0]
    note = f"{len(asking.seconds)} lookups, {statistics.median(asking.seconds):.1f} s each"
    without, ours = (Run(statistics.mean(s), keys, batches=len(s)) for s in (alone, together))
    return without, replace(ours, note=note)


BENCHMARKS = (
    Comparison(
        "LookupsBesideARunningQuery",
        f"lookups beside a running query, one key every {PAUSE:.0f} s / the query alone",
        sides=lambda: timed(KEYS, PAUSE),
        checks=(OneKey(),),
        goal=1.05,
        measure=TIME,
    ),
)
