"""Partials that no array of numbers can hold, kept as Python objects for as long as a unit of work runs.

An integer may outgrow 64 bits in memory, where Python goes on with it, and a function may return what is no number at
all, which is refused where it is stored. Such a partial is spilled, and its cell holds a reference: a number of a range
that is kept free for it. A unit of work, such as one micro-batch of a task, ends with `spilling`, and what was spilled
in it is released. Whatever lives longer, as blocks that a process keeps between micro-batches, may hold no references.
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
"""The first reference, as an integer or as the bits of a float, which is a NaN then."""
COUNT = 1 << 31
"""How many references there are."""
MOST = 1 << 20
"""How many partials may be spilled at once in a process."""
_PLAIN = {bool, int, float}


class Spill:
    """The spilled partials of a process by their references; each belongs to the unit of work that spilled it."""

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
        """Return the references in a column of 64 bits, others being -1; None if there are none."""
        if not self.partials or not column.size:
            return None
        marks = column.view(np.int64)
        if int(marks.max()) < FIRST:
            return None
        known = np.fromiter(self.partials, dtype=np.int64, count=len(self.partials))
        references = np.where(np.isin(marks, known), marks, -1)
        return references if (references >= 0).any() else None

    def refers(self, columns: Iterable[NDArray[Any]]) -> bool:
        """Return whether a column of numbers of 64 bits holds a reference."""
        numbers = (column for column in columns if column.dtype in (np.int64, np.float64))
        return bool(self.partials) and any(self.found(column) is not None for column in numbers)

    @contextmanager
    def spilling(self) -> Iterator[None]:
        """Release at the end what was spilled since the beginning."""
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
    """The same for partials that are the same to the bit; None for what is not made of plain numbers."""
    if type(partial) is tuple:
        keys = tuple(map(_key, partial))
        return None if None in keys else keys
    return (type(partial), repr(partial) if type(partial) is float else partial) if type(partial) in _PLAIN else None


SPILL = Spill()
spilling = SPILL.spilling
