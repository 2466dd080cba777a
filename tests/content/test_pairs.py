"""Keys times slices or windows beyond 64 bits: advances of microseconds, and a record of the year 9999."""

import numpy as np
import pytest
from oracle import assert_right, block_of, brute_force, cases, hopping, results, shape_of
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario

from slicing.aggregates.sorting import order
from slicing.assembly.assembling import assemble
from slicing.assembly.choice import choose
from slicing.assembly.ranges.point_lookups import lookup
from slicing.content.codec import decode, encode
from slicing.content.folding import fold
from slicing.content.pairs import Pairs
from slicing.engines.sliced.touching import as_before
from slicing.triggers.emission import on_change, on_close, on_update
from slicing.windows.window import Hopping

NOW, YEAR_9999, FAR = 1_790_000_000_000_000, 253_370_764_800_000_000, 1 << 62
KEYS = 80  # times the microseconds up to then: 2e19


def sparse_records(rng, near, far):
    """A record or two of every key within microseconds of one instant, and of some keys within those of another."""
    keys = [*range(KEYS), *rng.integers(0, KEYS, KEYS).tolist()]
    times = [int(near + rng.integers(0, 40)) if i % 3 else int(far + rng.integers(-40, 0)) for i in range(len(keys))]
    return [(time, key, int(rng.integers(-100, 100))) for time, key in zip(times, keys, strict=True)]


@pytest.mark.parametrize("spread", [1, 10**6, 1 << 58, 1 << 61])
def test_pairs_are_numbered_in_their_order(spread):
    rng = np.random.default_rng(spread)
    keys, indices = rng.integers(0, 50, 200), rng.integers(-2, 3, 200) * spread
    pairs = Pairs.over(indices, 50)
    packed = pairs.pack(keys, indices)
    wanted = list(zip(keys.tolist(), indices.tolist(), strict=True))
    assert np.argsort(packed, kind="stable").tolist() == sorted(range(200), key=wanted.__getitem__)
    assert list(zip(*(part.tolist() for part in pairs.unpack(packed)), strict=True)) == wanted
    others = rng.integers(-5 * spread // 2, 5 * spread // 2, 200)
    searched = np.searchsorted(np.sort(packed), pairs.pack(keys, others)).tolist()
    assert searched == [sum(pair < (key, other) for pair in wanted) for key, other in zip(keys, others, strict=True)]


def test_rows_are_ordered_from_end_to_end_of_64_bits_and_either_way_round():
    rng = np.random.default_rng(1)
    ends = rng.choice([-FAR, -FAR + 1, 0, 1, FAR - 1, FAR], 300)
    near, keys = rng.integers(-3, 3, 300), rng.integers(0, 5, 300)
    for first, second in ((ends, keys), (keys, ends), (keys, near), (near, near[::-1])):
        rows, starts = order(first, second)
        places = list(zip(first.tolist(), second.tolist(), strict=True))
        expected = sorted(range(300), key=places.__getitem__)
        assert rows.tolist() == expected
        assert starts.tolist() == [
            i for i, row in enumerate(expected) if not i or places[row] != places[expected[i - 1]]
        ]


@pytest.mark.parametrize(("near", "far"), [(NOW, YEAR_9999), (-FAR - 100, FAR + 100)], ids=["year 9999", "2^63 apart"])
def test_blocks_and_windows_at_once(near, far):
    rng, chosen = np.random.default_rng(2), cases("sum", "most", "joined")
    family = hopping(30, 1)
    shape, records = shape_of(family, chosen), sparse_records(rng, near, far)
    blocks = [decode(shape, encode(shape, block_of(shape, chosen, part))) for part in (records[:90], records[90:])]
    together = fold(shape, blocks)
    together.check(shape)
    trees = [choose(kernel, family) for kernel in shape.kernels]
    got, held = results(shape, assemble(shape, trees, together)), brute_force(family, records)
    assert_right(got, held, chosen)
    names = {name: code for code, name in enumerate(together.names["k0"].to_pylist())}
    wanted = [(names[key], window + step) for key, window in held for step in (0, 10**6)]
    keys, windows = (np.array(column) for column in zip(*wanted, strict=True))
    found = lookup(shape, together, keys, windows)
    assert_right(results(shape, [found.take(np.flatnonzero(found.records))]), held, chosen)


def test_windows_that_a_multiple_of_64_bits_lies_between_are_told_apart():
    """64 keys times 2^58 windows are 2^64: what one number would be for both."""
    rng, chosen = np.random.default_rng(4), cases("most")
    shape, names = shape_of(hopping(1, 1), chosen), range(64)
    near = [(5, key, int(rng.integers(-100, 100))) for key in names]
    far = [(5 + (1 << 58), key, int(rng.integers(-100, 100))) for key in names[::2]]
    block = block_of(shape, chosen, near + far)
    (windows,) = assemble(shape, ["recompute"], block)
    for before in (near, far, near[1::2] + far):
        old = as_before(shape, ["recompute"], block_of(shape, chosen, before), windows, 0, 1 << 62)
        got = results(shape, [old.take(np.flatnonzero(old.records))])
        assert_right(got, brute_force(shape.family, before), chosen)


@pytest.mark.parametrize(
    ("emission", "grace"),
    [
        (on_change(), 0),
        (on_change(drained=True), 0),
        (on_update(), 0),
        (on_close(corrections=True, old=True), 10**18),
    ],
    ids=str,
)
@pytest.mark.parametrize("names", [("most",), ("sum", "parity")], ids=str)
def test_a_stream_with_a_record_of_the_year_9999(emission, grace, names):
    """All windows up to then close at once; `Scenario` compares every row with Python's integers."""
    rng = np.random.default_rng(3)
    one = Scenario(Even(Hopping(7, 1, 0)), emission, grace, results=names)
    records = sparse_records(rng, NOW, YEAR_9999)
    one.step(records[:100], NOW // 1000 - 1)
    one.step(records[100:], YEAR_9999 // 1000 + 1)
    one.step(records[::7], YEAR_9999 // 1000 + 2)
    one.step([], YEAR_9999 // 1000 + 3)
    assert one.seen.total() > KEYS
