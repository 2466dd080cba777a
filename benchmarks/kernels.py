"""Benchmarks of the kernels without Spark: blocks, assembly, buckets and combinators, as `time_` benchmarks of asv.

`python -m benchmarks.kernels` prints the benefit of keeping the latest windows in the memory of the process.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from time import process_time
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import combinators as C
from benchmarks.report.tables import markdown
from combinators.catalogue import CATALOGUE, MORE
from slicing import on_update
from slicing.aggregates.aggregate import EVENT_TIME, Bound
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernels import kernel
from slicing.assembly.assembling import assemble
from slicing.assembly.choice import choose
from slicing.content.block import Shape, encode_keys
from slicing.content.codec import decode_text, encode_text
from slicing.content.folding import fold, from_records
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.errors import InvalidType
from slicing.state import bucket_cache as memory
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import MemoryStore
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.families.even import Even

MINUTE = 60 * 10**6
KINDS = ("bigint", "double", "string")


class Data:
    """A shape with a long key, and random records for it; the windows advance by a minute."""

    def __init__(self, windows: int, bounds: list[Bound], kind: str = "bigint"):
        columns = [["bigint" if name == EVENT_TIME else kind for name in bound.columns] for bound in bounds]
        self.kinds = columns
        kernels = tuple(kernel(f"r{i}", bound.resolve(tuple(columns[i]))) for i, bound in enumerate(bounds))
        self.shape = Shape(Even(windows * MINUTE, MINUTE), (Field("key", "bigint"),), kernels)

    def records(self, count: int, keys: int, slices: range, seed: int = 0) -> tuple[Any, ...]:
        """Return the arguments of `from_records`."""
        random = np.random.default_rng(seed)
        codes, names = encode_keys(pa.table({"k0": pa.chunked_array([random.integers(0, keys, count)])}))
        arguments = [[_values(random, kind, count) for kind in kinds] for kinds in self.kinds]
        times = np.sort(random.integers(slices.start, slices.stop, count))
        return self.shape, times, codes, names, arguments


def _values(random: np.random.Generator, kind: str, count: int) -> pa.Array:
    values = random.integers(0, 1000, count)
    if kind == "string":
        return pa.array([f"value {i}" for i in range(1000)]).take(pa.array(values))
    return pa.array(values).cast(arrow_type(kind))


class _Short:
    """Few rounds in a single process, because there are many benchmarks."""

    rounds = 1
    repeat = (1, 5, 3.0)


class Blocks(_Short):
    """Count and sum over a million records of 10,000 keys in 100 slices: from records to the state and back."""

    params = (["bigint", "double"],)
    param_names = ("sum of",)

    def setup(self, kind: str) -> None:
        """Create records, blocks and pages."""
        data = Data(60, [C.count(), C.sum("v")], kind)
        self.shape, self.records = data.shape, data.records(1_000_000, 10_000, range(100))
        self.block = from_records(*self.records)
        self.overlapping = [from_records(*data.records(100_000, 10_000, range(100), seed)) for seed in range(5)]
        self.following = [
            from_records(*data.records(100_000, 10_000, range(20 * part, 20 * part + 20), part)) for part in range(5)
        ]
        self.text = encode_text(self.shape, self.block)

    def time_from_records(self, kind: str) -> None:
        """Fold records into partials of (slice, key)."""
        from_records(*self.records)

    def time_fold_overlapping(self, kind: str) -> None:
        """Fold five blocks of the same slices."""
        fold(self.shape, self.overlapping)

    def time_fold_in_order(self, kind: str) -> None:
        """Fold five blocks of consecutive slices."""
        fold(self.shape, self.following)

    def time_encode(self, kind: str) -> None:
        """Encode a block as the text of a page."""
        encode_text(self.shape, self.block)

    def time_decode(self, kind: str) -> None:
        """Decode the text of a page to a block."""
        decode_text(self.shape, self.text)


class Assembly(_Short):
    """144 windows of 1,000 keys, assembled from one record per (slice, key), by tree and slices per window."""

    params = (["two_layer", "three_layer", "recompute"], [60, 360, 1440])
    param_names = ("tree", "n")

    def setup(self, tree: str, n: int) -> None:
        """Create a folded block that is long enough for the windows."""
        if tree == "recompute" and n > 60:
            raise NotImplementedError("n - 1 combines a window: minutes")
        data = Data(n, [C.sum("v")])
        self.shape = data.shape
        slices = n + 143
        self.block = from_records(*data.records(1_000 * slices, 1_000, range(slices)))

    def time_assemble(self, tree: str, n: int) -> None:
        """Assemble all windows in the middle, which are complete."""
        for _ in assemble(self.shape, [tree], self.block, 0, 144):
            pass


class Closes(_Short):
    """A close with existing nodes, of one window or of many: count and sum of 500 keys; 0.7 records per key and slice.

    The micro-batch has the records of the slices up to the next close; no slice is skipped.
    """

    params: ClassVar = (["bigint", "double"], [1440], [1, 24, 144])
    param_names = ("sum of", "n", "windows")
    number = 1
    warmup_time = 0.0
    keys = 500

    def setup(self, kind: str, n: int, windows: int) -> None:
        """Create a bucket whose last closes have stored nodes, and the block of the next micro-batch."""
        self.data = Data(n, [C.count(), C.sum("v")], kind)
        self.trees = [choose(kernel, self.data.shape.family) for kernel in self.data.shape.kernels]
        self.store, self.closed, self.next_slice = MemoryStore(), 0, 0
        # A close that skips slices stores no nodes; the next close creates them, and the one after it updates them.
        for closes in (0, 1, windows):
            self._next_block(closes)
            self._close(closes)
        self._next_block(windows)

    def time_close(self, kind: str, n: int, windows: int) -> None:
        """Run the micro-batch, without Spark and its state store."""
        self._close(windows)

    def _next_block(self, closes: int) -> None:
        slices = range(self.next_slice, self.closed + closes + self.data.shape.family.per_window)
        count = int(0.7 * self.keys * len(slices))
        self.block = from_records(*self.data.records(count, self.keys, slices, seed=slices.start))
        self.next_slice = slices.stop

    def _close(self, closes: int) -> None:
        self.closed += closes
        bucket = SlicedBucket(self.data.shape, self.trees, 0, Fingerprint(), self.store)
        bucket.accept([self.block])
        watermark = int(self.data.shape.family.window_end(self.closed - 1))
        assert sum(map(len, bucket.close(MicroBatchTime(watermark)))) >= closes * self.keys


class Newest(_Short):
    """A micro-batch of `on_update(latest_only=True)`: a record of each of 1,000 keys, in the newest of 2n - 1 slices.

    `kept` is what the process still has in memory: the totals of the latest windows, only the slices, or nothing. With
    `moving`, the record of each key is in the next slice, so that all totals are recomputed.
    """

    params: ClassVar = ([60, 1440], ["totals", "slices", "nothing"], [False, True])
    param_names = ("n", "kept", "moving")
    keys = 1000

    def setup(self, n: int, kept: str, moving: bool, column: str = "bigint") -> None:
        """Create a bucket with a record of each key in all slices of a record's windows."""
        self.data = Data(n, [C.sum("v")], column)
        self.trees = [choose(kernel, self.data.shape.family) for kernel in self.data.shape.kernels]
        self.store, self.newest = MemoryStore(), 2 * n - 2
        self._micro_batch(range(self.newest + 1))
        self.time_micro_batch(n, "totals", False)

    def time_micro_batch(self, n: int, kept: str, moving: bool) -> None:
        """Run the micro-batch, without Spark and its state store."""
        if kept == "nothing":
            memory._entries.clear()
        elif kept == "slices":
            for nonce, there in memory._entries.items():
                memory._entries[nonce] = replace(there, derived={})
        self.newest += moving
        self._micro_batch([self.newest])

    def _micro_batch(self, slices: Sequence[int]) -> None:
        codes, names = encode_keys(pa.table({"k0": np.tile(np.arange(self.keys), len(slices))}))
        values = pa.array(np.arange(len(codes))).cast(arrow_type(self.data.kinds[0][0]))
        places = np.repeat(np.array(slices), self.keys)
        bucket = SlicedBucket(self.data.shape, self.trees, 0, Fingerprint(), self.store, on_update(latest_only=True))
        bucket.accept([from_records(self.data.shape, places, codes, names, [[values]])])
        assert sum(map(len, bucket.close(MicroBatchTime(0)))) == self.keys


