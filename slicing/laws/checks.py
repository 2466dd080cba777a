"""Law checks: the laws that windows made of slices rely on, tested on a few partials while the query is built.

`slicing.laws` tests them thoroughly, on values of the user's choice. Here the values are generated, so only certain
violations count. Partials are made by the framework and compared as they are stored; floats have room for rounding. A
function that raises is accepted, because the real values may be different.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import pyarrow as pa

from slicing.aggregates.arrays import Partials, fresh
from slicing.aggregates.kernel import Kernel
from slicing.errors import RowFailure, SlicingError
from slicing.laws.properties import Counterexample, given_values

MOST_CALLS = 200
MOST_SECONDS, LONGEST = 0.02, 0.5
"""The most processor time and the most elapsed time of a law check, in seconds."""
TOLERANCE = {"double": 1e-9, "float": 1e-5}
"""The allowed difference of floats, relative to the largest one in arguments and results."""

RECORDS = ((0,), (2,), (1, 4), (0, 3), (4, 2, 1, 5))
"""The samples that partials are made of, in addition to the partial of no records.

Sample 0 equals 3, 1 is zero, 2 is negative.
"""
_TRIPLES = 25


class _Spent(Exception):
    """The limit of calls or of time is reached."""


def broken_law(kernel: Kernel, arrays: Sequence[pa.Array]) -> Counterexample | None:
    """Return a counter-example to a law that these functions break, None if none is found.

    `arrays` are columns of six samples, and a null as a seventh if `agg` is called for nulls. The laws are identity,
    singleton, associativity, commutativity unless the aggregate is ordered, and inversion. Functions are called at most
    MOST_CALLS times and for at most MOST_SECONDS.
    """
    checks = _LawChecks(kernel, arrays)
    records = list(zip(*(array.to_pylist() for array in arrays), strict=True)) or [()] * 7
    sides: list[tuple[str, tuple[Partials, ...]]] = []
    with suppress(_Spent):
        for law, arguments, left, right in checks.sides():
            if left is not None and right is not None:
                sides.append((law, (left, right, *arguments)))
    stored = checks.stored([partial for _, partials in sides for partial in partials])
    for law, partials in sides:
        known = [found for partial in partials if (found := stored[id(partial)]) is not None]
        if len(known) == len(partials) and not _equal(kernel, known):
            left, right, *arguments = map(_plain, known)
            made_of = [given_values([records[at] for at in checks.made_of[id(partial)]]) for partial in partials[2:]]
            if law == "singleton":  # the second argument is a record; here it is a partial
                arguments[1:], made_of = list(records[checks.made_of[id(partials[3])][0]]), made_of[:1]
            return Counterexample(law, tuple(arguments), left, right, made_of=tuple(made_of))
    return None


Sides = tuple[str, Sequence[Partials], "Partials | None", "Partials | None"]


class _LawChecks:
    """A kernel and partials to test it on, each of one item; None stands for the result of a call that raised."""

    def __init__(self, kernel: Kernel, arrays: Sequence[pa.Array]):
        self.kernel, self.calls = kernel, 0
        self.until = thread_time() + MOST_SECONDS, perf_counter() + LONGEST
        self.values, self.dictionary = kernel.values(arrays)
        self.pairs: dict[tuple[int, int], Partials | None] = {}
        self.partials: list[Partials] = []
        self.made_of: dict[int, Sequence[int]] = {}
        self.nulls = ((6, 0),) if kernel.aggregate.nulls and arrays else ()

    def sides(self) -> Iterator[Sides]:
        """Yield for each law and some arguments the two sides that must be equal."""
        parts = (*RECORDS, *self.nulls)
        folded = [self.fold(records) for records in parts]
        made = [(self.kernel.spread(1), ()), *zip(folded, parts, strict=True)]
        self.partials = [partial for partial, _ in made if partial is not None]
        self.made_of = {id(partial): records for partial, records in made}
        yield from self.identity()
        if not self.kernel.aggregate.columns:
            yield from self.singleton(folded)
        yield from self.associativity()
        if not self.kernel.aggregate.ordered:
            yield from self.commutativity()
        if self.kernel.aggregate.invert is not None:
            yield from self.inversion()

    def identity(self) -> Iterator[Sides]:
        for i, a in enumerate(self.partials):
            yield "identity", [a], self.pair(0, i), a
            yield "identity", [a], self.pair(i, 0), a

    def singleton(self, folded: Sequence[Partials | None]) -> Iterator[Sides]:
        """With `columns=True`, `agg` is only ever called with `init()`, so this law is the identity law."""
        for (record,), alone in zip(RECORDS[:2], folded, strict=False):
            if alone is None:
                continue
            for a in self.partials:
                yield "singleton", [a, alone], self.fold((record,), a), self.call(self.kernel.combine, a, alone)

    def associativity(self) -> Iterator[Sides]:
        some = range(1, len(self.partials))
        for i, j, k in [places for places in product(some, repeat=3) if places[0] != places[2]][::4][:_TRIPLES]:
            arguments = [self.partials[place] for place in (i, j, k)]
            left = self.call(self.kernel.combine, self.pair(i, j), arguments[2])
            yield "associativity", arguments, left, self.call(self.kernel.combine, arguments[0], self.pair(j, k))

    def commutativity(self) -> Iterator[Sides]:
        for i, j in product(range(len(self.partials)), repeat=2):
            if i < j:
                yield "commutativity", [self.partials[i], self.partials[j]], self.pair(i, j), self.pair(j, i)

    def inversion(self) -> Iterator[Sides]:
        for i, j in product(range(len(self.partials)), repeat=2):
            a, b = self.partials[i], self.partials[j]
            yield "inversion", [a, b], self.call(self.kernel.invert, self.pair(i, j), a), b

    def pair(self, i: int, j: int) -> Partials | None:
        """Return two partials combined; each pair is combined only once."""
        if (i, j) not in self.pairs:
            self.pairs[i, j] = self.call(self.kernel.combine, self.partials[i], self.partials[j])
        return self.pairs[i, j]

    def fold(self, records: Sequence[int], onto: Partials | None = None) -> Partials | None:
        """Return the partial of some samples, folded in order."""
        rows = np.array(records)
        values = [tuple(v[rows] for v in value) if isinstance(value, tuple) else value[rows] for value in self.values]

        def folded(*onto: Partials) -> Partials:
            return self.kernel.fold(values, np.array([0]), len(records), *onto)

        return self.call(folded, *(() if onto is None else (onto,)), count=len(records))

    def call(self, function: Callable[..., Partials], *partials: Partials | None, count: int = 1) -> Partials | None:
        """Return a function's result for copies of partials; None if it raises or if an argument is None."""
        if any(partial is None for partial in partials):
            return None
        self.calls += count
        if self.calls > MOST_CALLS or thread_time() > self.until[0] or perf_counter() > self.until[1]:
            raise _Spent
        try:
            return function(*(fresh(partial) for partial in partials if partial is not None))
        except Exception:
            self.calls += 1  # the kernel called it again to find the item at fault
            return None

    def stored(self, partials: Sequence[Partials]) -> dict[int, tuple[Any, ...] | None]:
        """Return the fields of partials after storing and reading them, by `id`; None if they cannot be stored."""
        distinct = list({id(partial): partial for partial in partials}.values())
        if not distinct:
            return {}
        try:
            together = [np.concatenate(columns) for columns in zip(*distinct, strict=True)]
            fields = [_values(array) for array in self.kernel.to_arrow(together, self.dictionary)]
            return dict(zip(map(id, distinct), zip(*fields, strict=True), strict=True))
        except (SlicingError, RowFailure):
            if len(distinct) == 1:
                return {id(distinct[0]): None}
            return {key: found for partial in distinct for key, found in self.stored([partial]).items()}


