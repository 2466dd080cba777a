"""The combinators that count values, sketch them, collect them or go by time, against code that we did not write."""

import inspect
import math
import pickle
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from oracle import (
    FINGERPRINT,
    Case,
    block_of,
    evenly,
    hopping,
    moment,
    results,
    shape_of,
    windows_of,
)
from scenarios.kind import PARTIALS, RECORDS
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario

import combinators as C
from combinators._items import as_doubles
from combinators._tables import Tables
from combinators.catalogue import CATALOGUE, COMPOSED, MORE, sample_kinds, samples
from combinators.frequent import _by_count
from slicing import laws
from slicing.aggregates.aggregate import EVENT_TIME, Aggregate, Bound, Struct
from slicing.aggregates.fields import arrow_type
from slicing.aggregates.kernels import kernel
from slicing.assembly.assembling import assemble
from slicing.assembly.choice import choose
from slicing.content.folding import fold_arrays
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.errors import InvalidType, InvalidValue, MissingRequirement, RowFailure, TooLarge
from slicing.laws import checks
from slicing.laws.checks import broken_law
from slicing.laws.dry_runs import _law_samples
from slicing.laws.properties import LAWS
from slicing.state.store import MemoryStore
from slicing.triggers.change import OnChange
from slicing.triggers.emission import early, on_change, on_close, on_update

CASES = [
    pytest.param(entry, kind, id=f"{entry.name}-{kind}")
    for entry in MORE
    for kind in sample_kinds(entry)
    if entry.name != "any_value"
]
UNLIKE = ("int", "double", "string", "timestamp", "decimal(38,18)")
"""Kinds that partials hold in different ways."""
FEW = [case for case in CASES if case.values[1] in UNLIKE]
LIMITED = [entry for entry in MORE if "limit" in inspect.signature(entry.function).parameters]
SECOND = 1_000_000


def kinds_of(bound, kind):
    return tuple("bigint" if column == EVENT_TIME else kind for column in bound.columns)


def through(bound, kind, groups):
    """The results of groups of records (value, time): each cut into three parts that are aggregated and combined."""
    each = kernel("result", bound.resolve(kinds_of(bound, kind)))
    parts = []
    for part in range(3):
        held = [group[part::3] for group in groups]
        records = [record for group in held for record in group if record[0] is not None]
        sizes = np.array([sum(value is not None for value, _ in group) for group in held])
        partials, filled = each.spread(len(groups)), np.flatnonzero(sizes)
        if len(filled):
            values, times = zip(*records, strict=True)
            arrays = [pa.array(values, arrow_type(kind)), pa.array(times, pa.int64())][: len(bound.columns)]
            columns, _ = each.values(arrays)
            starts = (np.cumsum(sizes) - sizes)[filled]
            for target, made in zip(partials, each.fold(columns, starts, len(records)), strict=True):
                target[filled] = made
        parts.append(each.from_arrow(each.to_arrow(partials, None))[0])
    total = each.combine(each.combine(parts[2], parts[0]), parts[1])
    arrays = each.results_to_arrow(total, None)
    assert [array.type for array in arrays] == [arrow_type(field.kind) for field in each.results]
    return arrays[0].to_pylist()


# References


def order(value):
    """Null before all values, NaN after them."""
    return (0,) if value is None else (2,) if value != value else (1, value)


def in_order(records):
    return [value for value, _ in sorted(records, key=lambda record: (record[1], order(record[0])))]


def counts(values):
    """The distinct values and how often each occurs, in their order."""
    found = Counter(order(value) for value in values)
    return [(math.nan if len(key) == 1 else key[1], found[key]) for key in sorted(found)]


def finite(values):
    return [float(value) for value in values if math.isfinite(value)]


def increase(values):
    return math.fsum(b if b < a else b - a for a, b in pairwise(values))


def seconds(times):
    return [(b - a) / SECOND for a, b in pairwise(times)]


def rate(records):
    times = sorted(time for _, time in records)
    return None if not times or times[0] == times[-1] else increase(in_order(records)) / sum(seconds(times))


def weighted(records):
    values, times = list(map(float, in_order(records))), sorted(time for _, time in records)
    if not times or times[0] == times[-1]:
        return math.fsum(values) / len(values) if values else None
    return math.fsum(np.multiply(values[:-1], seconds(times))) / sum(seconds(times))


def lasting(records):
    lasts = Counter({order(value): 0.0 for value, _ in records})
    times = sorted(time for _, time in records)
    for value, length in zip(in_order(records)[:-1], seconds(times), strict=True) if records else ():
        lasts[order(value)] += length
    return [{"state": math.nan if len(key) == 1 else key[1], "seconds": lasts[key]} for key in sorted(lasts)]


def decayed(records):
    if not records:
        return None
    times = pd.to_datetime(sorted(time for _, time in records), unit="us")
    return float(pd.Series(map(float, in_order(records))).ewm(halflife="10 seconds", times=times).mean().iloc[-1])


def quantiles(values, **how):
    return [float(q) for q in np.quantile(sorted(map(float, values)), [0, 0.25, 0.5, 1], **how)] if values else None


REFERENCES = {
    "count_distinct": lambda records: len(counts([value for value, _ in records])),
    "approx_count_distinct": lambda records: len(counts([value for value, _ in records])),
    "percentile": lambda records: quantiles([value for value, _ in records]),
    "median": lambda records: float(np.median([float(value) for value, _ in records])) if records else None,
    "percentile_relative": lambda records: quantiles([value for value, _ in records], method="lower"),
    "mode": lambda records: max(counts([v for v, _ in records]), key=lambda c: c[1], default=(None,))[0],
    "top_k": lambda records: [
        {"value": value, "count": count}
        for value, count in sorted(counts([v for v, _ in records]), key=lambda c: -c[1])[:3]
    ],
    "histogram": lambda records: np.histogram([float(v) for v, _ in records if v == v], [-1, 0, 0.5, 100])[0].tolist(),
    "collect_list": in_order,
    "collect_set": lambda records: [value for value, _ in counts([value for value, _ in records])],
    "string_agg": lambda records: ",".join(in_order(records)) if records else None,
    "first_n": lambda records: in_order(records)[:3],
    "last_n": lambda records: in_order(records)[-3:],
    "largest": lambda records: sorted((value for value, _ in records), key=order, reverse=True)[:3],
    "smallest": lambda records: sorted((value for value, _ in records), key=order)[:3],
    "counter_rate": rate,
    "time_weighted_mean": weighted,
    "time_in_state": lasting,
    "ewma": decayed,
}
ROUNDED = ("percentile", "median", "counter_rate", "time_weighted_mean", "ewma", "delta")
FINITE = (*ROUNDED, "percentile_relative", "histogram")
"""Those whose reference knows neither NaN nor infinities, and adds up what has not the same size."""


