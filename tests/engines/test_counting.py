"""What count windows cost, keep and refuse; which rows they emit of any records is asked in `test_scenarios.py`."""

import itertools
import json
import lzma
import math
import random
import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from golden import counted as golden
from oracle import CASES, Case, moment
from scenarios.kind import Place
from scenarios.kinds.counting import Counting
from scenarios.scenario import Scenario, records_of

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.fields import Field, arrow_type
from slicing.assembly.ranges import row_runs as ranges
from slicing.content.records import sorted_by
from slicing.engines.counting import contents as counted
from slicing.engines.counting.bucket import all_counted
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, StateMismatch
from slicing.explain.costs import Cost
from slicing.explain.ledgers import CountingPlan
from slicing.state import bucket_cache as memory
from slicing.state.format.fingerprint import fingerprint_of
from slicing.triggers.emission import on_close
from slicing.windows.counting import CountingFamily, counting
from slicing.windows.sets import windows_of_call

ALONE = Case(Aggregate(lambda: "", lambda acc, v: f"{acc}{v},"), CASES["joined"].truth)
"""Records in their order, by an aggregate that cannot combine."""


def made(window, *names, **options):
    return Scenario(Counting(window), on_close(), results=names or ("sum", "joined"), **options)


def stored(world):
    """The rows of the ledger."""
    return len(world.bucket().ledger.rows())


@pytest.mark.parametrize("names", [("sum", "joined"), (ALONE,)], ids=["combined", "records"])
def test_a_key_is_forgotten_one_millisecond_after_its_ttl(names):
    for idle, windows in ((7, 1), (8, 0)):
        world = made(counting(2, ttl="7 milliseconds"), *names)
        world.step([(0, 1, 5)], now=100)
        assert len(world.step([(0, 1, 6)], now=100 + idle)) == windows


@pytest.mark.parametrize("longer", ["1 hour", None])
def test_a_key_that_was_forgotten_is_not_known_again_by_a_longer_ttl(longer):
    """Also where its rows are still stored, beside those of many others."""
    world = made(counting(3, ttl="10 milliseconds"))
    world.step([(0, key, 1) for key in (1, 2)], now=100)
    world.step([(0, key, 1) for key in range(2, 10)], now=105)
    world.step([(0, 3, 1)], now=111)
    assert 1 in world.bucket().ledger.rows().names["k0"].to_pylist()
    after = made(counting(3, ttl=longer))
    after.stores, after.call = world.stores, world.call
    world.kind.window = after.kind.window
    after.step([(0, 4, 1)], now=112)
    assert after.step([(0, key, 1) for key in (1, 1, 2)], now=113).keys() == {("final", 2, 0, 1, 4)}


def test_rows_of_two_lives_of_a_key_lie_in_one_ledger():
    """::

    key 1    1 2 3 |      idle       | 1 2 3 4        counting(4, advance=2), in slices of two
    slices   0   1                     2   3          the second life begins behind the first one
    """
    world = made(counting(4, 2, ttl="10 milliseconds"))
    world.step([(0, 1, 5), (0, 1, 6), (0, 1, 7)], now=0)
    world.step([(0, key, 1) for key in range(10, 30)], now=5)
    world.step([(0, 1, 8)], now=12)
    rows = world.bucket().ledger.rows()
    code = rows.names["k0"].to_pylist().index(1)
    assert rows.index[rows.keys == code].tolist() == [0, 1, 2]
    memory._entries.clear()
    assert world.step([(0, 1, 9)], now=13).keys() == {("final", 1, 0, 1, 3)}
    assert world.step([(0, 1, 10), (0, 1, 11)], now=14).keys() == {("final", 1, 0, 1, 5)}


@pytest.mark.parametrize("names", [("sum", "joined"), ("sum", ALONE)], ids=["combined", "records"])
def test_many_windows_fire_in_parts(names, monkeypatch):
    monkeypatch.setattr(ranges, "ASSEMBLY_BYTES", 2000)
    monkeypatch.setattr(counted, "FOLDED_RECORDS", 100)
    world = made(counting(7, 2), *names)
    records = [(number, 1 + (number % 5 == 0), number) for number in range(700)]
    got = world.step(records)
    assert len(got) == 560 // 2 + 140 // 2
    bucket = made(counting(7, 2), *names).bucket()
    bucket.accept(world.arriving(records_of(records), 1)[0])
    assert len(list(bucket.close(moment(0)))) > 5


@pytest.mark.parametrize(
    ("names", "rows", "times"), [(("sum", "joined"), 5, 2), ((ALONE,), 22, 4)], ids=["combined", "records"]
)
def test_rows_do_not_pile_up_and_are_written_few_times(names, rows, times):
    """Of each key two rows of slices come in a micro-batch at most; a window has four slices, or twenty records."""
    rng, world, came, written = random.Random(5), made(counting(20, 5), *names), 0, 0
    for _ in range(120):
        some = [(0, rng.randrange(30), 1) for _ in range(40)]
        world.emit(some)
        written += world.written
        came += len(some)
        assert stored(world) <= 2 * 30 * rows
    assert written <= times * came
    assert len(world.store.pages) < 20


