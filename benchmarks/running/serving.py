"""Streams that are served: beside a lookup, beside a table that they keep up to date, and from a record to a reader."""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import combinators as C
from benchmarks.comparisons import lookup
from benchmarks.running import served
from benchmarks.running.session import configured
from benchmarks.running.side import SLOWER
from benchmarks.running.streams import described, source
from benchmarks.workloads import workload
from benchmarks.workloads.workload import START, Workload
from slicing import group_by, hopping, on_update, serve_to, upsert_into
from slicing.serving import Reader

HOUR = hopping("1 hour", "1 minute")
BY_KEY = group_by("key").window(HOUR, time="ts")
RESULTS = {"n": C.count(), "total": C.sum("v"), "mean": C.avg("d"), "low": C.min("d"), "high": C.max("d")}
STREAM = Workload("served", 20_000, 5_000, 60, 12)
UNSTEADY = 4
TABLE = """
CREATE TABLE current (key bigint, window_start timestamptz, window_end timestamptz, n bigint, total bigint,
    mean double precision, low double precision, high double precision, emission text, revision bigint,
    PRIMARY KEY (key, window_start, window_end))
"""


@dataclass(frozen=True)
class Beside:
    """Seconds of a micro-batch into a table and into a store, and the bytes of the state and of the store."""

    table: float
    store: float
    state_bytes: int
    store_bytes: int


@cache
def beside_a_table() -> Beside:
    """Run a stream whose newest values are upserted into PostgreSQL, and one that serves its slices from there."""
    import psycopg

    connect = partial(psycopg.connect, served.address("postgresql"))
    with configured(SLOWER) as spark, workload.scratch() as folder:
        events = source(spark, STREAM, "5 seconds")
        with closing(connect()) as database:
            database.execute(TABLE)
            database.commit()
        updates = BY_KEY.emit(on_update(latest_only=True)).define(**RESULTS).on(events).dataframe()
        table = _run(updates, upsert_into(connect, "current", "key", "window"), folder / "updated")
        write = serve_to(served.address("postgresql"), feature_set="stream")
        store = _run(BY_KEY.define(**RESULTS).serve(events), write, folder / "served")
        held = "SELECT sum(pg_column_size(slices.*)), count(*) FROM slices WHERE feature_set = 'stream'"
        with closing(connect()) as database:
            (size, _) = database.execute(held).fetchone()
        return Beside(table, store, described(spark, str(folder / "served")), int(size))


def _run(rows: DataFrame, write: Callable[[DataFrame, int], None], checkpoint: Path) -> float:
    """Run a stream to its end; return the median seconds of its steady micro-batches."""
    writer = rows.writeStream.outputMode("update").foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    full = [each for each in query.recentProgress if each["numInputRows"]]
    return statistics.median(each["durationMs"]["triggerExecution"] / 1000 for each in full[UNSTEADY:] or full)


KEYS = 100_000


@cache
def beside_a_lookup() -> float:
    """Return how many times as long a lookup of a key takes as a read. Raises ValueError if they differ."""
    with configured(replace(SLOWER, partitions=lookup.PARTITIONS)) as spark, workload.scratch() as folder:
        made, checkpoint = lookup.filled(spark, folder, KEYS)
        events = spark.readStream.schema(lookup.SCHEMA).parquet(str(folder / "records"))
        card = group_by("key").window(HOUR, time="ts").define(n=C.count(), total=C.sum("v"))
        url = f"sqlite:///{folder}/features.db"
        _run(card.serve(events.withWatermark("ts", "1 minute")), serve_to(url), folder / "served")
        reader = Reader(url, card)
        at = lookup.START * 10**6 + lookup.SLICES * 60 * 10**6

        def ask(key: int) -> dict[str, Any]:
            (row,) = made.lookup(checkpoint, keys=[key], latest=True).collect()
            return {"n": row["records"], "total": row["total"]}

        def read(key: int) -> Any:
            return reader.read(key, at=at)[HOUR]

        for key in range(3):
            if ask(key) != read(key):
                raise ValueError(f"key {key}: the lookup has {ask(key)}, the reader {read(key)}")
        theirs = served.Latency.of(ask, range(10, 30))
        served.Latency.of(read, range(1000))
        ours = served.Latency.of(read, range(5000))
        reader.close()
    return theirs.p50 / ours.p50


SAMPLES = 40
PAYMENT = "card string, ts timestamp"


@cache
def freshness() -> float:
    """Return the median seconds from a record in a file to its value in a reader, at a trigger of a second."""
    with configured(SLOWER) as spark, workload.scratch() as folder:
        (folder / "in").mkdir()
        events = spark.readStream.schema(PAYMENT).json(str(folder / "in"))
        return median_age(events, partial(_write, folder), folder)


def median_age(events: DataFrame, write: Callable[[str], None], folder: Path) -> float:
    """Return the median seconds from a record, a line of JSON to `write`, to its value in a reader of a stream."""
    with _served(events, write, folder) as reader:
        ages = []
        for number in range(1, SAMPLES + 1):
            time.sleep(0.37 + number % 7 / 10)  # at all instants of a trigger
            begin = time.monotonic()
            write(_payment("ada"))
            while reader.read("ada", at=START + 60 * 10**6 * 2)[HOUR]["n"] < number:
                time.sleep(0.005)
            ages.append(time.monotonic() - begin)
    return statistics.median(ages[5:])


@contextmanager
def _served(events: DataFrame, write: Callable[[str], None], folder: Path) -> Iterator[Reader]:
    card = group_by("card").window(HOUR, time="ts").define(n=C.count())
    url = f"sqlite:///{folder}/features.db"
    write(_payment("nobody"))
    writer = card.serve(events.withWatermark("ts", "1 minute")).writeStream.outputMode("update")
    writer = writer.foreachBatch(serve_to(url)).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(processingTime="1 second").start()
    try:
        while not query.recentProgress:
            time.sleep(0.1)
        reader = Reader(url, card)
        yield reader
        reader.close()
    finally:
        query.stop()


def _payment(card: str) -> str:
    return json.dumps({"card": card, "ts": "2023-11-15T00:00:30Z"})


def _write(folder: Path, line: str) -> None:
    (folder / "next").write_text(line)
    (folder / "next").rename(folder / "in" / f"{time.time_ns()}.json")