def delta(records):
    """By both ends, of equal times the smaller value."""
    if not records:
        return None
    first = min(records, key=lambda record: (record[1], order(record[0])))[0]
    end = max(time for _, time in records)
    return float(min((value for value, time in records if time == end), key=order)) - float(first)


REFERENCES["delta"] = delta


def near(found, wanted, tolerance):
    """Equal, in lists and structs too, or for floats within the tolerance."""
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(near(x, y, tolerance) for x, y in zip(found, wanted, strict=True))
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(near(found[key], wanted[key], tolerance) for key in wanted)
    if isinstance(wanted, float) and isinstance(found, float):
        return found == wanted or (found != found and wanted != wanted) or abs(found - wanted) <= tolerance
    return found == wanted


def values_of(entry, kind):
    values = samples(kind)
    if entry.name in FINITE:
        values = [value for value in values if value == 0 or 1e-9 < abs(value) < 1e6]
        values += [type(values[0])(number) for number in (3, -7, 60)]
    return list(values)


def groups_of(entry, kind):
    """Nothing, nulls, each value alone, all, and many at random, with equal values and equal times."""
    choice, values = random.Random(entry.name), values_of(entry, kind)
    drawn = [[(choice.choice([*values, None]), choice.randrange(8) * SECOND) for _ in range(20)] for _ in range(6)]
    return [
        [],
        [(None, 5), (None, 0)],
        *([(value, 7)] for value in values),
        [(value, at) for at, value in enumerate(values)],
        *drawn,
    ]


@pytest.mark.parametrize(("entry", "kind"), CASES)
def test_results_are_those_of_the_reference(entry, kind):
    if entry.approximate:
        pytest.skip("its ranks are judged below")
    groups = groups_of(entry, kind)
    for found, group in zip(through(entry.of("x"), kind, groups), groups, strict=True):
        known = [(value, time) for value, time in group if value is not None]
        wanted = REFERENCES[entry.name](known)
        size = max((abs(float(value)) for value, _ in known), default=0.0) if entry.name in FINITE else 0.0
        tolerance = 1e-9 * max(1.0, size) if entry.name in ROUNDED else 0.0
        if entry.name == "percentile_relative" and wanted:
            assert all(abs(x - y) <= 0.01 * abs(y) for x, y in zip(found, wanted, strict=True)), (group, found, wanted)
        elif entry.name == "approx_count_distinct":
            assert abs(found - wanted) <= 1
        else:
            assert near(found, wanted, tolerance), (group, found, wanted)


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_percentiles_between_two_values_are_those_of_numpy(how):
    rng = random.Random(how)
    groups = [[(rng.choice([1, 2, 7, 50]), 0) for _ in range(size)] for size in range(1, 25)]
    shares = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]
    found = through(C.percentile("x", shares, interpolation=how), "int", groups)
    wanted = [np.quantile([value for value, _ in group], shares, method=how).tolist() for group in groups]
    assert near(found, wanted, 1e-12)


NEEDS = [
    name
    for name in sorted(set(C.__all__))
    if "min_samples" in inspect.signature(getattr(C, name), follow_wrapped=True).parameters
]


@pytest.mark.parametrize("name", NEEDS)
def test_fewer_values_than_needed_give_null(name):
    """As `min_periods` of pandas: null, and from there on what the result is without."""
    more = [0.5] if "percentile" in name else [EVENT_TIME] if name.startswith(("co", "regr")) else []
    groups = [[(value * value, value) for value in range(size)] for size in range(8)]
    bounds = [getattr(C, name)("x", *more, min_samples=least) for least in (1, 5)]
    always, enough = (through(bound, "bigint", groups) for bound in bounds)
    assert enough == [None] * 5 + always[5:]
    assert None not in always[5:]
    stored = [bound.resolve(kinds_of(bound, "bigint")) for bound in bounds]
    assert stored[0].fields == stored[1].fields
    assert stored[0].meanings == stored[1].meanings


# Laws


