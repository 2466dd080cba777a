"""`slicing.laws` finds what is wrong with broken aggregates, and nothing in right ones."""

import datetime as dt
import math
import pickle
import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest

from slicing import group_by, laws, tumbling
from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound, fieldwise
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.kernels import kernel
from slicing.errors import InvalidType, InvalidValue
from slicing.laws import Counterexample, checks
from slicing.laws.checks import MOST_CALLS, broken_law
from slicing.laws.dry_runs import _law_samples, dry_run
from slicing.laws.properties import LAWS
from slicing.laws.values import difference

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
    assert {law for _, law in BROKEN.values()} == {law.__name__ for law in LAWS}


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
        "  a = (1, 5), made of values (5)\n"
        "  left  = (1, 0)\n"
        "  right = (1, 5)"
    )
    assert pickle.loads(pickle.dumps(found)) == found


def refolded(aggregate, values):
    """The partial of values, by plain Python."""
    singles = [aggregate.agg(aggregate.init(), *(v if isinstance(v, tuple) else (v,))) for v in values]
    if aggregate.columns:
        return reduce(aggregate.combine, singles) if singles else aggregate.init()
    return reduce(lambda acc, v: aggregate.agg(acc, *(v if isinstance(v, tuple) else (v,))), values, aggregate.init())


@pytest.mark.parametrize("name", [name for name, (_, law) in BROKEN.items() if law not in ("purity", "elementwise")])
def test_a_counterexample_has_the_values_that_made_its_partials(name):
    aggregate, law = BROKEN[name]
    found = laws.check(aggregate, NUMBERS)
    assert len(found.made_of) == {"identity": 1, "singleton": 1, "associativity": 3}.get(law, 2)
    for partial, values in zip(found.arguments, found.made_of, strict=False):
        assert partial == refolded(aggregate, values)
        assert f"= {partial!r}, made of " in str(found)


@pytest.mark.parametrize("name", [name for name, (_, law) in BROKEN.items() if law in ("purity", "elementwise")])
def test_a_broken_call_has_the_values_that_made_its_partials(name):
    aggregate, _ = BROKEN[name]
    found = laws.check(aggregate, NUMBERS)
    assert len(found.made_of) <= len(found.arguments)
    for partial, values in zip(found.arguments, found.made_of, strict=False):
        assert str(partial) == str(refolded(aggregate, values))
    wanted = {"agg": 1, "combine": 2, "invert": 2, "lower": 1}[found.function] if found.arguments else 0
    assert len(found.made_of) == wanted


def test_values_of_several_columns_and_none():
    pairs = Aggregate(lambda: 1, lambda acc, x, y: acc + x * y, add).on("x", "y")
    text = str(laws.check(pairs, [(2, 5), (3, 7)]))
    assert "\n  a = 1, made of no values\n" in text
    found = laws.singleton(Aggregate(lambda: 0, lambda acc, x, y: 2 * acc + x * y, add).on("x", "y"), [(2, 5), (3, 7)])
    assert "\n  a = 10, made of values ((2, 5))\n  value = 2\n  value = 5\n" in str(found)
    nulls = Aggregate(lambda: 0, lambda acc, x: 2 * acc + (x or 3), add, nulls=True)
    assert "a = 3, made of values (None)" in str(laws.singleton(nulls, [None, None], kinds=["bigint"]))
    counts = Aggregate(lambda: 0, lambda acc: 2 * acc + 1, add).on()
    assert ", made of 1 records\n" in str(laws.singleton(counts, [(), ()]))


@pytest.mark.parametrize(
    ("left", "right", "place"),
    [
        (b"a" * 300 + b"xyz", b"a" * 300 + b"xw", "byte 301: b'yz' and b'w', of 303 and 302"),
        (b"a" * 1_500, b"a" * 1_400, "byte 1,400: b'aaaaaaaaaaaaaaaa' and b'', of 1,500 and 1,400"),
        ((1, "é" * 300 + "x"), (1, "é" * 300 + "y"), "character 300 of field 1: 'x' and 'y', of 301 and 301"),
        ((1, b"a" * 300), (2, b"a" * 300), "field 0: 1 and 2"),
        ([0] * 300 + [1.5], [0] * 300 + [math.nan], "item 300: 1.5 and nan"),
        (
            ([math.nan] * 90 + [b"a"],),
            ([math.nan] * 90 + [b"b"],),
            "byte 0 of item 90 of field 0: b'a' and b'b', of 1 and 1",
        ),
        ((1, 2), (1, 3), ""),
        (None, b"a" * 300, ""),
    ],
)
def test_long_values_say_where_they_differ(left, right, place):
    assert difference(left, right) == place
    text = str(Counterexample("commutativity", (1, 2), left, right))
    assert text.endswith(f"\n  first difference at {place}" if place else repr(right)) or not place


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


# --- while the query is built -----------------------------------------------------------------------------------------


