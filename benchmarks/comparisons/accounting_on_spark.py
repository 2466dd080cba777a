"""The accounting on Spark: calls and bytes of the state store by each strategy, and by Spark's own `window()`.

`python -m benchmarks.comparisons.accounting_on_spark` prints it, and runs a small stream of each.
"""

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import combinators as C
from benchmarks.comparisons.accounting import KEYS, SECOND, STRATEGIES, Strategy, cell, record_in_order
from benchmarks.report import results
from benchmarks.report.tables import markdown
from benchmarks.running.session import session, stop
from benchmarks.running.side import CORES, Settings
from benchmarks.running.streams import noop
from slicing import group_by, hopping
from slicing.assembly.choice import outer_group_length
from slicing.explain.costs import Cost
from slicing.triggers.emission import ON_CLOSE
from slicing.windows.families.even import Even

SCHEMA = "key bigint, ts timestamp, v bigint, d double"
START = 1_700_000_000
METRICS = {
    "gets": "rocksdbGetCount",
    "puts": "rocksdbPutCount",
    "bytes_read": "rocksdbTotalBytesRead",
    "bytes_written": "rocksdbTotalBytesWritten",
}


@dataclass(frozen=True)
class Physical:
    """An average steady micro-batch on Spark, with one record per key and one closing window.

    It has the calls and bytes of the state store, and the partials per key that the engine counts, None for Spark's own
    `window()`."""

    name: str
    gets: float
    puts: float
    bytes_read: float
    bytes_written: float
    partials: Cost | None
    predicted: Cost | None


def physical(ratio: int = 12, keys: int = 2 * KEYS, names: Sequence[str] = ()) -> list[Physical]:
    """Run a stream of each strategy, or of the named ones, and of Spark's `window()`; about half a minute each."""
    family = Even(ratio * SECOND, SECOND)
    batches, period = micro_batches(family)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        write(Path(folder), ratio, batches, keys)
        found = []
        for strategy in (*(each for each in STRATEGIES if each.held), None):
            name = strategy.name if strategy else SPARK
            if not names or name in names:
                progress = _run(strategy, folder, ratio)[:batches][-period:]
                found.append(_averages(name, progress, strategy, family, keys))
    return found


SPARK = "Spark `window()`"


def micro_batches(family: Even) -> tuple[int, int]:
    """Return the number of micro-batches, and how many of them count: the period after which all trees repeat."""
    period = outer_group_length(family) * family.slices_per_group
    return 1 + family.per_window + family.slices_per_group + period, period


def write(folder: Path, ratio: int, batches: int, keys: int) -> None:
    """Write a file with the slices of two windows, then one file per slice."""
    for batch in range(batches):
        slices = np.arange(2 * ratio) if batch == 0 else np.array([2 * ratio + batch - 1])
        times = pa.array(np.repeat(START + slices, keys) * SECOND, pa.timestamp("us", "UTC"))
        ones = np.ones(len(times), dtype=np.int64)
        columns = {"key": np.tile(np.arange(keys), len(slices)), "ts": times, "v": ones, "d": ones.astype(np.float64)}
        path = folder / f"part-{batch:05d}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (START + batch, START + batch))  # Spark reads files in the order of these times


def _run(strategy: Strategy | None, folder: str, ratio: int) -> list[Any]:
    """The progress reports of all micro-batches, with two buckets in two partitions."""
    size, advance = f"{ratio} seconds", "1 second"
    source = session().readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)
    source = source.withWatermark("ts", "0 seconds")
    if strategy is None:
        out = source.groupBy("key", F.window("ts", size, advance)).agg(F.sum("v"))
    else:
        windowed = group_by(source, "key").window(hopping(size, advance), time="ts").buckets(2).emit(strategy.emission)
        column = "d" if "three_layer" in strategy.trees else "v"
        out = windowed.assemble(strategy.trees[0]).aggregate(total=C.sum(column))
    settings = Settings(mode="update" if strategy and strategy.emission != ON_CLOSE else "append")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        running = noop(out, settings, checkpoint).trigger(availableNow=True).start()
        running.awaitTermination()
        return list(running.recentProgress)


def _averages(name: str, progress: list[Any], strategy: Strategy | None, family: Even, keys: int) -> Physical:
    metrics = [each["stateOperators"][0]["customMetrics"] for each in progress]
    figures = {field: fmean([float(each[metric]) for each in metrics]) for field, metric in METRICS.items()}
    if strategy is None:
        return Physical(name, **figures, partials=None, predicted=None)
    counts = [next(iter(each["observedMetrics"].values())) for each in progress]
    reads, writes = (fmean([each[f"partials_{side}"] / keys for each in counts]) for side in ("read", "written"))
    costs = strategy.costs(family)
    predicted = record_in_order(costs, strategy.held) + costs.close(strategy.held)
    return Physical(name, **figures, partials=Cost(reads, writes), predicted=predicted)


HEAD = (
    "strategy",
    "partials of a key, predicted",
    "counted",
    "gets",
    "puts",
    "bytes read",
    "bytes written",
)


def table(found: Sequence[Physical]) -> str:
    """Return the figures as a Markdown table, per micro-batch and for all keys."""
    return markdown(HEAD, map(_line, found))


def _line(each: Physical) -> Sequence[str]:
    calls = (each.gets, each.puts, each.bytes_read, each.bytes_written)
    return (each.name, cell(each.predicted), cell(each.partials), *(f"{value:,.0f}" for value in calls))


@dataclass(frozen=True)
class AccountingOnSpark:
    """The benchmark that makes the table for the performance page."""

    name: str = "Physical"

    def measured(self) -> results.Table:
        """Run a stream of each strategy and return the table."""
        return results.Table(self.name, table(physical()), results.machine(CORES))


BENCHMARKS = (AccountingOnSpark(),)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="the name of a strategy; repeatable")
    print(table(physical(names=parser.parse_args().only)))
    stop()


if __name__ == "__main__":
    main()
