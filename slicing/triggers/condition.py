"""The base class of the conditions of an early trigger: the first true condition fires a pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.column_names import written
from slicing.content.memory import Remembered
from slicing.triggers.candidates import OF_CONDITIONS, Candidates, Memory
from slicing.triggers.panes import Panes
from slicing.triggers.trigger import MicroBatchTime, Waiting


@dataclass(frozen=True)
class Condition:
    """A condition under which (key, window) pairs fire early. Printing one shows the arguments of `early`."""

    remembers: ClassVar[bool] = True  # whether it needs the memory of pairs

    counts_keys: ClassVar[bool] = False  # whether it needs the record counts of keys

    by_record: ClassVar[bool] = False  # whether a new record makes it true for the windows that hold the record

    outlasts: ClassVar[bool] = False  # whether pairs that wait for it fire when their window closes

    memory: ClassVar[Remembered] = OF_CONDITIONS  # the kind of memory of pairs

    signal: ClassVar[str] = ""  # the signal of new records that it needs

    @property
    def meanings(self) -> Mapping[str, str]:
        """Return the names under which fields of the memory are stored whose meaning depends on the condition."""
        return {}

    @property
    def asks(self) -> frozenset[str]:
        """Return the questions to the engine, besides open pairs."""
        return frozenset()

    @property
    def interval(self) -> int:
        """Return the processing time that it waits for, in microseconds; 0 if it does not depend on the clock."""
        return 0

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        raise NotImplementedError

    @property
    def alone(self) -> str:
        """Return which windows fire if it is the only condition, and chooses from the waiting pairs (`of_waiting`).

        Empty if it chooses from open pairs with their record counts then, too.
        """
        return ""

    def of_waiting(self, waiting: Waiting, at: MicroBatchTime) -> Panes:
        """Return the waiting pairs for which it is true. Only such a condition has no need of record counts."""
        raise NotImplementedError

    def passes(self, at: MicroBatchTime) -> bool:
        """Whether it is true for all pairs in this micro-batch."""
        return False

    def wakes(self, since: Array, at: MicroBatchTime) -> bool:
        """Whether it may be true for pairs without new records; `since` is as in `Memory`."""
        return False

    def begins(self, pairs: Candidates, at: MicroBatchTime) -> Array | None:
        """Return when pairs with a first record begin to wait: `int64[n]`; None if they wait from the clock on."""
        return None

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """Return for which pairs it is true: `bool[n]`."""
        return np.zeros(len(pairs), dtype=bool)

    def noted(self, pairs: Candidates, memory: Memory, own: Array, others: Array) -> Memory:
        """Return the memory after firings by this condition (`own`) or by others: `bool[n]` each."""
        return memory

    def counted(self, held: Array, counted: Array) -> Array:
        """Return the count origin of pairs that have fired by this condition: `int64[n]`, as in `Memory`."""
        return held

    def left(self, counts: Array, own: Array, others: Array) -> Array:
        """Return the remaining record counts of keys after firings by this condition or by others: `int64[n]`."""
        raise NotImplementedError


@dataclass(frozen=True)
class OfColumn(Condition):
    """A condition that reads a column of records, a name or an expression; `signal` says how it is shuffled."""

    column: Any

    @property
    def text(self) -> str:
        """Return the column as messages show it."""
        return f"`{self.column}`" if isinstance(self.column, str) else str(written(self.column))
