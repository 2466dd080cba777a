"""Edges of a user's class, and the checks that they must pass."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slicing.errors import FunctionFailed, InvalidType, InvalidValue
from slicing.windows.time.edges import AFTER, BEFORE, Array, Edges, elementwise, saturated

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
