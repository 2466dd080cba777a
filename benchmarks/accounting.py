"""The accounting of the state: partials read and written by each strategy, as the engine counts them, beside formulas.

`python -m benchmarks.accounting` prints it; `--spark` runs a small stream of each strategy too, for the calls and bytes
of the state store. One bucket, some hundred keys (so that a slice fills a page), one record of each key per slice and
micro-batch, and the watermark of a micro-batch is the largest time of the one before, as on Spark.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import combinators as C
from slicing import Emission, group_by, hopping, on_update, recent, stripes
from slicing.aggregate import Aggregate
from slicing.assembly import group_length
from slicing.blocks import Shape, encode_keys, from_records
from slicing.costs import Cost, Costs, number
from slicing.eager import EagerBucket, Records
from slicing.emission import ON_CLOSE
from slicing.fingerprint import Fingerprint
from slicing.kernel import kernel
from slicing.kinds import Field
from slicing.pages import MemoryStore, Pages
from slicing.slices import Slicing
from slicing.state import Bucket

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

SECOND = 1_000_000
KEYS = 400
"""So many that the slices which enter in a close fill a page each."""
RATIOS = 12, 60, 360


@dataclass(frozen=True)
class Strategy:
    """A way to get the same results. `held` says whether a process finds the latest slices that it kept.

    `formula` is the proposal's, for a record: reads and writes at R windows per record; None where it has none.
    """

    name: str
    trees: tuple[str, ...]
    emission: Emission = ON_CLOSE
    held: bool = True
    formula: Callable[[int], Cost] | None = None
    grace: int = 0

    def costs(self, slicing: Slicing) -> Costs:
        """What `explain` predicts."""
        return Costs(slicing, frozenset(self.trees), self.emission)


def _eager(ratio: int) -> Cost:
    return Cost(ratio, ratio)


def _slicing(ratio: int) -> Cost:
    return Cost(2 * ratio - 1, 1)


def _suppressed(ratio: int) -> Cost:
    return Cost(1, 1)  # or fewer


STRATEGIES = (
    Strategy("eager, on close", ("eager",), formula=_eager),
    Strategy("eager, on update", ("eager",), on_update(), formula=_eager),
    Strategy("slices, on update", ("two_layer",), on_update(), held=False, formula=_slicing),
    Strategy("slices, on update, latest slices held", ("two_layer",), on_update()),
    Strategy("slices, on close, two-layer", ("two_layer",), formula=_suppressed),
    Strategy("slices, on close, three-layer", ("three_layer",), formula=_suppressed),
    Strategy("slices, on close, recompute", ("recompute",), formula=_suppressed),
)
SKETCHED = "slices, on update, three-layer as sketched"
"""Not implemented: one partial over the older slices is kept, so that a record reads it and its own slice, and writes
its slice; at each advance the older slices are read and that partial is written."""


@dataclass(frozen=True)
class Count:
    """What one key costs on average: each of its records before anything closes, and each close of one window."""

    record: Cost
    window: Cost
    results: float  # rows, windows of a key that go out, per record
    closes: float  # windows of a key that close, per record

    @property
    def per_row(self) -> Cost:
        """All reads and writes, by the rows that went out."""
        return Cost(
            (self.record.reads + self.closes * self.window.reads) / self.results,
            (self.record.writes + self.closes * self.window.writes) / self.results,
        )


class Feed:
    """Micro-batches of one bucket: `step` gives each key a record in some slice, then the watermark is what it is."""

    def __init__(self, strategy: Strategy, slicing: Slicing, keys: int = KEYS):
        self.strategy, self.slicing, self.keys = strategy, slicing, keys
        self.bound = [_sum(tree) for tree in strategy.trees]
        kernels = tuple(kernel(f"r{i}", aggregate) for i, (aggregate, _) in enumerate(self.bound))
        self.shape = Shape(slicing, (Field("key", "bigint"),), kernels)
        self.store, self.batches = MemoryStore(), 0
        self.record, self.window, self.results = Cost(0, 0), Cost(0, 0), 0

    def step(self, slices: Sequence[int], watermark: int) -> int:
        """Records of all keys in some slices, then the close at a watermark in microseconds; returns windows closed.

        What the records alone cost is what the same micro-batch costs if the watermark stays; the rest is the close's.
        """
        if not self.strategy.held:
            recent._kept.clear()  # the next micro-batch runs in another process
        self.batches += 1
        quiet, _ = self._micro_batch(slices, None, self._copy())
        total, closed = self._micro_batch(slices, watermark, self.store)
        self.record += quiet
        self.window += Cost(total.reads - quiet.reads, total.writes - quiet.writes)
        return closed

    def _copy(self) -> MemoryStore:
        store = MemoryStore()
        store.text, store.pages = self.store.text, dict(self.store.pages)
        return store

    def _micro_batch(self, slices: Sequence[int], watermark: int | None, store: MemoryStore) -> tuple[Cost, int]:
        """One micro-batch on a store, as on Spark, and the windows it closes; on a copy it closes none."""
        kept = dict(recent._kept)
        bucket = self._bucket(store)
        before, now = bucket.head.done, 1000 * self.batches  # a micro-batch a second
        bucket.add(self._shipped(slices))
        results = sum(map(len, bucket.close(bucket.head.watermark if watermark is None else watermark // 1000, now)))
        if watermark is None:
            recent._kept.clear()
            recent._kept.update(kept)
        else:
            self.results += results
        return _counts(bucket.pages), bucket.head.done - before

    def forget(self) -> None:
        """Count from here."""
        self.record, self.window, self.results = Cost(0, 0), Cost(0, 0), 0

    def _bucket(self, store: MemoryStore) -> Bucket | EagerBucket:
        trees, more = self.strategy.trees, (self.strategy.grace, Fingerprint(), store, self.strategy.emission)
        return EagerBucket(self.shape, [[0]], *more) if trees == ("eager",) else Bucket(self.shape, trees, *more)

    def _shipped(self, slices: Sequence[int]) -> list[object]:
        places = np.repeat(np.array(slices, dtype=np.int64), self.keys)
        codes, names = encode_keys(pa.table({"k0": np.tile(np.arange(self.keys), len(slices))}))
        if self.strategy.trees == ("eager",):
            values = [pa.array(np.ones(len(places), dtype=np.int64))]
            return [Records(places, self.slicing.slice_start(places), names.take(pa.array(codes)), values)]
        arguments = [[pa.array(np.ones(len(places), dtype=dtype))] for _, dtype in self.bound]
        return [from_records(self.shape, places, codes, names, arguments)]


def count(strategy: Strategy, slicing: Slicing, keys: int | None = None) -> Count:
    """Averages over a steady stretch of a stream, as long as it takes the strategy to be in the same place again."""
    if keys is None:
        # Pages of the eager strategy are of one window whatever their size.
        keys = 20 if "eager" in strategy.trees else KEYS * slicing.per_advance
    feed, n = Feed(strategy, slicing, keys), slicing.per_window
    filled = 2 * n  # slices of the windows that take part
    with _stripes_cut_by_slice():
        feed.step(range(filled), slicing.slice_start(filled - 2))
    steps = _period(strategy, slicing)
    settled = filled + (2 if "eager" in strategy.trees else slicing.stripe + 2) * slicing.per_advance
    closed = 0
    for index in range(filled, settled + steps):
        if index == settled:
            feed.forget()
        closed_now = feed.step([index], int(slicing.slice_start(index - 1)))
        closed += closed_now if index >= settled else 0
    records = steps * keys
    return Count(_per(feed.record, records), _per(feed.window, closed * keys), feed.results / records, closed / steps)


def _period(strategy: Strategy, slicing: Slicing) -> int:
    """Slices after which all repeats: for the three-layer tree a group of stripes, else a few."""
    if "three_layer" in strategy.trees:
        return group_length(slicing) * slicing.stripe * slicing.per_advance
    return 2 * slicing.per_advance


@contextmanager
def _stripes_cut_by_slice() -> Iterator[None]:
    """The first close, of many windows at once, leaves pages as if they had closed one after another."""
    most, stripes.MOST_AT_ONCE = stripes.MOST_AT_ONCE, 1
    try:
        yield
    finally:
        stripes.MOST_AT_ONCE = most


def _sum(tree: str) -> tuple[Aggregate, type]:
    """A sum that the tree is for, and the type of its values."""
    kind, dtype = ("double", np.float64) if tree == "three_layer" else ("bigint", np.int64)
    return C.sum("v").resolve((kind,)), dtype


def _counts(pages: Pages) -> Cost:
    return Cost(pages.read, pages.written)


def _per(cost: Cost, number: float) -> Cost:
    return Cost(cost.reads / number, cost.writes / number)


@dataclass(frozen=True)
class Row:
    """One strategy at one ratio: what the proposal says of a record, what `explain` predicts, what the engine counts.

    Predictions and counts are of a record and of the close of a window.
    """

    strategy: str
    ratio: int
    formula: Cost | None
    predicted: tuple[Cost, Cost]
    counted: Count


def rows(ratios: Sequence[int] = RATIOS) -> list[Row]:
    """The accounting: for each strategy and ratio the costs of a record and of a window that closes."""
    found = []
    for strategy in STRATEGIES:
        for ratio in ratios:
            slicing = Slicing(ratio * SECOND, SECOND)
            costs = strategy.costs(slicing)
            predicted = costs.record_in_order(strategy.held), costs.close(strategy.held)
            formula = strategy.formula(ratio) if strategy.formula else None
            found.append(Row(strategy.name, ratio, formula, predicted, count(strategy, slicing)))
    return found


HEAD = (
    "| strategy | R | record: proposal | predicted | counted | close: predicted | counted | row: counted |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def table(ratios: Sequence[int] = RATIOS) -> str:
    """The accounting as a Markdown table; a cell is partials read / written, a row is a window of a key that goes out.

    The last column has all of it: records and closes, by the rows that went out.
    """
    lines = [HEAD]
    for row in rows(ratios):
        counted = row.counted
        cells = [row.formula, row.predicted[0], counted.record, row.predicted[1], counted.window, counted.per_row]
        lines.append(f"| {row.strategy} | {row.ratio} | " + " | ".join(map(_cell, cells)) + " |")
    for ratio in ratios:
        sketched = f"2 / 1, and {ratio - 1} / 1 at each advance"
        lines.append(f"| {SKETCHED} | {ratio} | {sketched} | - | - | - | - | - |")
    return "\n".join(lines)


def _cell(cost: Cost | None) -> str:
    return "-" if cost is None else f"{number(cost.reads)} / {number(cost.writes)}"


# --- on Spark -------------------------------------------------------------------------------------------------------

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
    """A steady micro-batch of one record of each key, in which one window closes, on Spark: calls of the state store,
    its bytes, and the partials of a key that the engine counts; none for Spark's own `window()`."""

    name: str
    gets: float
    puts: float
    bytes_read: float
    bytes_written: float
    partials: Cost | None
    predicted: Cost | None


