"""The laws of an aggregate as properties: each returns the first counter-example it finds, or None.

Partials are made from the given values by folding random parts of them, the empty one too; the same `seed` makes the
same ones. Values that are hard on the aggregate (extremes, zeros, NaN, what comes in pairs) find more than many do.
"""

from __future__ import annotations

import copy
import datetime as dt
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property, reduce
from typing import Any, TypeAlias, TypedDict, Unpack

import numpy as np

from slicing.aggregate import EVENT_TIME, Aggregate, Bound
from slicing.errors import InvalidValue, ResultOverflow
from slicing.kinds import FLOATS, decimal_of, infer_fields, numpy_type

Record: TypeAlias = tuple[Any, ...]
Law: TypeAlias = Callable[..., "Counterexample | None"]

_STATEMENTS = {
    "purity": "{function} leaves its arguments as they are",
    "elementwise": "{function} of an array is {function} of each of its items",
    "identity": "combine(init(), a) == a == combine(a, init())",
    "singleton": "agg(a, *values) == combine(a, agg(init(), *values))",
    "associativity": "combine(combine(a, b), c) == combine(a, combine(b, c))",
    "commutativity": "combine(a, b) == combine(b, a)",
    "inversion": "invert(combine(a, b), a) == b",
}
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_LONGEST = 6


class Options(TypedDict, total=False):
    """What every law takes besides the aggregate and the values.

    kinds: the kinds of the values, one for each column; inferred from the values if left out.
    seed: of the random choice of partials. rounds: how many choices to try.
    tolerance: how far floats may be apart, relative to the largest one in the same field of arguments and results.
    """

    kinds: Sequence[str]
    seed: int
    rounds: int
    tolerance: float


@dataclass(frozen=True)
class Counterexample:
    """Arguments for which a law does not hold, and the two sides that should be equal."""

    law: str
    arguments: tuple[Any, ...]
    left: Any
    right: Any
    function: str = ""

    def __str__(self) -> str:
        lines = [f"{self.law} does not hold: {_STATEMENTS[self.law].format(function=self.function)}"]
        lines += [f"  {name} = {value!r}" for name, value in zip("abc", self.arguments, strict=False)]
        return "\n".join([*lines, f"  left  = {self.left!r}", f"  right = {self.right!r}"])


def check(aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]) -> Counterexample | None:
    """The first counter-example to any of the laws that concern this aggregate, or None if none is found.

    `values` are records: plain values, or tuples with one value per column. Without values only the empty partial is
    tried. Costs some milliseconds for every ten rounds.

    >>> from slicing import laws
    >>> from slicing.aggregate import Aggregate
    >>> laws.check(Aggregate(lambda: 0, lambda acc, x: acc + x, lambda a, b: a + b, lambda ab, a: ab - a), [1, 2, -5])
    >>> print(laws.check(Aggregate(lambda: 1, lambda acc, x: acc + x, lambda a, b: a + b), [1, 2, -5]))
    identity does not hold: combine(init(), a) == a == combine(a, init())
      a = 1
      left  = 2
      right = 1
    """
    return next((found for law in LAWS if (found := law(aggregate, values, **options))), None)


def purity(aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]) -> Counterexample | None:
    """No function changes its arguments: partials are kept, and values are shared with other aggregates."""
    trial = _Trial.of(aggregate, values, options)
    for name, function, arguments in trial.calls():
        before = copy.deepcopy(arguments)
        trial.call(function, arguments)
        if not trial.same(before, arguments):
            return Counterexample("purity", trial.plain(before), trial.plain(arguments), trial.plain(before), name)
    return None


def elementwise(
    aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]
) -> Counterexample | None:
    """With `columns=True`, a function of arrays of any shape gives in each cell what it gives for that cell alone."""
    trial = _Trial.of(aggregate, values, options)
    if not trial.aggregate.columns:
        return None
    calls: dict[str, tuple[Any, list[Any]]] = {}
    for name, function, arguments in trial.calls():
        calls.setdefault(name, (function, []))[1].append(arguments)
    return next((found for name, (f, many) in calls.items() if (found := _elementwise(trial, name, f, many))), None)


def identity(aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]) -> Counterexample | None:
    """`init()` joined to a partial, on either side, is that partial exactly."""
    trial = _Trial.of(aggregate, values, options)

    def left(a: Any) -> tuple[Any, Any]:
        return trial.combine(trial.empty, a), a

    def right(a: Any) -> tuple[Any, Any]:
        return trial.combine(a, trial.empty), a

    return trial.search("identity", 1, left, exact=True) or trial.search("identity", 1, right, exact=True)


