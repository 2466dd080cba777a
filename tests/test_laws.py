"""`slicing.laws` finds what is wrong with broken aggregates, and nothing in right ones."""

import datetime as dt
import math
import pickle
from decimal import Decimal

import numpy as np
import pytest

from slicing import laws
from slicing.aggregate import EVENT_TIME, Aggregate, Bound, fieldwise
from slicing.errors import InvalidValue

NUMBERS = [0, 1, 2, -3, 7, 2**40]


def add(a, b):
    return a + b


def subtract(ab, a):
    return ab - a


def append(a, b):
    a[0] += b[0]
    return a


def double_in_place(acc, value):
    value *= 2
    return acc + value


def negate_in_place(a):
    np.negative(a, out=a)
    return a * 2.0


BROKEN = {
    "purity of combine, rows": (
        Aggregate(lambda: [0], lambda acc, x: [acc[0] + x], append, partial="n long"),
        "purity",
    ),
    "purity of combine, columns": (
        Aggregate(lambda: 0, add, lambda a, b: np.add(a, b, out=a), columns=True),
        "purity",
    ),
    "purity of invert": (
        Aggregate(lambda: 0, add, add, lambda ab, a: np.subtract(ab, a, out=ab), columns=True),
        "purity",
    ),
    "purity of agg": (Aggregate(lambda: 0, double_in_place, add, columns=True), "purity"),
    "purity of lower": (
        Aggregate(lambda: 0, add, add, lower=negate_in_place, returns="double", columns=True),
        "purity",
    ),
    "elementwise, cumulative": (
        Aggregate(lambda: 0, lambda acc, x: acc + np.cumsum(x), add, columns=True),
        "elementwise",
    ),
    "elementwise, rows of a matrix": (
        Aggregate(lambda: 0, add, lambda a, b: a + (np.flip(b, 0) if b.ndim > 1 else b[::-1]), columns=True),
        "elementwise",
    ),
    "elementwise, for rows": (
        Aggregate(lambda: -(2**63), lambda acc, x: x if x > acc else acc, np.maximum, columns=True),
        "elementwise",
    ),
    "elementwise, shape": (
        Aggregate(lambda: 0, add, add, lower=lambda a: a.sum(), returns="bigint", columns=True),
        "elementwise",
    ),
    "identity, left": (Aggregate(lambda: 1, add, add), "identity"),
    "identity, right": (Aggregate(lambda: 0, lambda acc, x: x, lambda a, b: b, ordered=True), "identity"),
    "identity, of a minimum": (Aggregate(lambda: 0, lambda acc, x: x, fieldwise(np.minimum), columns=True), "identity"),
    "identity, of floats exactly": (
        Aggregate(lambda: 1e-12, lambda acc, x: acc + float(x), add, partial="total double"),
        "identity",
    ),
    "singleton": (Aggregate(lambda: 0, lambda acc, x: 2 * acc + x, add), "singleton"),
    "associativity": (
        Aggregate(lambda: 0, lambda acc, x: abs(acc - abs(x)), lambda a, b: abs(a - b)),
        "associativity",
    ),
    "associativity, columns": (
        Aggregate(lambda: 0, lambda acc, x: np.abs(x), lambda a, b: np.abs(a - b), columns=True),
        "associativity",
    ),
    "commutativity": (Aggregate(lambda: "", lambda acc, x: acc + str(x), add), "commutativity"),
    "inversion": (Aggregate(lambda: 0, lambda acc, x: max(acc, x), max, lambda ab, a: ab), "inversion"),
    "inversion, columns": (
        Aggregate(lambda: 0, np.bitwise_or, fieldwise(np.bitwise_or), fieldwise(np.bitwise_xor), columns=True),
        "inversion",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_aggregates_have_a_counterexample(name):
    aggregate, law = BROKEN[name]
    found = laws.check(aggregate, NUMBERS)
    assert found is not None
    assert found.law == law
    assert getattr(laws, law)(aggregate, NUMBERS) == found
    assert str(found).startswith(f"{law} does not hold: ")


def test_every_law_is_broken_once():
    assert {law for _, law in BROKEN.values()} == {law.__name__ for law in laws.LAWS}


def test_singleton_in_columns_is_tried_on_the_empty_partial_only():
    aggregate = Aggregate(lambda: 1, lambda acc, x: acc + x, add, columns=True)
    assert laws.singleton(aggregate, NUMBERS).law == "singleton"
    assert laws.check(Aggregate(lambda: 0, lambda acc, x: x, add, columns=True), NUMBERS) is None


RIGHT = {
    "sum, rows": (Aggregate(lambda: 0, add, add, subtract), NUMBERS),
    "sum, columns": (Aggregate(lambda: 0, add, add, subtract, columns=True), NUMBERS),
    "sum of doubles": (Aggregate(lambda: 0.0, add, add), [0.1, 1e16, -1e16, 3.0, -0.0]),
    "doubles that begin with an int": (Aggregate(lambda: 0, add, add, partial="total double"), [0.1, 0.2, -0.3, 0.7]),
    "nan and infinities": (Aggregate(lambda: 0.0, add, add, columns=True), [0.1, math.nan, math.inf, -math.inf]),
    "two fields": (
        Aggregate(
            lambda: (0, 0.0),
            lambda acc, x, y: (acc[0] + 1, acc[1] + x * y),
            lambda a, b: (a[0] + b[0], a[1] + b[1]),
            lower=lambda a: a[1] / a[0],
            returns="double",
        ),
        [(1, 2.0), (3, 0.5), (-4, 0.1)],
    ),
    "ordered": (Aggregate(lambda: "", add, add, ordered=True), ["a", "b", "c"]),
    "decimals": (Aggregate(lambda: Decimal(0), add, add, subtract), [Decimal("0.1"), Decimal(5)]),
    "dates": (Aggregate(lambda: dt.date.max, min, min), [dt.date(2000, 1, 1), dt.date(1969, 1, 1)]),
    "strings in columns": (Aggregate(lambda: "", np.maximum, np.maximum, columns=True), ["a", "", "b"]),
    "nulls": (Aggregate(lambda: 0, lambda acc, x: acc + (x is None), add, nulls=True), [1, None, 2]),
    "nulls in columns": (
        Aggregate(lambda: 0, lambda acc, x: acc + np.ma.getmaskarray(x), add, nulls=True, columns=True),
        [1, None, 2],
    ),
    "nulls are left out": (Aggregate(lambda: 0, add, add), [1, None, 2]),
    "eager": (Aggregate(lambda: 0, lambda acc, x: 2 * acc + x), NUMBERS),
    "a part of the partial in place": (
        Aggregate(lambda: 0, lambda acc, x: np.add(acc, x, out=acc), add, columns=True),
        NUMBERS,
    ),
    "no values": (Aggregate(lambda: 0, add, add), []),
    "constant values": (Aggregate(lambda: 0, lambda acc: acc + 1, add), [(), ()]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_aggregates_have_none(name):
    aggregate, values = RIGHT[name]
    found = laws.check(aggregate, values)
    assert found is None, str(found)


def test_views():
    ranks = Aggregate(lambda: -1, np.maximum, fieldwise(np.maximum), partial="value string", columns=True, view="ranks")
    assert laws.check(ranks, ["b", "a", "é", ""]) is None

    def low_limb(acc, value):
        assert len(value) == 4
        return acc + value[0]

    limbs = Aggregate(lambda: 0, low_limb, add, subtract, columns=True, view="limbs")
    assert laws.check(limbs, [Decimal("0.1"), Decimal(-1)], kinds=("decimal(10,2)",)) is None


def test_event_times_are_microseconds():
    seen = []

    def latest(acc, time):
        seen.extend(time.ravel().tolist())
        return np.maximum(acc, time)

    bound = Bound(Aggregate(lambda: -(2**63), latest, np.maximum, columns=True), (EVENT_TIME,))
    assert laws.check(bound, [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)]) is None
    assert set(seen) == {1_000_000}


def test_floats_within_the_tolerance_are_equal():
    def lossy(a, b):
        return (a + b) * (1 + 1e-8) if a and b else a + b

    aggregate = Aggregate(lambda: 0.0, add, lossy)
    values = [1.0, 2.0, 5.0]
    assert laws.associativity(aggregate, values).law == "associativity"
    assert laws.associativity(aggregate, values, tolerance=1e-6) is None


def test_the_same_seed_gives_the_same_counterexample():
    aggregate, _ = BROKEN["associativity"]
    found = [laws.check(aggregate, NUMBERS, seed=3, rounds=20) for _ in range(2)]
    assert found[0] == found[1]


def test_a_counterexample_reads_well_and_pickles():
    found = laws.check(Aggregate(lambda: (0, 0), lambda acc, x: (acc[0] + 1, x), lambda a, b: (a[0] + b[0], a[1])), [5])
    assert str(found) == (
        "identity does not hold: combine(init(), a) == a == combine(a, init())\n"
        "  a = (1, 5)\n"
        "  left  = (1, 0)\n"
        "  right = (1, 5)"
    )
    assert pickle.loads(pickle.dumps(found)) == found


def test_functions_and_values_are_named():
    aggregate, _ = BROKEN["elementwise, cumulative"]
    assert "agg of an array is agg of each of its items" in str(laws.check(aggregate, NUMBERS))
    aggregate, _ = BROKEN["singleton"]
    assert "\n  value = " in str(laws.check(aggregate, NUMBERS))


def test_values_must_fit_the_columns():
    bound = Aggregate(lambda: 0, lambda acc, x, y: acc + x + y, add).on("x", "y")
    assert laws.check(bound, [(1, 2), (3, 4)]) is None
    with pytest.raises(InvalidValue, match="tuples of 2"):
        laws.check(bound, [1, 2])
    with pytest.raises(InvalidValue, match="Give `kinds`"):
        laws.check(bound, [(1, None)])
    with pytest.raises(InvalidValue, match="one kind for each of 2"):
        laws.check(bound, [])
