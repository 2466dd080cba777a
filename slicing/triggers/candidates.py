"""Open pairs of key and window that a trigger chooses from, with what it remembers of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Array
from slicing.content.memory import MEMORY, NEVER, Remembered
from slicing.triggers.panes import Panes


@dataclass(frozen=True)
class Memory:
    """What is remembered of pairs: `int64[n]` each. It is committed with the micro-batch, and read by the next one."""

    fired: Array  # how many records a pair held when it fired last
    counted: Array  # how many records it held where counting begins
    since: Array  # when it began to wait: the clock at its first record since, in milliseconds, or NEVER

    @classmethod
    def of_none(cls, count: int) -> Memory:
        """What is remembered of pairs that are new."""
        zeros = np.zeros(count, dtype=np.int64)
        return cls(zeros, zeros, np.full(count, NEVER))

    @property
    def fields(self) -> list[Array]:
        """The fields as they are stored."""
        return [self.fired, self.counted, self.since]


def _of_merged(parts: Sequence[Array], starts: Array) -> list[Array]:
    """Sessions that merge add their counts; the earliest clock holds."""
    fired, counted, since = parts
    latest = np.iinfo(np.int64).max
    least = np.minimum.reduceat(np.where(since == NEVER, latest, since), starts)
    added = [np.add.reduceat(field, starts) for field in (fired, counted)]
    return [*added, np.where(least == latest, NEVER, least)]


OF_CONDITIONS = Remembered("memory", MEMORY, (0, 0, NEVER), Memory, _of_merged)
"""What the conditions of `early` remember."""


@dataclass(frozen=True)
class Extents:
    """The windows of some pairs, `[start, end)` in microseconds, and their keys as codes into `names`: `int64[n]`."""

    start: Array
    end: Array
    keys: Array
    names: pa.Table


def _no_numbers() -> tuple[Array, Array]:
    raise AssertionError("the trigger has not asked for values of records")


def _cannot_purge(chosen: Array) -> Array:
    raise AssertionError("windows that cannot drop records have refused the trigger")


@dataclass(frozen=True)
class Candidates:
    """Some open pairs: `int64[n]` each. `memory` and `of_key` are None where the trigger does not ask for them.

    `of_key` has, for the key of each pair, its records since counting began; `count_from` sets these. `remember` stores
    what is to be remembered, of the type that the trigger asks for. `panes` gives the pairs that a mask chooses, and
    `extents` says which pairs there are. `purge` drops the records of those that a mask chooses, once these have been
    read, and returns for each pair the number that `held` begins with from then on.
    `numbers` gives the values of new records: the pair of each, and the value, by pair and in order of arrival.
    `signals` has those that the trigger asks for, by name, of the new records of each pair.
    """

    held: Array  # how many records a pair holds
    before: Array  # how many of these it held before this micro-batch
    memory: Any
    remember: Callable[[Any], None]
    panes: Callable[[Array], Panes]
    extents: Callable[[], Extents]
    of_key: Array | None = None
    count_from: Callable[[Array], None] = lambda counts: None
    signals: Mapping[str, Array] = field(default_factory=dict)
    purge: Callable[[Array], Array] = _cannot_purge
    numbers: Callable[[], tuple[Array, Array]] = _no_numbers
    found: dict[Any, Any] = field(default_factory=dict)  # what conditions have found out about the pairs

    def once(self, condition: Any, find: Callable[[], Any]) -> Any:
        """Return what a condition finds out about the pairs, which is computed when it is first asked for."""
        if condition not in self.found:
            self.found[condition] = find()
        return self.found[condition]

    def __len__(self) -> int:
        return len(self.held)


class OpenPairs(Protocol):
    """The open pairs of a bucket that hold records."""

    @property
    def since(self) -> Array:
        """The clocks at the first record since the last firing, of all pairs of which one is remembered."""

    def candidates(self, everything: bool) -> Iterator[Candidates]:
        """The pairs with new records, or all of them."""
