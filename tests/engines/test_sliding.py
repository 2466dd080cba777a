"""What sliding windows cost, keep and refuse; which rows they emit of any records is asked in `test_scenarios.py`."""

import json
import lzma
import math
import random
import time

import numpy as np
import pandas as pd
import pytest
from golden import open_sliding as golden
from oracle import CASES, Case, block_of, cases, moment, seeds, shape_of
from scenarios.kinds.sliding import Sliding
from scenarios.scenario import Process, Scenario, records_of
from scenarios.streams import stream

from slicing import Aggregate, group_by, tumbling
from slicing.assembly.ranges import window_references
from slicing.engines.sliding.bucket import INSTANTS
from slicing.errors import InvalidType, InvalidValue, StateMismatch
from slicing.explain.ledgers import SlidingPlan
from slicing.options import Options
from slicing.stages.output import flat_windows
from slicing.state.format.fingerprint import fingerprint_of
from slicing.triggers.emission import ON_CLOSE, on_change, on_close, on_update
from slicing.windows.lookback import lookbacks
from slicing.windows.sliding import sliding
from slicing.windows.specs import from_spec, windows_text


def made(window, *given, results=("sum",), **options):
    return Scenario(Sliding(window), *(given or [ON_CLOSE]), results=results, **options)


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_bounded_input_has_all_windows_and_the_bits_of_the_stream(seed, monkeypatch):
    monkeypatch.setattr(window_references, "ASSEMBLY_BYTES", 4000)  # several windows, and not all
    rng = random.Random(seed)
    unit, difference = rng.choice([(1000, 20), (1, 9000)])
    window = sliding(f"{difference * unit} microseconds", unit=f"{unit} microseconds", right=seed % 2 == 0)
    one, emitted = made(window, results=("sum", "variance")), {}
    records = [(rng.randrange(-90_000, 200_000), rng.choice([None, 1, 2]), rng.randrange(-50, 50)) for _ in range(120)]
    assert len(one.bounded(records)) > 100
    once = {(at // unit, key): (at, key, value) for at, key, value in records if at >= 0}
    later = sorted(once.values(), key=lambda record: record[0])
    for low in range(0, len(later), 7):
        emitted |= one.emit(later[low : low + 7], later[low][0] // 1000 if low + 7 < len(later) else 1 << 40)
    assert one.bounded(later) == emitted


def test_a_watermark_that_jumps_costs_nothing():
    """From 1970 to now in microseconds: only the places there are are looked at."""
    window = sliding("30 days", unit="1 microsecond")
    world = made(window, ON_CLOSE, 1000)
    began = time.process_time()
    world.step([(5, 1, 2), (7, 1, 3), (5, 2, 9)], 0)
    now = 1_790_000_000_000
    assert len(world.step([(now * 1000 + 5, 1, 2), (now * 1000, 3, 1)], now)) == 4
    world.drain()
    assert time.process_time() - began < 5


def test_many_keys_and_microseconds_are_more_than_64_bits():
    """10^5 keys, and times of a thousand years: keys times microseconds are 3e21."""
    world = made(sliding("10 minutes", unit="1 microsecond", right=True))
    year = 31_556_952_000_000
    spread = [(key % 1000 * year + key, key, key) for key in range(100_000)]
    near = [(key % 1000 * year + key + 600_000_000, key, 1) for key in range(0, 100_000, 7)]
    bucket = world.bucket()
    bucket.accept([each for part in (spread, near) for each in world.arriving(records_of(part), 1)[0]])
    frames = list(bucket.close(moment(1 << 50)))
    assert sum(map(len, frames)) == len(spread) + 2 * len(near)
    assert sum(int(frame.records.sum()) for frame in frames) == len(spread) + 3 * len(near)
    assert not world.store.pages


def test_windows_at_the_ends_of_time_are_there():
    """Spark's timestamps go to the year 294247, at 2 ** 63 microseconds."""
    world = made(sliding("1 second", unit="1 microsecond", right=False))
    records = [(sign * (2**62 + 2_000_000 * at), 1, at) for sign in (1, -1) for at in range(1, 4)]
    assert len(world.bounded(records)) == len(records)


def test_state_is_bounded_and_written_once():
    """Over ten differences: times of one and a half at most are stored, and written about twice."""
    rng, world = random.Random(4), made(sliding("1 second"))
    world.process = Process(rng, "all")
    most, came, written = 0, 0, 0
    for second in range(45):
        clock = 200_000 * second
        records = [(max(0, clock + rng.randrange(-300_000, 200_000)), rng.randrange(3), 1) for _ in range(12)]
        records += [(10**12 * (second + 1), 1, 1)] if second % 15 == 10 else []  # far ahead: its page would stay
        world.emit(records, max(0, clock - 300_000) // 1000)
        came, written = came + len(records), written + world.written
        most = max(most, sum(map(len, world.bucket().instants.nodes.read(INSTANTS))))
    assert most <= 12 * 8 * 2 + 3
    assert came < written <= 2.1 * came
    world.emit([], 1 << 43)
    assert not world.store.pages


def test_a_golden_state_goes_on():
    stored = json.loads(lzma.decompress(golden.FILE.read_bytes()))
    world = golden.world()
    for records, watermark in stored["batches"][: golden.SEEN]:
        world.known(records, watermark)
    world.store.text, world.store.pages = stored["header"], dict(stored["pages"])
    assert len(world.bucket().instants.rows(-(1 << 62))) > 3
    rows = sum(len(world.step(records, watermark)) for records, watermark in stored["batches"][golden.SEEN :])
    assert rows > 50
    world.drain()


def test_state_is_of_its_windows():
    """Another difference, unit, or rule for right windows is another state."""
    stores = made(sliding("10 milliseconds")).stores

    def opened(*given, **options):
        world = made(sliding(*given, **options))
        world.stores, world.fingerprint = stores, fingerprint_of(world.shape, ["partials"], [["v"]], "1 bucket")
        return world

    opened("10 milliseconds").emit([(5000, 1, 2)])
    for given, options in (
        ("11 milliseconds", {}),
        ("10 milliseconds", {"unit": "2 milliseconds"}),
        ("10 milliseconds", {"unit": "1 millisecond", "right": False}),
        ("10 milliseconds", {"unit": "1 millisecond", "right": False, "closed": "left"}),
    ):
        with pytest.raises(StateMismatch, match="sliding"):
            opened(given, **options).bucket()


@pytest.mark.parametrize("first", [0, 3])
def test_emission_and_grace_may_change(first):
    """What has gone out stays out, and what is void stays void, whatever order they come in."""
    emissions = [(on_close(), 0), (on_close(corrections=True), 8000), (on_update(), 3000), (on_close(), 9000)]
    rng, world, final = random.Random(first), made(sliding("10 milliseconds")), set()
    world.kind.step = 5000
    for number, (records, watermark, _) in enumerate(stream(rng, world.kind, batches=40)):
        world.trigger, world.grace = emissions[(first + number // 4) % 4]
        for place in world.emit(records, watermark):
            assert place[0] != "final" or place not in final
            final.add(place)
    assert len(final) > 20


def test_times_are_floored():
    """Times of one millisecond are one, and the window that begins behind one and ends with the other is there once."""
    world = made(sliding("2 milliseconds"))
    assert set(world.step([(1999, 1, 4), (1000, 1, 5), (2500, 1, 7), (4000, 1, 1)], 1)) == set()
    rows = world.step([], 10)
    assert {place[3:] for place in rows} == {(-1000, 2000), (0, 3000), (2000, 5000), (3000, 6000)}
    assert rows["final", 1, 0, -1000, 2000][0][:2] == (2, 9)
    assert rows["final", 1, 0, 2000, 5000][0][:2] == (2, 8)


@pytest.mark.parametrize("closed", ["left", "right", "both", "none"])
def test_ends_are_those_of_pandas_and_of_features(closed):
    """A row for each time, with null results where nothing was before it; `window` ends with the time itself."""
    choice, theirs = random.Random(closed), closed.replace("none", "neither")
    seconds = sorted({choice.randrange(400) for _ in range(120)})
    values = [choice.randrange(-9, 9) for _ in seconds]
    wanted = pd.Series(values, pd.to_datetime(seconds, unit="s")).rolling("10s", closed=theirs, min_periods=1).sum()
    window, used = sliding("10 seconds", right=False, closed=closed), cases("sum", "highest")
    shape = shape_of(window.family, used)
    records = [(second * 10**6, 1, value) for second, value in zip(seconds, values, strict=True)]
    (frame,) = window_references.all_references(shape, [block_of(shape, used, records)])
    rows = flat_windows(shape, frame).to_pydict()
    assert rows["stop"] == [time + 1 for time, _, _ in records]
    assert rows["start"] == [time - 10**7 for time, _, _ in records]
    assert rows["r0"] == [None if math.isnan(each) else int(each) for each in wanted]
    assert rows["r1"].count(None) == rows["r0"].count(None)
    assert (None in rows["r0"]) == (closed in ("left", "none"))
    family = lookbacks("10 seconds", {}, False, closed).family
    starts = family.window_start(family.as_of(np.array([time for time, _, _ in records])))
    held = window.family.slice_start(window.family.first_slice(frame.windows))
    assert np.array_equal(held, starts)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sliding("1 second", closed="left"), "Write `right=False, closed='left'`"),
        (lambda: sliding("1 second", right=False, closed="start"), "one of left, right, both, none; got 'start'"),
        (lambda: sliding("0 seconds", right=False, closed="left"), "holds no instant here"),
        (lambda: sliding("1 microsecond", right=False, closed="none"), "holds no instant here"),
        (lambda: sliding("1 second", unit="1500 microseconds"), "one microsecond or whole milliseconds"),
        (lambda: sliding("1 second", unit="0 seconds"), "one microsecond or whole milliseconds"),
        (lambda: sliding("1500 microseconds"), "multiple of `unit`"),
        (lambda: sliding("-1 second"), "must not be negative"),
        (lambda: sliding("20000000 days"), "shorter than"),
        (lambda: sliding("1 second").windows_of(0), "records decide"),
        (lambda: sliding(), "one difference or several by name; got none"),
        (lambda: sliding("1 hour", ten="10 minutes"), "got '1 hour', ten='10 minutes'"),
        (lambda: sliding(ten="10 minutes", hour="1 hour"), "right windows begin after one; got ten, hour without"),
        (lambda: sliding(one="1 hour", two="60 minutes", right=False), "`one` and `two` are the same window twice"),
        (lambda: sliding(one="-1 hour", right=False), "`one` must not be negative"),
        (lambda: sliding(one="1 second", unit="2 seconds", right=False), "`one` must be a multiple of `unit`"),
        (lambda: sliding(one="1 hour", right=False).windows_of(0), "records decide"),
        (lambda: sliding("1 month", right=False), "`difference`: months, .* need a zone.* zone=.UTC."),
        (lambda: sliding("1 month", zone="UTC"), "got '1 month' with right windows. Write right=False"),
        (lambda: sliding("1 day", unit="1 second", right=False, zone="UTC"), "Leave `unit` out"),
        (lambda: sliding(month="1 month", hour="1 hour", right=False, zone="UTC"), "`month` in one row with others"),
        (lambda: sliding("1 month", right=False, zone="Berlin"), "no time zone 'Berlin'"),
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
        (("10 minutes",), {"right": False, "closed": "left"}),
        ((), {"ten": "10 minutes", "day": "24 hours", "right": False}),
        ((), {"day": "24 hours", "unit": "1 second", "right": False}),
    ]] == [
        "sliding('10 minutes')",
        "sliding('10 minutes', right=False)",
        "sliding('10 minutes', unit='1 microsecond')",
        "sliding('10 minutes', unit='1 second', right=False)",
        "sliding('10 minutes', right=False, closed='left')",
        "sliding(ten='10 minutes', day='1 day', right=False)",
        "sliding(day='1 day', unit='1 second', right=False)",
    ]  # fmt: skip
    for each in (sliding("10 minutes", right=False), sliding("10 minutes", right=False, closed="none")):
        assert windows_text(each.family.spec()) == str(each)
        assert from_spec(json.loads(json.dumps(each.family.spec()))) == each.family
    assert sliding("1 minute") == sliding("60 seconds", unit="1 millisecond") != sliding("1 minute", right=False)
    with pytest.raises(InvalidType, match="True or False"):
        sliding("1 second", right="no")
    with pytest.raises(InvalidType, match="needs a unit"):
        sliding(10)


def plan_of(*names, streaming=True, emission=ON_CLOSE, **options):
    window = sliding("10 minutes", **options)
    shape = shape_of(window.family, [CASES[name] for name in names], ("bigint",))
    return SlidingPlan(window, shape, ("places",) * len(names), streaming, 4, 2, Options(trigger=emission))


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


def test_the_plan_of_several_lengths_has_each_result_once():
    """A row of the state has one partial, and the longest length says how long it stays."""
    window = sliding(ten="10 minutes", hour="1 hour", right=False)
    shape = shape_of(window.family, [CASES["sum"]], ("bigint",))
    plan = SlidingPlan(window, shape, ("places",) * 2, True, 4, 2)
    text = " ".join(str(plan).split())
    assert "1 for each time of a key, of 2 lengths" in text
    assert text.count("1 row for each time of the last 1 hour") == 1
    assert "10 minutes 24" not in text
    assert plan.state_bytes_per_key == plan_of("sum").state_bytes_per_key


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
    rows = window_references.by_key(shape, block)
    (frame,) = window_references.assemble_references(
        shape, rows, window_references.window_references(shape.family, rows)
    )
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
    for window in (sliding("1 second"), sliding(one="1 second", right=False)):
        with pytest.raises(InvalidValue, match="shares no slices with other windows, as records decide which"):
            group_by(None).window(window, tumbling("1 minute"), time="ts")


def test_several_lengths_in_one_row_are_refused_where_rows_are_of_one_window():
    from slicing.stages.support_of import support_of

    support = support_of(sliding(ten="10 seconds", minute="1 minute", right=False))
    with pytest.raises(InvalidValue, match=r"several windows in one row\. Ask for the result by `lookup`"):
        support.check_why(())
    with pytest.raises(InvalidValue, match="keeps the times of records only as long as its own windows"):
        support.check_lookup((), ["windows"])
    with pytest.raises(InvalidValue, match="have none"):
        support.check("auto", False, on_change(), True)
    for refused in (
        lambda: support.check_process("auto", ON_CLOSE, True),
        lambda: support.check_then(ON_CLOSE, "", True),
    ):
        with pytest.raises(InvalidValue, match=r"wide rows are of several.*Give each length a query of its own\."):
            refused()