class Combinators(_Short):
    """Each combinator of the catalogue over 200,000 records of 1,000 keys, on numbers and, if possible, on text."""

    params = ([entry.name for entry in (*CATALOGUE, *MORE)], list(KINDS))
    param_names = ("combinator", "column")

    def setup(self, name: str, kind: str) -> None:
        """Create records and their block."""
        entry = next(entry for entry in (*CATALOGUE, *MORE) if entry.name == name)
        if not entry.accepts(kind):
            raise NotImplementedError(f"{name} takes no {kind}")
        bound = entry.of("v", "v")
        try:
            data = Data(60, [bound], kind)
        except InvalidType as error:  # it orders by the column as well
            raise NotImplementedError(f"{name} takes no {kind}") from error
        aggregate = bound.resolve(tuple(data.kinds[0]))
        self.shape, self.records = data.shape, data.records(200_000, 1_000, range(100))
        self.block = from_records(*self.records)
        self.tree = "two_layer" if aggregate.invert is not None else "three_layer"

    def time_agg(self, name: str, kind: str) -> None:
        """Fold records into partials."""
        from_records(*self.records)

    def time_windows(self, name: str, kind: str) -> None:
        """Assemble windows from partials."""
        for _ in assemble(self.shape, [self.tree], self.block):
            pass


