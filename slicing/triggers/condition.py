"""The base class of the conditions of an early trigger: the first true condition fires a pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.column_names import written
from slicing.content.memory import Remembered
from slicing.errors import InvalidValue
from slicing.triggers.candidates import OF_CONDITIONS, Candidates, Memory, OpenPairs
from slicing.triggers.panes import Panes
from slicing.triggers.trigger import MicroBatchTime, Waiting


@dataclass(frozen=True)
class Condition:
    """A condition under which (key, window) pairs fire early. Printing one shows the arguments of `early`."""

    remembers: ClassVar[bool] = True  # whether it needs the memory of pairs

    counts_keys: ClassVar[bool] = False  # whether it needs the record counts of keys

    by_record: ClassVar[bool] = False  # whether a new record makes it true for the windows that hold the record

    outlasts: ClassVar[bool] = False  # whether pairs that wait for it fire when their window closes

    without_news: ClassVar[bool] = False  # whether pairs without records since their last firing fire, too

    memory: ClassVar[Remembered] = OF_CONDITIONS  # the kind of memory of pairs

    signals: ClassVar[tuple[str, ...]] = ()  # the signals of new records that it needs

    asks: ClassVar[frozenset[str]] = frozenset()  # the questions to the engine, besides open pairs

    alone: ClassVar[str] = ""
    """Which windows fire if it is the only condition, and chooses from the waiting pairs (`of_waiting`).

    Empty if it chooses from open pairs with their record counts then, too.
    """

    def check_besides(self, other: Condition) -> None:
        """Raise InvalidValue for another condition that would take its place in the memory, or its column."""
        if OF_CONDITIONS not in (self.memory, other.memory):
            why = "a window remembers values for one condition"
        elif isinstance(self, OfColumn) and isinstance(other, OfColumn) and {*self.signals} & {*other.signals}:
            why = "one column can be read for a signal, and both read one"
        else:
            return
        raise InvalidValue(f"{self!r} and {other!r} exclude each other: {why}. Leave out one of them.")

    @property
    def meanings(self) -> Mapping[str, str]:
        """Return the names under which fields of the memory are stored whose meaning depends on the condition."""
        return {}

    @property
    def interval(self) -> int:
        """Return the processing time that it waits for, in microseconds; 0 if it does not depend on the clock."""
        return 0

    @property
    def meaning(self) -> str:
        """Return the condition in a few words."""
        raise NotImplementedError

    def of_waiting(self, waiting: Waiting, at: MicroBatchTime) -> Panes:
        """Return the waiting pairs for which it is true. Only such a condition has no need of record counts."""
        raise NotImplementedError

    def passes(self, at: MicroBatchTime) -> bool:
        """Whether it is true for all pairs in this micro-batch."""
        return False

    def wakes(self, pairs: OpenPairs, at: MicroBatchTime) -> bool:
        """Whether it may be true for pairs without new records."""
        return False

    def begins(self, pairs: Candidates, at: MicroBatchTime) -> Array | None:
        """Return when pairs with a first record begin to wait: `int64[n]`; None if they wait from the clock on."""
        return None

    def due(self, pairs: Candidates, memory: Memory, at: MicroBatchTime) -> Array:
        """Return for which pairs it is true: `bool[n]`."""
        return np.zeros(len(pairs), dtype=bool)

    def kinds(self, pairs: Candidates, at: MicroBatchTime) -> Mapping[str, Array] | None:
        """Return which pairs are of each kind if they fire, `bool[n]`; None if it does not tell kinds apart."""
        return None

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
    """A condition that reads a column of records, a name or an expression; `signals` say how it is shuffled."""

    column: Any

    name: ClassVar[str]  # the argument of `early`

    @property
    def text(self) -> str:
        """Return the column as messages show it."""
        return f"`{self.column}`" if isinstance(self.column, str) else str(written(self.column))