def unlike(ab, a):
    return ab - a


UNLAWFUL = {
    "a difference that undoes no maximum": (Aggregate(lambda: 0, max, max, unlike), "inversion"),
    "the same by columns": (Aggregate(lambda: 0, np.maximum, np.maximum, unlike, columns=True), "inversion"),
    "one that forgets what it takes from": (Aggregate(lambda: 0, add, add, lambda ab, a: -a), "inversion"),
    "a mean of means": (
        Aggregate(lambda: math.nan, lambda acc, x: mean_of(acc, float(x)), lambda a, b: mean_of(a, b)),
        "associativity",
    ),
    "a mean of means by columns": (
        Aggregate(lambda: math.nan, lambda acc, x: x * 1.0, lambda a, b: mean_of_columns(a, b), columns=True),
        "associativity",
    ),
    "a difference": (Aggregate(lambda: 0, lambda acc, x: acc - x, lambda a, b: a - b), "identity"),
    "absolute differences": (
        Aggregate(lambda: 0, lambda acc, x: abs(acc - abs(x)), lambda a, b: abs(a - b)),
        "associativity",
    ),
    "a sum that begins with one": (Aggregate(lambda: 1, add, add), "identity"),
    "a minimum that begins with zero": (
        Aggregate(lambda: 0, lambda acc, x: np.minimum(x, 99), np.minimum, columns=True),
        "identity",
    ),
    "text in the order of records": (Aggregate(lambda: "", lambda acc, x: acc + str(x), add), "commutativity"),
    "the last value": (
        Aggregate(lambda: (0, 0), lambda acc, x: (1, x), lambda a, b: b if b[0] else a),
        "commutativity",
    ),
    "twice what was": (Aggregate(lambda: 0, lambda acc, x: 2 * acc + x, add), "singleton"),
}


def mean_of(a, b):
    return b if math.isnan(a) else a if math.isnan(b) else (a + b) / 2


def mean_of_columns(a, b):
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, (a + b) / 2))


@pytest.fixture
def unhurried(monkeypatch):
    """A machine that is busy with other things must not end a dry run early."""
    monkeypatch.setattr(checks, "MOST_SECONDS", math.inf)
    monkeypatch.setattr(checks, "LONGEST", math.inf)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("name", UNLAWFUL)
def test_an_unlawful_aggregate_is_refused_with_a_counterexample(name):
    aggregate, law = UNLAWFUL[name]
    with pytest.raises(InvalidValue) as raised:
        dry_run(kernel("result", aggregate), ("bigint",))
    text = str(raised.value)
    for part in (
        "`result` cannot be computed from slices",
        f"{law} does not hold: ",
        "  left  = ",
        "  right = ",
        "`laws=False`",
    ):
        assert part in text, text
    made = re.findall(r"^  [abc] = (.*), made of (?:values \((.*)\)|no values)$", text, re.MULTILINE)
    assert len(made) == {"identity": 1, "singleton": 1, "associativity": 3}.get(law, 2), text
    for partial, values in made:
        folded = refolded(aggregate, eval(f"[{values}]"))
        assert repr(folded) == partial or eval(partial, {"nan": math.nan}) == pytest.approx(folded, nan_ok=True)
    with pytest.raises(InvalidValue) as again:
        dry_run(kernel("result", aggregate), ("bigint",))
    assert str(again.value) == text
    dry_run(kernel("result", replace(aggregate, laws=False)), ("bigint",))


def welford(acc, x):
    n, mean, m2 = acc
    delta = x - mean
    mean += delta / (n + 1)
    return n + 1, mean, m2 + delta * (x - mean)


def chan(a, b):
    n = a[0] + b[0]
    delta = b[1] - a[1]
    return n, (a[0] * a[1] + b[0] * b[1]) / n, a[2] + b[2] + delta * delta * a[0] * b[0] / n


def compensated(acc, x):
    total, lost = acc
    y = x - lost
    return total + y, (total + y - total) - y


