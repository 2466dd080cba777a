"""A warm start: a stream with one record, whose first micro-batch loads a workload as history and commits it; and for
comparison, the stream that reads the workload, micro-batch by micro-batch.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import combinators as C
from benchmarks.running.bounded import read
from benchmarks.running.run import Run
from benchmarks.running.session import configured, session
from benchmarks.running.side import Settings
from benchmarks.running.streams import noop, source
from benchmarks.workloads.workload import Workload, scratch
from slicing import group_by, hopping
from slicing.definition import Definition

SETTINGS = Settings()


@cache
def start(workload: Workload, size: str, advance: str) -> Run:
    """Return the median of three warm starts, after one on a part of the records."""
    _start(workload.cut(SETTINGS.warm_up), size, advance)
    return Run(statistics.median(_start(workload, size, advance) for _ in range(3)), workload.total)


@cache
def replay(workload: Workload, size: str, advance: str) -> Run:
    """Return the run of a stream over all records, after one on a part of them."""
    _replayed(workload.cut(SETTINGS.warm_up), size, advance)
    return Run(_replayed(workload, size, advance), workload.total)


def defined(workload: Workload, size: str, advance: str, path: str | None = None, column: str = "v") -> Definition:
    """Return the definition of count and sum of a column over a stream of a workload, or of files at `path`."""
    windowed = group_by(source(session(), workload, path=path), "key").window(hopping(size, advance), time="ts")
    return windowed.define(records=C.count(), total=C.sum(column))


def end(workload: Workload) -> datetime:
    """Return a whole second after the last record."""
    newest = read(workload).agg(F.date_trunc("second", F.max("ts"))).first()
    assert newest is not None
    found: datetime = newest[0].astimezone()
    return found + timedelta(seconds=1)


@contextmanager
def _live(workload: Workload, until: datetime) -> Iterator[str]:
    """A folder with one record, whose time is `until`."""
    with scratch() as folder:
        table = pq.read_table(workload.files()[0]).slice(0, 1)
        at = table.schema.get_field_index("ts")
        table = table.set_column(at, table.schema.field(at), pa.array([until], table.schema.field(at).type))
        pq.write_table(table, folder / "live.parquet")
        yield str(folder)


def _start(workload: Workload, size: str, advance: str) -> float:
    until = end(workload)
    with (
        configured(SETTINGS),
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint,
        _live(workload, until) as path,
    ):
        out = defined(workload, size, advance, path).warm(read(workload), until=until).dataframe()
        running = noop(out, SETTINGS, checkpoint).trigger(availableNow=True).start()
        running.awaitTermination()
        return float(running.recentProgress[0]["durationMs"]["triggerExecution"]) / 1000


def _replayed(workload: Workload, size: str, advance: str) -> float:
    with configured(SETTINGS), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        out = defined(workload, size, advance).dataframe()
        began = time.monotonic()
        noop(out, SETTINGS, checkpoint).trigger(availableNow=True).start().awaitTermination()
        return time.monotonic() - began