def physical(ratio: int = 12, keys: int = 2 * KEYS, names: Sequence[str] = ()) -> list[Physical]:
    """Runs a stream of each strategy, or of those named, and of Spark's `window()`; about half a minute each."""
    slicing = Slicing(ratio * SECOND, SECOND)
    period = group_length(slicing) * slicing.stripe
    batches = 1 + ratio + slicing.stripe + period
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        _write(Path(folder), ratio, batches, keys)
        found = []
        for strategy in (*(each for each in STRATEGIES if each.held), None):
            name = strategy.name if strategy else SPARK
            if not names or name in names:
                progress = _run(strategy, folder, ratio)[:batches][-period:]
                found.append(_averages(name, progress, strategy, slicing, keys))
    return found


SPARK = "Spark `window()`"


def _write(folder: Path, ratio: int, batches: int, keys: int) -> None:
    """A file with the slices of two windows, then one for each slice."""
    for batch in range(batches):
        slices = np.arange(2 * ratio) if batch == 0 else np.array([2 * ratio + batch - 1])
        times = pa.array(np.repeat(START + slices, keys) * SECOND, pa.timestamp("us", "UTC"))
        ones = np.ones(len(times), dtype=np.int64)
        columns = {"key": np.tile(np.arange(keys), len(slices)), "ts": times, "v": ones, "d": ones.astype(np.float64)}
        path = folder / f"part-{batch:05d}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (START + batch, START + batch))  # Spark reads them in this order