def singleton(aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]) -> Counterexample | None:
    """Adding a record is joining the partial of that record alone.

    With `columns=True`, `agg` is only ever called with `init()`, and only that is tried.
    """
    trial = _Trial.of(aggregate, values, options)
    if trial.aggregate.combine is None:
        return None
    partials = [trial.empty] if trial.aggregate.columns else trial.partials
    for a in partials:
        for record in trial.records:
            left, right = trial.agg(a, record), trial.combine(a, trial.agg(trial.empty, record))
            if not trial.equal(left, right, (a,)):
                return Counterexample("singleton", (trial.plain(a), record), trial.plain(left), trial.plain(right))
    return None


def associativity(
    aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]
) -> Counterexample | None:
    """How partials are grouped when they are joined in order does not matter."""
    trial = _Trial.of(aggregate, values, options)
    combine = trial.combine
    return trial.search("associativity", 3, lambda a, b, c: (combine(combine(a, b), c), combine(a, combine(b, c))))


def commutativity(
    aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]
) -> Counterexample | None:
    """The order in which partials are joined does not matter, unless the aggregate is `ordered`."""
    trial = _Trial.of(aggregate, values, options)
    if trial.aggregate.ordered:
        return None
    return trial.search("commutativity", 2, lambda a, b: (trial.combine(a, b), trial.combine(b, a)))


def inversion(aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]) -> Counterexample | None:
    """Taking the older part away leaves the newer one exactly, if there is an `invert`."""
    trial = _Trial.of(aggregate, values, options)
    if trial.aggregate.invert is None:
        return None
    return trial.search("inversion", 2, lambda a, b: (trial.invert(trial.combine(a, b), a), b), exact=True)


LAWS: tuple[Law, ...] = (purity, elementwise, identity, singleton, associativity, commutativity, inversion)
"""All laws, in the order in which `check` tries them: later ones can fail because an earlier one does not hold."""


@dataclass(frozen=True)
class _Trial:
    """An aggregate with records to try it on. In columns mode a record or partial consists of arrays of one item."""

    aggregate: Aggregate
    records: list[Record]
    columns: tuple[_Column, ...]
    seed: int = 0
    rounds: int = 60
    tolerance: float = 1e-9

    @classmethod
    def of(cls, aggregate: Aggregate | Bound, values: Sequence[Any], options: Options) -> _Trial:
        names = aggregate.columns if isinstance(aggregate, Bound) else None
        rows = [_row(value, names) for value in values]
        kinds = tuple(options.get("kinds") or map(_kind, zip(*rows, strict=True)))
        resolved = aggregate.resolve(kinds) if isinstance(aggregate, Bound) else aggregate
        records = rows if resolved.nulls else [row for row in rows if None not in row]
        columns = tuple(
            _Column(kind, resolved.view, kind in _RANKED and _dictionary(rows, kinds, kind)) for kind in kinds
        )
        rest: Any = {name: value for name, value in options.items() if name != "kinds"}
        return cls(resolved, records, columns, **rest)

    @cached_property
    def empty(self) -> Any:
        value = self.aggregate.init()
        if not self.aggregate.columns:
            return value
        items = value if isinstance(value, tuple) else (value,)
        ranks = self.aggregate.view == "ranks"
        parts = [_array([item], field.kind, ranks) for item, field in zip(items, self.aggregate.fields, strict=True)]
        return tuple(parts) if len(parts) > 1 else parts[0]

    @cached_property
    def partials(self) -> list[Any]:
        """Of no record, of each record alone, and of random parts; the shorter ones first."""
        choice = random.Random(self.seed)
        longest = min(_LONGEST, len(self.records))
        sizes = sorted(choice.randint(0, longest) for _ in range(self.rounds))
        parts = [choice.sample(self.records, size) for size in sizes]
        return [self.empty, *map(self.fold, ([record] for record in self.records)), *map(self.fold, parts)]

    def fold(self, records: Sequence[Record]) -> Any:
        if not self.aggregate.columns:
            return reduce(self.agg, records, self.empty)
        if self.aggregate.combine is None:
            return self.agg(self.empty, records[-1]) if records else self.empty
        return reduce(self.combine, [self.agg(self.empty, record) for record in records], self.empty)

    def agg(self, acc: Any, record: Record) -> Any:
        return self.call(self.aggregate.agg, copy.deepcopy((acc, *self.shown(record))))

    def combine(self, a: Any, b: Any) -> Any:
        return self.call(self.aggregate.combine, copy.deepcopy((a, b)))

    def invert(self, ab: Any, a: Any) -> Any:
        return self.call(self.aggregate.invert, copy.deepcopy((ab, a)))

    def call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    def shown(self, record: Record) -> tuple[Any, ...]:
        """The values of a record as `agg` sees them."""
        if not self.aggregate.columns:
            return record
        return tuple(column.show([item], self.aggregate.nulls) for column, item in zip(self.columns, record, strict=True))

    def chosen(self, count: int) -> Iterator[tuple[Any, ...]]:
        """Choices of `count` partials, those of few records first."""
        choice = random.Random(self.seed + count)
        indices = [tuple(choice.randrange(len(self.partials)) for _ in range(count)) for _ in range(self.rounds)]
        singles = [(index,) * count for index in range(len(self.partials))] if count == 1 else [(0,) * count]
        for places in sorted({*indices, *singles}, key=lambda places: (sum(places), places)):
            yield tuple(self.partials[place] for place in places)

    def search(
        self, law: str, count: int, sides: Callable[..., tuple[Any, Any]], exact: bool = False
    ) -> Counterexample | None:
        """The first choice of `count` partials for which the two sides differ."""
        if self.aggregate.combine is None:
            return None
        for arguments in self.chosen(count):
            left, right = sides(*arguments)
            if not (self.same(left, right) if exact else self.equal(left, right, arguments)):
                return Counterexample(law, self.plain(arguments), self.plain(left), self.plain(right))
        return None

    def calls(self) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
        """Every function with arguments to try it on, as (name, function, fresh arguments)."""
        own = self.aggregate
        for record in self.records:
            yield "agg", own.agg, copy.deepcopy((self.empty, *self.shown(record)))
        for pair in self.chosen(2) if own.combine else ():
            yield "combine", own.combine, copy.deepcopy(pair)
            if own.invert:
                yield "invert", own.invert, copy.deepcopy((self.combine(*pair), pair[0]))
        for partial in self.partials if own.lower else ():
            if self.lowers(partial):
                yield "lower", own.lower, (copy.deepcopy(partial),)

    def lowers(self, partial: Any) -> bool:
        """Whether this partial has a result: that it does not fit its type breaks no law."""
        try:
            self.call(self.aggregate.lower, (copy.deepcopy(partial),))
        except (ResultOverflow, ZeroDivisionError):
            return False
        return True

    def plain(self, value: Any) -> Any:
        """A value with Python's own types instead of arrays of one item."""
        if isinstance(value, tuple):
            return tuple(map(self.plain, value))
        if not (self.aggregate.columns and isinstance(value, np.ndarray)):
            return value
        return value.tolist()[0] if value.shape == (1,) else value.tolist()

    def same(self, left: Any, right: Any) -> bool:
        return _agree(self.plain(left), self.plain(right), lambda x, y: False)

    def equal(self, left: Any, right: Any, arguments: tuple[Any, ...] = ()) -> bool:
        """Equal, or for floats within the tolerance, field by field."""
        sides = [_items(self.plain(side)) for side in (left, right)]
        if len(sides[0]) != len(sides[1]):
            return False
        others = [_items(self.plain(argument)) for argument in arguments]
        return all(
            _agree(x, y, lambda x, y, at=at: self.near(x, y, [other[at] for other in others if at < len(other)]))
            for at, (x, y) in enumerate(zip(*sides, strict=True))
        )

    def near(self, x: float, y: float, others: Sequence[Any]) -> bool:
        sizes = [abs(other) for other in (x, y, *others) if isinstance(other, float) and math.isfinite(other)]
        return math.isfinite(x) and math.isfinite(y) and abs(x - y) <= self.tolerance * max(sizes)