def _equal(kernel: Kernel, partials: Sequence[Sequence[Any]]) -> bool:
    """Return whether the first two partials are equal; the tolerance of floats depends on the largest of all values."""
    kinds = [field.kind for field in kernel.fields]
    fields = (pair for partial in partials for pair in zip(partial, kinds, strict=True))
    largest = max((abs(x) for x, kind in fields if kind in TOLERANCE and x is not None and math.isfinite(x)), default=0)
    return all(
        x == y or (kind in TOLERANCE and _near(x, y, TOLERANCE[kind] * largest))
        for x, y, kind in zip(*partials[:2], kinds, strict=True)
    )


def near(x: Any, y: Any, kind: str) -> bool:
    """Return whether two values of a field are equal, floats with room for rounding."""
    if kind not in TOLERANCE or x is None or y is None:
        return bool(x == y)
    return x == y or _near(x, y, TOLERANCE[kind] * max(abs(x), abs(y)))


def _near(x: float | None, y: float | None, tolerance: float) -> bool:
    if x is None or y is None:
        return False
    return (math.isnan(x) and math.isnan(y)) or abs(x - y) <= tolerance


def _values(array: pa.Array) -> list[Any]:
    try:
        found: list[Any] = array.to_pylist()
    except (OverflowError, ValueError):
        # Python has no such dates and times; they are compared as numbers instead.
        found = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64()).to_pylist()
    return found


def _plain(stored: tuple[Any, ...]) -> Any:
    return stored[0] if len(stored) == 1 else stored