def _run(strategy: Strategy | None, folder: str, ratio: int) -> list[Any]:
    """The progress of the micro-batches; two buckets in two partitions."""
    from pyspark.sql import functions as F

    from benchmarks.measure import session

    size, advance = f"{ratio} seconds", "1 second"
    source = session().readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)
    source = source.withWatermark("ts", "0 seconds")
    if strategy is None:
        out = source.groupBy("key", F.window("ts", size, advance)).agg(F.sum("v"))
    else:
        windowed = group_by(source, "key").window(hopping(size, advance), time="ts").buckets(2).emit(strategy.emission)
        column = "d" if "three_layer" in strategy.trees else "v"
        out = windowed.assemble(strategy.trees[0]).aggregate(total=C.sum(column))
    mode = "update" if strategy and strategy.emission != ON_CLOSE else "append"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = out.writeStream.format("noop").outputMode(mode).option("checkpointLocation", checkpoint)
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        return list(running.recentProgress)


def _averages(name: str, progress: list[Any], strategy: Strategy | None, slicing: Slicing, keys: int) -> Physical:
    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    metrics = [each["stateOperators"][0]["customMetrics"] for each in progress]
    figures = {field: mean([float(each[metric]) for each in metrics]) for field, metric in METRICS.items()}
    if strategy is None:
        return Physical(name, **figures, partials=None, predicted=None)
    counts = [next(iter(each["observedMetrics"].values())) for each in progress]
    reads, writes = (mean([each[f"partials_{side}"] / keys for each in counts]) for side in ("read", "written"))
    costs = strategy.costs(slicing)
    predicted = costs.record_in_order(strategy.held) + costs.close(strategy.held)
    return Physical(name, **figures, partials=Cost(reads, writes), predicted=predicted)


PHYSICAL_HEAD = (
    "| strategy | partials of a key, predicted | counted | gets | puts | bytes read | bytes written |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)


def physical_table(found: Sequence[Physical]) -> str:
    """The figures on Spark as a Markdown table, of one micro-batch and all keys."""
    lines = [PHYSICAL_HEAD]
    for each in found:
        partials = [_cell(cost) for cost in (each.predicted, each.partials)]
        calls = [f"{value:,.0f}" for value in (each.gets, each.puts, each.bytes_read, each.bytes_written)]
        lines.append("| " + " | ".join([each.name, *partials, *calls]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the accounting; with `--spark` the calls and bytes of the state store too."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ratio", type=int, action="append", help=f"windows per record; {RATIOS} if left out")
    parser.add_argument("--spark", action="store_true", help="also run a small stream of each strategy on Spark")
    parser.add_argument("--only", action="append", default=[], help="with --spark: the name of a strategy")
    options = parser.parse_args()
    print(table(options.ratio or RATIOS))
    if options.spark:
        from benchmarks.measure import session

        print(f"\n{physical_table(physical(names=options.only))}")
        session().stop()


if __name__ == "__main__":
    main()
