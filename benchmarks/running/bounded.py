"""Runs a bounded query into a noop sink."""

import statistics
import time
from collections.abc import Callable, Mapping
from functools import cache

from pyspark.sql import DataFrame

from benchmarks.baselines.query import Query
from benchmarks.running.run import Run
from benchmarks.running.session import session
from benchmarks.workloads.workload import Workload


@cache
def run(query: Query, workload: Workload, size: str, advance: str) -> Run:
    """Return the run of a bounded query, after a warm-up run."""
    out = query(read(workload), size, advance)
    seconds = warm_seconds(lambda: out.write.format("noop").mode("overwrite").save())
    return Run(seconds, workload.total, rows=out.count())


def warm_seconds(action: Callable[[], object], repeat: int = 1) -> float:
    """Return the median seconds of `repeat` calls of an action, after one call that warms up."""
    seconds = []
    for _ in range(repeat + 1):
        start = time.monotonic()
        action()
        seconds.append(time.monotonic() - start)
    return statistics.median(seconds[1:])


def fastest(ways: Mapping[str, Callable[[], int]], records: int) -> Run:
    """Return the fastest of several ways to get the same rows, whose number each returns; the note has all."""
    rows: list[int] = []
    seconds = {name: warm_seconds(lambda way=way: rows.append(way()), repeat=2) for name, way in ways.items()}
    note = ", ".join(f"{name} {each:.2f} s" for name, each in seconds.items())
    return Run(min(seconds.values()), records, rows[-1], batches=2, note=note)


def read(workload: Workload) -> DataFrame:
    """Return a workload as a bounded DataFrame."""
    return session().read.schema(workload.schema).parquet(str(workload.path()))