@pytest.mark.parametrize(("entry", "kind"), FEW)
def test_laws(entry, kind):
    values = values_of(entry, kind)
    bound = entry.of("x")
    records = [(value, at // 2)[: len(bound.columns)] for at, value in enumerate([*values, None, values[0]])]
    options = {"kinds": kinds_of(bound, kind), "rounds": 4}
    for law in LAWS:
        found = law(bound, records, **options)
        assert found is None, str(found)


@pytest.mark.parametrize(("entry", "kind"), FEW)
def test_laws_that_are_tried_when_a_query_is_built(entry, kind, monkeypatch):
    monkeypatch.setattr(checks, "LONGEST", math.inf)
    monkeypatch.setattr(checks, "MOST_SECONDS", math.inf)
    bound = entry.of("x")
    kinds = kinds_of(bound, kind)
    null = (None,) if bound.resolve(kinds).nulls else ()
    arrays = [pa.array((*_law_samples(of), *null), arrow_type(of)) for of in kinds]
    if not entry.approximate:
        found = broken_law(kernel(entry.name, bound.resolve(kinds)), arrays)
        assert found is None, str(found)


def test_any_value_is_the_smallest():
    for kind in ("string", "int", "date"):
        some, least = (combinator("x").resolve((kind,)) for combinator in (C.any_value, C.min))
        assert (some.fields, some.combine, some.init()) == (least.fields, least.combine, least.init())


# What they take


@pytest.mark.parametrize("entry", MORE, ids=lambda entry: entry.name)
def test_entries_are_complete(entry):
    doc = inspect.getdoc(entry.function)
    assert f"{entry.reference}" in doc
    assert ">>>" in doc
    assert "null" in doc
    assert "invertible" in doc.lower() or "as for" in doc
    bound = pickle.loads(pickle.dumps(entry.of("x")))
    aggregate = bound.resolve(kinds_of(bound, sample_kinds(entry)[0]))
    assert pickle.loads(pickle.dumps(aggregate)).columns
    assert entry.name in REFERENCES or entry.approximate or entry.name == "any_value"
    assert bound.label.startswith(f"{entry.name}(x")


def test_those_made_of_others_name_their_reference():
    for name, reference in COMPOSED.items():
        doc = inspect.getdoc(getattr(C, name))
        assert f"`{reference}" in doc or reference in doc
        assert ">>>" in doc


@pytest.mark.parametrize("entry", MORE, ids=lambda entry: entry.name)
def test_kinds_without_meaning_are_refused(entry):
    bound = entry.of("x")
    for kind in [kind for kind in ("string", "boolean", "binary", "decimal(5,2)") if not entry.accepts(kind)]:
        with pytest.raises(
            InvalidType, match=rf"`{entry.name}\(x.*\)` takes .*; got .*\. (Take a|Cast it|Choose or|Compute|Order by)"
        ):
            bound.resolve(kinds_of(bound, kind))


@pytest.mark.parametrize("entry", LIMITED, ids=lambda entry: entry.name)
def test_a_limit_bounds_what_a_window_holds(entry):
    kind = "string" if entry.name == "string_agg" else "int"
    values = samples("string")[:4] if kind == "string" else (5, 1, 7, 9)
    options = {**entry.options, "limit": 3}
    bound = entry.function("x", **options)
    assert entry.of("x").unlimited
    assert not bound.unlimited
    three = [(value, at) for at, value in enumerate(values[:3])]
    through(bound, kind, [three])
    with pytest.raises(RowFailure) as caught:
        through(bound, kind, [three, [*three, (values[3], 9)]])
    assert caught.value.kind is TooLarge
    assert caught.value.index == 1
    assert "at most 3 (`limit`)" in caught.value.rule
    # A partial has room for two windows, one that comes and one that goes, and no more.
    many = [f"{at}" if kind == "string" else at for at in range(7)]
    each = kernel("result", bound.resolve(kinds_of(bound, kind)))
    columns, _ = each.values([pa.array(many, arrow_type(kind)), pa.array(range(7), pa.int64())][: len(bound.columns)])
    each.fold([column[:6] for column in columns], np.array([0]), 6)
    with pytest.raises(RowFailure, match="got 7"):
        each.fold(columns, np.array([0]), 7)


@pytest.mark.parametrize("entry", LIMITED, ids=lambda entry: entry.name)
@pytest.mark.parametrize("limit", [0, -1, 2.5, True, "9"])
def test_a_limit_is_a_positive_integer(entry, limit):
    with pytest.raises(InvalidValue, match="`limit` must be a positive integer"):
        entry.function("x", **{**entry.options, "limit": limit})


WRONG = [
    (lambda: C.percentile("x", 1.5), "a percentage must be a number from 0 to 1; got 1.5"),
    (lambda: C.percentile("x", [0.5, "a"]), "a percentage must be a number from 0 to 1; got 'a'"),
    (lambda: C.percentile("x", []), "one percentage at least"),
    (lambda: C.percentile_relative("x", 0.5, 0), "`error` must be at least"),
    (lambda: C.percentile_relative("x", 0.5, between=(0, 1)), "`between` must be two positive numbers"),
    (lambda: C.percentile_relative("x", 0.5, 1e-5, between=(1e-9, 1e9)), "`between` makes .* bins"),
    (lambda: C.approx_percentile("x", 0.5, 0), "`accuracy` must be an integer from 1"),
    (lambda: C.approx_count_distinct("x", 0.001), "`rsd`.* must be from 0.0044"),
    (lambda: C.approx_count_distinct("x", 1), "`rsd`.* must be from 0.0044"),
    (lambda: C.approx_count_distinct("x", [0.1]), "`rsd`.* must be from 0.0044"),
    (lambda: C.top_k("x", 0), "`k` must be an integer from 1"),
    (lambda: C.top_k("x", 11, exact=False, error=0.1), "`k` must be at most 1 / `error`"),
    (lambda: C.top_k("x", 1, exact=False, error=2), "`error` must be a share"),
    (lambda: C.top_k("x", 1, exact=False, limit=5), "`limit` is for `exact=True`"),
    (lambda: C.histogram("x", [1]), "`edges` must be 2 to"),
    (lambda: C.histogram("x", [1, 1]), "`edges` must be 2 to"),
    (lambda: C.histogram("x", [0, math.nan]), "`edges` must be 2 to"),
    (lambda: C.histogram("x", "ab"), "`edges` must be 2 to"),
    (lambda: C.first_n("x", 0), "`n` must be an integer from 1"),
    (lambda: C.by("k", C.count(), limit=None, full="frequent"), "`limit` of `by` must be given"),
    (lambda: C.max_by("x", "y", 0), "`k` must be an integer from 1"),
    (lambda: C.largest("x", 2, with_=["a", "b.A"]), "`largest` have different names; got x, a, A"),
    (lambda: C.mean("x", min_samples=0), "`min_samples` must be a positive integer"),
    (lambda: C.median("x", min_samples=1.5), "`min_samples` must be a positive integer"),
    (lambda: C.percentile("x", 0.5, interpolation="mid"), "`interpolation` must be one of linear, lower, "),
    (lambda: C.time_weighted_mean("x", "locf"), "`method` must be one of last, linear; got 'locf'"),
    (lambda: C.ewma("x", "0 seconds"), "`half_life` must be positive"),
    (lambda: C.struct(), "a struct needs at least one result"),
    (lambda: C.count(where="a").where("b"), "has a condition"),
]


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_arguments_out_of_range_are_refused(at):
    call, message = WRONG[at]
    with pytest.raises(InvalidValue, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: C.string_agg("x", 3), "`delimiter` must be text; got 3"),
        (lambda: C.last_n("x", 3, ignore_nulls=1), "`ignore_nulls` is True or False; got 1"),
        (lambda: C.reduce("x", max), "`reduce` takes a function of two values"),
        (lambda: C.struct(a=3), "field `a` of a struct must be a combinator"),
        (lambda: C.sum("x", where=3), "`where` takes the name of a column of booleans, or a Column; got 3"),
    ],
)
def test_arguments_of_other_types_are_refused(call, message):
    with pytest.raises(InvalidType, match=message):
        call()