@dataclass(frozen=True)
class _Column:
    """A column of values: how its kind is shown to functions with `columns=True`."""

    kind: str
    view: str
    dictionary: Any = None

    def show(self, values: Sequence[Any], nulls: bool = False) -> Any:
        mask = [value is None for value in values]
        known = [value for value in values if value is not None]
        filled = [value if value is not None else (known or [self._zero()])[0] for value in values]
        if not nulls:
            return self._physical(filled)
        physical = self._physical(filled)
        parts = physical if isinstance(physical, tuple) else (physical,)
        masked = tuple(np.ma.MaskedArray(part, mask=mask) for part in parts)
        return masked if isinstance(physical, tuple) else masked[0]

    def _zero(self) -> Any:
        return self.dictionary[0] if self.dictionary else _ZEROS.get(self.kind, 0)

    def _physical(self, values: list[Any]) -> Any:
        decimal = decimal_of(self.kind)
        if self.view == "limbs" and decimal:
            return _limbs(values, decimal[1])
        if self.view != "ranks":
            return _array(values, self.kind, False)
        return _array([self._rank(value) for value in values], self.kind, True)

    def _rank(self, value: Any) -> Any:
        if self.dictionary:
            return self.dictionary.index(value)
        if isinstance(value, dt.datetime):
            return (value.replace(tzinfo=None) - (value.utcoffset() or dt.timedelta()) - _EPOCH) // _MICROSECOND
        return value.toordinal() - _EPOCH.toordinal() if isinstance(value, dt.date) else value


_ZEROS: dict[str, Any] = {"boolean": False, "float": 0.0, "double": 0.0}


class _Ranked:
    """The kinds that are ranks in a dictionary when seen as ranks."""

    def __contains__(self, kind: object) -> bool:
        return kind in ("string", "binary") or decimal_of(str(kind)) is not None


_RANKED = _Ranked()
