"""`delta=`: fire when the value of a record differs from the value at the last firing by more than a threshold.

::

    delta 4      values of a window     1    4    7    8    3    2
                 compared with               1    1    7    7    7
                 fires                            *              *        7 - 1 and 7 - 2 are more than 4, 7 - 3 is not

Values are compared with the first record of the window, and after a firing with the record that caused it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.aggregates.fields import Field
from slicing.column_names import text_of, written
from slicing.content.memory import FIELDS, NEVER, Remembered, kernel_of
from slicing.content.signals import NUMBER
from slicing.state.format.column_texts import renumbered
from slicing.triggers.candidates import Candidates, Memory
from slicing.triggers.condition import OfColumn
from slicing.triggers.trigger import NUMBERS, UNMERGED, MicroBatchTime


@dataclass(frozen=True)
class DeltaMemory(Memory):
    """The memory of pairs together with the values of two records: `float64[n]` each, NaN where there is none."""

    reference: Array  # the value at the last firing, or else of the first record
    newest: Array  # the value of the last record

    @property
    def fields(self) -> list[Array]:
        """Return the fields in the order in which they are stored."""
        return [*super().fields, self.reference, self.newest]


def _unmerged(*_: Any) -> Any:
    raise AssertionError("windows that merge have refused the trigger")


_FIELDS = (*FIELDS, Field("reference", "double"), Field("newest", "double"))
_NOTHING = (0, 0, NEVER, float("nan"), float("nan"))
WITH_VALUES = Remembered("values", kernel_of(_FIELDS, _NOTHING), _NOTHING, DeltaMemory, _unmerged)
"""The memory of the conditions of `early`, together with the values for `delta`."""
LEFT = 7 / 8
"""A further pass over the values pays if the last pass left less than this share of them."""


@dataclass(frozen=True)
class ByDelta(OfColumn):
    """True if a value of `column` (a name or an expression) differs from the last fired value by over `threshold`.

    Records are compared in the order of their arrival. Null and NaN are left out.
    """

    threshold: float

    by_record = True
    memory = WITH_VALUES
    name = "delta"
    signals = (NUMBER,)
    asks = frozenset({NUMBERS, UNMERGED})

    @property
    def meanings(self) -> Mapping[str, str]:
        """Return names with the column. Of another column the next record is what later ones are compared with."""
        return {name: f"{name} of {renumbered(text_of(self.column))}" for name in ("reference", "newest")}

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        return f"{self.text} differs from its value at the last firing by more than {self.threshold:g}"

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """Return the pairs with such a record: `bool[n]`."""
        fired, _, _ = self._firings(pairs, memory)
        return fired

    def noted(self, pairs: Candidates, memory: Memory, own: Array, others: Array) -> Memory:
        """Return the memory with new references: the value that fired the pair last.

        If another condition has fired the pair, it is the value of the newest record.
        """
        _, reference, newest = self._firings(pairs, memory)
        assert isinstance(memory, DeltaMemory), "it has been asked for"
        return replace(memory, reference=np.where(others, newest, reference), newest=newest)

    def _firings(self, pairs: Candidates, memory: Memory) -> tuple[Array, Array, Array]:
        """Return the result of `find_firings` for the pairs, computed only once: firings do not change the values."""
        assert isinstance(memory, DeltaMemory), "it has been asked for"
        reference, newest = memory.reference, memory.newest
        found: tuple[Array, Array, Array] = pairs.once(
            self, lambda: find_firings(*pairs.numbers(), reference, newest, self.threshold)
        )
        return found

    def __repr__(self) -> str:
        return f"delta=({written(self.column)}, {self.threshold!r})"


def find_firings(
    pairs: Array, values: Array, reference: Array, newest: Array, threshold: float
) -> tuple[Array, Array, Array]:
    """Return which pairs fire (`bool[n]`), their new references, and their newest values (`float64[n]` each).

    A pair fires if a value differs from its reference by more than `threshold`; that value is the next reference.
    `pairs` has the pair of each value. Values are sorted by pair, and within a pair by arrival. A reference of NaN is
    replaced by the first value. The cost is linear in the number of values, whatever the number of firings.
    """
    reference, newest, fired = reference.copy(), newest.copy(), np.zeros(len(reference), dtype=bool)
    heads = np.flatnonzero(np.diff(pairs, prepend=-1))
    newest[pairs[heads]] = values[np.append(heads[1:], len(pairs))[: len(heads)] - 1]
    begins = heads[np.isnan(reference[pairs[heads]])]
    reference[pairs[begins]] = values[begins]
    left, before = np.arange(len(pairs)), math.inf
    # Each pass over the values finds one firing of each pair. Once a pass settles few values, a loop visits the rest.
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
    """Return the position of the first value of each pair, among `left`, that is too far from its reference."""
    with np.errstate(invalid="ignore", over="ignore"):  # of infinite values
        far: Array = left[np.abs(values[left] - reference[pairs[left]]) > threshold]
    first: Array = far[np.flatnonzero(np.diff(pairs[far], prepend=-1))]
    return first


def _far(pairs: Array, values: Array, reference: Array, threshold: float) -> list[int]:
    """Return the positions of all values that fire, each compared with the last value that fired, or the reference."""
    found, pair, compared = [], -1, math.nan
    for place, (own, value) in enumerate(zip(pairs.tolist(), values.tolist(), strict=True)):
        if own != pair:
            pair, compared = own, float(reference[own])
        if abs(value - compared) > threshold:
            compared = value
            found.append(place)
    return found