def test_a_sketch_says_what_is_not_installed(monkeypatch):
    monkeypatch.setattr("combinators._samples.find_spec", lambda name: None)
    with pytest.raises(MissingRequirement, match=r"`approx_percentile\(x, 0.5\)` needs the package `datasketches`"):
        C.approx_percentile("x", 0.5).resolve(("double",))


def test_every_combinator_takes_a_condition():
    assert all("where" in inspect.signature(getattr(C, name)).parameters for name in C.__all__)
    bound = C.sum("x", where="ok")
    assert isinstance(bound, Bound)
    assert (bound.columns, bound.inputs, bound.label) == (("x",), ("x", "ok"), "sum(x) where ok")
    assert bound.resolve(("int",)).filtered


# Bounds on errors, on 1,000 windows each


def partials_of(bound, kind, values):
    """A kernel, and the partials of the rows of a matrix."""
    each = kernel("x", bound.resolve((kind,)))
    rows, width = values.shape
    return each, each.fold([values.ravel()], np.arange(rows) * width, values.size)


@pytest.mark.parametrize("rsd", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("many", [100, 3000])
def test_distinct_counts_have_the_deviation_that_they_say(rsd, many):
    values = np.random.default_rng(5).integers(-(2**62), 2**62, (1000, many))
    each, partials = partials_of(C.approx_count_distinct("x", rsd), "bigint", values)
    error = each.lower(partials)[0] / many - 1
    # Of 1,000 windows the deviation is known within 2.3 %, the mean within a thirtieth of it.
    assert np.sqrt(np.mean(error**2)) <= rsd
    assert abs(error.mean()) <= 4 * rsd / math.sqrt(1000)


def test_all_nans_are_one_value():
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], np.uint64)
    for bound in (C.count_distinct("x"), C.approx_count_distinct("x")):
        each, partials = partials_of(bound, "double", bits.view(np.float64).reshape(1, 3))
        assert each.lower(partials)[0].tolist() == [1]


def test_a_histogram_has_both_outer_edges():
    found = through(C.histogram("x", [0, 1, 2]), "double", [[(value, 0) for value in (-0.5, 0.0, 1.0, 2.0, 2.5)]])
    assert found == [[1, 2]]


@pytest.mark.parametrize("scale", [0, 2, 18, 22, 30, 38])
def test_decimals_are_the_nearest_doubles(scale):
    """As Python divides whole numbers; the digits, and powers of ten from 10 ** 23 on, may have no equal double."""
    choice = random.Random(scale)
    whole = [choice.randrange(10 ** choice.randint(0, 38)) * choice.choice((1, -1)) for _ in range(3000)]
    whole += [0, 3001 * 10**18, 31 * 10**22, 10**38 - 1, 1 - 10**38, 2**53 - 1, 2**53, 2**53 + 1, -(2**64), -(2**96)]
    few = [each for each in whole if abs(each) <= 2**53]
    for numbers in (whole, few, [2**53 + 1]):
        limbs = [np.array([(each >> 32 * at) & 0xFFFFFFFF for each in numbers], np.int64) for at in range(3)]
        limbs.append(np.array([each >> 96 for each in numbers], np.int64))
        assert as_doubles(f"decimal(38,{scale})", limbs).tolist() == [each / 10**scale for each in numbers]


def test_a_histogram_of_decimals_has_the_values_of_its_edges():
    (found,) = through(C.histogram("x", [0, 3001, 4000]), "decimal(38,18)", [[(Decimal(3001), 0)]])
    assert found == [0, 1]


@pytest.mark.parametrize("values", [(-1e308, 1.7e308), (1.7e308, -1e308), (1e308, math.inf), (-math.inf, math.inf)])
def test_means_that_are_far_apart_are_weighted(values):
    for found in through(C.ewma("x", "1 second"), "double", [[(values[0], 5), (values[1], 5)]]):
        assert repr(found) == repr(values[0] / 2 + values[1] / 2)


def test_distinct_counts_are_those_of_their_union():
    values = np.random.default_rng(6).integers(0, 500, (50, 400))
    each, partials = partials_of(C.approx_count_distinct("x"), "bigint", values)
    halves = [partials_of(C.approx_count_distinct("x"), "bigint", part)[1] for part in (values[:, :90], values[:, 90:])]
    assert each.combine(*halves)[0].tolist() == partials[0].tolist()


