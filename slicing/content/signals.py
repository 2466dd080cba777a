"""Signals: what a condition of a trigger asks of new records, besides their number.

A signal is an int64 of each record, and the least one of the records of a slice and key is shipped::

    records of a slice and key     (12:01, logout) (12:02, view)
    "when"                         0               ABSENT             0: the condition was true of a record
    "first"                        12:01           12:02              12:01: the least event time
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.arrays import Array
from slicing.aggregates.kernels import kernel
from slicing.content.block import Block, Shape, concat
from slicing.content.folding import by_key

WHEN, FIRST = SIGNALS = ("when", "first")
"""Whether the condition of the trigger is true of a record, and the least event time in microseconds."""
ABSENT = int(np.iinfo(np.int64).max)
"""No record sends this signal."""
TRUE = 0
"""The signal of a record of which the condition is true."""


def _least(acc: Any, value: Any) -> Any:
    return np.minimum(acc, value)


_SIGNAL = kernel(
    "signal", Aggregate(lambda: ABSENT, _least, fieldwise(np.minimum), columns=True, laws=False, partial="least bigint")
)


def with_signals(shape: Shape, count: int) -> Shape:
    """The shape of rows of so many signals, of the same slices and keys."""
    return replace(shape, kernels=(_SIGNAL,) * count, same={}, numbers=(), since=())


def together(shape: Shape, names: Sequence[str], blocks: Sequence[Block]) -> Block:
    """All signals that have been shipped, by key and slice; `shape` is that of the results, or of rows like these."""
    signals = with_signals(shape, len(names))
    return by_key(signals, concat(signals, blocks))


def least_between(values: Array, low: Array, high: Array) -> Array:
    """The least value of each range `low` up to but not including `high`, ABSENT for an empty one: `int64[n]`.

    Costs as much as the ranges are long together.
    """
    found = np.full(len(low), ABSENT)
    some = np.flatnonzero(low < high)
    if len(some):
        edges = np.stack([low[some], high[some]], axis=1).ravel()
        found[some] = np.minimum.reduceat(np.append(values, ABSENT), edges)[::2]
    return found


def least_of(values: Array, groups: Array, count: int) -> Array:
    """The least value of each group, ABSENT for one without any: `int64[count]`; rows of other groups are left out."""
    found, some = np.full(count, ABSENT), (groups >= 0) & (groups < count)
    np.minimum.at(found, groups[some], values[some])
    return found
