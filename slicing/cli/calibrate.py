"""Measure the coefficients of this machine: `python -m slicing.calibrate`, one to two minutes.

First without Spark: the pages of a bucket of two thousand keys, and this process. Then short streams on Spark that have
next to no records, many records, many keys, or many windows.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import combinators as C
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import choose
from slicing.cli.console import say
from slicing.cli.results import results_of
from slicing.cli.session import session, workspace
from slicing.content.block import Shape
from slicing.content.folding import from_records
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.explain import SHIPPED, Coefficients, Plan, place
from slicing.grouping import group_by
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import MemoryStore
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.window import Window, hopping

START = 1_700_006_400 * 10**6
MINUTE = 60 * 10**6
MICRO_BATCHES, UNSTEADY = 7, 2


@dataclass(frozen=True)
class Case:
    """A stream with `records` records of `keys` keys in `seconds` seconds of event time per micro-batch."""

    records: int
    keys: int
    seconds: int
    window: Window

    def table(self, number: int) -> pa.Table:
        """Return the records of a micro-batch, in time order."""
        random = np.random.default_rng(number)
        times = np.sort(random.integers(0, self.seconds * 10**6, self.records)) + START + number * self.seconds * 10**6
        columns = {"key": random.integers(0, self.keys, self.records), "v": random.integers(0, 1000, self.records)}
        return pa.table(columns | {"ts": pa.array(times, pa.timestamp("us", "UTC"))})


MINUTES = hopping("10 minutes", "1 minute")
CASES = (
    Case(1000, 1000, 6, MINUTES),
    Case(1000, 1000, 60, MINUTES),
    Case(1_000_000, 1000, 60, MINUTES),
    Case(400_000, 300_000, 6, MINUTES),
    Case(400_000, 300_000, 60, MINUTES),
    Case(300_000, 10_000, 3600, hopping("1 hour", "1 minute")),
    Case(400_000, 20_000, 60, MINUTES),
)
"""Few records without and with closing windows; many records; many keys without and with closing windows; many rows;
many of several things at once. What a case has many of must take longer than the noise, a twentieth of a second.
"""


def counted(case: Case, plan: Plan, cores: int) -> dict[str, float]:
    """Return the multipliers of the coefficients for a micro-batch of a case."""
    return plan.at(
        keys=case.keys,
        records_per_second=case.records / case.seconds,
        cores=cores,
        trigger=f"{case.seconds} seconds",
        coefficients=SHIPPED,
    ).counts


def run(case: Case, spark: SparkSession, folder: Path) -> tuple[Plan, float]:
    """Return the plan of a case, and the median seconds of its steady micro-batches."""
    cores = spark.sparkContext.defaultParallelism
    for number in range(MICRO_BATCHES):
        table = case.table(number)
        for part in range(cores):
            path = folder / f"{number:03d}-{part:03d}.parquet"
            pq.write_table(table.take(np.arange(part, len(table), cores)), path)
            os.utime(path, (1_000_000_000 + number,) * 2)  # the file source orders files by modification time
    reader = spark.readStream.schema("key bigint, v bigint, ts timestamp").option("maxFilesPerTrigger", cores)
    stream = reader.parquet(str(folder)).withWatermark("ts", "5 seconds")
    windowed, results = group_by(stream, "key").window(case.window, time="ts"), results_of(["count()", "total=sum(v)"])
    with workspace() as checkpoint:
        writer = windowed.aggregate(**results).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        took = [each["durationMs"]["triggerExecution"] / 1000 for each in query.recentProgress if each["numInputRows"]]
    return windowed.plan(**results), statistics.median(took[UNSTEADY:])


def in_process() -> dict[str, float]:
    """Return what is measured without Spark: stored bytes per byte of partials, and the bytes of a worker."""
    window = hopping("1 hour", "1 minute")
    kernels = kernel("records", C.count().resolve(())), kernel("total", C.sum("v").resolve(("bigint",)))
    shape = Shape(window.family, (Field("key", "bigint"),), kernels)
    trees = tuple(choose(each, shape.family) for each in shape.kernels)
    keys, store, random = 2000, MemoryStore(), np.random.default_rng(0)
    names = pa.table({"k0": pa.array(range(keys), pa.int64())})
    for minute in range(90):
        index, codes = np.full(3 * keys, START // MINUTE + minute), random.integers(0, keys, 3 * keys)
        block = from_records(shape, index, codes, names, [[], [pa.array(random.integers(0, 1000, 3 * keys))]])
        bucket = SlicedBucket(shape, trees, 0, Fingerprint(), store)
        bucket.accept([block])
        for _ in bucket.close(MicroBatchTime(START + (minute + 1) * MINUTE)):
            pass
    held = sum(map(len, store.pages.values())) + len(store.text or "")
    each = Plan(window, shape, trees, True, 1, 1).state_bytes_per_key
    return {"stored": held / (keys * each), "worker": float(resident())}


def resident() -> int:
    """Return the resident bytes of this process, which has the imports of a worker."""
    fields = Path("/proc/self/statm")
    return int(fields.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if fields.exists() else int(SHIPPED.worker)


def measured(cases: Sequence[Case] = CASES, cores: str = "*") -> Coefficients:
    """Measure the coefficients; starts and stops Spark."""
    own: Mapping[str, Any] = in_process()
    counts, seconds = [], []
    with workspace() as scratch:
        spark = session(scratch, "slicing-calibrate", cores)
        there = spark.sparkContext.defaultParallelism
        try:
            # Each case runs twice, and the second run counts: the first micro-batches of a JVM take twice as long as
            # those of a stream that has run for long.
            for number, case in enumerate((*cases, *cases)):
                folder = scratch / f"case{number}"
                folder.mkdir()
                plan, took = run(case, spark, folder)
                if number >= len(cases):
                    counts.append(counted(case, plan, there))
                    seconds.append(took)
                    say(f"{case.records:,} records of {case.keys:,} keys: {took:.2f} s a micro-batch")
        finally:
            spark.stop()
    machine = f"measured on {there} cores"
    return replace(SHIPPED, machine=machine, **own).fitted(counts, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write and print the coefficients; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m slicing.calibrate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=place(), help="where to write them (default: %(default)s)")
    asked = parser.parse_args(arguments)
    found = measured()
    found.save(asked.output)
    say(f"{found}\nwritten to {asked.output}; `plan(...).at(...)` reads {place()}")
    return 0
