"""Partials that do not fit into arrays of numbers, kept as Python objects until the end of a unit of work.

An integer may exceed 64 bits in memory, where Python continues with it. A function may also return a value that is not
a number, which is refused when it is stored. Such a partial is spilled, and its cell holds a reference: a number from a
reserved range. A unit of work, for example one micro-batch of a task, runs inside `spilling`, which releases its
spilled partials at the end. Data that live longer must not hold references, for example blocks that a process keeps
between micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicing.errors import TooLarge

FIRST = 0x7FFC_5E1F_0000_0000
"""The first reference, as an integer; as the bits of a float it is a NaN."""
COUNT = 1 << 31
"""The number of references."""
MOST = 1 << 20
"""The maximum number of spilled partials in a process at a time."""
_PLAIN = {bool, int, float}


class Spill:
    """The spilled partials of a process by reference; each belongs to the unit of work that spilled it."""

    def __init__(self) -> None:
        self.partials: dict[int, Any] = {}
        self._units: list[dict[Any, int]] = [{}]
        self._numbers = count()
        self._lock = Lock()

    def put(self, partial: Any) -> int:
        """Return the reference of a partial; equal numbers of a unit share one. Raises TooLarge."""
        key = _key(partial)
        with self._lock:
            known = self._units[-1]
            if key in known:
                return known[key]
            if len(self.partials) >= MOST:
                raise TooLarge(
                    f"at most {MOST} partials at a time may be other than numbers of their fields' types; "
                    f"one more was returned: {type(partial).__name__}. Return numbers that fit into 64 bits, or write "
                    "the functions for single rows with `columns=False`."
                )
            reference = next(self._free())
            self.partials[reference] = partial
            known[reference if key is None else key] = reference
            return reference

    def _free(self) -> Iterator[int]:
        numbers = (FIRST + number % COUNT for number in self._numbers)
        return (reference for reference in numbers if reference not in self.partials)

    def found(self, column: NDArray[Any]) -> NDArray[Any] | None:
        """Return the references in a column of 64 bits, with -1 in other cells; None if there are none."""
        if not self.partials or not column.size:
            return None
        marks = column.view(np.int64)
        if int(marks.max()) < FIRST:
            return None
        known = np.fromiter(self.partials, dtype=np.int64, count=len(self.partials))
        references = np.where(np.isin(marks, known), marks, -1)
        return references if (references >= 0).any() else None

    def refers(self, columns: Iterable[NDArray[Any]]) -> bool:
        """Return whether any column of 64-bit numbers holds a reference."""
        numbers = (column for column in columns if column.dtype in (np.int64, np.float64))
        return bool(self.partials) and any(self.found(column) is not None for column in numbers)

    @contextmanager
    def spilling(self) -> Iterator[None]:
        """Release, at the end, the partials that were spilled inside."""
        unit: dict[Any, int] = {}
        self._units.append(unit)
        try:
            yield
        finally:
            with self._lock:
                self._units = [each for each in self._units if each is not unit]
                for reference in unit.values():
                    del self.partials[reference]


def _key(partial: Any) -> Any:
    """Return a key that is equal for partials with equal bits; None for partials of other than plain numbers."""
    if type(partial) is tuple:
        keys = tuple(map(_key, partial))
        return None if None in keys else keys
    return (type(partial), repr(partial) if type(partial) is float else partial) if type(partial) in _PLAIN else None


SPILL = Spill()
spilling = SPILL.spilling
