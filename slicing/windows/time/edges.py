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

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slicing.errors import FunctionFailed, InvalidType, InvalidValue
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


YEAR_1, YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last instant of Spark and datetime."""
NAMES = ("every", "listed", "local", "local hours")
"""Reserved first words of specs; the spec of a user's class must begin with another one."""


@dataclass(frozen=True, eq=False)
class Own:
    """Edges of a user's class, checked on creation; outside the years 1 to 9999 they have no edges.

    The user's `count` is therefore called only with instants of those years, and `edge` only with numbers that `count`
    returned for them, except the first. Instances with equal specs are equal. Raises InvalidType if the class lacks a
    method, if its spec is not JSON data or if results are not integers; InvalidValue if edges step back, if `count`
    does not match `edge`, or if results for arrays differ from those for integers; FunctionFailed if a method raises.
    """

    edges: Edges
    _range: tuple[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("edge", "count", "spec"):
            if not callable(getattr(self.edges, name, None)):
                raise InvalidType(f"Edges need methods edge, count and spec; {_name(self.edges)} has no `{name}`.")
        _check_spec(self.edges)
        low, high = (_ask(self.edges, "count", time) for time in (YEAR_1, YEAR_9999))
        object.__setattr__(self, "_range", (low, high))
        _try(self.edges, low, high)

    @elementwise
    def edge(self, number: Array) -> Array:
        """Instant of an edge."""
        low, high = self._range
        return saturated(number, low + 1, high, lambda known: _ask_many(self.edges, "edge", known))

    @elementwise
    def count(self, time: Array) -> Array:
        """Number of the last edge at or before an instant."""
        return _ask_many(self.edges, "count", np.clip(time, YEAR_1, YEAR_9999))

    def spec(self) -> list[Any]:
        """The spec of the user's class."""
        return self.edges.spec()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.spec() == other.spec()

    def __hash__(self) -> int:
        return hash(json.dumps(self.spec()))


def _name(edges: Edges) -> str:
    return f"`{type(edges).__name__}`"


def _check_spec(edges: Edges) -> None:
    """Raise unless the spec of a user's edges is a list of JSON data that begins with a name."""
    try:
        spec = edges.spec()
        plain = json.loads(json.dumps(spec, allow_nan=False)) == spec
    except Exception as error:
        raise InvalidType(f"`spec()` of {_name(edges)} must give plain JSON data; it raised {error!r}.") from error
    if not plain or not isinstance(spec, list) or not spec or not isinstance(spec[0], str):
        raise InvalidType(
            f'`spec()` of {_name(edges)} must be a list of plain JSON data that begins with a name, as ["trading", 1]; '
            f"got {spec!r}."
        )
    if spec[0] in NAMES:
        raise InvalidValue(f"`spec()` of {_name(edges)} must not begin with a name taken here; got {spec[0]!r}.")


def _ask(edges: Edges, name: str, argument: int) -> int:
    """Return the result of a user's method for an integer."""
    try:
        result: Any = getattr(edges, name)(argument)
    except Exception as error:
        raise FunctionFailed(f"`{name}` of {_name(edges)} failed on {argument}: {error!r}.") from error
    if isinstance(result, bool) or not isinstance(result, int | np.integer):
        raise InvalidType(f"`{name}` of {_name(edges)} must give an int for an int; got {result!r} for {argument}.")
    return int(result)


def _ask_many(edges: Edges, name: str, arguments: Array) -> Array:
    """Return the result of a user's method for an array."""
    try:
        result: Any = getattr(edges, name)(arguments)
    except Exception as error:
        raise FunctionFailed(f"`{name}` of {_name(edges)} failed on an int64 array: {error!r}.") from error
    if not isinstance(result, np.ndarray) or result.dtype != np.int64 or result.shape != arguments.shape:
        got = f"{result.dtype} of shape {result.shape}" if isinstance(result, np.ndarray) else type(result).__name__
        raise InvalidType(f"`{name}` of {_name(edges)} must give an int64 array of the shape it was given; got {got}.")
    return result


def _try(edges: Edges, low: int, high: int) -> None:
    """Raise unless a user's edges ascend, `count` matches `edge`, and arrays give the same results as integers."""
    times = np.unique(np.concatenate([[YEAR_1, YEAR_9999], np.linspace(-(1 << 51), 1 << 52, 24).astype(np.int64)]))
    counts = _same(edges, "count", times)
    numbers = np.unique(np.clip(np.add.outer(counts, np.arange(-2, 4)).ravel(), low + 1, high))
    if low >= high:
        return
    instants = _same(edges, "edge", numbers)
    _ascending(edges, "edge", numbers, instants)
    near = np.unique(np.concatenate([times, instants - 1, instants, instants + 1]))
    near = near[(near >= YEAR_1) & (near <= YEAR_9999)]
    counts = _same(edges, "count", near)
    _ascending(edges, "count", near, counts)
    for time, number in zip(near.tolist(), counts.tolist(), strict=True):
        here = BEFORE if number <= low else _ask(edges, "edge", number)
        following = AFTER if number >= high else _ask(edges, "edge", number + 1)
        if not here <= time < following:
            raise InvalidValue(
                f"`count(t)` of {_name(edges)} must be the last edge at or before t; count({time}) is {number}, but "
                f"edges {number} and {number + 1} are {here} and {following}."
            )


def _same(edges: Edges, name: str, arguments: Array) -> Array:
    """Return the result of a user's method for an array, after checking it against each integer."""
    many, single = _ask_many(edges, name, arguments), [_ask(edges, name, one) for one in arguments.tolist()]
    for argument, result, alone in zip(arguments.tolist(), many.tolist(), single, strict=True):
        if result != alone:
            raise InvalidValue(
                f"`{name}` of {_name(edges)} must give the same for arrays and integers; for {argument} it gives "
                f"{result} in an array and {alone} alone."
            )
    return many


def _ascending(edges: Edges, name: str, arguments: Array, results: Array) -> None:
    if (back := np.flatnonzero(results[1:] < results[:-1])).size:
        at = int(back[0])
        raise InvalidValue(
            f"`{name}` of {_name(edges)} must never step back; it gives {results[at]} for {arguments[at]} and "
            f"{results[at + 1]} for {arguments[at + 1]}."
        )
