"""Windows of so many records in a bucket, against lists of all records of each key."""

import itertools
import json
import lzma
import math
import random
import re
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from counting import ALL_CASES, World, stream, windows
from golden import counted as golden
from oracle import moment, results

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.fields import Field, arrow_type
from slicing.assembly.ranges import row_runs as ranges
from slicing.content.ordering import sorted_by
from slicing.engines.counting import contents as counted
from slicing.engines.counting.bucket import all_counted
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, StateMismatch
from slicing.explain.costs import Cost
from slicing.explain.counting import CountingPlan
from slicing.state import bucket_cache as memory
from slicing.state.format.fingerprint import fingerprint_of
from slicing.windows.counting import CountingFamily, counting
from slicing.windows.sets import windows_of_call

SIZES = [(1, 1), (5, 5), (6, 4), (7, 3), (10, 1), (40, 10)]


@pytest.mark.parametrize("names", [("sum", "joined"), ("alone", "highest")], ids=["combined", "records"])
@pytest.mark.parametrize(("size", "advance"), SIZES)
def test_windows_are_those_of_the_definition(size, advance, names):
    """Whether the process keeps its rows or reads them."""
    rows = 0
    for held in (True, False):
        rng, world = random.Random(f"{size} {advance}"), World(counting(size, advance), names, held)
        for records in stream(rng, 40):
            rows += len(world.step(records, partitions=rng.choice([1, 2, 5])))
            assert world.stored() <= 2 * len(world.last) * (world.strategy.content.family.longest + 2)
    assert rows > 200 // advance


@pytest.mark.parametrize("name", ["rows", "floats", "variance", "highest"])
def test_every_kind_of_function_is_counted(name):
    rng, world, rows = random.Random(name), World(counting(12, 4), (name, "joined")), 0
    for records in stream(rng, 40, nulls=False):
        rows += len(world.step(records))
    assert rows > 30


@pytest.mark.parametrize("names", [("sum", "joined"), ("sum", "alone")], ids=["combined", "records"])
def test_a_key_that_was_idle_is_counted_anew(names):
    """Its old rows may still be stored, beside those of keys that were not; nor may they come back."""
    rng, world, now, begun = random.Random(2), World(counting(6, 2, ttl="7 milliseconds"), names), 0, 0
    for number, records in enumerate(stream(rng, 120, keys=6)):
        world.held = number % 3 > 0
        now += rng.choice([0, 1, 2, 9])
        some = [record for record in records if record[1] == 5 or number % 9 < 6] + [(0, 9, 1)]
        begun += sum(world.last.get(key, now) < now - 7 for key in {key for _, key, _ in some})
        world.step(some, now)
    assert begun > 20
    assert world.stored() <= 2 * 7 * 5
    world.step([], now + 100)
    assert not world.store.pages, "idle keys are gone with the next micro-batch"


def test_rows_of_two_lives_of_a_key_lie_in_one_ledger():
    """::

    key 1    1 2 3 |      idle       | 1 2 3 4        counting(4, advance=2), in slices of two
    slices   0   1                     2   3          the second life begins behind the first one
    """
    world = World(counting(4, 2, ttl="10 milliseconds"))
    world.step([(0, 1, 5), (0, 1, 6), (0, 1, 7)], 0)
    world.step([(0, key, 1) for key in range(10, 30)], 5)
    world.step([(0, 1, 8)], 12)
    rows = world.bucket().ledger.rows()
    code = rows.names["k0"].to_pylist().index(1)
    assert rows.index[rows.keys == code].tolist() == [0, 1, 2]
    memory._kept.clear()
    assert world.step([(0, 1, 9)], 13).keys() == {(1, 0)}
    assert world.step([(0, 1, 10), (0, 1, 11)], 14).keys() == {(1, 1)}


@pytest.mark.parametrize("names", [("sum", "joined"), ("sum", "alone")], ids=["combined", "records"])
def test_many_windows_go_out_in_portions(names, monkeypatch):
    monkeypatch.setattr(ranges, "PORTION_BYTES", 2000)
    monkeypatch.setattr(counted, "FOLDED_RECORDS", 100)
    world = World(counting(7, 2), names)
    records = [(number, 1 + (number % 5 == 0), number) for number in range(700)]
    got = world.step(records)
    assert len(got) == 560 // 2 + 140 // 2
    bucket = World(counting(7, 2), names).bucket()
    bucket.accept([world.records(records)])
    assert len(list(bucket.close(moment(0)))) > 5


def test_rows_do_not_pile_up_and_are_written_twice_at_most():
    """Of each key two rows of slices come in a micro-batch at most; a window has four slices."""
    rng, world, came, written = random.Random(5), World(counting(20, 5)), 0, 0
    for _ in range(200):
        some = [(0, rng.randrange(30), 1) for _ in range(40)]
        bucket = world.bucket()
        bucket.accept([world.records(some)])
        list(bucket.close(moment(0)))
        written += bucket.pages.written
        came += len({(key, place) for place, (_, key, _) in enumerate(some)})
        assert len(bucket.ledger.rows()) <= 2 * 30 * 5
    assert written <= 2 * came
    assert len(world.store.pages) < 20