class Sketches(_Short):
    """Sketches of 200 values for each of 1,000 keys, merged pairwise: as columns, and as objects of a library.

    The library is Apache DataSketches, with equally many registers, and counters for equally many values.
    """

    params: ClassVar = (["distinct", "frequent"], ["columns", "datasketches"])
    param_names = ("sketch", "as")
    keys, values = 1000, 200

    def setup(self, name: str, kind: str) -> None:
        """Create two sketches per key."""
        random = np.random.default_rng(0)
        records = [random.integers(0, 1000, (self.keys, self.values)) for _ in range(2)]
        library = kind == "datasketches"
        made = _library_sketches if library else _column_sketches
        self.sketches, self.joined = made(name, records)

    def time_combine(self, name: str, kind: str) -> None:
        """Merge the sketches of all keys, from bytes to bytes."""
        self.joined(*self.sketches)


def _column_sketches(name: str, records: Sequence[Any]) -> tuple[Any, Any]:
    bound = C.approx_count_distinct("v") if name == "distinct" else C.top_k("v", 10, exact=False, error=1 / 512)
    each = kernel("x", bound.resolve(("bigint",)))
    made = [each.fold([v.ravel()], np.arange(len(v)) * v.shape[1], v.size) for v in records]
    return made, each.combine


def _library_sketches(name: str, records: Sequence[Any]) -> tuple[Any, Any]:
    import datasketches

    def distinct(values: Any) -> bytes:
        sketch = datasketches.hll_sketch(9, datasketches.tgt_hll_type.HLL_8)
        for value in values.tolist():
            sketch.update(value)
        return bytes(sketch.serialize_updatable())

    def frequent(values: Any) -> bytes:
        sketch = datasketches.frequent_strings_sketch(10)
        for value in values.tolist():
            sketch.update(str(value))
        return bytes(sketch.serialize())

    def distinct_of_both(a: bytes, b: bytes) -> bytes:
        union = datasketches.hll_union(9)
        union.update(datasketches.hll_sketch.deserialize(a))
        union.update(datasketches.hll_sketch.deserialize(b))
        return bytes(union.get_result(datasketches.tgt_hll_type.HLL_8).serialize_updatable())

    def frequent_of_both(a: bytes, b: bytes) -> bytes:
        sketch = datasketches.frequent_strings_sketch.deserialize(a)
        sketch.merge(datasketches.frequent_strings_sketch.deserialize(b))
        return bytes(sketch.serialize())

    make, join = (distinct, distinct_of_both) if name == "distinct" else (frequent, frequent_of_both)
    made = [[make(values) for values in both] for both in records]
    return made, lambda a, b: [join(x, y) for x, y in zip(a, b, strict=True)]


NEWEST = ("sum of", "n", "newest slice", "totals kept", "slices kept", "nothing kept")


def newest_table(micro_batches: int = 10) -> str:
    """Return processor milliseconds of a micro-batch of `Newest` as a Markdown table, with ratios to "totals"."""
    lines = []
    for kind, n, moving in product(("bigint", "double"), Newest.params[0], Newest.params[2]):
        times = [_newest_milliseconds(micro_batches, n, kept, moving, kind) for kept in Newest.params[1]]
        cells = [f"{times[0]:.1f} ms"] + [f"{time:.1f} ms, {time / times[0]:.1f} times" for time in times[1:]]
        lines.append((kind, str(n), "moves on" if moving else "stays", *cells))
    return markdown(NEWEST, lines)


def _newest_milliseconds(micro_batches: int, n: int, kept: str, moving: bool, kind: str) -> float:
    bench = Newest()
    bench.setup(n, kept, moving, kind)
    start = process_time()
    for _ in range(micro_batches):
        bench.time_micro_batch(n, kept, moving)
    return (process_time() - start) / micro_batches * 1000


if __name__ == "__main__":
    print(newest_table())