@pytest.mark.parametrize("error", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("between", [None, (1e-4, 1e6)])
def test_relative_quantiles_are_within_their_error(error, between):
    shares = [0, 0.01, 0.5, 0.95, 0.99, 1]
    values = np.clip(np.random.default_rng(7).lognormal(2, 2, (1000, 200)), 1e-4, 1e6)
    each, partials = partials_of(C.percentile_relative("x", shares, error, between=between), "double", values)
    found = np.stack(each.lower(partials)[0])
    wanted = np.quantile(values, shares, axis=1, method="lower").T
    assert np.abs(found / wanted - 1).max() <= error


def test_relative_quantiles_of_any_size_and_sign():
    values = [5e-324, 1e-300, 1.0, -1.7976931348623157e308, 1.7976931348623157e308, 0.0, -0.0]
    for value in values:
        (found,) = through(C.percentile_relative("x", 0.5), "double", [[(value, 0)]])
        assert found == value or abs(found / value - 1) <= 0.01
    for special in (math.inf, -math.inf):
        assert through(C.percentile_relative("x", 0.5), "double", [[(special, 0)]]) == [special]
    assert math.isnan(through(C.percentile_relative("x", 1), "double", [[(math.nan, 0), (math.inf, 0)]])[0])
    assert through(C.percentile_relative("x", [0.0, 1.0], between=(1, 10)), "double", [[(-3.0, 0), (math.nan, 0)]]) == [
        [1.0, 10.0]
    ]


def test_sampled_ranks_are_within_their_error():
    pytest.importorskip("datasketches")
    shares, accuracy = [0.01, 0.5, 0.99], 50
    values = np.random.default_rng(8).normal(size=(1000, 2000))
    bound = C.approx_percentile("x", shares, accuracy)
    each, total = partials_of(bound, "double", values[:, :500])
    for start in range(500, 2000, 500):
        total = each.combine(total, partials_of(bound, "double", values[:, start : start + 500])[1])
    found = np.stack(each.lower(total)[0])
    ranks = (
        np.array([np.searchsorted(row, own) for row, own in zip(np.sort(values, axis=1), found, strict=True)]) / 2000
    )
    beyond = (np.abs(ranks - shares) > 1 / accuracy).sum(axis=0)
    # One in fifty may be beyond: of 1,000 20, and 20 + 4 sqrt(20) hardly ever.
    assert beyond.max() <= 38


def test_a_sketch_that_is_made_again_is_another_one_within_the_error():
    """Samples are drawn by lot: the same values in the same order, as in a micro-batch that is repeated."""
    pytest.importorskip("datasketches")
    accuracy, values = 50, np.random.default_rng(10).permutation(4000).astype(float)
    bound = C.approx_percentile("x", 0.5, accuracy)
    each, partials = partials_of(bound, "double", np.tile(values, (200, 1)))
    (found,) = each.lower(partials)
    assert len(set(found.tolist())) > 1
    # One in fifty may be beyond: of 200 4, and 4 + 6 sqrt(4) hardly ever.
    assert (np.abs(np.array(found) - 2000) > 4000 / accuracy).sum() <= 16


def test_samples_cannot_be_drawn_by_a_seed():
    """When this fails, draw them by what a micro-batch that is repeated has again."""
    sketches = pytest.importorskip("datasketches")
    assert "seed" not in sketches.kll_doubles_sketch.__init__.__doc__
    names = *dir(sketches), *dir(sketches.kll_doubles_sketch)
    assert not [name for name in names if "seed" in name or "rand" in name]
    with pytest.raises(TypeError):
        sketches.kll_doubles_sketch(200, seed=1)


@pytest.mark.parametrize("kind", ["tinyint", "bigint", "float", "date", "timestamp"])
def test_sampled_percentiles_of_few_values_are_values(kind):
    pytest.importorskip("datasketches")
    values = [value for value in samples(kind) if not isinstance(value, int) or abs(value) < 2**53]
    for value in values:
        (found,) = through(C.approx_percentile("x", 0.5), kind, [[(value, 0)]])
        assert found == value or value != value
    assert through(C.approx_percentile("x", [0.5]), kind, [[]]) == [None]


def test_frequent_values_are_within_the_error_in_the_result():
    values = np.minimum(np.random.default_rng(9).zipf(1.3, (1000, 900)), 10**6)
    bound = C.top_k("x", 10, exact=False, error=0.02)
    each, total = partials_of(bound, "bigint", values[:, :300])
    for start in (300, 600):
        total = each.combine(total, partials_of(bound, "bigint", values[:, start : start + 300])[1])
    assert max(map(len, total[0].tolist())) <= 50 * 16
    for row, found in zip(values.tolist(), each.results_to_arrow(total, None)[0].to_pylist(), strict=True):
        true = Counter(row)
        assert len(found) == 10
        for item in found:
            assert item["count"] <= true[item["value"]] <= item["count"] + item["error"]
            assert item["error"] <= 0.02 * 900
        # What is frequent beyond the error is there.
        held = {item["value"] for item in found}
        least = found[-1]["count"] + found[-1]["error"]
        assert all(value in held for value, count in true.items() if count > least)


@pytest.mark.parametrize("exact", [True, False])
def test_frequent_texts(exact):
    words = ["b", "a", "ä", "b", "c", "a"]
    found = through(C.top_k("x", 2, exact=exact), "string", [[(word, 0) for word in words], []])
    assert [(item["value"], item["count"]) for item in found[0]] == [("a", 2), ("b", 2)]
    assert found[1] == []


@pytest.mark.parametrize("most", [1, 5, 2**40, 2**62])
@pytest.mark.parametrize("rows", [0, 1, 400])
def test_rows_by_count_are_those_of_a_stable_sort(most, rows):
    rng = np.random.default_rng(most % 97 + rows)
    cells = np.sort(rng.integers(0, 30, rows))
    numbers = np.concatenate([np.arange(np.count_nonzero(cells == cell)) for cell in range(30)])
    tables = Tables(30, cells, (numbers,), rng.integers(1, most + 1, rows))
    order, place = _by_count(tables)
    wanted = sorted(range(rows), key=lambda row: (cells[row], -tables.counts[row], numbers[row]))
    assert order.tolist() == wanted
    assert place.tolist() == numbers.tolist()


@pytest.mark.parametrize("many", [2, 500])
def test_tables_that_are_sorted_are_folded_as_others(many):
    rng = np.random.default_rng(many)
    parts = [np.unique(rng.integers(0, 3000, 1500)) for _ in range(many)]
    values, counts = np.concatenate(parts), np.ones(sum(map(len, parts)), np.int64)
    cells = np.zeros(len(values), np.int64)
    for order in (np.arange(len(values)), rng.permutation(len(values))):
        tables = Tables(1, cells, (values[order],), counts).folded()
        found, sizes = np.unique(values, return_counts=True)
        assert tables.numbers[0].tolist() == found.tolist()
        assert tables.counts.tolist() == sizes.tolist()


# Streams


SKETCHED = {
    "count_distinct": Case(C.count_distinct("x").resolve(("bigint",)), lambda values: len(set(values))),
    "registers": Case(
        C.approx_count_distinct("x", 0.1).resolve(("bigint",)),
        lambda values: len(set(values)),
        tolerance=lambda values: 3 + 0.5 * len(set(values)),
    ),
    "percentile": Case(
        C.percentile("x", [0.25, 1.0]).resolve(("bigint",)),
        lambda values: [float(q) for q in np.quantile(values, [0.25, 1.0])] if values else None,
    ),
    "bins": Case(
        C.percentile_relative("x", 0.5, between=(1, 1e6)).resolve(("bigint",)),
        lambda values: float(np.quantile(values, 0.5, method="lower")) if values else None,
        tolerance=lambda values: 0.01 * max(values, default=0),
    ),
    "sparse bins": Case(
        C.percentile_relative("x", 0.5).resolve(("bigint",)),
        lambda values: float(np.quantile(values, 0.5, method="lower")) if values else None,
        tolerance=lambda values: 0.01 * max(values, default=0),
    ),
    "histogram": Case(
        C.histogram("x", [0, 50, 200]).resolve(("bigint",)),
        lambda values: np.histogram(values, [0, 50, 200])[0].tolist(),
    ),
    "top": Case(
        C.top_k("x", 2).resolve(("string",)),
        lambda values: [
            {"value": value, "count": count}
            for value, count in sorted(Counter(map(str, values)).items(), key=lambda item: (-item[1], item[0]))[:2]
        ],
        lambda column: column.cast(pa.string()),
    ),
    "set": Case(C.collect_set("x").resolve(("bigint",)), lambda values: sorted(set(values))),
}
TIMED = {
    "list": Case(C.collect_list("x").resolve(("bigint", "bigint")), sorted, timed=True),
    "first": Case(C.first_n("x", 2).resolve(("bigint", "bigint")), lambda values: sorted(values)[:2], timed=True),
    "last": Case(C.last_n("x", 2).resolve(("bigint", "bigint")), lambda values: sorted(values)[-2:], timed=True),
    "delta": Case(
        C.delta("x").resolve(("bigint", "bigint")),
        lambda values: float(max(values) - min(values)) if values else None,
        timed=True,
    ),
    "weighted": Case(
        C.time_weighted_mean("x", "linear").resolve(("bigint", "bigint")),
        lambda values: (max(values) + min(values)) / 2 if values else None,
        tolerance=lambda values: 1e-6 * max(map(abs, values), default=0),
        timed=True,
    ),
}
"""Of values that are the event times."""


NEAR = ("registers", "bins", "sparse bins", "weighted")


def random_records(rng, family, newest, count):
    """Records around an instant, some of them late."""
    for time in np.sort(rng.integers(max(1, newest - 12 * family.advance), newest + 1, count)).tolist():
        yield time, int(rng.integers(3))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [3, 12])
