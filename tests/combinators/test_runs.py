"""Tables of runs are those of `combine`, bit for bit; frequent values of large tables are those of `Counter`."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import combinators as C
from benchmarks.kernels import Data
from combinators import _runs, _tables
from slicing.aggregates.kernels import kernel
from slicing.assembly.assembling import assemble
from slicing.assembly.choice import choose
from slicing.content.folding import from_records
from slicing.errors import RowFailure

KINDS = {"bigint": int, "double": lambda number: number / 4, "string": "value {}".format, "decimal(30,2)": Decimal}
BOUNDS = {
    "top_k": lambda: C.top_k("x", 3),
    "mode": lambda: C.mode("x"),
    "nearly": lambda: C.top_k("x", 3, exact=False, error=0.02),
}


def rows_of(random, bound, kind, keys, slices, records, values):
    """A kernel, and the partials of rows by key and slice, which have `records` records each."""
    own = kernel("r", bound.resolve((kind,)))
    some = [KINDS[kind](int(number)) for number in random.integers(-values // 2, values // 2, keys * slices * records)]
    columns, dictionary = own.values([pa.array(some, pa.decimal128(30, 2) if kind.startswith("dec") else None)])
    assert dictionary is None
    return own, own.fold(columns, np.arange(0, len(some), records), len(some))


def runs_of(random, keys, slices, count):
    """Runs of each key in any order: of any lengths, some twice, some disjoint, some inside of others."""
    low = random.integers(0, slices, keys * count)
    high = low + 1 + random.integers(0, slices - low)
    at = np.repeat(np.arange(keys) * slices, count)
    order = random.permutation(len(low))
    return (low + at)[order], (high + at)[order]


def combined(own, columns, low, high):
    """The partials of runs, combined one by one."""
    parts = [
        [[column[row : row + 1] for column in columns] for row in range(*run)] for run in zip(low, high, strict=True)
    ]
    found = [reduce(own.combine, run) for run in parts]
    return [np.concatenate([each[field] for each in found]).tolist() for field in range(len(columns))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BOUNDS)
def test_partials_of_runs_are_those_of_combine(monkeypatch, name, kind):
    monkeypatch.setattr(_runs, "_ROOM", 200)  # several parts of a group
    random = np.random.default_rng(len(kind))
    found = 0
    for values in (8, 40):
        own, columns = rows_of(random, BOUNDS[name](), kind, 3, 30, 5, values)
        low, high = runs_of(random, 3, 30, 20)
        runs = own.runs(columns, low, high)
        if runs is not None:
            found += 1
            assert [column.tolist() for column in runs] == combined(own, columns, low, high)
    assert found


def test_rows_outside_of_all_runs_do_not_count():
    own, columns = rows_of(np.random.default_rng(0), C.mode("x"), "bigint", 1, 40, 20, 6)
    low, high = np.array([25, 5, 6]), np.array([32, 20, 12])
    runs = own.runs(columns, low, high)
    assert [column.tolist() for column in runs] == combined(own, columns, low, high)


def test_no_runs_have_no_partials():
    own, columns = rows_of(np.random.default_rng(0), C.mode("x"), "bigint", 1, 4, 2, 6)
    assert own.runs(columns, np.zeros(0, int), np.zeros(0, int)) is None


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("kind", ["bigint", "string"])
def test_tables_without_values_are_empty(name, kind):
    own = kernel("r", BOUNDS[name]().resolve((kind,)))
    columns, low = own.spread(6), np.arange(4)
    runs = own.runs(columns, low, low + 2)
    assert runs is None or [column.tolist() for column in runs] == combined(own, columns, low, low + 2)


def test_values_that_seldom_occur_again_are_combined():
    own, columns = rows_of(np.random.default_rng(0), C.mode("x"), "bigint", 1, 40, 5, 10**9)
    low = np.arange(36)
    assert own.runs(columns, low, low + 4) is None


def test_a_summary_that_omits_values_is_combined():
    low = np.arange(30)
    for values, known in ((40, True), (60, False)):
        own, columns = rows_of(np.random.default_rng(0), BOUNDS["nearly"](), "bigint", 1, 40, 40, values)
        assert (own.runs(columns, low, low + 10) is not None) is known


def test_a_summary_that_has_omitted_values_is_combined():
    own, columns = rows_of(np.random.default_rng(0), BOUNDS["nearly"](), "bigint", 1, 40, 40, 40)
    columns[1][7] = 1
    assert own.runs(columns, np.arange(30), np.arange(30) + 10) is None


@pytest.mark.parametrize("scale", [1, 60, 1_000])
def test_frequent_values_of_large_tables_are_those_of_counter(scale):
    random = np.random.default_rng(scale)
    for k in (1, 4, 200, 400):
        bound = C.top_k("x", k) if k > 1 else C.mode("x")
        own = kernel("r", bound.resolve(("bigint",)))
        tables = [np.repeat(np.arange(300), random.integers(1, 1 + scale, 300)), np.arange(3), np.arange(90) % 80]
        starts = np.cumsum([0, *map(len, tables)])[:-1]
        values = np.concatenate(tables)
        columns, _ = own.values([pa.array(values)])
        (found,) = own.results_to_arrow(own.fold(columns, starts, len(values)), None)
        for table, result in zip(tables, found.to_pylist(), strict=True):
            most = sorted(Counter(table.tolist()).items(), key=lambda each: (-each[1], each[0]))[:k]
            assert result == (most[0][0] if k == 1 else [{"value": value, "count": count} for value, count in most])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*BOUNDS, "median"])
def test_results_of_tables_do_not_depend_on_how_many_are_lowered_at_once(monkeypatch, name, kind):
    """Some of the tables are empty, so that modes and medians are null."""
    if name == "median" and kind == "string":
        pytest.skip("texts have no median")
    bound = BOUNDS.get(name, lambda: C.median("x"))
    own, columns = rows_of(np.random.default_rng(1), bound(), kind, 3, 30, 5, 8)
    columns = [np.concatenate([column, empty, column]) for column, empty in zip(columns, own.spread(7), strict=True)]
    (whole,) = own.results_to_arrow(columns, None)
    assert whole.null_count or "top_k" in name or name == "nearly"
    for room in (1, 300):
        monkeypatch.setattr(_tables, "_AT_ONCE", room)
        assert own.results_to_arrow(columns, None)[0].equals(whole)


def test_tables_that_exceed_their_limit_are_named_by_place_and_number(monkeypatch):
    """Of all tables, not of those that are lowered at once."""
    monkeypatch.setattr(_tables, "_AT_ONCE", 100)
    _, columns = rows_of(np.random.default_rng(1), C.mode("x"), "bigint", 1, 30, 5, 10**9)
    limited = kernel("r", C.mode("x", limit=4).resolve(("bigint",)))
    columns[0][:17] = [table[:64] for table in columns[0][:17]]  # four of five values
    with pytest.raises(RowFailure) as raised:
        limited.lower(columns)
    assert raised.value.index == 17
    columns[0][20] = b"".join(columns[0][20:22])
    with pytest.raises(RowFailure) as raised:
        limited.lower(columns)
    assert (raised.value.index, raised.value.cause) == (17, "got 5, the most are 10")


def windows(data, block, taken):
    """The windows of a block with runs, noting whether they are taken, and without."""
    (own,) = data.shape.kernels

    def of_runs(*arguments):
        found = own.aggregate.partials_of_runs(*arguments)
        taken.append(found is not None)
        return found

    for each in (of_runs, None):
        shape = replace(data.shape, kernels=(kernel("r0", replace(own.aggregate, partials_of_runs=each)),))
        frames = assemble(shape, [choose(own, shape.family)], block)
        yield [(w.windows.tolist(), w.keys.tolist(), *[c.tolist() for c in w.partials[0]]) for w in frames]


@pytest.mark.parametrize(
    "bound", [C.top_k("x", 3), C.top_k("x", 3, exact=False), C.mode("x"), C.percentile("x", 0.5)], ids=str
)
def test_windows_of_many_records_are_those_without_runs(bound):
    data, taken = Data(10, [bound]), []
    found, expected = windows(data, from_records(*data.records(20_000, 3, range(60))), taken)
    assert found == expected
    assert taken == [True]


@pytest.mark.parametrize("kind", ["bigint", "string"])
def test_windows_with_nulls_and_gaps_are_those_without_runs(kind):
    taken = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        count, most = random.integers(1, [2_000, 200])
        data = Data(int(random.integers(2, 20)), [C.mode("x")], kind)
        *records, ((values,),) = data.records(count, int(random.integers(1, 8)), range(most), seed)
        values = values.take(pa.array(random.integers(0, random.integers(1, count + 1), count)))  # fewer different ones
        null = random.random(count) < random.choice([0, 0.5, 0.99, 1])
        found, expected = windows(data, from_records(*records, [[pc.if_else(pa.array(null), None, values)]]), taken)
        assert found == expected
    assert {*taken} == {True, False}
