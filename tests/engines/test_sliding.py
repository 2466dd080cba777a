"""Sliding windows in a bucket against windows by definition, under every emission, and what their state may cost."""

import json
import lzma
import random
import time

import numpy as np
import pytest
from golden import open_sliding as golden
from oracle import CASES, Case, CountingStore, block_of, moment, seeds, shape_of
from sliding import World, stream, windows_of

from slicing import Aggregate, group_by, tumbling
from slicing.assembly.ranges import window_references as places
from slicing.engines.sliding.bucket import INSTANTS, SlidingBucket
from slicing.errors import InvalidType, InvalidValue, StateMismatch
from slicing.explain.sliding import SlidingPlan
from slicing.stages.execution_plan import not_before
from slicing.state.format.fingerprint import fingerprint_of
from slicing.triggers.emission import ON_CLOSE, early, on_change, on_close, on_update
from slicing.windows.sliding import sliding

EMISSIONS = [
    on_close(),
    on_update(),
    on_update(latest_only=True),
    on_close(corrections=True),
    on_close(corrections=True, old=True),
    on_close(corrections=True, discarding=True),
    early(records=3),
    early(every="20 milliseconds"),
]
NAMES = [("sum", "highest"), ("joined", "variance"), ("floats", "rows")]


def world_of(rng, emission):
    """A world of any units, and its stream; the difference is of few units, of none, or of many."""
    unit, difference = rng.choice([(1000, 10), (1000, 3), (2000, 1), (1000, 0), (1, 10_000), (1, 3000), (1, 0)])
    window = sliding(f"{difference * unit} microseconds", unit=f"{unit} microseconds", right=rng.random() < 0.6)
    grace = 5000 if emission.fires_late else rng.choice([0, 2, 7]) * max(unit, 1000)
    world = World(window, rng.choice(NAMES), emission, grace, held=rng.random() < 0.5)
    return world, stream(rng, 8, unit, difference, spread=rng.choice([1, 3]))


@pytest.mark.parametrize("seed", seeds(8, 150))
@pytest.mark.parametrize("emission", EMISSIONS, ids=str)
def test_worlds(emission, seed):
    rng = random.Random(seed)
    world, batches = world_of(rng, emission)
    for number, batch in enumerate(batches):
        world.step(*batch, partitions=rng.choice([1, 2, 3]), now=10 * number + rng.randrange(9))
    world.drain()


@pytest.mark.parametrize("emission", [early(records=3), early(every="20 milliseconds")], ids=str)
def test_windows_that_go_out_early_are_some_of_all(emission):
    """Some hold a record since their key went out; others are there because of one, and hold none."""
    shown, behind = 0, 0
    for seed in range(30):
        rng = random.Random(seed)
        world, batches = world_of(rng, emission)
        for number, batch in enumerate(batches):
            before = {record[3] for held in world.model.held.values() for record in held}
            rows = world.model.step(*batch, 10 * number)
            early_ones = [place[1:] for place in rows if place[0] == "early"]
            shown += len(early_ones)
            for key, start, end in early_ones:
                inside = {record[3] for record in world.model.held[key] if start <= record[0] < end}
                behind += inside <= before
    assert shown > 200
    assert behind > 10


def test_worlds_have_what_they_are_for():
    """Late for all, late for some, taken by a window behind an earlier time and by one that ends with a later one."""
    late, behind, ending, both = 0, 0, 0, 0
    for seed in range(60):
        world, batches = world_of(random.Random(seed), on_close())
        for batch in batches:
            first = world.model.number
            world.model.step(*batch)
            late += len(world.model.refused)
            times = {r[0] for held in world.model.held.values() for r in held}
            for start, _ in (taken for number, taken in world.model.some.items() if number >= first):
                behind += start - world.window.unit in times
                ending += start - world.window.unit not in times
        for held in world.model.held.values() if world.window.right else ():
            times = {r[0] for r in held}
            both += len({at - world.window.difference for at in times} & {at + world.window.unit for at in times})
    assert min(late, behind, ending, both) > 5


