"""Labels of buckets: grouping values that Spark's shuffle spreads evenly over its partitions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from slicing.kernel import Array, limbs, to_numpy


def labels(spark: SparkSession, count: int, partitions: int) -> tuple[int, ...]:
    """`count` integers of which every one of `partitions` gets the same number (or one more) in Spark's shuffle.

    Spark places a group in partition `pmod(hash(value), partitions)`. Integers are tried in order, with Spark's own
    `hash`, until every partition has its share. 0 is always among them: should another number of partitions ask for
    other labels on an old checkpoint, that bucket's header tells before anything is written.
    """
    chosen: list[int] = []
    tried = max(64, 8 * count)
    while len(chosen) < count:
        chosen = _spread(_placed(spark, tried, partitions), count, partitions)
        tried *= 2
    return tuple(chosen)


def _placed(spark: SparkSession, tried: int, partitions: int) -> list[int]:
    # One row of constants: Spark evaluates it while planning, without a job.
    text = f"select transform(sequence(0, {tried - 1}), x -> pmod(hash(x), {partitions})) as placed"
    row = spark.sql(text).first()
    assert row is not None
    return list(row.placed)


def _spread(placed: list[int], count: int, partitions: int) -> list[int]:
    # The partition of label 0 comes first where some have one label more.
    free = {(placed[0] + i) % partitions: len(range(i, count, partitions)) for i in range(partitions)}
    chosen = []
    for label, partition in enumerate(placed):
        if free[partition]:
            free[partition] -= 1
            chosen.append(label)
    return chosen


def labels_of(names: pa.Table, chosen: tuple[int, ...]) -> Array:
    """The label of the bucket of each key, a key being a row of its leaves.

    State depends on it, so the hash is ours: the same on every machine and with every version of Spark and Arrow. It is
    taken of distinct keys, in Python; a hash column made by the JVM for every record cost a fifth of the transfer.
    """
    if len(chosen) == 1:
        return np.full(len(names), chosen[0])
    mixed = np.zeros(len(names), dtype=np.uint64)
    for column in names.columns:
        mixed = _mixed(mixed * _ODD + _hashed(column.combine_chunks()))
    return np.array(chosen)[(mixed >> np.uint64(33)).astype(np.int64) % len(chosen)]


_ODD = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0xD1B54A32D192ED03)
PIECE_BYTES = 1 << 17
"""So many bytes of text are hashed at once: what is made of them stays in the processor's cache."""


def _hashed(array: pa.Array) -> Array:
    """64 bits of each value of one leaf; equal values have equal ones."""
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        hashed = _hashed_bytes(array)
    elif pa.types.is_decimal(array.type):
        low, second, third, top = (limb.astype(np.uint64) for limb in limbs(array))
        hashed = _mixed(low | second << np.uint64(32)) + (third | top << np.uint64(32))
    elif pa.types.is_floating(array.type):
        hashed = to_numpy(array, np.dtype(np.float64)).view(np.uint64)
    else:
        hashed = to_numpy(array, np.dtype(np.int64)).view(np.uint64)
    return np.where(np.asarray(array.is_null()), _NULL, hashed) if array.null_count else hashed


def _hashed_bytes(array: pa.Array) -> Array:
    """A polynomial in an odd base over the bytes of each value: `length + sum((byte + 1) * base ** (place + 1))`.

    All values at once, a piece of their bytes after the other: numbers of 64 bits take many times the bytes.
    """
    array = array.fill_null("" if pa.types.is_string(array.type) else b"")
    ends = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(ends).astype(np.int64)
    hashed = lengths.astype(np.uint64)
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return hashed
    text = np.frombuffer(array.buffers()[2], dtype=np.uint8)[ends[0] : ends[-1]]
    starts = (ends[:-1] - ends[0])[filled].astype(np.int64)
    powers = np.multiply.accumulate(np.full(min(PIECE_BYTES, int(lengths.max())), _ODD))
    for low in range(0, len(text), PIECE_BYTES):
        high = min(low + PIECE_BYTES, len(text))
        first, end = int(np.searchsorted(starts, low, side="right")) - 1, int(np.searchsorted(starts, high))
        begins = np.maximum(starts[first:end], low) - low
        place = np.arange(high - low) - np.repeat(begins, np.diff(begins, append=high - low))
        sums = np.add.reduceat((text[low:high].astype(np.uint64) + np.uint64(1)) * powers[place], begins)
        # The first value of a piece may have begun in one before it.
        sums[:1] *= np.uint64(pow(int(_ODD), max(0, low - int(starts[first])), 1 << 64))
        hashed[filled[first:end]] += sums
    return hashed


def _mixed(bits: Array) -> Array:
    """Every bit of a value spread over all bits; the finalizer of MurmurHash3 (Appleby, public domain)."""
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        bits = (bits ^ bits >> np.uint64(33)) * factor
    spread: Array = bits ^ bits >> np.uint64(33)
    return spread
