"""`delta=`: the value of a record is further from that of the last firing than a threshold.

::

    delta 4      values of a window     1    4    7    8    3    2
                 compared with               1    1    7    7    7
                 fires                            *              *        7 - 1 and 7 - 2 are more than 4, 7 - 3 is not

The first record of a window is what the next ones are compared with, then the record of each firing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field
from slicing.aggregates.migration_hints import written
from slicing.content.memory import NEVER, Remembered, kernel_of
from slicing.triggers.candidates import Candidates, Memory
from slicing.triggers.condition import Condition
from slicing.triggers.trigger import APART, NUMBERS, MicroBatchTime


@dataclass(frozen=True)
class DeltaMemory(Memory):
    """What is remembered of pairs, with the values of two records: `float64[n]` each, NaN where there is none."""

    reference: Array  # of the last firing, or the first one
    newest: Array  # of the last record

    @property
    def fields(self) -> list[Array]:
        """The fields as they are stored."""
        return [*super().fields, self.reference, self.newest]


def _apart(*_: Any) -> Any:
    raise AssertionError("windows that merge have refused the trigger")


_FIELDS = ("fired bigint", "counted bigint", "since bigint", "reference double", "newest double")
_NOTHING = (0, 0, NEVER, float("nan"), float("nan"))
WITH_VALUES = Remembered(
    "values", kernel_of([Field(*field.split()) for field in _FIELDS], _NOTHING), _NOTHING, DeltaMemory, _apart
)
"""What the conditions of `early` remember together with a condition of values."""
LEFT = 7 / 8
"""Another pass over the values is worth its time if the one before left less than this of them."""


@dataclass(frozen=True)
class ByDelta(Condition):
    """A value of `column`, named or computed, differs from that of the last firing by more than `threshold`.

    Records count in the order of their arrival; null and NaN are left out.
    """

    column: Any
    threshold: float

    memory = WITH_VALUES

    @property
    def asks(self) -> frozenset[str]:
        """The values of new records, of windows that do not merge."""
        return frozenset({NUMBERS, APART})

    @property
    def meaning(self) -> str:
        """When it is true, in a few words."""
        name = f"`{self.column}`" if isinstance(self.column, str) else str(written(self.column))
        return f"{name} differs from its value at the last firing by more than {self.threshold:g}"

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """The pairs with such a record."""
        fired, _, _ = self._walked(pairs, memory)
        return fired

    def noted(self, pairs: Candidates, memory: Memory, own: Array, others: Array) -> Memory:
        """The values to compare with: that of the last record by which a pair fired, or of its newest one."""
        _, reference, newest = self._walked(pairs, memory)
        assert isinstance(memory, DeltaMemory), "it has been asked for"
        return replace(memory, reference=np.where(others, newest, reference), newest=newest)

    def _walked(self, pairs: Candidates, memory: Memory) -> tuple[Array, Array, Array]:
        """What `walked` returns of the pairs, found once: firings change no values of `memory`."""
        assert isinstance(memory, DeltaMemory), "it has been asked for"
        reference, newest = memory.reference, memory.newest
        found: tuple[Array, Array, Array] = pairs.once(
            self, lambda: walked(*pairs.numbers(), reference, newest, self.threshold)
        )
        return found

    def __repr__(self) -> str:
        return f"delta=({written(self.column)}, {self.threshold!r})"


def walked(
    pairs: Array, values: Array, reference: Array, newest: Array, threshold: float
) -> tuple[Array, Array, Array]:
    """Return which pairs have a value that is further from their reference, their references then, and newest values.

    `pairs` says of which pair each value is, in the order of pairs, and of arrival in each. A reference of NaN is
    replaced by the first value. Costs time in proportion to the number of values, whatever the number of firings.
    """
    reference, newest, fired = reference.copy(), newest.copy(), np.zeros(len(reference), dtype=bool)
    heads = np.flatnonzero(np.diff(pairs, prepend=-1))
    newest[pairs[heads]] = values[np.append(heads[1:], len(pairs))[: len(heads)] - 1]
    begins = heads[np.isnan(reference[pairs[heads]])]
    reference[pairs[begins]] = values[begins]
    left, before = np.arange(len(pairs)), math.inf
    # Each pass over the values finds one firing of each pair. Values are walked one by one once passes settle few.
    while len(left) < LEFT * before:
        first, before = _first_far(pairs, values, reference, threshold, left), len(left)
        reference[pairs[first]], fired[pairs[first]] = values[first], True
        last = np.full(len(reference), len(pairs))
        last[pairs[first]] = first
        left = left[left > last[pairs[left]]]
    firing = left[_far(pairs[left], values[left], reference, threshold)]
    reference[pairs[firing]], fired[pairs[firing]] = values[firing], True  # of several the last one
    return fired, reference, newest


def _first_far(pairs: Array, values: Array, reference: Array, threshold: float, left: Array) -> Array:
    """The first one of the values `left` of each pair that is further from its reference."""
    with np.errstate(invalid="ignore", over="ignore"):  # of infinite values
        far: Array = left[np.abs(values[left] - reference[pairs[left]]) > threshold]
    first: Array = far[np.flatnonzero(np.diff(pairs[far], prepend=-1))]
    return first


def _far(pairs: Array, values: Array, reference: Array, threshold: float) -> list[int]:
    """The places of all values that are further from the reference, or from the last one before that was."""
    found, pair, compared = [], -1, math.nan
    for place, (own, value) in enumerate(zip(pairs.tolist(), values.tolist(), strict=True)):
        if own != pair:
            pair, compared = own, float(reference[own])
        if abs(value - compared) > threshold:
            compared = value
            found.append(place)
    return found
