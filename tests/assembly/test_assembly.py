"""All windows at once: every tree against brute force, and what only one of them promises."""

import math
from itertools import combinations

import numpy as np
import pytest
from oracle import (
    CASES,
    Case,
    assert_right,
    block_of,
    brute_force,
    cases,
    evenly,
    hopping,
    results,
    shape_of,
)

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.assembly.assembling import assemble
from slicing.assembly.choice import choose, is_additive
from slicing.assembly.trees import matrix
from slicing.content.block import Block
from slicing.windows.families.even import Even

ALL = cases(*CASES)
TREES = {
    "chosen": {},
    "combine only": dict.fromkeys(CASES, "three_layer"),
    "recompute": dict.fromkeys(CASES, "recompute"),
}


def trees_of(shape, forced=()):
    return [dict(forced).get(name, choose(k, shape.family)) for name, k in zip(CASES, shape.kernels, strict=True)]


def random_slicing(rng, kind):
    size = int(rng.integers(1, 80))
    if kind == "divisor":
        advance = int(rng.choice([d for d in range(1, size + 1) if size % d == 0]))
    else:
        advance = int(rng.integers(1, 90 if kind == "any" else 7))
    return Even(size, advance, int(rng.integers(-100, 100)))


def random_records(rng):
    count, span, keys = int(rng.integers(1, 80)), int(rng.integers(1, 400)), int(rng.integers(1, 5))
    times = rng.integers(-span, span, count).tolist()
    names = [key or None for key in rng.integers(0, keys, count).tolist()]
    return list(zip(times, names, rng.integers(-100, 100, count).tolist(), strict=True))


@pytest.mark.parametrize("trees", TREES)
@pytest.mark.parametrize("kind", ["divisor", "small advance", "any"])
@pytest.mark.parametrize("seed", range(2))
def test_random_records(seed, kind, trees):
    for variant in range(4):
        rng = np.random.default_rng((seed, variant))
        family, records = random_slicing(rng, kind), random_records(rng)
        shape = shape_of(family, ALL)
        frames = assemble(shape, trees_of(shape, TREES[trees]), block_of(shape, ALL, records))
        assert_right(results(shape, frames), brute_force(family, records), ALL)


def bits(rows):
    """Results with floats to the last bit."""
    return {place: [x.hex() if isinstance(x, float) else x for x in row] for place, row in rows.items()}


