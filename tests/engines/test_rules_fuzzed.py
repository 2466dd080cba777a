"""Rules on seeded random values that only examples held: sums at their ends, and limits; each sum is Python's own."""

import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import combinators as C
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.kernels import kernel
from slicing.errors import ResultOverflow, RowFailure, TooLarge


def of(bound, kind):
    return kernel("x", bound.resolve((kind,)))


def folded(made, kind, values, groups):
    starts = np.sort(np.array([0, *random.Random(1).sample(range(1, len(values)), groups - 1)]))
    columns, dictionary = made.values([pa.array(values, arrow_type(kind))])
    return starts, made.fold(columns, starts, len(values)), dictionary


def cents(units):
    """A decimal of so many hundredths, whatever the precision of the context."""
    return Decimal((units < 0, tuple(map(int, str(abs(units)))), -2))


@pytest.mark.parametrize("kind", ["bigint", "decimal(38,2)"])
@pytest.mark.parametrize("seed", range(6))
def test_sums_at_the_ends_of_their_type(seed, kind):
    """Exact up to the border whatever they pass on the way; past it an error, or null, for these windows alone."""
    rng = random.Random(seed)
    units = 2**63 - 1 if kind == "bigint" else 10**38 - 1
    some = [units, -units, units // 2, -(units // 2), 1, -1, 0, units - 1]
    values = [rng.choice(some) if kind == "bigint" else cents(rng.choice(some)) for _ in range(400)]
    most = Fraction(units, 1 if kind == "bigint" else 100)
    made, shows = of(C.sum("v"), kind), of(C.sum("v", overflow="null"), kind)
    starts, partials, dictionary = folded(made, kind, values, 90)
    low = -(2**63) if kind == "bigint" else -most
    for at, (start, end) in enumerate(zip(starts, [*starts[1:], len(values)], strict=True)):
        total = sum(map(Fraction, values[start:end]))
        fits = low <= total <= most
        one = [column[at : at + 1] for column in partials]
        (shown,) = (array.to_pylist()[0] for array in shows.results_to_arrow(one, dictionary))
        assert (None if shown is None else Fraction(shown)) == (total if fits else None)
        if fits:
            (found,) = (array.to_pylist()[0] for array in made.results_to_arrow(one, dictionary))
            assert Fraction(found) == total
        else:
            with pytest.raises(ResultOverflow, match=r"x|sum"):
                made.results_to_arrow(one, dictionary)


def test_both_borders_of_a_sum_are_reached():
    for values, fits in [
        ([2**63 - 2, 1], True),
        ([2**63 - 1, 1], False),
        ([-(2**63) + 1, -1], True),
        ([-(2**63), -1], False),
    ]:
        made = of(C.sum("v"), "bigint")
        _, partials, dictionary = folded(made, "bigint", values, 1)
        if fits:
            assert made.results_to_arrow(partials, dictionary)[0].to_pylist() == [sum(values)]
        else:
            with pytest.raises(ResultOverflow):
                made.results_to_arrow(partials, dictionary)


def shown_by(made, parts):
    """The result of three folds, combined."""
    first, second, third = (folded(made, "bigint", part, 1)[1] for part in parts)
    joined = made.combine(made.combine(first, second), third)
    return made.results_to_arrow(joined, None)[0].to_pylist()[0]


@pytest.mark.parametrize("name", ["collect_set", "mode", "count_distinct"])
@pytest.mark.parametrize("seed", range(4))
def test_a_limit_is_reached_and_not_passed(seed, name):
    """Windows of as many different values as the limit are right, of one more refused, however they were joined."""
    rng, most = random.Random(seed), 6
    combinator = getattr(C, name, None)
    if combinator is None:
        pytest.skip(f"there is no {name}")
    made = of(combinator("v", limit=most), "bigint")
    for _ in range(60):
        parts = [[rng.randrange(rng.choice([4, 6, 9])) for _ in range(rng.randrange(1, 8))] for _ in range(3)]
        different = {value for part in parts for value in part}
        if len(different) > most:
            with pytest.raises(RowFailure) as failure:
                shown_by(made, parts)
            assert failure.value.kind is TooLarge
            continue
        shown = shown_by(made, parts)
        if name == "collect_set":
            assert shown == sorted(different)
        elif name == "count_distinct":
            assert shown == len(different)
