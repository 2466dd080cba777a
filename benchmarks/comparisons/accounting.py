"""The accounting of the state: partials read and written by each strategy, as the engine counts them, with formulas.

`python -m benchmarks.comparisons.accounting` prints it; `accounting_on_spark` has the calls and bytes of the state
store. One bucket, some hundred keys (so that a slice fills a page), one record of each key per slice and micro-batch,
and the watermark of a micro-batch is the largest time of the one before, as on Spark.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import combinators as C
from benchmarks.report import results
from benchmarks.report.tables import markdown
from benchmarks.running.side import CORES
from slicing import Emission, on_update
from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import outer_group_length
from slicing.content.block import Shape, encode_keys
from slicing.content.folding import from_records
from slicing.content.records import Records
from slicing.drawing import number
from slicing.engines.eager.bucket import EagerBucket
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.explain.costs import Cost, Costs
from slicing.state import bucket_cache as memory
from slicing.state import slice_groups
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.pages import Pages
from slicing.state.store import MemoryStore
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.trigger import PAIRS, WAITING, MicroBatchTime
from slicing.windows.families.even import Even

SECOND = 1_000_000
KEYS = 400
"""So many keys that each slice that enters in a close fills a page."""
RATIOS = 12, 60, 360


@dataclass(frozen=True)
class Strategy:
    """A way to compute the same results. `held` says whether the process still has the latest slices in its memory.

    `formula` returns the proposal's reads and writes per record at R windows per record; None if it has none.
    """

    name: str
    trees: tuple[str, ...]
    emission: Emission = ON_CLOSE
    held: bool = True
    formula: Callable[[int], Cost] | None = None
    grace: int = 0

    def costs(self, family: Even) -> Costs:
        """Return the costs that `explain` predicts."""
        return Costs(family, frozenset(self.trees), self.emission)


def record_in_order(costs: Costs, held: bool = False) -> Cost:
    """Return the predicted cost of the first record of the newest slice: later slices are empty, and a window begins.

    Early firings are those of one tick, or of one record. With two slices per advance, the first slice is not the
    last one of its window, so that window has one older slice less.
    """
    n, step = costs.most, costs.step
    cost = Cost(0, 0)
    if costs.eager:
        cost += Cost((n - 1) / step + (n / step if costs.looks else 0), n / step)
    if not costs.sliced:
        return cost + Cost(0, costs.later.writes / step)
    others: float = n  # early firings read the slices after the record has been written
    if not costs.asks & {WAITING, PAIRS}:
        others -= 1 + (step - 1) / 2
    return cost + Cost(others if costs.looks and not held else 0, 1)


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
"""Not implemented. One partial over the older slices is stored, so a record reads it and its own slice, and writes its
slice; at each advance, the older slices are read and that partial is written."""


@dataclass(frozen=True)
class Count:
    """The average cost for one key: per record, before any window closes, and per close of one window."""

    record: Cost
    window: Cost
    results: float  # rows, windows of a key that fire, per record
    closes: float  # windows of a key that close, per record

    @property
    def per_row(self) -> Cost:
        """All reads and writes per emitted row."""
        return Cost(
            (self.record.reads + self.closes * self.window.reads) / self.results,
            (self.record.writes + self.closes * self.window.writes) / self.results,
        )


class Feed:
    """The micro-batches of one bucket: `step` adds a record per key and slice, then sets the watermark."""

    def __init__(self, strategy: Strategy, family: Even, keys: int = KEYS):
        self.strategy, self.family, self.keys = strategy, family, keys
        self.bound = [_sum(tree) for tree in strategy.trees]
        kernels = tuple(kernel(f"r{i}", aggregate) for i, (aggregate, _) in enumerate(self.bound))
        self.shape = Shape(family, (Field("key", "bigint"),), kernels)
        self.store, self.batches = MemoryStore(), 0
        self.record, self.window, self.results = Cost(0, 0), Cost(0, 0), 0

    def step(self, slices: Sequence[int], watermark: int) -> int:
        """Add records of all keys in some slices, then close at a watermark in microseconds; return the windows closed.

        The cost of the records is that of the same micro-batch without a new watermark; the rest is the cost of the
        close.
        """
        if not self.strategy.held:
            memory._entries.clear()  # the next micro-batch runs in another process
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
        """Run one micro-batch on a store, as on Spark; return its cost and how many windows it closes, 0 on a copy."""
        kept = dict(memory._entries)
        bucket = self._bucket(store)
        before, now = bucket.head.families[0].next_to_fire, 1000 * self.batches  # a micro-batch a second
        bucket.accept(self._shipped(slices))
        moment = MicroBatchTime(bucket.head.watermark if watermark is None else watermark, now * 1000)
        results = sum(map(len, bucket.close(moment)))
        if watermark is None:
            memory._entries.clear()
            memory._entries.update(kept)
        else:
            self.results += results
        return _counts(bucket.pages), bucket.head.families[0].next_to_fire - before

    def forget(self) -> None:
        """Reset the counts."""
        self.record, self.window, self.results = Cost(0, 0), Cost(0, 0), 0

    def _bucket(self, store: MemoryStore) -> SlicedBucket | EagerBucket:
        trees, more = self.strategy.trees, (self.strategy.grace, Fingerprint(), store, self.strategy.emission)
        return EagerBucket(self.shape, [[0]], *more) if trees == ("eager",) else SlicedBucket(self.shape, trees, *more)

    def _shipped(self, slices: Sequence[int]) -> list[object]:
        places = np.repeat(np.array(slices, dtype=np.int64), self.keys)
        codes, names = encode_keys(pa.table({"k0": np.tile(np.arange(self.keys), len(slices))}))
        if self.strategy.trees == ("eager",):
            values = [pa.array(np.ones(len(places), dtype=np.int64))]
            return [Records(places, self.family.slice_start(places), names.take(pa.array(codes)), values)]
        arguments = [[pa.array(np.ones(len(places), dtype=dtype))] for _, dtype in self.bound]
        return [from_records(self.shape, places, codes, names, arguments)]


def count(strategy: Strategy, family: Even, keys: int | None = None) -> Count:
    """Return averages over a steady part of a stream that is one period of the strategy long."""
    if keys is None:
        # A page of the eager strategy holds one window, whatever its size.
        keys = 20 if "eager" in strategy.trees else KEYS * family.per_advance
    feed, n = Feed(strategy, family, keys), family.per_window
    filled = 2 * n  # slices of the windows that are counted
    with _slice_groups_cut_by_slice():
        feed.step(range(filled), family.slice_start(filled - 2))
    steps = _period(strategy, family)
    settled = filled + (2 if "eager" in strategy.trees else family.slices_per_group + 2) * family.per_advance
    closed = 0
    for index in range(filled, settled + steps):
        if index == settled:
            feed.forget()
        closed_now = feed.step([index], int(family.slice_start(index - 1)))
        closed += closed_now if index >= settled else 0
    records = steps * keys
    return Count(_per(feed.record, records), _per(feed.window, closed * keys), feed.results / records, closed / steps)


def _period(strategy: Strategy, family: Even) -> int:
    """The number of slices after which all repeats: for the three-layer tree an outer group, else a few slices."""
    if "three_layer" in strategy.trees:
        return outer_group_length(family) * family.slices_per_group * family.per_advance
    return 2 * family.per_advance


@contextmanager
def _slice_groups_cut_by_slice() -> Iterator[None]:
    """Make the first close, of many windows at once, leave the same pages as closes one after another."""
    most, slice_groups.MOST_AT_ONCE = slice_groups.MOST_AT_ONCE, 1
    try:
        yield
    finally:
        slice_groups.MOST_AT_ONCE = most


def _sum(tree: str) -> tuple[Aggregate, type]:
    """A sum for which the tree is chosen, and the numpy type of its values."""
    kind, dtype = ("double", np.float64) if tree == "three_layer" else ("bigint", np.int64)
    return C.sum("v").resolve((kind,)), dtype


def _counts(pages: Pages) -> Cost:
    return Cost(pages.read, pages.written)


def _per(cost: Cost, number: float) -> Cost:
    return Cost(cost.reads / number, cost.writes / number)


@dataclass(frozen=True)
class Row:
    """One strategy at one ratio: the proposal's cost of a record, `explain`'s predictions, the engine's counts.

    Predictions and counts are per record and per close of a window.
    """

    strategy: str
    ratio: int
    formula: Cost | None
    predicted: tuple[Cost, Cost]
    counted: Count


def rows(ratios: Sequence[int] = RATIOS) -> list[Row]:
    """Return the accounting: for each strategy and ratio, the costs of a record and of a closing window."""
    found = []
    for strategy in STRATEGIES:
        for ratio in ratios:
            family = Even(ratio * SECOND, SECOND)
            costs = strategy.costs(family)
            predicted = record_in_order(costs, strategy.held), costs.close(strategy.held)
            formula = strategy.formula(ratio) if strategy.formula else None
            found.append(Row(strategy.name, ratio, formula, predicted, count(strategy, family)))
    return found


HEAD = ("strategy", "R", "record: proposal", "predicted", "counted", "close: predicted", "counted", "row: counted")


def table(ratios: Sequence[int] = RATIOS) -> str:
    """Return the accounting as a Markdown table. A cell shows partials read / written.

    The last column has the total of records and closes, per emitted row; a row is a window of a key that fires.
    """
    lines = [(row.strategy, str(row.ratio), *map(cell, _costs(row))) for row in rows(ratios)]
    lines += [(SKETCHED, str(ratio), f"2 / 1, and {ratio - 1} / 1 at each advance", *"-----") for ratio in ratios]
    return markdown(HEAD, lines)


def _costs(row: Row) -> tuple[Cost | None, ...]:
    counted = row.counted
    return (row.formula, row.predicted[0], counted.record, row.predicted[1], counted.window, counted.per_row)


def cell(cost: Cost | None) -> str:
    """Return a cost as "partials read / written"."""
    return "-" if cost is None else f"{number(cost.reads)} / {number(cost.writes)}"


@dataclass(frozen=True)
class Accounting:
    """The benchmark that makes the table for the performance page."""

    name: str = "Accounting"

    def measured(self) -> results.Table:
        """Count the partials and return the table."""
        return results.Table(self.name, table(), results.machine(CORES))


BENCHMARKS = (Accounting(),)


def main() -> None:
    """Print the accounting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ratio", type=int, action="append", help=f"windows per record; {RATIOS} if left out")
    print(table(parser.parse_args().ratio or RATIOS))


if __name__ == "__main__":
    main()