LAWFUL = {
    "moments, which fail for nothing and nothing": (Aggregate(lambda: (0, 0.0, 0.0), welford, chan), "double"),
    "moments in float": (
        Aggregate(lambda: (0, 0.0, 0.0), welford, chan, partial="n long, mean float, m2 float"),
        "double",
    ),
    "a compensated sum": (
        Aggregate(lambda: (0.0, 0.0), compensated, lambda a, b: compensated(compensated(a, b[0]), b[1])),
        "double",
    ),
    "a running mean": (
        Aggregate(
            lambda: (0, 0.0),
            lambda acc, x: (acc[0] + 1, acc[1] + (x * 0.1 - acc[1]) / (acc[0] + 1)),
            lambda a, b: (a[0] + b[0], (a[0] * a[1] + b[0] * b[1]) / max(1, a[0] + b[0])),
        ),
        "double",
    ),
    "a logarithm of what may be negative": (
        Aggregate(lambda: 0.0, lambda acc, x: acc + math.log(x), add),
        "double",
    ),
    "not a number": (Aggregate(lambda: 0.0, lambda acc, x: acc + (x if x else math.nan), add), "double"),
    "text that is parsed": (Aggregate(lambda: 0, lambda acc, x: acc + int(x), add, subtract), "string"),
    "an order that is meant": (Aggregate(lambda: "", add, add, ordered=True), "string"),
    "a set of bits that is changed in place": (
        Aggregate(
            lambda: bytearray(2),
            lambda acc, x: acc.__setitem__(x % 2, acc[x % 2] | 1 << abs(x) % 8) or acc,
            lambda a, b: bytes(x | y for x, y in zip(a, b, strict=True)),
            partial="bits binary",
        ),
        "bigint",
    ),
    "nulls": (Aggregate(lambda: 0, lambda acc, x: acc + (x is None), add, subtract, nulls=True), "bigint"),
    "decimals": (Aggregate(lambda: Decimal(0), add, add, subtract), "decimal(38,18)"),
    "small decimals": (Aggregate(lambda: Decimal(0), add, add, partial="d decimal(38,38)"), "decimal(38,38)"),
    "none at first": (
        Aggregate(
            lambda: None,
            lambda acc, x: x if acc is None else max(acc, x),
            lambda a, b: b if a is None else a if b is None else max(a, b),
            partial="most long",
        ),
        "bigint",
    ),
    "bits": (Aggregate(lambda: 0, lambda acc, x: acc ^ x, np.bitwise_xor, np.bitwise_xor, columns=True), "bigint"),
}


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("name", LAWFUL)
def test_a_lawful_aggregate_is_built(name):
    aggregate, kind = LAWFUL[name]
    dry_run(kernel("result", aggregate), (kind,))


@pytest.mark.parametrize(
    "kind", ["boolean", "tinyint", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"]
)
def test_samples_are_what_the_laws_are_tried_on(kind):
    """Repeated values, and at least one that is not positive, or early, or empty."""
    samples = _law_samples(kind)
    assert len(samples) == 6
    assert samples[0] == samples[3]
    assert min(samples) < samples[0] or kind == "boolean"
    assert kernel("x", Aggregate(lambda: 0, add, add)).values([pa.array(samples, arrow_type(kind))])


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("options", [{}, {"nulls": True}], ids=str)
def test_trying_the_laws_takes_few_calls(options):
    calls = Counter()

    def counted(name, function):
        def call(*arguments):
            calls[name] += 1
            return function(*arguments)

        return call

    functions = [counted("agg", lambda acc, x: acc + (x or 0)), counted("combine", add), counted("invert", subtract)]
    aggregate = Aggregate(lambda: 0, *functions, **options)
    samples = [*range(6), *([None] if options else [])]
    assert broken_law(kernel("result", aggregate), [pa.array(samples, pa.int64())]) is None
    assert calls["combine"] > 50
    assert calls["invert"] > 30
    assert sum(calls.values()) <= MOST_CALLS


def test_a_slow_function_is_called_for_a_moment_only(monkeypatch):
    calls = []
    monkeypatch.setattr(checks, "perf_counter", lambda: len(calls) / 20)  # so each call takes 50 ms
    aggregate = Aggregate(lambda: 0, lambda acc, x: calls.append(x) or acc + x, lambda a, b: calls.append(a) or a + b)
    assert broken_law(kernel("result", aggregate), [pa.array(range(6))]) is None
    assert len(calls) <= 12


@pytest.mark.slow
def test_combinators_are_not_tried(spark):
    """Their laws are tested; `source` tells them from what a user writes."""
    calls = []
    bound = Bound(lambda *kinds: Aggregate(lambda: 0, lambda acc: calls.append(1) or acc + 1, add), (), "mine")
    frame = spark.range(1).selectExpr("timestamp_seconds(id) AS ts")
    assert group_by(frame).window(tumbling("1 hour"), time="ts").aggregate(n=bound).columns == ["window", "n"]
    assert not calls


def test_a_masked_partial_is_refused_when_the_query_is_built():
    """Samples have a null only if `agg` sees nulls, so that functions that cannot take it are tried without, too."""
    masking = Aggregate(lambda: -(2**63), np.maximum, np.maximum, columns=True, nulls=True)
    with pytest.raises(InvalidType, match=r"`agg` of `result` .* no nulls; got a masked cell for a value that"):
        dry_run(kernel("result", masking), ("bigint",))
    dry_run(kernel("result", replace(masking, nulls=False)), ("bigint",))
    forgetful = Aggregate(bytearray, lambda acc, x: acc.append(abs(x)), add, partial="s binary", ordered=True)
    with pytest.raises(InvalidType, match=r"`agg` of `result` .* no nulls; got None for a value that it was tried on"):
        dry_run(kernel("result", forgetful), ("bigint",))
