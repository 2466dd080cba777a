"""Edges: ascending instants, numbered by all integers; they bound slices and windows. No clocks, no keys, no Spark.

Time is int64 microseconds since the epoch. `edge(i)` is the instant of an edge; `count(t)` is the number of the last
edge at or before an instant, so that for every instant::

    edge(count(t)) <= t < edge(count(t) + 1)

    number       -1       0        1 2      3        edges 1 and 2 are equal: nothing lies between them,
    edge         -|-------|--------||-------|-       yet both keep their number
    count         ... -1 .. 0 ....... 2 .... 3

Numbers continue beyond the limits of int64 instants: an edge before the first instant is `BEFORE`, an edge after the
last is `AFTER`. Nothing happens at these two instants; `count(AFTER)` is finite. Nothing overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slicing.errors import InvalidType, InvalidValue
from slicing.windows.time.slices import Index

Array = NDArray[np.int64]
BEFORE, AFTER = -(1 << 63), (1 << 63) - 1


class Edges(Protocol):
    """An ascending sequence of instants, the same in every process.

    Both methods take a Python int or an int64 array and return the same type. A user's class need only be correct for
    instants from year 1 to year 9999, see `Own`.
    """

    def edge(self, number: Index) -> Index:
        """Instant of an edge, in microseconds."""

    def count(self, time: Index) -> Index:
        """Number of the last edge at or before an instant."""

    def spec(self) -> list[Any]:
        """Return these edges as plain JSON data, equal for equal edges; it is stored in the state header."""


def elementwise(method: Callable[[Any, Array], Array]) -> Callable[[Any, Index], Index]:
    """Let a method of int64 arrays also take a Python int of any size; the result is then an int."""

    def either(self: Any, index: Index) -> Index:
        if isinstance(index, np.ndarray):
            return method(self, index) if index.size else index.astype(np.int64)
        one = np.array([min(max(int(index), BEFORE), AFTER)], np.int64)
        return int(method(self, one)[0])

    either.__doc__ = method.__doc__
    return either


def within(values: Array, low: int, high: int) -> bool:
    """Return whether all values lie in `[low, high]`."""
    return bool(low <= values.min() and values.max() <= high)


def after(number: Array) -> Array:
    """Return the next number; the last number of int64 has no next one and is returned itself."""
    return np.minimum(number, AFTER - 1) + 1


def before(instant: Array) -> Array:
    """Return the microsecond before an instant; for `BEFORE`, `BEFORE` itself."""
    return np.maximum(instant, BEFORE + 1) - 1


def saturated(numbers: Array, low: int, high: int, edge: Callable[[Array], Array]) -> Array:
    """Return the edges of numbers: by `edge` within `[low, high]`, outside of it `BEFORE` and `AFTER`."""
    if within(numbers, low, high):
        return edge(numbers)
    if low > high:
        return np.where(numbers < low, BEFORE, AFTER)
    known = edge(np.clip(numbers, low, high))
    return np.where(numbers < low, BEFORE, np.where(numbers > high, AFTER, known))


@dataclass(frozen=True)
class Every:
    """Edges `offset + i * length`, in closed form.

    `length` is positive, `offset` any integer; both in microseconds. Raises InvalidValue.
    """

    length: int
    offset: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.length <= 1 << 62:
            raise InvalidValue(f"`length` of edges must be positive and below 146,000 years; got {self.length} us.")
        if abs(self.offset) > 1 << 62:
            raise InvalidValue(f"`offset` of edges must lie within 146,000 years of 1970; got {self.offset} us.")

    @elementwise
    def edge(self, number: Array) -> Array:
        """Instant of an edge."""
        low, high = -((self.offset - BEFORE) // self.length), (AFTER - self.offset) // self.length
        # The product may overflow, but the sum wraps back: the edges in [low, high] fit into int64.
        return saturated(number, max(low, BEFORE), min(high, AFTER), lambda known: known * self.length + self.offset)

    @elementwise
    def count(self, time: Array) -> Array:
        """Number of the last edge at or before an instant."""
        if within(time, BEFORE + abs(self.offset), AFTER - abs(self.offset)):
            return (time - self.offset) // self.length
        whole, rest = divmod(self.offset, self.length)
        counted = time // self.length
        passed = time - counted * self.length >= rest
        return np.clip(counted, BEFORE + max(whole, 0), AFTER + min(whole, 0)) - whole - ~passed

    def refines(self, other: Edges) -> bool:
        """Return whether all edges of `other` are edges of this sequence."""
        aligned = isinstance(other, Every) and other.length % self.length == 0
        return aligned and (other.offset - self.offset) % self.length == 0  # type: ignore[attr-defined]

    def spec(self) -> list[Any]:
        """`["every", length, offset]`."""
        return ["every", int(self.length), int(self.offset)]


@dataclass(frozen=True)
class Listed:
    """Edges listed in a table and numbered from 0; there are none before or after them.

    `instants` are in microseconds and must not descend. Raises InvalidValue, InvalidType.
    """

    instants: tuple[int, ...]

    def __init__(self, instants: Iterable[int]) -> None:
        listed = np.asarray(list(instants))
        if not listed.size:
            raise InvalidValue("`instants`: a list of edges is empty. Give at least one instant.")
        if listed.dtype.kind != "i" or listed.ndim != 1:
            raise InvalidType(f"`instants` are microseconds since the epoch as integers; got {listed.dtype} values.")
        object.__setattr__(self, "instants", tuple(listed.tolist()))
        if listed.size > 1 and (steps := np.flatnonzero(listed[1:] < listed[:-1])).size:
            place = int(steps[0]) + 1
            raise InvalidValue(
                f"`instants`: edges never step back; got {listed[place]} after {listed[place - 1]} at place {place}. "
                "Sort them."
            )

    def __reduce__(self) -> tuple[type[Listed], tuple[tuple[int, ...]]]:
        return Listed, (self.instants,)  # without the table that is computed on first use

    @cached_property
    def _table(self) -> Array:
        return np.array(self.instants, np.int64)

    @elementwise
    def edge(self, number: Array) -> Array:
        """Instant of an edge; `BEFORE` and `AFTER` for numbers that are not in the table."""
        return saturated(number, 0, len(self.instants) - 1, lambda known: self._table[known])

    @elementwise
    def count(self, time: Array) -> Array:
        """Number of the last edge at or before an instant, -1 before the first; log(edges) steps."""
        return np.searchsorted(self._table, time, "right") - 1

    def spec(self) -> list[Any]:
        """`["listed", [instants]]`."""
        return ["listed", list(self.instants)]
