"""The laws of an aggregate as properties: each returns the first counter-example it finds, or None.

Partials are made by folding random parts of the given values, including no values; the same `seed` makes the same
partials. Difficult values (extremes, zeros, NaN, pairs of equal values) find more violations than many values. The laws
concern partials that can occur. They do not test whether a result is correct; that needs a reference.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice, zip_longest
from typing import Any, NamedTuple, TypeAlias, TypedDict, Unpack

import numpy as np

from slicing.aggregates.aggregate import Aggregate, Bound
from slicing.aggregates.fields import infer_fields
from slicing.errors import InvalidValue, excerpt, shortened
from slicing.laws.values import (
    FLOAT,
    Record,
    alike,
    array_of,
    as_arrays,
    difference,
    leaves_of,
    listed,
    mapped,
    plain_items,
    plain_value,
    quietly,
    stack_of,
    unshared,
)

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
_LONGEST = 6


class Options(TypedDict, total=False):
    """The options of every law, in addition to the aggregate and the values.

    kinds: the kinds of the values, one per column; inferred from the values by default.
    seed: the seed of the random choice of partials. rounds: the number of choices to try.
    tolerance: the allowed difference of floats, relative to the largest one in the same field of arguments and results.
    """

    kinds: Sequence[str]
    seed: int
    rounds: int
    tolerance: float


@dataclass(frozen=True)
class Counterexample:
    """Arguments for which a law does not hold, and the two sides that should be equal.

    `made_of` are the values that the first arguments were made of, by argument; it is empty if they are not partials.
    """

    law: str
    arguments: tuple[Any, ...]
    left: Any
    right: Any
    function: str = ""
    made_of: tuple[tuple[Any, ...], ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.law} does not hold: {_STATEMENTS[self.law].format(function=self.function)}"]
        names = ("a", *("value",) * len(self.arguments)) if self.law == "singleton" else "abc"
        made = zip_longest(names, self.arguments, map(_made_of, self.made_of), fillvalue="")
        lines += [f"  {name} = {excerpt(value)}{of}" for name, value, of in islice(made, len(self.arguments))]
        lines += [f"  left  = {excerpt(self.left)}", f"  right = {excerpt(self.right)}"]
        place = difference(self.left, self.right)
        return "\n".join([*lines, f"  first difference at {place}"] if place else lines)


def _made_of(values: tuple[Any, ...]) -> str:
    if not values:
        return ", made of no values"
    if () in values:  # of an aggregate without columns
        return f", made of {len(values)} records"
    return f", made of values ({shortened(', '.join(map(repr, values)))})"


def check(aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]) -> Counterexample | None:
    """Return the first counter-example to any law that applies to this aggregate, or None if none is found.

    `values` are records: plain values, or tuples with one value per column. Without values only the empty partial is
    tested. Cost: about 0.1 s with the default of 60 rounds; each round calls every function of the aggregate. Raises
    InvalidValue for tuples of another length, InvalidType for values of an unknown type.

    >>> from slicing import laws
    >>> from slicing.aggregates.aggregate import Aggregate
    >>> laws.check(Aggregate(lambda: 0, lambda acc, x: acc + x, lambda a, b: a + b, lambda ab, a: ab - a), [1, 2, -5])
    >>> print(laws.check(Aggregate(lambda: 1, lambda acc, x: acc + x, lambda a, b: a + b), [1, 2, -5]))
    identity does not hold: combine(init(), a) == a == combine(a, init())
      a = 1, made of no values
      left  = 2
      right = 1
    """
    return next((found for law in LAWS if (found := law(aggregate, values, **options))), None)


def purity(aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]) -> Counterexample | None:
    """Return a call that changes its arguments, or None: partials are stored, and values are shared.

    Only `agg` may change its partial, since no other code has a reference to it.

    >>> from slicing.aggregates.aggregate import Aggregate
    >>> in_place = Aggregate(lambda: 0, lambda acc, x: acc + x, lambda a, b: np.add(a, b, out=a), columns=True)
    >>> print(purity(in_place, [1, 2]).function)
    combine
    """
    inputs = _LawInputs.of(aggregate, values, options)
    for name, function, arguments, parts in inputs.calls():
        before = unshared(arguments)
        quietly(function, arguments)
        kept = slice(1, None) if name == "agg" else slice(None)
        if not alike(plain_value(before[kept]), plain_value(arguments[kept])):
            return inputs.counterexample("purity", before, arguments[kept], before[kept], parts, name)
    return None


def elementwise(
    aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]
) -> Counterexample | None:
    """Return arrays for which a function with `columns=True` differs from its result for one cell, or None.

    >>> from slicing.aggregates.aggregate import Aggregate
    >>> first = Aggregate(lambda: 0, lambda acc, x: acc + x.flat[0], np.add, columns=True)
    >>> print(elementwise(first, [1, 2]).function)
    agg
    """
    inputs = _LawInputs.of(aggregate, values, options)
    if not inputs.aggregate.columns:
        return None
    calls: dict[str, list[_Call]] = {}
    for call in inputs.calls():
        calls.setdefault(call.name, []).append(call)
    return next((found for of_one in calls.values() if (found := inputs.on_arrays(of_one))), None)


def identity(aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]) -> Counterexample | None:
    """Return a partial that changes when it is combined with `init()` on either side, or None.

    >>> from slicing.aggregates.aggregate import Aggregate
    >>> identity(Aggregate(lambda: 1, lambda acc, x: acc + x, lambda a, b: a + b), [1]).law
    'identity'
    """
    inputs = _LawInputs.of(aggregate, values, options)

    def left(a: Any) -> tuple[Any, Any]:
        return inputs.combine(inputs.empty, a), a

    def right(a: Any) -> tuple[Any, Any]:
        return inputs.combine(a, inputs.empty), a

    return inputs.search("identity", 1, left, exact=True) or inputs.search("identity", 1, right, exact=True)


def singleton(aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]) -> Counterexample | None:
    """Return a partial and a record for which `agg` differs from `combine` with the record's own partial, or None.

    With `columns=True`, `agg` is only ever called with `init()`, and only that call is tested.

    >>> from slicing.aggregates.aggregate import Aggregate
    >>> singleton(Aggregate(lambda: 0, lambda acc, x: acc + 2 * x, lambda a, b: a + b // 2), [1, 2]).law
    'singleton'
    """
    inputs = _LawInputs.of(aggregate, values, options)
    if inputs.aggregate.combine is None:
        return None
    for place, a in enumerate(inputs.partials[:1] if inputs.aggregate.columns else inputs.partials):
        for record in inputs.records:
            left, right = inputs.agg(a, record), inputs.combine(a, inputs.agg(inputs.empty, record))
            if not inputs.equal(left, right, (a,)):
                return inputs.counterexample("singleton", (a, *record), left, right, (inputs.parts[place],))
    return None


def associativity(
    aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]
) -> Counterexample | None:
    """Return three partials whose result depends on the grouping of `combine`, or None.

    An `approximate` aggregate is not tested.

    >>> from slicing.aggregates.aggregate import Aggregate
    >>> associativity(Aggregate(lambda: 0, lambda acc, x: acc - x, lambda a, b: a - b), [1, 2]).law
    'associativity'
    """
    inputs = _LawInputs.of(aggregate, values, options)
    if inputs.aggregate.approximate:
        return None
    combine = inputs.combine
    return inputs.search("associativity", 3, lambda a, b, c: (combine(combine(a, b), c), combine(a, combine(b, c))))


def commutativity(
    aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]
) -> Counterexample | None:
    """Return two partials whose order in `combine` matters, or None.

    An `ordered` or `approximate` aggregate is not tested.

    >>> from slicing.aggregates.aggregate import Aggregate
    >>> commutativity(Aggregate(lambda: "", lambda acc, x: acc + x, lambda a, b: a + b), ["a", "b"]).law
    'commutativity'
    """
    inputs = _LawInputs.of(aggregate, values, options)
    if inputs.aggregate.ordered or inputs.aggregate.approximate:
        return None
    return inputs.search("commutativity", 2, lambda a, b: (inputs.combine(a, b), inputs.combine(b, a)))


def inversion(aggregate: Aggregate | Bound, values: Sequence[Any], **options: Unpack[Options]) -> Counterexample | None:
    """Return two partials where `invert` does not restore the newer one exactly, or None.

    An aggregate without `invert` is not tested.

    >>> from slicing.aggregates.aggregate import Aggregate
    >>> floats = Aggregate(lambda: 0, lambda acc, x: acc + x, lambda a, b: a + b, lambda ab, a: ab - a - 1)
    >>> inversion(floats, [1, 2]).law
    'inversion'
    """
    inputs = _LawInputs.of(aggregate, values, options)
    if inputs.aggregate.invert is None:
        return None
    return inputs.search("inversion", 2, lambda a, b: (inputs.invert(inputs.combine(a, b), a), b), exact=True)


LAWS: tuple[Law, ...] = (purity, elementwise, identity, singleton, associativity, commutativity, inversion)
"""All laws, in the order of `check`. A law can fail because an earlier one does not hold."""


Part: TypeAlias = Sequence[int]
"""The positions of some of the records."""


class _Call(NamedTuple):
    """A call to test; its first arguments are the partials of `parts`."""

    name: str
    function: Any
    arguments: tuple[Any, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class _LawInputs:
    """An aggregate and records to test it on. With `columns=True`, records and partials are arrays of one item."""

    aggregate: Aggregate
    records: list[Record]
    given: list[Record]
    seed: int = 0
    rounds: int = 60
    tolerance: float = 1e-9

    @classmethod
    def of(cls, aggregate: Aggregate | Bound, values: Sequence[Any], options: Options) -> _LawInputs:
        names = aggregate.columns if isinstance(aggregate, Bound) else None
        rows = [_row(value, names) for value in values]
        kinds = tuple(options.get("kinds") or map(_kind, zip(*rows, strict=True)))
        resolved = aggregate.resolve(_checked(kinds, names)) if isinstance(aggregate, Bound) else aggregate
        given = records = rows if resolved.nulls else [row for row in rows if None not in row]
        if resolved.columns and kinds and records:
            records = as_arrays(records, kinds, names or ("",) * len(kinds), resolved)
        rest: Any = {name: value for name, value in options.items() if name != "kinds"}
        return cls(resolved, records, given, **rest)

    @cached_property
    def empty(self) -> Any:
        value = self.aggregate.init()
        if not self.aggregate.columns:
            return value
        items = value if isinstance(value, tuple) else (value,)
        ranks = self.aggregate.view == "ranks"
        parts = [array_of([item], field.kind, ranks) for item, field in zip(items, self.aggregate.fields, strict=True)]
        return tuple(parts) if len(parts) > 1 else parts[0]

    @cached_property
    def parts(self) -> list[Part]:
        """Positions of no record, of each record alone, and of random parts of the records, shorter parts first."""
        choice, places = random.Random(self.seed), range(len(self.records))
        longest = min(_LONGEST, len(self.records))
        sizes = sorted(choice.randint(0, longest) for _ in range(self.rounds))
        return [(), *((place,) for place in places), *(choice.sample(places, size) for size in sizes)]

    @cached_property
    def partials(self) -> list[Any]:
        """The partial of each part."""
        return [self.fold([self.records[place] for place in part]) for part in self.parts]

    def fold(self, records: Sequence[Record]) -> Any:
        if not self.aggregate.columns:
            return reduce(self.agg, records, self.empty)
        # Folding does not start from `init()`: a wrong identity would be in every partial, and could not be detected.
        singles = [self.agg(self.empty, record) for record in records] or [self.empty]
        return reduce(self.combine, singles) if self.aggregate.combine else singles[-1]

    def agg(self, acc: Any, record: Record) -> Any:
        return quietly(self.aggregate.agg, unshared((acc, *record)))

    def combine(self, a: Any, b: Any) -> Any:
        return quietly(self.aggregate.combine, unshared((a, b)))

    def invert(self, ab: Any, a: Any) -> Any:
        return quietly(self.aggregate.invert, unshared((ab, a)))

    def chosen(self, count: int) -> Iterator[tuple[int, ...]]:
        """Yield choices of `count` partials, by position, beginning with partials of few records."""
        choice, size = random.Random(self.seed + count), len(self.partials)
        places = {tuple(choice.randrange(size) for _ in range(count)) for _ in range(self.rounds)}
        # Single partials are cheap to test, and a law about one partial may fail for few of them: test all.
        places |= {(place,) * count for place in range(size if count == 1 else 1)}
        yield from sorted(places, key=lambda some: (sum(some), some))

    def search(
        self, law: str, count: int, sides: Callable[..., tuple[Any, Any]], exact: bool = False
    ) -> Counterexample | None:
        """Return the first choice of `count` partials for which the two sides differ."""
        if self.aggregate.combine is None:
            return None
        for places in self.chosen(count):
            arguments = tuple(self.partials[place] for place in places)
            left, right = sides(*arguments)
            if not (alike(plain_value(left), plain_value(right)) if exact else self.equal(left, right, arguments)):
                return self.counterexample(law, arguments, left, right, [self.parts[place] for place in places])
        return None

    def counterexample(
        self, law: str, arguments: tuple[Any, ...], left: Any, right: Any, parts: Sequence[Part], function: str = ""
    ) -> Counterexample:
        """Return a counter-example whose first arguments are the partials of these parts of the records."""
        made_of = tuple(given_values([self.given[place] for place in part]) for part in parts)
        return Counterexample(law, plain_value(arguments), plain_value(left), plain_value(right), function, made_of)

    def calls(self) -> Iterator[_Call]:
        """Yield every function with fresh arguments to test it on."""
        own, parts = self.aggregate, self.parts
        for record in self.records:
            yield _Call("agg", own.agg, unshared((self.empty, *record)), ((),))
        for i, j in self.chosen(2) if own.combine else ():
            pair = self.partials[i], self.partials[j]
            yield _Call("combine", own.combine, unshared(pair), (parts[i], parts[j]))
            if own.invert:
                together = self.combine(*pair)
                yield _Call("invert", own.invert, unshared((together, pair[0])), ([*parts[i], *parts[j]], parts[i]))
        for a, part in zip(self.partials, parts, strict=True) if own.lower else ():
            if self.lowers(a):
                yield _Call("lower", own.lower, (unshared(a),), (part,))

    def lowers(self, a: Any) -> bool:
        """Return whether `lower` succeeds; a partial without a result (empty, overflow) breaks no law."""
        try:
            quietly(self.aggregate.lower, (unshared(a),))
        except ArithmeticError:
            return False
        return True

    def on_arrays(self, calls: Sequence[_Call]) -> Counterexample | None:
        """Return a call on arrays of one or two dimensions whose cells differ from these calls of one function."""
        name, function, *_ = calls[0]
        many = [call.arguments for call in calls]
        alone = [plain_value(quietly(function, unshared(arguments))) for arguments in many]
        for shape in ((len(many),), (2, len(many))):
            stacked = stack_of(many, shape)
            try:
                result = quietly(function, stacked)
            except (ValueError, TypeError, IndexError, AttributeError) as error:
                return Counterexample("elementwise", (), f"{type(error).__name__}: {error}", alone[0], name)
            found = leaves_of(result)
            wrong = [np.shape(leaf) for leaf in found if np.shape(leaf) != shape]
            if wrong:
                return Counterexample("elementwise", (), f"shape {wrong[0]}", f"shape {shape}", name)
            for place in np.ndindex(shape):
                cell, single = listed(mapped(result, operator.itemgetter(place))), listed(alone[place[-1]])
                if not self.equal(cell, single):
                    call = calls[place[-1]]
                    return self.counterexample("elementwise", call.arguments, cell, single, call.parts, name)
        return None

    def equal(self, left: Any, right: Any, arguments: tuple[Any, ...] = ()) -> bool:
        """Return whether both sides are equal field by field; floats within the tolerance."""
        sides, others = (plain_items(left), plain_items(right)), [plain_items(argument) for argument in arguments]
        if len(sides[0]) != len(sides[1]):
            return False
        for at, (x, y) in enumerate(zip(*sides, strict=True)):
            if not alike(x, y) and not self.near(x, y, [other[at] for other in others if at < len(other)]):
                return False
        return True

    def near(self, x: Any, y: Any, others: Sequence[Any]) -> bool:
        numbers = [float(item) for item in (x, y, *others) if isinstance(item, (*FLOAT, int))]
        floats = isinstance(x, FLOAT) or isinstance(y, FLOAT)
        if not (floats and all(isinstance(side, (*FLOAT, int)) and math.isfinite(side) for side in (x, y))):
            return False
        return abs(numbers[0] - numbers[1]) <= self.tolerance * max(abs(n) for n in numbers if math.isfinite(n))


def given_values(records: Iterable[Record]) -> tuple[Any, ...]:
    """Return records as they are shown: plain values of a single column, else tuples."""
    return tuple(record[0] if len(record) == 1 else record for record in records)


def _row(value: Any, names: tuple[str, ...] | None) -> Record:
    if names == ():
        return ()
    row = value if isinstance(value, tuple) else (value,)
    if names is not None and len(row) != len(names):
        raise InvalidValue(f"`values` must be tuples of {len(names)} for as many columns; got {excerpt(value)}.")
    return row


def _kind(values: Sequence[Any]) -> str:
    known = next((value for value in values if value is not None), None)
    if known is None:
        raise InvalidValue(
            '`values` has a column of nulls only, which has no kind. Give `kinds`, for example ("double",).'
        )
    return infer_fields(known)[0].kind


def _checked(kinds: tuple[str, ...], names: tuple[str, ...] | None) -> tuple[str, ...]:
    if len(kinds) != len(names or ()):
        raise InvalidValue(
            f"`kinds` must have one kind for each of {len(names or ())} column(s); got {excerpt(kinds)}."
        )
    return kinds