@pytest.mark.parametrize("family", [Even(60, 1), Even(7, 2, 3), Even(24, 12), Even(3, 3), Even(2, 5)])
@pytest.mark.parametrize("seed", range(3, 6))
def test_limits_leave_out_windows_and_change_none(family, seed):
    rng = np.random.default_rng(seed)
    records = random_records(rng)
    shape = shape_of(family, ALL)
    block = block_of(shape, ALL, records)

    def windows(first=None, end=None):
        return bits(results(shape, assemble(shape, trees_of(shape), block, first, end)))

    everything = windows()
    found = sorted(window for _, window in everything)
    for _ in range(5):
        first, end = sorted(rng.integers(found[0] - 3, found[-1] + 4, 2).tolist())
        assert windows(first, end) == {place: row for place, row in everything.items() if first <= place[1] < end}
    middle = found[len(found) // 2]
    assert windows(first=middle) == {place: row for place, row in everything.items() if place[1] >= middle}
    assert windows(end=middle) == {place: row for place, row in everything.items() if place[1] < middle}
    assert windows(middle, middle + 1) == {place: row for place, row in everything.items() if place[1] == middle}
    assert windows(middle, middle) == {}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bytes_", [1, 5_000, 50_000])
@pytest.mark.parametrize("family", [Even(60, 1), Even(7, 2, 3)])
def test_parts_give_the_same_rows_to_the_last_bit(monkeypatch, family, bytes_):
    rng = np.random.default_rng(4)
    records = [(int(t), int(k), int(v)) for t, k, v in rng.integers((-900, 0, -9), (900, 12, 9), (400, 3))]
    shape = shape_of(family, ALL)
    block = block_of(shape, ALL, records)
    whole = list(assemble(shape, trees_of(shape), block))
    assert len(whole) == 1
    monkeypatch.setattr(matrix, "ASSEMBLY_BYTES", bytes_)
    parts = list(assemble(shape, trees_of(shape), block))
    assert len(parts) > 1
    assert bits(results(shape, parts)) == bits(results(shape, whole))
    for frame in parts:
        places = list(zip(frame.keys.tolist(), frame.windows.tolist(), strict=True))
        assert places == sorted(places)


def test_without_rows_there_are_no_windows():
    shape = shape_of(hopping(60), ALL)
    assert list(assemble(shape, trees_of(shape), block_of(shape, ALL, []))) == []


def test_far_apart_records_cost_little():
    family = Even(10**6, 1000)
    records = [(index * 10**15, 1, index) for index in range(-3, 4)]
    shape = shape_of(family, ALL)
    frames = list(assemble(shape, trees_of(shape), block_of(shape, ALL, records)))
    assert sum(map(len, frames)) == 7 * 1000
    assert_right(results(shape, frames), brute_force(family, records), ALL)


@pytest.mark.parametrize("tree", ["two_layer", "three_layer"])
def test_time_without_records_costs_nothing_in_parts(monkeypatch, tree):
    """One record 10^8 slices before the others; none of the time between is looked at."""
    family, case = Even(100_000, 1000), cases("sum")
    records = [(-(10**11), 1, 5), *((1000 * index, 1, index) for index in range(250))]
    shape = shape_of(family, case)
    block, taken = block_of(shape, case, records), []
    take = Block.take
    monkeypatch.setattr(matrix, "ASSEMBLY_BYTES", 1)
    monkeypatch.setattr(Block, "take", lambda block, rows: taken.append(rows) or take(block, rows))
    frames = list(assemble(shape, [tree], block))
    assert len(taken) < 20
    assert_right(results(shape, frames), brute_force(family, records), case)


def float_sums(family, values, tree="three_layer", aggregate=CASES["floats"].aggregate):
    """Float sums by window, of one record per slice."""
    case = [Case(aggregate, math.fsum)]
    shape = shape_of(family, case)
    block = block_of(shape, case, evenly(family, range(len(values))))
    block.partials[0][0][:] = values
    return {window: row[1] for (_, window), row in results(shape, assemble(shape, [tree], block)).items()}


GENERAL = Aggregate(lambda: 0.0, lambda acc, v: acc + v, lambda a, b: a + b, columns=True)


@pytest.mark.parametrize("aggregate", [CASES["floats"].aggregate, GENERAL], ids=["fieldwise", "general"])
@pytest.mark.parametrize("tree", ["three_layer", "recompute"])
@pytest.mark.parametrize("n", [5, 60])
def test_float_sums_are_near_the_true_ones(n, tree, aggregate):
    rng = np.random.default_rng(n)
    values = rng.standard_normal(1000) * 10.0 ** rng.integers(-8, 8, 1000)
    for window, total in float_sums(hopping(n), values, tree, aggregate).items():
        held = values[max(window, 0) : window + n]
        assert abs(total - math.fsum(held)) <= 1e-12 * math.fsum(abs(held))


@pytest.mark.parametrize("tree", ["three_layer", "recompute"])
@pytest.mark.parametrize("n", [5, 60])
@pytest.mark.parametrize("spike", [1e16, math.inf, math.nan])
def test_a_spike_that_has_left_leaves_no_trace(spike, n, tree):
    values = np.full(5 * n, 0.1)
    calm = float_sums(hopping(n), values, tree)
    values[2 * n] = spike
    wild = float_sums(hopping(n), values, tree)
    outside = [window for window in calm if not window <= 2 * n < window + n]
    assert len(outside) == len(calm) - n
    assert [wild[window].hex() for window in outside] == [calm[window].hex() for window in outside]


def test_the_tree_follows_from_what_the_aggregate_can():
    def tree(name, n):
        return choose(shape_of(hopping(n), cases(name)).kernels[0], hopping(n))

    assert [tree("sum", n) for n in (1, 4, 5, 1440)] == ["recompute", "recompute", "two_layer", "two_layer"]
    assert [tree("floats", n) for n in (1, 4, 5, 1440)] == ["recompute", "recompute", "three_layer", "three_layer"]
    additive = [is_additive(k) for k in shape_of(hopping(5), ALL).kernels]
    assert dict(zip(CASES, additive, strict=True)) == {name: name in ("sum", "rows", "parity") for name in CASES}


@pytest.mark.parametrize(
    ("tree", "n", "most"), [("three_layer", 60, 6.0), ("three_layer", 1440, 6.0), ("recompute", 60, 59)]
)
def test_combines_per_window(tree, n, most):
    calls = []

    def join(a, b):
        calls.append(a.size)
        return a + b

    case = [Case(Aggregate(lambda: 0, lambda acc, v: v, join, columns=True), sum)]
    shape = shape_of(hopping(n), case)
    block = block_of(shape, case, evenly(hopping(n), range(10 * n), keys=3))
    calls.clear()
    windows = sum(map(len, assemble(shape, [tree], block)))
    assert sum(calls) / windows <= most


@pytest.mark.parametrize("n", [60, 1440])
def test_combines_for_one_window_are_those_of_its_slices(n):
    calls = []

    def join(a, b):
        calls.append(a.size)
        return a + b

    case = [Case(Aggregate(lambda: 0, lambda acc, v: v, join, columns=True), sum)]
    shape = shape_of(hopping(n), case)
    block = block_of(shape, case, evenly(hopping(n), range(3 * n)))
    calls.clear()
    assert sum(map(len, assemble(shape, ["three_layer"], block, n, n + 1))) == 1
    assert sum(calls) <= 3 * n


def test_what_is_counted_like_records_has_its_own_array_and_type():
    """What changes a partial in place on its way out must not change the counts, nor another aggregate."""
    counted = Aggregate(
        lambda: 0,
        lambda acc, v: np.ones(len(v), dtype=np.int32),
        fieldwise(np.add),
        fieldwise(np.subtract),
        columns=True,
        partial="n int",
    )
    case = [Case(counted, len), Case(counted, len)]
    shape = shape_of(hopping(8), case)
    assert all(map(is_additive, shape.kernels))
    (windows,) = assemble(shape, ["two_layer"] * 2, block_of(shape, case, evenly(hopping(8), range(20))))
    columns = [partial[0] for partial in windows.partials]
    assert [column.tolist() for column in columns] == [windows.records.tolist()] * 2
    assert [column.dtype for column in columns] == [np.int32] * 2
    assert not any(np.shares_memory(*pair) for pair in combinations([windows.records, *columns], 2))
