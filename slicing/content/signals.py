"""Signals: values of new records that a condition of a trigger needs, besides the record count.

A signal is an int64 for each record. For each (slice, key), the least signal of the records is shuffled::

    records of a slice and key     (12:01, logout) (12:02, view)
    "when"                         0               ABSENT             0: the condition was true of a record
    "first"                        12:01           12:02              12:01: the least event time

The signal "number" is a double for each record. Its values are not folded: all of them are shuffled, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.arrays import Array
from slicing.aggregates.kernels import kernel
from slicing.content.block import Block, Shape, concat
from slicing.content.folding import by_key
from slicing.content.records import Records

WHEN, FIRST, NUMBER = "when", "first", "number"
ABSENT = int(np.iinfo(np.int64).max)
"""The value of a signal that no record has sent."""
TRUE = 0
"""The signal of a record for which the condition is true."""


@dataclass(frozen=True)
class Signal:
    """A signal: the column that a record has for it, the type of this column, and what is folded, as int64 of records.

    Without `folded` all values of the column are shuffled. A condition reads a column of booleans, or of numbers as
    doubles.
    """

    column: str
    kind: str
    folded: Callable[[pa.Array], pa.Array] | None = None


def _if_true(flags: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(flags, False), TRUE, ABSENT)


SIGNALS = {
    WHEN: Signal("s0", "boolean", _if_true),
    FIRST: Signal("s1", "bigint", lambda times: times),
    NUMBER: Signal("s2", "double"),
}
"""The signals: whether the condition of the trigger is true for the record, the event time in microseconds, and the
number that a condition compares.
"""


def _least(acc: Any, value: Any) -> Any:
    return np.minimum(acc, value)


_SIGNAL = kernel(
    "signal", Aggregate(lambda: ABSENT, _least, fieldwise(np.minimum), columns=True, laws=False, partial="least bigint")
)


def with_signals(shape: Shape, count: int) -> Shape:
    """Return the shape of rows with `count` signals, and the same slices and keys."""
    return replace(shape, kernels=(_SIGNAL,) * count, same={}, numbers=(), since=())


def folded(names: Sequence[str]) -> tuple[str, ...]:
    """Return the signals whose least value alone is shuffled."""
    return tuple(name for name in names if SIGNALS[name].folded)


@dataclass(frozen=True)
class Signals:
    """The signals of the new records of a micro-batch: blocks of the folded ones, which `names` has, and numbers."""

    names: tuple[str, ...] = ()
    blocks: Sequence[Block] = ()
    numbers: Sequence[Records] = ()  # one value for each record, in their order

    def moved(self, change: Callable[[Sequence[Any]], list[Any]]) -> Signals:
        """Return the same signals with `change` applied to their rows."""
        return replace(self, blocks=change(self.blocks), numbers=change(self.numbers))

    def together(self, shape: Shape) -> Block:
        """Return the folded signals, sorted by key and slice; `shape` is that of the results, or alike."""
        signals = with_signals(shape, len(self.names))
        return by_key(signals, concat(signals, self.blocks))


NO_SIGNALS = Signals()


def least_between(values: Array, low: Array, high: Array) -> Array:
    """Return the least value of each range `low` up to but not including `high`, ABSENT if empty: `int64[n]`.

    The cost is linear in the total length of the ranges.
    """
    found = np.full(len(low), ABSENT)
    some = np.flatnonzero(low < high)
    if len(some):
        edges = np.stack([low[some], high[some]], axis=1).ravel()
        found[some] = np.minimum.reduceat(np.append(values, ABSENT), edges)[::2]
    return found


def least_of(values: Array, groups: Array, count: int) -> Array:
    """Return the least value of each group, ABSENT if it is empty: `int64[count]`. Other groups are left out."""
    found, some = np.full(count, ABSENT), (groups >= 0) & (groups < count)
    np.minimum.at(found, groups[some], values[some])
    return found
