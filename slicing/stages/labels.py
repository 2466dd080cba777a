"""The label of the bucket that a key belongs to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.hashing import hashes


def labels_of(names: pa.Table, chosen: tuple[int, ...]) -> Array:
    """Return the label of the bucket of each key, from the labels of all buckets (`chosen`): `int64[n]`.

    A key is a row of its leaves. State depends on the hash, so it is our own: the same on every machine and with every
    version of Spark and Arrow. Python computes it for distinct keys only; a hash column made by the JVM for every
    record cost a fifth of the transfer.
    """
    if len(chosen) == 1:
        return np.full(len(names), chosen[0])
    return np.array(chosen)[(hashes(names) >> np.uint64(33)).astype(np.int64) % len(chosen)]
