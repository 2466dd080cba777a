"""The open (key, window) pairs that a trigger chooses from, and its memory of each pair."""

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
    """The memory of pairs: `int64[n]` each. It is committed with the micro-batch, and read by the next one."""

    fired: Array  # the record count of a pair at its last firing
    counted: Array  # the count origin: the record count at which counting began
    since: Array  # when it began to wait: the clock at its first record since the last firing, milliseconds, or NEVER

    @property
    def fields(self) -> list[Array]:
        """Return the fields in the order in which they are stored."""
        return [self.fired, self.counted, self.since]


def _of_merged(parts: Sequence[Array], starts: Array) -> list[Array]:
    """Return the memory of merged sessions: the sums of the counts, and the earliest clock."""
    fired, counted, since = parts
    latest = np.iinfo(np.int64).max
    least = np.minimum.reduceat(np.where(since == NEVER, latest, since), starts)
    added = [np.add.reduceat(field, starts) for field in (fired, counted)]
    return [*added, np.where(least == latest, NEVER, least)]


OF_CONDITIONS = Remembered("memory", MEMORY, (0, 0, NEVER), Memory, _of_merged)
"""The memory of the conditions of `early`."""


@dataclass(frozen=True)
class Extents:
    """The windows of some pairs, `[start, end)` in microseconds, and their keys as codes into `names`: `int64[n]`.

    A window has ended when the watermark is `after` microseconds after its end: 1 for windows that hold their end.
    """

    start: Array
    end: Array
    keys: Array
    names: pa.Table
    after: int = 0


def no_numbers() -> tuple[Array, Array]:
    """Raise AssertionError: the values of new records are asked for, and not there."""
    raise AssertionError("the trigger has not asked for values of records")


def _cannot_purge(chosen: Array) -> Array:
    raise AssertionError("windows that cannot drop records have refused the trigger")


@dataclass(frozen=True)
class Candidates:
    """Some open pairs: `int64[n]` each. `memory` and `of_key` are None if the trigger does not ask for them.

    `of_key` has, for the key of each pair, the record count since counting began; `count_from` sets it. `remember`
    stores a new memory, of the type that the trigger asks for. `panes` returns the pairs that a mask chooses, and
    `extents` returns the windows and keys of all pairs. `purge` drops the records of the pairs that a mask chooses,
    after these have been read, and returns for each pair the value from which `held` counts afterwards. `numbers`
    returns the values of new records, by pair and in order of arrival: the pair of each value, and the values.
    `signals` has the requested signals by name, for the new records of each pair.
    """

    held: Array  # the record count of a pair
    before: Array  # the record count before this micro-batch
    memory: Any
    remember: Callable[[Any], None]
    panes: Callable[[Array], Panes]
    extents: Callable[[], Extents]
    of_key: Array | None = None
    count_from: Callable[[Array], None] = lambda counts: None
    signals: Mapping[str, Array] = field(default_factory=dict)
    purge: Callable[[Array], Array] = _cannot_purge
    numbers: Callable[[], tuple[Array, Array]] = no_numbers
    is_new: Array | bool = False  # which pairs exist since this micro-batch, also without a record
    found: dict[Any, Any] = field(default_factory=dict)  # cached values, by condition

    def once(self, condition: Any, find: Callable[[], Any]) -> Any:
        """Return the value of `find()` for a condition, computed only once."""
        if condition not in self.found:
            self.found[condition] = find()
        return self.found[condition]

    def __len__(self) -> int:
        return len(self.held)


class OpenPairs(Protocol):
    """The open pairs of a bucket that hold records."""

    @property
    def since(self) -> Array:
        """Return the clocks at the first record since the last firing, for all pairs with a memory."""

    def may_end(self, after: int, until: int) -> bool:
        """Whether a window may end after one watermark and by another, in microseconds."""

    def candidates(self, everything: bool) -> Iterator[Candidates]:
        """Yield the pairs with new records, or all pairs."""
