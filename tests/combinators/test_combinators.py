"""The catalogue: every combinator keeps the laws and agrees with code that we did not write."""

import importlib
import inspect
import itertools
import math
import pickle
import pkgutil
import random
import statistics
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from folding import fold
from oracle import FINGERPRINT, Case, block_of, evenly, hopping, moment, results, shape_of
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario

import combinators
from combinators.catalogue import CATALOGUE, COMPOSED, MORE, sample_kinds, samples
from slicing import laws
from slicing.aggregates.aggregate import EVENT_TIME, Bound
from slicing.aggregates.fields import FLOATS, INTEGERS, arrow_type, decimal_of, kind_of
from slicing.aggregates.kernels import kernel
from slicing.assembly.assembling import assemble
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.errors import InvalidType, InvalidValue, ResultOverflow
from slicing.laws import checks
from slicing.laws.checks import broken_law
from slicing.laws.dry_runs import _law_samples
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_close

OVERFLOWING = [entry for entry in CATALOGUE if "overflow" in inspect.signature(entry.function).parameters]
CASES = [pytest.param(entry, kind, id=f"{entry.name}-{kind}") for entry in CATALOGUE for kind in sample_kinds(entry)]


def records_of(entry, values):
    """Records for a combinator: with times, in which two records each share one, if it goes by time.

    A second column has ties, values out of order, a null, and NaN where it is compared only.
    """
    if entry.by_time:
        return [(value, time // 2) for time, value in enumerate(values)]
    if not entry.others:
        return [(value,) for value in values]
    others = [2.0, 0.5, 0.5, None, -3.0, math.nan if entry.name in ENDS else 7.25, 1e6, -0.0]
    return [(value, others[place % len(others)]) for place, value in enumerate(values)]


def kinds_of(entry, kind):
    return (kind, "bigint") if entry.by_time else (kind, *entry.others)


def values_of(entry, kind):
    """Samples of a kind; where powers and products of distances would leave no digits, those of ordinary size."""
    values = samples(kind)
    if entry.name not in POWERS:
        return values
    ordinary = [value for value in values if not math.isfinite(value) or value == 0 or 1e-3 < abs(value) < 1e3]
    return (*(type(values[0])(value) for value in (3, -7, 100)), *ordinary)


def parts(entry, kind):
    """Nothing, each value alone, each ordered pair, all values, and all finite ones."""
    values = values_of(entry, kind)
    finite = [value for value in values if not isinstance(value, float) or math.isfinite(value)]
    return [[], *([value] for value in values), *map(list, itertools.permutations(values, 2)), list(values), finite]


# References


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


def spark_order(value):
    """Null before all values, NaN after them."""
    return (0,) if value is None else (2,) if is_nan(value) else (1, value)


def exact_sum(values, kind):
    if kind in FLOATS:
        return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
    return sum(map(Fraction, values)) if decimal_of(kind) else sum(values)


def exact_mean(values, kind):
    if kind in INTEGERS:
        return float(Fraction(sum(values), len(values)))
    return exact_sum(values, kind) / len(values)


def exact_variance(values, missing):
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(float(value)) for value in values]
    return float(statistics.pvariance(exact) * len(exact) / (len(exact) - missing))


def deviation(values, missing):
    return math.sqrt(exact_variance(values, missing))


def end(records, last):
    records = [record for record in records if record[1] is not None]
    if not records:
        return None
    ends = sorted({spark_order(by) for _, by in records})
    return min((value for value, by in records if spark_order(by) == ends[-1 if last else 0]), key=spark_order)


def powers(values, highest):
    """n and the sums of powers of distances from the mean, exactly; None where a value is NaN or infinite."""
    if not all(map(math.isfinite, values)):
        return None
    exact = [Fraction(float(value)) for value in values]
    mean = sum(exact) / len(exact)
    return [len(exact), *(sum((x - mean) ** power for x in exact) for power in range(2, highest + 1))]


def exact_skewness(values):
    known = powers(values, 3)
    if known is None:
        return math.nan
    n, m2, m3 = known
    return None if m2 == 0 else math.copysign(math.sqrt(m3 * m3 / n / n / (m2 / n) ** 3), m3)


def exact_kurtosis(values):
    known = powers(values, 4)
    if known is None:
        return math.nan
    n, m2, _, m4 = known
    return None if m2 == 0 else float(n * m4 / (m2 * m2) - 3)


def together(pairs):
    """n, means, co-moment and squared distances of pairs, exactly; None where a value is NaN or infinite."""
    if not all(math.isfinite(value) for pair in pairs for value in pair):
        return None
    xs, ys = ([Fraction(float(value)) for value in column] for column in zip(*pairs, strict=True))
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    products = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return len(xs), x, y, products, sum((a - x) ** 2 for a in xs), sum((b - y) ** 2 for b in ys)


def paired(name, pairs):
    """The reference of a combinator of two columns."""
    if name in ("covar_samp", "corr") and len(pairs) < 2:
        return None
    if name.startswith("regr") and len({second for _, second in pairs}) == 1 and math.isfinite(pairs[0][1]):
        return None
    known = together(pairs)
    if known is None:
        return math.nan
    n, first, second, products, m2_first, m2_second = known
    if name == "covar_pop":
        return float(products / n)
    if name == "covar_samp":
        return float(products / (n - 1))
    if name == "corr":
        spread = m2_first * m2_second
        return None if spread == 0 else math.copysign(math.sqrt(products * products / spread), products)
    if name == "regr_slope":
        return float(products / m2_second)
    if name == "regr_intercept":
        return float(first - products / m2_second * second)
    return 1.0 if m2_first == 0 else float(products * products / m2_first / m2_second)


ENDS = ("first", "last", "min_by", "max_by")
PAIRS = ("covar_samp", "covar_pop", "corr", "regr_slope", "regr_intercept", "regr_r2")
POWERS = ("skewness", "kurtosis", *PAIRS)


REFERENCES = {
    "count": lambda values, kind: len(values),
    "sum": exact_sum,
    "mean": exact_mean,
    "min": lambda values, kind: min(values, key=spark_order),
    "max": lambda values, kind: max(values, key=spark_order),
    "variance": lambda values, kind: exact_variance(values, 1),
    "variance_pop": lambda values, kind: exact_variance(values, 0),
    "stddev": lambda values, kind: deviation(values, 1),
    "stddev_pop": lambda values, kind: deviation(values, 0),
    "skewness": lambda values, kind: exact_skewness(values),
    "kurtosis": lambda values, kind: exact_kurtosis(values),
    "count_if": lambda values, kind: sum(values),
    "bool_and": lambda values, kind: all(values),
    "bool_or": lambda values, kind: any(values),
}
FEWEST = {"count": 0, "count_if": 0, "variance": 2, "stddev": 2}


def expected(entry, kind, records):
    if entry.name in ENDS:
        return end(records, entry.name in ("last", "max_by"))
    if entry.others:
        pairs = [record for record in records if None not in record]
        return paired(entry.name, pairs) if pairs else None
    values = [value for (value,) in records if value is not None]
    return None if len(values) < FEWEST.get(entry.name, 1) else REFERENCES[entry.name](values, kind)


def as_type(value, kind):
    """The exact reference rounded to a decimal result, or "overflow"."""
    decimal = decimal_of(kind)
    if kind == "bigint" and isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "overflow"
    if not (decimal and isinstance(value, Fraction)):
        return value
    with localcontext(Context(prec=120)):
        exact = Decimal(value.numerator) / value.denominator
        rounded = exact.quantize(Decimal(1).scaleb(-decimal[1]), ROUND_HALF_UP)
        return rounded if abs(rounded.scaleb(decimal[1])) < 10 ** decimal[0] else "overflow"


def bound_on_error(entry, values):
    """How far a double result may be from the exact one."""
    size = math.fsum(abs(float(v)) for v in values if v is not None and math.isfinite(v))
    if entry.name in ("sum", "mean"):
        return 1e-12 * size
    if entry.name in POWERS:
        return 1e-10 * max(1.0, size) ** 2
    mean = size / max(1, len(values))
    error = 1e-10 * max(exact_variance([v for v in values if v is not None], 0), 1e-4 * mean * mean)
    return math.sqrt(error) if entry.name.startswith("stddev") else error


def assert_equal(entry, found, wanted, values):
    if is_nan(wanted):
        assert is_nan(found)
    elif isinstance(wanted, float) and math.isfinite(wanted) and entry.name not in ("min", "max", *ENDS):
        assert abs(found - wanted) <= bound_on_error(entry, values)
    else:
        assert (found, type(found)) == (wanted, type(wanted))


# What the catalogue holds


def families():
    names = [module.name for module in pkgutil.iter_modules(combinators.__path__) if not module.name.startswith("_")]
    return [importlib.import_module(f"combinators.{name}") for name in names if name != "catalogue"]


def test_every_public_combinator_is_in_the_catalogue():
    public = {
        name: function
        for module in families()
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    entries = (*CATALOGUE, *MORE)
    assert set(public) == {getattr(combinators, name).__name__ for name in combinators.__all__}
    assert all(public.get(entry.name) is inspect.unwrap(entry.function) for entry in entries)
    assert sorted([*COMPOSED, *(name for entry in entries for name in entry.names)]) == sorted(combinators.__all__)
    assert all(getattr(combinators, name) is entry.function for entry in entries for name in entry.names)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_entries_are_complete(entry):
    doc = inspect.getdoc(entry.function)
    assert f"`{entry.reference}" in doc
    assert ">>>" in doc
    assert "null" in doc
    assert entry.name in REFERENCES or entry.name in ENDS or entry.others
    assert all(len(samples(kind)) >= 2 and kind == kind_of(kind) for kind in sample_kinds(entry))
    assert entry.of("x", "y").columns[0] == "x"


@pytest.mark.parametrize(("entry", "kind"), CASES)
def test_aggregates_pickle_and_name_their_result(entry, kind):
    bound = pickle.loads(pickle.dumps(entry.of("x", "y")))
    assert isinstance(bound, Bound)
    assert bound.label == f"{entry.name}({'x, y' if entry.others else 'x'})"
    aggregate = pickle.loads(pickle.dumps(bound.resolve(kinds_of(entry, kind))))
    assert aggregate.columns
    assert len(aggregate.results) == 1


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_kinds_without_meaning_are_refused(entry):
    assert not entry.accepts("interval")
    refused = [kind for kind in ("string", "boolean", "date", "binary") if not entry.accepts(kind)]
    for kind in refused:
        with pytest.raises(
            InvalidType, match=rf"`{entry.name}\(x.*\)` takes .*; got {kind}\. (Take a number|Compute a)"
        ):
            entry.of("x", "y").resolve((kind, *entry.others))


def test_a_column_must_be_a_name():
    with pytest.raises(InvalidType, match="are columns, by name"):
        combinators.sum(3)


@pytest.mark.parametrize("entry", OVERFLOWING, ids=lambda entry: entry.name)
@pytest.mark.parametrize("kind", ["bigint", "double", "decimal(38,18)"])
def test_what_an_overflow_shows_takes_no_part_in_the_state(entry, kind):
    error, null = (entry.function("x", overflow=overflow) for overflow in ("error", "null"))
    assert (error.label, error.columns) == (null.label, null.columns)
    loud, quiet = (bound.resolve((kind,)) for bound in (error, null))
    for name in ("agg", "combine", "invert", "partial", "returns", "view"):
        assert getattr(loud, name) == getattr(quiet, name), name


@pytest.mark.parametrize("entry", OVERFLOWING, ids=lambda entry: entry.name)
@pytest.mark.parametrize("overflow", ["nul", None, True])
def test_what_an_overflow_shows_is_one_of_two(entry, overflow):
    with pytest.raises(InvalidValue, match=r"`overflow` must be 'error' or 'null'"):
        entry.function("x", overflow=overflow)


def test_a_null_of_an_overflow_is_of_its_window_only():
    aggregate = combinators.sum("x", overflow="null").resolve(("bigint",))
    init = tuple(np.zeros(3, np.int64) for _ in range(3))
    one = aggregate.agg(init, np.array([2**62, 2**62 - 1, -(2**63)]))
    assert aggregate.lower(aggregate.combine(one, one)).tolist() == [None, 2**63 - 2, None]


# Laws


@pytest.mark.parametrize(("entry", "kind"), CASES)
def test_laws(entry, kind):
    values = values_of(entry, kind)
    records = records_of(entry, [*values, None, values[0], None])
    found = laws.check(entry.of("x", "y"), records, kinds=kinds_of(entry, kind), rounds=10)
    assert found is None, str(found)


@pytest.mark.parametrize(("entry", "kind"), CASES)
def test_laws_that_are_tried_when_a_query_is_built(entry, kind, monkeypatch):
    """A combinator is not tried then, but would pass."""
    monkeypatch.setattr(checks, "LONGEST", math.inf)
    monkeypatch.setattr(checks, "MOST_SECONDS", math.inf)
    kinds = kinds_of(entry, kind)
    columns = [_law_samples(of) for of in kinds]
    arrays = [pa.array(values, arrow_type(of)) for values, of in zip(columns, kinds, strict=True)]
    aggregate = entry.of("x", "y").resolve(kinds)
    if aggregate.nulls:
        arrays = [pa.concat_arrays([array, pa.nulls(1, array.type)]) for array in arrays]
    found = broken_law(kernel(entry.name, aggregate), arrays)
    assert found is None, str(found)


def test_laws_of_count_without_a_column():
    assert laws.check(combinators.count(), [(), (), ()]) is None


# Results


@pytest.mark.parametrize(("entry", "kind"), CASES)
def test_results_are_those_of_the_reference(entry, kind):
    for values in parts(entry, kind):
        records = records_of(entry, values)
        result_kind = entry.of("x", "y").resolve(kinds_of(entry, kind)).results[0].kind
        wanted = as_type(expected(entry, kind, records), result_kind)
        if wanted == "overflow":
            with pytest.raises(ResultOverflow, match=rf'`{entry.name}\(x\)` of a window must fit.*`overflow="null"`'):
                fold(entry.function("x"), kinds_of(entry, kind), records)
            found = fold(entry.function("x", overflow="null"), kinds_of(entry, kind), records)
            assert found == (result_kind, None)
            continue
        found_kind, found = fold(entry.of("x", "y"), kinds_of(entry, kind), records)
        assert found_kind == result_kind
        assert_equal(entry, found, wanted, values)


@pytest.mark.parametrize(("entry", "kind"), CASES)
def test_nulls_are_as_if_absent_or_the_smallest(entry, kind):
    low, high = values_of(entry, kind)[:2]
    for values in ([None], [None, None, low], [high, None, low, None, None], [low, low, None, high]):
        records = records_of(entry, values)
        result_kind, found = fold(entry.of("x", "y"), kinds_of(entry, kind), records)
        assert_equal(entry, found, as_type(expected(entry, kind, records), result_kind), values)


@pytest.mark.parametrize("name", ["sum", "mean", "variance", "variance_pop", "stddev", "stddev_pop"])
@pytest.mark.parametrize("spread", [1.0, 1e-6, 1e6])
def test_many_doubles_far_from_zero(name, spread):
    choice = random.Random(7)
    values = [1e9 + spread * choice.gauss(0, 1) for _ in range(5000)]
    entry = next(entry for entry in CATALOGUE if entry.name == name)
    _, found = fold(entry.of("x", "y"), ("double",), [(value,) for value in values])
    assert_equal(entry, found, REFERENCES[name](values, "double"), values)


@pytest.mark.parametrize("value", [0.1, 2.0**53 + 2, -1e300])
def test_equal_values_do_not_vary(value):
    assert fold(combinators.variance("x"), ("double",), [(value,)] * 1000) == ("double", 0.0)


def test_sums_and_means_of_integers_that_no_double_holds():
    values = [(2**53 + 1,)] * 1001
    assert fold(combinators.sum("x"), ("bigint",), values) == ("bigint", 1001 * (2**53 + 1))
    assert fold(combinators.mean("x"), ("bigint",), [(2**63 - 1,)] * 100) == ("double", 2.0**63)
    _, mean = fold(combinators.mean("x"), ("bigint",), [(2**62 + i,) for i in range(1000)])
    assert abs(mean - (2**62 + 499.5)) <= 2 * math.ulp(2.0**62)


def test_a_sum_that_left_its_type_comes_back():
    """Partials have room: only the sum of a window has to fit."""
    aggregate = combinators.sum("x").resolve(("bigint",))
    init = tuple(np.zeros(1, np.int64) for _ in range(3))
    most, more = (aggregate.agg(init, np.array([value])) for value in (2**63 - 1, 1))
    both = aggregate.combine(most, more)
    with pytest.raises(ResultOverflow, match=r"must fit bigint; got 9223372036854775808\. Cast .* decimal\(38,0\)"):
        aggregate.lower(both)
    assert aggregate.lower(aggregate.invert(both, most)).tolist() == [1]


def doubled(aggregate, value, times):
    """The partial of 2^times records of one value, an array for each argument."""
    partial = aggregate.agg(tuple(np.zeros(1, np.int64) for _ in aggregate.fields), value)
    for _ in range(times):
        partial = aggregate.combine(partial, partial)
    return partial


def limbs_of(unscaled):
    words = np.frombuffer(unscaled.to_bytes(16, "little", signed=True), "<u4").astype(np.int64)
    return tuple(word.reshape(1) for word in (*words[:3], words[3].astype(np.int32).astype(np.int64)))


def most(bits, values, times):
    """The values whose sum, over so many records and two more, has less than so many bits."""
    return [(value, n) for value, n in itertools.product(values, times) if abs(value) * (2**n + 2) < 2**bits]


@pytest.mark.parametrize(
    ("value", "times"), most(95, [-1, 1, 3, 2**31 - 1, -(2**31) - 1, 2**63 - 1, -(2**63)], [31, 32, 40, 62])
)
def test_integers_are_exact_for_any_number_of_records(value, times):
    total, one = value << times, np.array([value])
    for combinator, wanted in ((combinators.sum, total), (combinators.mean, float(value))):
        aggregate = combinator("x").resolve(("bigint",))
        partial = doubled(aggregate, one, times)
        more = aggregate.combine(partial, doubled(aggregate, one, 1))
        less = aggregate.invert(more, doubled(aggregate, one, 1))
        assert [column.tolist() for column in less] == [column.tolist() for column in partial]
        if combinator is combinators.mean:
            assert abs(aggregate.lower(more)[0] - wanted) <= 2 * math.ulp(wanted)
        elif -(2**63) <= total + 2 * value < 2**63:
            assert aggregate.lower(more).tolist() == [total + 2 * value]
        else:
            with pytest.raises(ResultOverflow, match=rf"got {total + 2 * value}\."):
                aggregate.lower(more)


@pytest.mark.parametrize(
    ("unscaled", "times"), most(159, [-1, 1, 2**64 + 3, -(2**95) - 1, 10**38 - 1, 1 - 10**38], [31, 32, 62])
)
def test_decimals_are_exact_for_any_number_of_records(unscaled, times):
    total, value = unscaled * (2**times + 1), limbs_of(unscaled)
    for combinator, wanted in ((combinators.sum, total), (combinators.mean, unscaled * 10**4)):
        aggregate = combinator("x", overflow="null").resolve(("decimal(38,0)",))
        partial = aggregate.combine(doubled(aggregate, value, times), doubled(aggregate, value, 0))
        (found,) = aggregate.lower(partial).tolist()
        scale = decimal_of(aggregate.results[0].kind)[1]
        assert found == (None if abs(wanted) >= 10**38 else Decimal(wanted).scaleb(-scale, Context(80)))
        rest = aggregate.invert(partial, doubled(aggregate, value, times))
        assert [column.tolist() for column in rest] == [column.tolist() for column in doubled(aggregate, value, 0)]


@pytest.mark.parametrize("moved", [-(2**20), -3, 3, 2**20])
def test_windows_read_off_a_running_total_have_limbs_of_any_sign(moved):
    """What a total carried may have come with slices that leave it later, as they were, one by one."""
    integers = np.array([5 + moved]), np.array([7 - (moved << 32)]), np.array([1])
    assert combinators.sum("x").resolve(("bigint",)).lower(integers).tolist() == [(5 << 32) + 7]
    limbs = [np.array([limb]) for limb in (7 - (moved << 32), 5 + moved, 0, 0, 1)]
    kind = "decimal(20,0)"
    assert combinators.sum("x").resolve((kind,)).lower(tuple(limbs)).tolist() == [Decimal((5 << 32) + 7)]


@pytest.mark.parametrize("count", [2**31 + 2, 2**32 - 2**27])
def test_limbs_that_have_wrapped_around_in_a_state_are_read(count):
    """Of partials that were added up without carrying: the low limb of -1 is 2^32 - 1."""
    low = np.array([count * (2**32 - 1)], np.uint64).view(np.int64)
    assert low < 0
    partial = np.array([-count]), low, np.array([count])
    assert combinators.sum("x").resolve(("bigint",)).lower(partial).tolist() == [-count]
    assert combinators.mean("x").resolve(("bigint",)).lower(partial).tolist() == [-1.0]


def test_running_totals_that_wrap_around_leave_windows_right():
    """Slices of 2^40 records each, whose values add up to 2^90: on the way, the limbs of all of them leave int64."""
    family, values = hopping(8), [(-1) ** (i // 200) * (2**50 - i) for i in range(400)]
    case = Case(combinators.mean("x").resolve(("bigint",)), lambda held: math.fsum(held) / len(held))
    shape, records = shape_of(family, [case]), evenly(family, range(400), value=lambda i, _: values[i])
    block = block_of(shape, [case], records)
    for _ in range(40):
        block.partials[0][:] = shape.kernels[0].combine(block.partials[0], block.partials[0])
    bucket = SlicedBucket(shape, ["two_layer"], 0, FINGERPRINT, MemoryStore())
    bucket.accept([block])
    for frames in (assemble(shape, ["two_layer"], block), bucket.close(moment(10**6))):
        found = results(shape, frames)
        for (_, window), (_, mean) in found.items():
            held = values[max(window, 0) : window + 8]
            assert abs(mean - math.fsum(held) / len(held)) <= 2 * math.ulp(2.0**50)


@pytest.mark.parametrize("kind", ["bigint", "decimal(12,0)"])
def test_windows_are_right_while_a_key_drains(kind):
    """A running total that is made anew has its limbs carried; those of the slices that leave it are not."""
    case = Case(combinators.sum("x").resolve((kind,)), sum)
    one = Scenario(Even.of(12, 1), on_close(), results=[case], value=kind)
    one.step(evenly(one.family, range(100, 112), value=lambda i, _: -i))
    for watermark in range(111, 128):
        one.step([(int(one.family.slice_start(watermark + 1)), 1, 5)], watermark)
    one.drain()


def test_an_overflow_is_found_among_many_windows():
    aggregate = combinators.sum("x").resolve(("bigint",))
    init = tuple(np.zeros((3, 2), np.int64) for _ in range(3))
    partial = aggregate.agg(init, np.array([[1, 2], [-(2**63), -1], [3, 4]]))
    assert aggregate.lower(partial).tolist() == [[1, 2], [-(2**63), -1], [3, 4]]
    with pytest.raises(ResultOverflow, match="got -9223372036854775809"):
        aggregate.lower(aggregate.combine(partial, aggregate.agg(init, np.full((3, 2), -1))))


def test_a_null_window_among_others_is_masked():
    aggregate = combinators.mean("x").resolve(("double",))
    lowered = aggregate.lower((np.array([[3.0, 0.0]]), np.array([[2, 0]])))
    assert lowered.tolist() == [[1.5, None]]


def test_means_of_decimals_round_half_away_from_zero():
    kind = "decimal(38,4)"
    for values, wanted in (((1, 2), "1.5"), ((2, 1, 1), "1.33333333"), ((-2, -2, -1), "-1.66666667")):
        found = fold(combinators.mean("x"), (kind,), [(Decimal(value),) for value in values])
        assert found == ("decimal(38,8)", Decimal(wanted))
    tiny = [(Decimal("0.0001"),)] + [(Decimal(0),)] * 19999
    assert fold(combinators.mean("x"), (kind,), tiny)[1] == Decimal("0.00000001")


@pytest.mark.parametrize("end", [combinators.first, combinators.last])
def test_ends_go_by_time_then_by_value(end):
    assert end("x").columns == ("x", EVENT_TIME)
    edge = 5 if end is combinators.first else 9
    for values, wanted in (((3.0, math.nan, 2.0), 2.0), ((3.0, None, 2.0), None), ((math.nan, 7.0), 7.0)):
        for order in itertools.permutations(values):
            records = [(0.0, 7), *((value, edge) for value in order), (-1.0, 6)]
            assert fold(end("x"), ("double", "bigint"), records) == ("double", wanted)


def test_samples_of_unknown_kinds_are_not_invented():
    with pytest.raises(KeyError):
        samples("interval")
    with pytest.raises(InvalidValue):
        kind_of("interval")
