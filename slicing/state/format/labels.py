"""Labels of buckets: integers that Spark's shuffle spreads evenly over its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

_SEED = 42
"""The seed of Spark's `hash`, by which the shuffle assigns rows to partitions."""


@cache
def labels(count: int, partitions: int) -> tuple[int, ...]:
    """Return `count` integers that Spark's shuffle distributes evenly: partitions differ by at most one label.

    Spark sends a group to partition `pmod(hash(value), partitions)`. Integers are tried in order until each partition
    has its share. 0 is always a label: if another number of partitions leads to other labels on an old checkpoint, the
    header of bucket 0 reveals it before anything is written.
    """
    chosen: list[int] = []
    tried = max(64, 8 * count)
    while len(chosen) < count:
        chosen = _spread((hash_of(np.arange(tried)) % partitions).tolist(), count, partitions)
        tried *= 2
    return tuple(chosen)


def hash_of(values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return Spark's `hash` of 32-bit integers, Murmur3 (x86, 32 bits), computed here instead of by a server.

    Source: `org.apache.spark.unsafe.hash.Murmur3_x86_32`, `hashInt`.

    >>> hash_of([0, 1, -1]).tolist()
    [933211791, -559580957, -1604776387]
    """
    with np.errstate(over="ignore"):
        mixed = np.asarray(values).astype(np.int32).view(np.uint32) * np.uint32(0xCC9E2D51)
        mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
        found = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        found = found ^ np.uint32(4)  # the length in bytes
        found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        found = found ^ (found >> np.uint32(16))
    return found.view(np.int32).astype(np.int64)


def _rotated(bits: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (bits << np.uint32(by)) | (bits >> np.uint32(32 - by))


def _spread(placed: Sequence[int], count: int, partitions: int) -> list[int]:
    # Where some partitions have one label more, the partition of label 0 is the first of them.
    free = {(placed[0] + i) % partitions: len(range(i, count, partitions)) for i in range(partitions)}
    chosen = []
    for label, partition in enumerate(placed):
        if free[partition]:
            free[partition] -= 1
            chosen.append(label)
    return chosen