@pytest.mark.parametrize("by_time", [False, True])
def test_streams_are_right_in_every_micro_batch(n, by_time):
    chosen = TIMED if by_time else SKETCHED
    rng, one = np.random.default_rng(n), Scenario(Even.of(n, 1), on_close(), results=list(chosen.values()))
    newest = 5000
    for _ in range(16):
        newest += int(rng.integers(0, 6000))
        one.step(
            [
                (time, key, time if by_time else int(rng.integers(1, 90)))
                for time, key in random_records(rng, one.family, newest, 14)
            ],
            max(0, newest // 1000 - int(rng.integers(0, 8))),
        )
    one.drain()


EMISSIONS = {
    "eager": on_close(),
    "close": on_close(),
    "update": on_update(),
    "newest": on_update(latest_only=True),
    "change": on_change(),
    "drained": on_change(drained=True),
    "ticks": early(every="2 seconds"),
    "counted": early(records=3),
    "corrections": on_close(corrections=True, old=True),
    "discarding": on_close(corrections=True, discarding=True),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize("name", EMISSIONS)
def test_streams_are_right_in_every_emission(name, by_time):
    chosen, emission = TIMED if by_time else SKETCHED, EMISSIONS[name]
    # What goes out on a change is compared exactly, so that what is near can be another one.
    cases = [case for key, case in chosen.items() if not isinstance(emission, OnChange) or key not in NEAR]
    content, grace = RECORDS if name == "eager" else PARTIALS, 2000 if emission.fires_late else 0
    rng, one = np.random.default_rng(4), Scenario(Even.of(8, 1), emission, grace, content, cases)
    newest, rows = 5000, 0
    for step in range(9):
        newest += int(rng.integers(0, 4000))
        records = [
            (time, key, time if by_time else int(rng.integers(1, 60)))
            for time, key in random_records(rng, one.family, newest, 8)
        ]
        rows += len(one.step(records, newest // 1000 - 3, now=step * 1000))
    assert rows > 20


def test_a_window_beyond_its_limit_is_named_on_a_stream():
    from slicing.aggregates.kernel import locating

    case = Case(C.collect_list("x", limit=3).resolve(("bigint", "bigint")), sorted, timed=True)
    one = Scenario(Even.of(4, 1), on_close(), results=[case])
    one.step(evenly(one.family, range(20, 24)), 20)
    with pytest.raises(TooLarge, match=r"got 4, .* for somewhere"), locating(lambda index: "somewhere"):
        one.step([], 1000)


# Conditions, structs, functions of one's own


def test_a_condition_leaves_records_out(monkeypatch):
    arrays = [pa.array([1, 2, None, 4, 8]), pa.array([True, None, True, False, True])]
    for combinator, wanted in ((C.sum, 9), (C.count, 2), (C.first, None), (C.max, 8)):
        bound = combinator("x", where="ok")
        each = kernel("x", bound.resolve(kinds_of(bound, "bigint")))
        more = [pa.array([5, 1, 0, 7, 8])] if len(bound.columns) > 1 else []
        columns, dictionary = fold_arrays(each, [arrays[0], *more, arrays[1]], np.arange(5), np.array([0]))
        assert each.results_to_arrow(columns, dictionary)[0].to_pylist() == [wanted]
    each = kernel("n", C.count(where="ok").resolve(()))
    columns, _ = fold_arrays(each, [arrays[1]], np.array([1, 3, 0, 2, 4]), np.array([0, 2]))
    assert columns[0].tolist() == [0, 3]


def test_values_reduced_by_a_function():
    bound = C.reduce(max, "x")
    assert through_rows(bound, "int", [[3, 9, 4], [], [5]]) == [9, None, 5]
    assert laws.check(bound, [1, 5, -2], kinds=("int",)) is None


def through_rows(bound, kind, groups):
    each = kernel("x", bound.resolve((kind,)))
    rows = []
    for group in groups:
        partials = each.spread(1)
        for value in group:
            one = each.fold([np.array([value], object)], np.array([0]), 1)
            partials = each.combine(partials, one)
        rows += each.results_to_arrow(partials, None)[0].to_pylist()
    return rows


def test_a_candlestick_is_a_struct_of_results():
    candle = C.ohlc("price", "volume", where="ok")
    assert isinstance(candle, Struct)
    assert [bound.label for bound in candle.results.values()][1] == "max(price) where ok"
    assert set(candle.inputs) - {EVENT_TIME} == {"price", "volume", "ok"}


def test_windows_are_tried_by_their_definition():
    assert len(windows_of(hopping(4), 10_000)) == 4


# Every combinator with a condition, in every emission, after what has left, and merged in any order

ENTRIES = (*CATALOGUE, *MORE)


def of_records(bound, kinds, records, condition=None):
    """The result of records (value, second column); a condition holds for some of them."""
    each = kernel("result", bound.resolve(kinds))
    columns = [pa.array(column, arrow_type(of)) for column, of in zip(zip(*records, strict=True), kinds, strict=False)]
    arrays = columns[: len(kinds)] + ([] if condition is None else [pa.array(condition)])
    partials, dictionary = fold_arrays(each, arrays, np.arange(len(records)), np.array([0]))
    (found,) = (array.to_pylist() for array in each.results_to_arrow(partials, dictionary))
    return found[0]


def kinds_with(entry, kind):
    names = entry.of("x", "y").columns
    return (kind, "bigint") if EVENT_TIME in names else (kind, *entry.others)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_condition_is_that_of_the_records_alone(entry):
    """As Spark's `FILTER (WHERE ...)`: what is null or false is as if it had not come."""
    kind = next(kind for kind in ("double", "string", "boolean") if entry.accepts(kind))
    choice, kinds = random.Random(entry.name), kinds_with(entry, kind)
    few = {"double": (1.0, 2.5, -3.0, 60.0), "string": ("a", "b", ""), "boolean": (True, False)}[kind]
    for _ in range(5):
        records = [(choice.choice([*few, None]), choice.choice([3, 5, 8])) for _ in range(12)]
        condition = [choice.choice([True, False, None]) for _ in records]
        kept = [record for record, held in zip(records, condition, strict=True) if held] or [(None, 3)]
        found = of_records(entry.of("x", "y").where("ok"), kinds, records, condition)
        wanted = of_records(entry.of("x", "y"), kinds, kept)
        assert found == wanted or near(found, wanted, 1e-12)
    assert entry.of("x", "y").where("ok").label.endswith(" where ok")


def test_a_struct_takes_a_condition_of_all_its_results():
    for made in (C.struct(a=C.sum("x"), b=C.struct(c=C.count()), where="ok"), C.struct(a=C.sum("x")).where("ok")):
        assert "ok" in made.inputs
    assert [bound.label for bound in C.struct(a=C.sum("x"), b=C.count(), where="ok").results.values()] == [
        "sum(x) where ok",
        "count() where ok",
    ]
    with pytest.raises(InvalidValue, match=r"`sum\(x\) where a` has a condition"):
        C.struct(a=C.sum("x", where="a"), where="b")
    with pytest.raises(InvalidType, match="`where` takes the name of a column of booleans, or a Column; got C"):
        C.struct(a=C.sum("x"), where=C.count())


def test_what_is_approximate_is_not_inverted():
    near = [
        C.top_k("x", 2, exact=False).resolve(("int",)),
        *(entry.resolved(sample_kinds(entry)[0]) for entry in MORE if entry.approximate),
    ]
    assert all(each.approximate and each.invert is None for each in near)
    assert not any(entry.approximate for entry in CATALOGUE)
    with pytest.raises(InvalidValue, match="`invert` must be exact, and `approximate=True` says"):
        replace(C.count().resolve(()), approximate=True)


def test_laws_of_what_is_approximate_leave_out_the_order_of_merging():
    bound = C.top_k("x", 1, exact=False, error=0.5)
    values = [1, 1, 2, 3, 4, 5, 5, 5]
    assert laws.check(bound, values, kinds=("int",)) is None
    strict = replace(bound.resolve(("int",)), approximate=False)
    assert laws.associativity(Bound(strict, ("x",)), values, kinds=("int",)) is not None


@pytest.mark.parametrize("seed", range(4))
def test_frequent_values_are_within_their_error_however_they_are_merged(seed):
    rng = np.random.default_rng(seed)
    bound, error = C.top_k("x", 5, exact=False, error=0.05), 0.05
    values = np.minimum(rng.zipf(1.4, (60, 400)), 10**6)
    cuts = [0, *sorted(rng.choice(np.arange(1, 400), 7, replace=False).tolist()), 400]
    each = kernel("x", bound.resolve(("bigint",)))
    parts = [partials_of(bound, "bigint", values[:, a:b])[1] for a, b in pairwise(cuts)]
    while len(parts) > 1:
        a, b = (parts.pop(int(rng.integers(len(parts)))) for _ in range(2))
        parts.append(each.combine(a, b))
    for row, found in zip(values.tolist(), each.results_to_arrow(parts[0], None)[0].to_pylist(), strict=True):
        true = Counter(row)
        for item in found:
            assert item["count"] <= true[item["value"]] <= item["count"] + item["error"] <= item["count"] + error * 400


NAN, INF = math.nan, math.inf
SPECIAL = {
    "percentile": {NAN: [1.0, 1.5, 2.0, NAN], INF: [1.0, 1.5, 2.0, INF], -INF: [-INF, -INF, 1.0, 2.0]},
    "percentile_relative": {NAN: [1.0, 1.0, 2.0, NAN], INF: [1.0, 1.0, 2.0, INF], -INF: [-INF, -INF, 1.0, 2.0]},
    "median": {NAN: 2.0, INF: 2.0, -INF: 1.0},
    "delta": {NAN: 1.0, INF: 1.0, -INF: 1.0},
    "counter_rate": {NAN: NAN, INF: INF, -INF: NAN},
    "time_weighted_mean": {NAN: NAN, INF: INF, -INF: -INF},
    "ewma": {NAN: NAN, INF: INF, -INF: -INF},
    "histogram": {NAN: [0, 0, 2], INF: [0, 0, 2], -INF: [0, 0, 2]},
}
"""The results of 1, then this value, then 2, a second apart; percentiles at 0, 1/4, 1/2 and 1."""
ALONE = {"delta": lambda _: NAN, "counter_rate": lambda _: None, "histogram": lambda _: [0, 0, 0]}


@pytest.mark.parametrize("special", [NAN, INF, -INF], ids=str)
@pytest.mark.parametrize("name", SPECIAL)
def test_values_that_are_no_numbers(name, special):
    entry = next(entry for entry in MORE if entry.name == name)
    groups = [[(special, 0)], [(1.0, 0), (special, SECOND), (2.0, 2 * SECOND)], [(1.0, 0), (2.0, SECOND)]]
    alone, beside, without = through(entry.of("x"), "double", groups)
    shares = 4 if name.startswith("percentile") else 0
    assert near(alone, ALONE.get(name, lambda value: [value] * shares or value)(special), 0)
    assert near(beside, SPECIAL[name][special], 0.02)
    assert all(map(math.isfinite, without if isinstance(without, list) else [without]))


# Bounds on errors, and what has left, of windows that are assembled from slices

TRUTHS = {
    "percentile_relative": lambda values: [float(q) for q in np.quantile(values, [0, 0.25, 0.5, 1], method="lower")],
    "histogram": lambda values: np.histogram(values, [-1, 0, 0.5, 100])[0].tolist(),
    "count_distinct": lambda values: len(set(values)),
    "median": lambda values: float(np.median(values)),
    "mode": lambda values: min(values, key=lambda value: (-values.count(value), value)),
    "collect_list": list,
    "last_n": lambda values: values[-3:],
    "delta": lambda values: values[-1] - values[0],
    "variance_pop": lambda values: float(np.var(values)),
    "mean": lambda values: math.fsum(values) / len(values),
}


SPIKES = (1e16, INF), (-INF, NAN)
"""In turns: two of them for each combinator."""
OF_DOUBLES = [entry for entry in ENTRIES if entry.accepts("double")]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("entry", "spike"),
    [
        pytest.param(entry, spike, id=f"{entry.name}-{spike}")
        for at, entry in enumerate(OF_DOUBLES)
        for spike in SPIKES[at % 2]
    ],
)
def test_a_spike_that_has_left_leaves_no_trace(entry, spike):
    """Whatever tree it goes through: windows without it are bit for bit those of a stream that never had it."""
    n, count, at = 12, 48, 19
    bound = entry.of("x", "y")
    case = Case(bound.resolve(("double", "bigint")[: len(bound.columns)]), None, timed=len(bound.columns) > 1)
    if case.aggregate.approximate:
        pytest.skip("its samples are drawn by lot")
    values = [float(value) for value in np.random.default_rng(1).integers(1, 9, count) / 8]
    spiked, plain = (closed(case, [*values[:at], middle, *values[at + 1 :]], n) for middle in (spike, 0.5))
    clean = {place: row for place, row in spiked.items() if not place[1] <= at < place[1] + n}
    assert len(clean) > 20
    assert clean == {place: plain[place] for place in clean}
    if entry.name in TRUTHS:
        for (_, window), (_, result) in clean.items():
            wanted = TRUTHS[entry.name](values[max(0, window) : window + n])
            assert near(result, wanted, 0.02 if entry.name == "percentile_relative" else 1e-12)


def closed(case, values, n):
    """The windows of a stream with a value in each slice, which closes every six slices."""
    shape, store, found = shape_of(hopping(n), [case]), MemoryStore(), {}
    records = evenly(shape.family, range(len(values)), value=lambda at, _: values[at])
    block = block_of(shape, [case], records, pa.float64())
    trees = [choose(each, shape.family) for each in shape.kernels]
    for end in range(6, len(values) + 1, 6):
        bucket = SlicedBucket(shape, trees, 0, FINGERPRINT, store)
        bucket.accept([block.between(end - 6, end)])
        found |= results(shape, bucket.close(moment(end)))
    return found


def windows_of_many(bound, values, n):
    """The results of all full windows of n slices, each row of values being the records of a slice."""
    case = Case(bound.resolve(("double",)), None)
    shape = shape_of(hopping(n), [case])
    slices, width = values.shape
    records = [
        (int(shape.family.slice_start(at // width)), 1, value) for at, value in enumerate(values.ravel().tolist())
    ]
    block = block_of(shape, [case], records, pa.float64())
    trees = [choose(each, shape.family) for each in shape.kernels]
    found = results(shape, assemble(shape, trees, block))
    return np.array([found[1, window][1] for window in range(slices - n + 1)])


@pytest.mark.parametrize("between", [None, (1e-4, 1e6)])
def test_relative_quantiles_of_a_thousand_windows_are_within_their_error(between):
    values = np.clip(np.random.default_rng(11).lognormal(0, 3, (1019, 10)), 1e-4, 1e6)
    found = windows_of_many(C.percentile_relative("x", 0.9, 0.02, between=between), values, 20)
    held = np.lib.stride_tricks.sliding_window_view(values, 20, axis=0).reshape(1000, -1)
    wanted = np.quantile(held, 0.9, axis=1, method="lower")
    assert np.abs(found / wanted - 1).max() <= 0.02


def test_distinct_counts_of_a_thousand_windows_have_the_deviation_that_they_say():
    """Windows that do not overlap: what is counted in one says nothing of another."""
    values = np.random.default_rng(12).random((8000, 40))
    found = windows_of_many(C.approx_count_distinct("x", 0.1), values, 8)[::8]
    error = found / 320 - 1
    assert len(error) == 1000
    assert np.sqrt(np.mean(error**2)) <= 0.1
    assert abs(error.mean()) <= 4 * 0.1 / math.sqrt(1000)


@pytest.mark.slow
def test_sampled_ranks_of_a_thousand_windows_are_within_their_error():
    """Ascending in each window, so that its slices have nothing in common."""
    pytest.importorskip("datasketches")
    values = np.sort(np.random.default_rng(13).normal(size=(1000, 2000)), axis=1).reshape(5000, 400)
    found = windows_of_many(C.approx_percentile("x", 0.5, 20), values, 5)[::5]
    ranks = np.array([np.mean(row < own) for row, own in zip(values.reshape(1000, 2000), found, strict=True)])
    # One in fifty may be beyond: of 1,000 20, and 20 + 4 sqrt(20) hardly ever.
    assert (np.abs(ranks - 0.5) > 1 / 20 + 1 / 2000).sum() <= 38


def test_maps_need_combine_and_keep_the_order_of_their_results():
    joined = Aggregate(lambda: "", lambda text, x: text + x, lambda a, b: a + b, ordered=True)
    assert C.by("k", joined.on("x"), limit=9).resolve(("string", "string")).ordered
    assert not C.by("k", C.count(), limit=9).resolve(("string",)).ordered
    eager = Aggregate(lambda: 0, lambda total, x: total + x).on("x")
    with pytest.raises(InvalidValue, match="`by` combines the partials of a value, and aggregate has no `combine`"):
        C.by("k", eager, limit=9).resolve(("string", "bigint"))
