"""The stores that readers are timed on: filled once a process, and gone with it."""

import atexit
import io
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.workloads import served, workload
from servers.postgres import postgres
from servers.redis import redis
from slicing.serving import Found, Range, Reader, Store, store_of

REQUESTS = 10_000
_started = ExitStack()
atexit.register(_started.close)


@dataclass(frozen=True)
class Latency:
    """Milliseconds of requests that follow each other."""

    p50: float
    p99: float
    requests: int

    @classmethod
    def of(cls, ask: Callable[[int], object], keys: Iterable[int]) -> "Latency":
        """Return the latency of a question about each of some keys."""
        seconds = []
        for key in keys:
            begin = time.perf_counter()
            ask(key)
            seconds.append(time.perf_counter() - begin)
        p50, p99 = np.percentile(np.array(seconds) * 1000, [50, 99])
        return cls(float(p50), float(p99), len(seconds))


@cache
def address(kind: str) -> str:
    """Return the URL of an empty store of a kind, which ends with this process."""
    if kind == "sqlite":
        workload.FOLDER.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=workload.FOLDER))
        _started.callback(shutil.rmtree, folder, ignore_errors=True)
        return f"sqlite:///{folder}/features.db"
    return _started.enter_context({"postgresql": postgres, "redis": redis}[kind]())


@cache
def filled(kind: str, keys: int = served.KEYS) -> Store:
    """Return a store with the slices of all keys."""
    store = store_of(address(kind))
    for portion in served.portions(keys):
        rows = list(served.rows(portion))
        for low in range(0, len(rows), 10_000):
            store.put(served.SET, rows[low : low + 10_000])
    served.publish(store)
    if kind == "postgresql":
        _analyzed()
    return store


def requests(busy: bool, count: int = REQUESTS, keys: int = served.KEYS) -> list[int]:
    """Return the keys of requests: busy ones, or others."""
    low, high = (0, min(keys, served.BUSY)) if busy else (served.BUSY, keys)
    return np.random.default_rng(1).integers(low, high, count).tolist()


def both(count: int = REQUESTS) -> list[int]:
    """Return the keys of requests; every other one is busy, as most records are of busy keys."""
    pairs = zip(requests(True, count // 2), requests(False, count // 2), strict=True)
    return list(chain.from_iterable(pairs))


@cache
def reads(kind: str) -> Latency:
    """Return the latency of reads of all windows from a store."""
    reader = Reader(filled(kind), served.CARD)
    return read_by(reader, both())


def read_by(reader: Reader, keys: Sequence[int]) -> Latency:
    """Return the latency of a reader, which has answered some of the requests before."""

    def ask(key: int) -> object:
        return reader.read(key, at=served.NOW)

    Latency.of(ask, keys[:1000])
    return Latency.of(ask, keys)


class Held:
    """A store that has the answers of another one in memory: what is left of a read is done in Python."""

    def __init__(self, of: Store):
        self.of, self.found = of, {}

    def read(self, feature_set: str, keys: Sequence[str], ranges: Sequence[Range]) -> Found:
        """Return what was read at first."""
        known = self.found.get(tuple(keys))
        if known is None:
            known = self.found[tuple(keys)] = self.of.read(feature_set, keys, ranges)
        return known

    put = publish = remove = None


@cache
def in_python() -> Latency:
    """Return the latency of reads without the store."""
    reader, keys = Reader(Held(filled("sqlite")), served.CARD), both()
    for key in keys:
        reader.read(key, at=served.NOW)
    return read_by(reader, keys)


SLICES = """
CREATE TABLE by_slice (
    key bigint, level int, start bigint, n bigint, high bigint, low bigint, totals bigint, mean double precision,
    means bigint, lowest double precision, lows bigint, highest double precision, highs bigint,
    PRIMARY KEY (key, level, start)
)
"""
RAW = "CREATE TABLE raw (key bigint, ts bigint, n bigint, x double precision)"


@cache
def connected() -> Any:
    """Return a connection to PostgreSQL in which SQL finds slices with a column for each number, and raw records."""
    import psycopg

    filled("postgresql")
    connection = _started.enter_context(psycopg.connect(address("postgresql"), autocommit=True))
    connection.execute(SLICES)
    connection.execute(RAW)
    for some in served.portions(served.KEYS):
        for level, table in served.slices(some):
            named = table.drop_columns(["records"]).add_column(1, "level", pa.array([level] * len(table)))
            _copy(connection, "by_slice", named)
        _copy(connection, "raw", pa.table(vars(some)))
    connection.execute("CREATE INDEX raw_by_key ON raw (key, ts)")
    connection.execute("ANALYZE by_slice, raw")
    return connection


def _analyzed() -> None:
    import psycopg

    with psycopg.connect(address("postgresql"), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE slices")


def _copy(connection: Any, name: str, table: pa.Table) -> None:
    out = io.BytesIO()
    csv.write_csv(table, out, csv.WriteOptions(include_header=False))
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN (FORMAT CSV)") as copy:
        copy.write(out.getvalue())