def test_a_process_that_has_not_got_the_rows_reads_them_once():
    world = World(counting(20, 5))
    for _ in range(5):
        world.step([(0, key, 1) for key in range(20)])
    memory._kept.clear()
    read = []
    for _ in range(3):
        bucket = world.bucket()
        bucket.accept([world.records([(0, 3, 1)])])
        list(bucket.close(moment(0)))
        read.append(bucket.pages.read)
    assert read[0] > 0
    assert read[1:] == [0, 0]


def test_many_keys_of_few_records_each():
    """A hundred thousand keys, of which one has as many records as all others."""
    count = 100_000
    rng = np.random.default_rng(3)
    keys = np.where(rng.random(2 * count) < 0.5, 0, rng.integers(1, count, 2 * count))
    world = World(counting(4, 2), ("sum",))
    for low in range(0, 2 * count, count):
        records = [(0, key, number) for number, key in enumerate(keys[low : low + count].tolist(), low)]
        world.step(records)
    assert len(world.came[0]) > 90_000


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
    world = World(counting(6, 4, order_by="seq"), ("joined",))
    values = [rng.choice(ORDERS[kind]) for _ in range(90)]
    records = [(number, number % 4, number) for number in range(90)]
    parts = [records[:50], [], records[50:]]
    column = pa.array(values)

    def place(row):
        value = values[row]
        is_nan = isinstance(value, float) and math.isnan(value)
        return (value is not None, is_nan, 0 if value is None or is_nan else value)

    assert sorted_by(column).tolist() == sorted(range(90), key=place)
    batches = []
    for part in parts:
        made = world.records(part)
        rows = [number for number, *_ in part]
        batches.append(
            type(made)(made.index, made.times, made.names, [*made.values, column.take(pa.array(rows, pa.int64()))])
        )
    got = results(world.shape, list(all_counted(world.strategy.content, batches)))
    wanted = {}
    for key in range(4):
        mine = sorted((row for row in range(90) if row % 4 == key), key=place)
        wanted |= {(key, at): [(row, row) for row in rows] for at, rows in windows(6, 4, mine).items()}
    world.compare(got, wanted)


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

    for name, aggregate in {
        "partials": Aggregate(int, fussy, lambda a, b: a + b),
        "records": Aggregate(int, fussy),
    }.items():
        ALL_CASES["fussy"] = type(ALL_CASES["sum"])(aggregate, len)
        try:
            world = World(counting(4, 2), ("fussy",))
        finally:
            del ALL_CASES["fussy"]
        bucket = world.bucket()
        bucket.accept([world.records([(0, 1, 1), (0, 1, 2), (0, 1, 99), (0, 1, 4)])])
        bounds = {"partials": "record 3, record 5", "records": "record 3, record 4"}[name]
        with pytest.raises(FunctionFailed, match=rf"for key \(1,\) in slice \[{bounds}\)"):
            list(bucket.close(moment(0)))


def test_state_of_other_windows_is_refused():
    world, other = World(counting(6, 2)), World(counting(6, 3))
    for each in (world, other):
        each.fingerprint = fingerprint_of(each.shape, ["partials"] * 3, [["v"], ["v"], [None]], "1 bucket")
    world.step([(0, 1, 1)])
    other.store = world.store
    with pytest.raises(StateMismatch, match="6, 2"):
        other.step([(0, 1, 1)])


@pytest.mark.parametrize("name", golden.KINDS)
def test_state_as_it_was_first_written_goes_on(name):
    stored, made = json.loads(lzma.decompress(golden.FILE.read_bytes()))[name], golden.world(name)
    for records, now in stored["batches"][: golden.SEEN]:
        made.expect(records, now)
    made.store.text, made.store.pages = stored["header"], dict(stored["pages"])
    assert made.store.pages
    assert sum(len(made.step(records, now)) for records, now in stored["batches"][golden.SEEN :]) > 10


@pytest.mark.parametrize(("names", "rows"), [(("sum", "joined"), 20), (("sum", "alone"), 200)])
def test_a_plan_counts_rows_of_the_state(names, rows):
    """Of a key just before a window is full, which the bucket has too."""
    world = World(counting(100, 10), names)
    made = world.strategy
    plan = CountingPlan(world.window, world.shape, made.trees, True, 2, 2, values=made.values)
    text = str(plan)
    assert f"{rows} rows" in text
    assert plan.per_record == Cost(2, 2)
    assert ("records are kept, and each window folds its own, 100 at most" in text) is (rows == 200)
    assert bool(re.search(r"per window: result0 +added, without combines", text)) is (rows == 20)
    world.step([(0, 1, number) for number in range(1099)])
    assert rows // 2 - 10 <= world.stored() <= rows
    assert plan.state_bytes_per_key == rows * plan.row_bytes
    bounded = CountingPlan(world.window, world.shape, made.trees, False, 2, 2, values=made.values)
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