def bounded(shape, records, cases):
    """All windows of records in three blocks, by (key, start, end)."""
    blocks = [block_of(shape, cases, records[low::3]) for low in range(3) if records[low::3]]
    found = {}
    for frame in places.all_places(shape, blocks):
        keys = frame.names["k0"].to_pylist()
        shown = [
            kernel.results_to_arrow(partials, dictionary)[0].to_pylist()
            for kernel, partials, dictionary in zip(shape.kernels, frame.partials, frame.dictionaries, strict=True)
        ]
        for row, window in enumerate(frame.windows.tolist()):
            start, end = shape.family.window_start(window), shape.family.window_end(window)
            found[keys[frame.keys[row]], start, end] = int(frame.records[row]), *(each[row] for each in shown)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_bounded_input_has_all_windows_and_the_bits_of_the_stream(seed, monkeypatch):
    monkeypatch.setattr(places, "PORTION_BYTES", 4000)  # several windows, and not all
    rng = random.Random(seed)
    unit, difference = rng.choice([(1000, 20), (1, 9000)])
    window = sliding(f"{difference * unit} microseconds", unit=f"{unit} microseconds", right=seed % 2 == 0)
    cases = [CASES["sum"], CASES["variance"]]
    shape = shape_of(window.family, cases)
    records = [(rng.randrange(-90_000, 200_000), rng.choice([None, 1, 2]), rng.randrange(-50, 50)) for _ in range(120)]
    got = bounded(shape, records, cases)
    for key in (None, 1, 2):
        own = [(at // unit * unit, value) for at, other, value in records if other == key]
        for start, end in (wanted := windows_of(window, [at for at, _ in own])):
            values = [value for at, value in own if start <= at < end]
            count, total, variance = got[key, start, end]
            assert (count, total) == (len(values), sum(values))
            assert abs(variance - cases[1].truth(values)) <= cases[1].tolerance(values)
        assert len(wanted) == sum(place[0] == key for place in got)
    once = {(at // unit, key): (at, key, value) for at, key, value in records if at >= 0}
    later = sorted(once.values(), key=lambda record: record[0])
    store, shown = CountingStore(), {}
    for low in range(0, len(later), 7):
        bucket = SlidingBucket(shape, 0, World(window).fingerprint, store, on_close())
        bucket.accept([block_of(shape, cases, later[low : low + 7])])
        for frame in bucket.close(moment((later[low][0] // 1000) if low + 7 < len(later) else 1 << 40)):
            keys = frame.names["k0"].to_pylist()
            variance = shape.kernels[1].results_to_arrow(frame.partials[1], None)[0].to_pylist()
            for row, number in enumerate(frame.windows.tolist()):
                shown[keys[frame.keys[row]], window.family.window_start(number)] = variance[row]
    again = bounded(shape, later, cases)
    assert shown == {(key, start): row[2] for (key, start, _), row in again.items()}


def test_a_watermark_that_jumps_costs_nothing():
    """From 1970 to now in microseconds: only the places there are are looked at."""
    window = sliding("30 days", unit="1 microsecond")
    world = World(window, grace=1000)
    began = time.process_time()
    world.step([(5, 1, 2), (7, 1, 3), (5, 2, 9)], 0)
    now = 1_790_000_000_000
    assert len(world.step([(now * 1000 + 5, 1, 2), (now * 1000, 3, 1)], now)) == 4
    world.drain()
    assert time.process_time() - began < 5


def test_many_keys_and_microseconds_are_more_than_64_bits():
    """10^5 keys, and times of a thousand years: keys times microseconds are 3e21."""
    window = sliding("10 minutes", unit="1 microsecond", right=True)
    shape = shape_of(window.family, [CASES["sum"]])
    year = 31_556_952_000_000
    spread = [(key % 1000 * year + key, key, key) for key in range(100_000)]
    near = [(key % 1000 * year + key + 600_000_000, key, 1) for key in range(0, 100_000, 7)]
    store = CountingStore()
    bucket = SlidingBucket(shape, 0, World(window).fingerprint, store, on_close())
    bucket.accept([block_of(shape, [CASES["sum"]], spread), block_of(shape, [CASES["sum"]], near)])
    frames = list(bucket.close(moment(1 << 50)))
    assert sum(map(len, frames)) == len(spread) + 2 * len(near)
    assert sum(int(frame.records.sum()) for frame in frames) == len(spread) + 3 * len(near)
    assert not store.pages


def test_state_is_bounded_and_written_once():
    """Over ten differences: times of one and a half at most are stored, and written about twice."""
    rng, window = random.Random(4), sliding("1 second")
    world = World(window, held=False)
    most, came = 0, 0
    for second in range(45):
        clock = 200_000 * second
        records = [(max(0, clock + rng.randrange(-300_000, 200_000)), rng.randrange(3), 1) for _ in range(12)]
        records += [(10**12 * (second + 1), 1, 1)] if second % 15 == 10 else []  # far ahead: its page would stay
        world.step(records, max(0, clock - 300_000) // 1000)
        came += len(records)
        instants = world.bucket().instants
        most = max(most, sum(map(len, instants.nodes.read(INSTANTS))))
    assert most <= 12 * 8 * 2 + 3
    assert came < world.written <= 2.1 * came
    world.drain()


def test_a_golden_state_goes_on():
    stored = json.loads(lzma.decompress(golden.FILE.read_bytes()))
    world = golden.world()
    for records, watermark in stored["batches"][: golden.SEEN]:
        world.model.step(records, watermark)
    world.store.text, world.store.pages = stored["header"], dict(stored["pages"])
    assert len(world.bucket().instants.rows(-(1 << 62))) > 3
    rows = sum(len(world.step(records, watermark)) for records, watermark in stored["batches"][golden.SEEN :])
    assert rows > 50
    world.drain()


def test_state_is_of_its_windows():
    """Another difference, unit, or rule for right windows is another state."""
    world, old = World(sliding("10 milliseconds")), World(sliding("10 milliseconds"))
    old.fingerprint = fingerprint_of(old.shape, ["partials"] * 2, [["v"], ["s"]], "1 bucket")
    old.step([(5000, 1, 2)], 0)
    for window in (sliding("11 milliseconds"), sliding("10 milliseconds", unit="2 milliseconds"), "left"):
        window = sliding("10 milliseconds", unit="1 millisecond", right=False) if window == "left" else window
        world = World(window)
        world.store = old.store
        world.fingerprint = fingerprint_of(world.shape, ["partials"] * 2, [["v"], ["s"]], "1 bucket")
        with pytest.raises(StateMismatch, match="sliding"):
            world.bucket()


@pytest.mark.parametrize("first", [0, 3])
def test_emission_and_grace_may_change(first):
    """What has gone out stays out, and what is void stays void, whatever order they come in."""
    emissions = [(on_close(), 0), (on_close(corrections=True), 8000), (on_update(), 3000), (on_close(), 9000)]
    rng, window = random.Random(first), sliding("10 milliseconds")
    world, final = World(window), set()
    for number, (records, watermark) in enumerate(stream(rng, 40)):
        world.emission, world.grace = emissions[(first + number // 4) % 4]
        bucket = world.bucket()
        bucket.accept(world.shipped(records) if records else [])
        for place in world.rows(bucket.close(moment(watermark))):
            assert place[0] != "final" or place not in final
            final.add(place)
        bucket.check()
    assert len(final) > 20


def test_times_are_floored():
    """Times of one millisecond are one, and the window that begins behind one and ends with the other is there once."""
    world = World(sliding("2 milliseconds"))
    assert set(world.step([(1999, 1, 4), (1000, 1, 5), (2500, 1, 7), (4000, 1, 1)], 1)) == set()
    rows = world.step([], 10)
    assert {place[2:] for place in rows} == {(-1000, 2000), (0, 3000), (2000, 5000), (3000, 6000)}
    assert rows["final", 1, -1000, 2000][0][:2] == (2, 9)
    assert rows["final", 1, 2000, 5000][0][:2] == (2, 8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sliding("1 second", unit="1500 microseconds"), "one microsecond or whole milliseconds"),
        (lambda: sliding("1 second", unit="0 seconds"), "one microsecond or whole milliseconds"),
        (lambda: sliding("1500 microseconds"), "multiple of `unit`"),
        (lambda: sliding("-1 second"), "must not be negative"),
        (lambda: sliding("20000000 days"), "shorter than"),
        (lambda: sliding("1 second").windows_of(0), "records decide"),
    ],
)
def test_bad_calls(call, words):
    with pytest.raises(InvalidValue, match=words):
        call()


def test_a_call_says_what_it_is():
    assert [str(sliding(*given, **more)) for given, more in [
        (("10 minutes",), {}),
        (("10 minutes",), {"right": False}),
        (("10 minutes",), {"unit": "1 microsecond"}),
        (("10 minutes",), {"unit": "1 second", "right": False}),
    ]] == [
        "sliding('10 minutes')",
        "sliding('10 minutes', right=False)",
        "sliding('10 minutes', unit='1 microsecond')",
        "sliding('10 minutes', unit='1 second', right=False)",
    ]  # fmt: skip
    assert sliding("1 minute") == sliding("60 seconds", unit="1 millisecond") != sliding("1 minute", right=False)
    with pytest.raises(InvalidType, match="True or False"):
        sliding("1 second", right="no")
    with pytest.raises(InvalidType, match="needs a unit"):
        sliding(10)


def plan_of(*names, streaming=True, emission=ON_CLOSE, **options):
    window = sliding("10 minutes", **options)
    shape = shape_of(window.family, [CASES[name] for name in names], ("bigint",))
    return SlidingPlan(window, shape, ("places",) * len(names), streaming, 4, 2, emission)


def test_a_plan_says_what_sliding_windows_cost():
    text = " ".join(str(plan_of("sum", "variance")).split())
    assert "sliding('10 minutes') on a stream" in text
    assert "2 for each distinct time of a key at most" in text
    assert "a partial for each key and time, floored to 1 millisecond" in text
    assert "places records decide which windows there are" in text
    assert "per record, at most 1 read, 2 writes 1 read, 1 write for each of its windows" in text
    assert "rows held by the process 0 reads, 2 writes" in text
    assert "per window of m times: result0 0 combines" in text
    assert "per window of m times: result1 2 log2(m) combines at most" in text
    assert "1 row for each time of the last 10 minutes" in text
    assert plan_of("sum").state_bytes_per_key == 24 + 20
    left = str(plan_of("sum", right=False, streaming=False))
    assert "1 for each time of a key" in left
    assert "1 through the shuffle" in left
    assert "floored to 1 microsecond" in left
    assert plan_of("sum", streaming=False).state_bytes_per_key == 0


def test_few_combines_for_a_window():
    """For each row of what a window may hold, and for each window, log2 of its times, as the plan says."""
    count, calls = 64, []

    def combine(a, b):
        calls.append(len(a))
        return np.maximum(a, b)

    highest = Aggregate(lambda: -1, lambda acc, v: v, combine, columns=True, laws=False)
    shape = shape_of(sliding("15 milliseconds", right=False).family, [Case(highest, max)])
    block = block_of(shape, [Case(highest, max)], [(1000 * at, 1, at) for at in range(count)])
    calls.clear()
    rows = places.by_key(shape, block)
    (frame,) = places.assemble_places(shape, rows, places.places(shape.family, rows))
    assert frame.partials[0][0].tolist() == list(range(count))
    assert sum(calls) <= 2 * 4 * count


@pytest.mark.parametrize(
    ("tree", "emission", "words"),
    [
        ("eager", ON_CLOSE, "from the times that are there"),
        ("two_layer", ON_CLOSE, "got `two_layer`"),
        ("auto", on_change(), "have none"),
    ],
)
def test_what_has_no_meaning_is_refused(tree, emission, words):
    from slicing.stages.support_of import support_of

    with pytest.raises(InvalidValue, match=words):
        support_of(sliding("1 second")).check(tree, False, emission, True)
    support_of(sliding("1 second")).check("auto", True, on_update(latest_only=True), True)
    with pytest.raises(InvalidValue, match="shares no slices with other windows, as records decide which"):
        group_by(None).window(sliding("1 second"), tumbling("1 minute"), time="ts")


def test_by_the_clock_what_comes_is_not_before_what_has_come():
    """A clock that steps back makes nothing late: its records have the time that the bucket has seen."""
    window = sliding("5 milliseconds")
    world = World(window)
    shown = []
    for clock, count in ((10, 2), (12, 1), (8, 3), (30, 1)):
        bucket = world.bucket()
        blocks = world.shipped([(1000 * clock, 1, 1)] * count)
        late = bucket.accept([not_before(world.shape, block, bucket.head.watermark) for block in blocks])
        assert (late.all, late.some) == (0, 0)
        shown += world.rows(bucket.close(moment(clock))).items()
    assert [(place[2] // 1000, place[3] // 1000, row[0][0]) for place, row in shown] == [
        (5, 11, 2),
        (7, 13, 6),
        (11, 17, 4),
    ]