def test_a_process_that_has_not_got_the_rows_reads_them_once():
    world = made(counting(20, 5))
    for _ in range(5):
        world.emit([(0, key, 1) for key in range(20)])
    memory._entries.clear()
    read = []
    for _ in range(3):
        world.emit([(0, 3, 1)])
        read.append(world.read)
    assert read[0] > 0
    assert read[1:] == [0, 0]


def test_many_keys_of_few_records_each():
    """Twenty thousand keys; one has as many records as all others."""
    count = 20_000
    rng = np.random.default_rng(3)
    keys = np.where(rng.random(2 * count) < 0.5, 0, rng.integers(1, count, 2 * count))
    world = made(counting(4, 2), "sum")
    for low in range(0, 2 * count, count):
        world.step([(0, key, number) for number, key in enumerate(keys[low : low + count].tolist(), low)])
    assert len(world.call.parts[0].held[0]) > 18_000


def test_records_are_stored_as_they_came():
    """Values of all kinds and nulls."""
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    values = {
        "boolean": True, "int": -5, "bigint": 1 << 62, "float": 0.5, "double": math.inf, "string": "é", "binary": b"x",
        "date": noon.date(), "timestamp": noon, "timestamp_ntz": noon.replace(tzinfo=None),
        "decimal(12,2)": Decimal("1.25"),
    }  # fmt: skip
    made = counted.record_kernel([Field("v", kind) for kind in values])
    arrays = [pa.array([value, None, value], arrow_type(kind)) for kind, value in values.items()]
    times = pa.array([3, -4, 5])
    again = made.from_arrow(made.to_arrow(*made.from_arrow([*arrays, times])))
    assert all(a.equals(b) for a, b in zip([*arrays, times], made.to_arrow(*again), strict=True))


ORDERS = {
    "long": [3, None, -5, 3, 7, None, 0],
    "double": [math.nan, 1.5, None, -0.0, 0.0, math.inf, -math.inf],
    "string": ["b", "", None, "a", "é", "b", "Z"],
    "decimal": [Decimal("1.50"), None, Decimal("-3.25"), Decimal("1.50")],
    "boolean": [True, None, False, True],
}


@pytest.mark.parametrize("kind", ORDERS)
def test_bounded_input_goes_by_its_order(kind):
    """Nulls first, NaN last, equal ones as they are read; Spark's own order is asked elsewhere."""
    rng = random.Random(kind)
    world = made(counting(6, 4, order_by="seq"), "joined")
    values = [rng.choice(ORDERS[kind]) for _ in range(90)]
    records = records_of((number, number % 4, number) for number in range(90))
    parts = [records[:50], [], records[50:]]
    column = pa.array(values)

    def place(row):
        value = values[row]
        is_nan = isinstance(value, float) and math.isnan(value)
        return (value is not None, is_nan, 0 if value is None or is_nan else value)

    assert sorted_by(column).tolist() == sorted(range(90), key=place)
    batches = []
    for part in parts:
        ordering = column.take(pa.array([record.number for record in part], pa.int64()))
        shipped = world.ship(part)[0] if part else []
        batches += [replace(each, values=[*each.values[:-1], ordering]) for each in shipped]
    wanted = {}
    for key in range(4):
        mine = sorted((record for record in records if record.key == key), key=lambda record: place(record.number))
        for at, held in world.kind.definition(mine).items():
            wanted["final", key, 0, *at] = held, None
    world.compare(world.rows(all_counted(world.execution_plan.content, batches)), wanted)


@pytest.mark.parametrize("names", [("sum", "joined"), (ALONE,)], ids=["combined", "records"])
def test_a_last_window_that_is_not_full_fires_at_the_end_of_bounded_input_if_asked(names):
    """It is that of the next multiple, and ends with the last record of its key."""
    rng, short = random.Random(4), 0
    for size, advance in [(1, 1), (5, 5), (7, 3), (10, 1), (6, 4), (6, 2), (40, 10)]:
        world = made(counting(size, advance), *names)
        records, wanted = records_of((number, rng.randrange(9), number) for number in range(rng.randrange(30, 120))), {}
        for key in range(9):
            mine = [record for record in records if record.key == key]
            places = world.kind.definition(mine)
            if left := len(mine) % advance:
                first = max(1, len(mine) - left + advance - size + 1)
                places[Place(first, len(mine) + 1)] = mine[first - 1 :]
                short += 1
            wanted |= {("final", key, 0, *at): (held, None) for at, held in places.items()}
        shipped = world.ship(records)[0]
        world.compare(world.rows(all_counted(world.execution_plan.content, shipped, fires_short=True)), wanted)
    assert short > 20


def test_slices_are_of_the_greatest_common_divisor():
    for size, advance in itertools.product(range(1, 25), range(1, 25)):
        if advance > size:
            continue
        family = counting(size, advance).family
        unit = math.gcd(size, advance)
        assert family.longest == size // unit
        for number in range(4):
            last = (number + 1) * advance
            held = range(max(1, last - size + 1), last + 1)
            assert (family.window_start(number), family.window_end(number)) == (held[0], held[-1] + 1)
            slices = {(record - 1) // unit for record in held}
            assert (max(0, family.first_slice(number)), family.end_slice(number)) == (min(slices), max(slices) + 1)
        by_record = family.by_record
        assert by_record == CountingFamily.of(size, advance, 1)
        assert by_record.window_end(np.arange(3)).tolist() == family.window_end(np.arange(3)).tolist()


def test_a_function_that_fails_says_with_which_record():
    def fussy(acc, value):
        return acc + 1 // (value - 99)

    for aggregate, bounds in (
        (Aggregate(int, fussy, lambda a, b: a + b), "record 3, record 5"),
        (Aggregate(int, fussy), "record 3, record 4"),
    ):
        world = made(counting(4, 2), Case(aggregate, len))
        with pytest.raises(FunctionFailed, match=rf"for key \(1,\) in slice \[{bounds}\)"):
            world.emit([(0, 1, 1), (0, 1, 2), (0, 1, 99), (0, 1, 4)])


def test_state_of_other_windows_is_refused():
    world, other = made(counting(6, 2)), made(counting(6, 3))
    for each in (world, other):
        each.fingerprint = fingerprint_of(each.shape, ["partials"] * 3, [["v"], ["v"], [None]], "1 bucket")
    world.step([(0, 1, 1)])
    other.stores = world.stores
    with pytest.raises(StateMismatch, match=r"counting\(6, advance=3\) is new: .*; counting\(6, advance=2\) is gone: "):
        other.step([(0, 1, 1)])


@pytest.mark.parametrize("name", golden.KINDS)
def test_state_as_it_was_first_written_goes_on(name):
    found, world = json.loads(lzma.decompress(golden.FILE.read_bytes()))[name], golden.world(name)
    for records, now in found["batches"][: golden.SEEN]:
        world.known(records, now=now)
    world.store.text, world.store.pages = found["header"], dict(found["pages"])
    assert world.store.pages
    assert sum(len(world.step(records, now=now)) for records, now in found["batches"][golden.SEEN :]) > 10


@pytest.mark.parametrize(("names", "rows"), [(("sum", "joined"), 20), (("sum", ALONE), 200)])
def test_a_plan_counts_rows_of_the_state(names, rows):
    """Of a key just before a window is full, which the bucket has too."""
    world = made(counting(100, 10), *names)
    window, execution_plan = world.kind.window, world.execution_plan
    plan = CountingPlan(window, world.shape, execution_plan.trees, True, 2, 2, values=execution_plan.values)
    text = str(plan)
    assert f"{rows} rows" in text
    assert plan.per_record == Cost(2, 2)
    assert ("records are kept, and each window folds its own, 100 at most" in text) is (rows == 200)
    assert bool(re.search(r"per window: result0 +added, without combines", text)) is (rows == 20)
    world.step([(0, 1, number) for number in range(1099)])
    assert rows // 2 - 10 <= stored(world) <= rows
    assert plan.state_bytes_per_key == rows * plan.row_bytes
    bounded = CountingPlan(window, world.shape, execution_plan.trees, False, 2, 2, values=execution_plan.values)
    assert bounded.state_bytes_per_key == 0
    assert "1 through the shuffle" in str(bounded)


def test_what_these_windows_are_made_with():
    assert repr(counting(100)) == "counting(100)"
    assert (
        repr(counting(100, 10, order_by="seq", ttl="1 day")) == "counting(100, advance=10, order_by='seq', ttl='1 day')"
    )
    assert counting(5) == counting(5, 5)
    for size, advance, error, text in (
        (0, None, InvalidValue, "`size` must be positive and below"),
        (5, 0, InvalidValue, "`advance` must be positive"),
        (1 << 31, 1, InvalidValue, "below 2,147,483,648"),
        (5, 6, InvalidValue, r"If they were swapped, write counting\(6, advance=5\)"),
        ("1 hour", None, InvalidType, "windows of so much time are `hopping`"),
        (5, True, InvalidType, "`advance` is a number of records"),
        (2.0, None, InvalidType, "got 2.0"),
    ):
        with pytest.raises(error, match=text):
            counting(size, advance)
    with pytest.raises(InvalidType, match="`order_by` is the name of a column"):
        counting(5, order_by=3)
    with pytest.raises(InvalidValue, match="at least 1 ms"):
        counting(5, ttl="10 microseconds")
    for asked in (counting(5).windows_of, counting(5).slice_of):
        with pytest.raises(InvalidValue, match=r"of counting\(5\) records decide"):
            asked(0)
    with pytest.raises(InvalidValue, match="shares no slices with other windows, as records of a key decide"):
        windows_of_call([counting(5), counting(6)], {}, False)
