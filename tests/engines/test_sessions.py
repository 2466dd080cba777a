"""Sessions in a bucket against sessions by definition, under both rules of lateness and every emission."""

import json
import lzma
import random
import time

import numpy as np
import pytest
from golden import open_sessions as golden
from oracle import CASES, CountingStore, moment, shape_of
from sessions import Model, World, stream

from slicing import group_by, tumbling
from slicing.engines.sessions.bucket import SessionBucket, all_sessions
from slicing.errors import InvalidType, InvalidValue, StateMismatch
from slicing.explain.sessions import SessionPlan
from slicing.stages.execution_plan import Aggregation, not_before
from slicing.stages.preaggregate import Dropped
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache as memory
from slicing.state.format.fingerprint import fingerprint_of
from slicing.triggers.emission import ON_CLOSE, early, on_change, on_close, on_update
from slicing.windows.session import session

EMISSIONS = [
    on_close(),
    on_close(corrections=True),
    on_close(corrections=True, old=True),
    on_close(corrections=True, discarding=True),
    on_update(),
    on_update(latest_only=True),
    early(records=3),
    early(every="10 milliseconds"),
]
MS = 1000


@pytest.mark.parametrize("held", [True, False], ids=["held", "read"])
@pytest.mark.parametrize("late_by", ["record", "session"])
@pytest.mark.parametrize("emission", EMISSIONS, ids=str)
def test_sessions_are_those_of_the_definition(emission, late_by, held):
    seen = {"merged": 0, "late": 0, "rows": 0, "replaced": 0}
    for seed in range(2):
        rng = random.Random(seed)
        grace = rng.choice([0, 15 * MS, 40 * MS])
        world = World(session("10 milliseconds", late_by=late_by), emission=emission, grace=grace, held=held)
        now = 0
        for records, watermark in stream(rng, 40):
            now += rng.choice([1, 5, 12])
            got = world.step(records, watermark, now, partitions=rng.choice([1, 2, 5]))
            seen["merged"] += sum(kind == "merged" for kind, *_ in got)
            seen["rows"] += len(got)
            seen["replaced"] += len(world.replaced)
        seen["late"] += world.late
        world.drain()
    assert seen["rows"] > 100
    assert (seen["replaced"] > 1) is emission.accumulation.retracts
    assert seen["late"] > 10
    assert (seen["merged"] > 2) is (not emission.fires_once)


@pytest.mark.parametrize("late_by", ["record", "session"])
@pytest.mark.parametrize("emission", [on_close(), on_update(), early(records=3)], ids=str)
def test_each_record_may_bring_a_gap(emission, late_by):
    """Gaps of null, 0 and below, and records without a time, are in no session."""
    gaps, rows, left_out = [None, 0, -5, 1, 2000, 10_000, 10_000, 35_000], 0, 0
    for seed in range(4):
        rng = random.Random(f"gaps {seed}")
        world = World(session(gap_column="gap", late_by=late_by), emission=emission, grace=rng.choice([0, 20 * MS]))
        for records, watermark in stream(rng, 30, gaps=gaps):
            records = [(rng.choice([time] * 9 + [None]), *rest) for time, *rest in records]
            left_out += sum(not world.counts(record) for record in records)
            rows += len(world.step(records, watermark))
        world.drain()
    assert rows > 100
    assert left_out > 100


@pytest.mark.parametrize("name", ["joined", "rows", "floats", "variance", "highest"])
@pytest.mark.parametrize("late_by", ["record", "session"])
def test_every_kind_of_function_goes_into_sessions(name, late_by):
    """`joined` is ordered: what a session had comes before what came, and that by its time."""
    for seed in range(2):
        rng = random.Random(f"{name} {seed}")
        world = World(session("10 milliseconds", late_by=late_by), (name, "sum"), emission=on_update(), grace=40 * MS)
        for records, watermark in stream(rng, 30):
            world.step(records, watermark, partitions=1 if name == "joined" else 3)
        world.drain()


def test_order_is_that_of_times_whatever_the_chunks_and_buckets():
    """Of a micro-batch; so sub-sessions, which may lie within each other, are not made of what is ordered."""
    window = session("10 milliseconds", late_by="session")
    assert not World(window, ("joined", "sum")).strategy.merges
    assert World(window, ("sum",)).strategy.merges
    rng = random.Random(3)
    world = World(window, ("joined",))
    times = [rng.randrange(40 * MS) for _ in range(60)]
    got = world.step([(time, 1, number, 0) for number, time in enumerate(times)], 1000, partitions=5)
    ((_, (_, text)),) = got.items()
    assert text == "".join(f"{number}," for number in sorted(range(60), key=lambda number: times[number]))


def test_kafkas_sessions_close_a_unit_later_and_merge_at_the_same_distance():
    """With a unit of 1 ms [0, 10] is [0, 10 + gap + 1): closed at 16, not at 15; 15 joins it, 16 does not."""
    world = World(session("5 milliseconds", late_by="session", unit="1 millisecond"))
    world.step([(0, 1, 1, 0), (5 * MS, 1, 1, 0), (11 * MS, 1, 1, 0)], 10)
    assert world.step([], 10) == {}
    assert list(world.step([], 11)) == [("final", 1, 0, 11 * MS)]
    assert list(world.step([], 17)) == [("final", 1, 11 * MS, 17 * MS)]


def test_what_closed_is_forgotten_and_never_merged_with():
    """::

    stored     [0           20)  closed by 20, its rows still stored beside those of other keys
    then           [12       22) not late, and a session of its own
    """
    world = World(session("10 milliseconds"))
    others = [(1000 * MS, key, 1, 0) for key in range(2, 8)]
    world.step([(0, 1, 1, 0), (10 * MS, 1, 1, 0), *others], 15)
    assert list(world.step([], 20)) == [("final", 1, 0, 20 * MS)]
    assert world.bucket().rows.count == 8
    world.step([(12 * MS, 1, 5, 0)], 20)
    assert world.bucket().rows.count == 7, "what is void was written out of its way"
    world.step([(1001 * MS, 3, 5, 0)], 20)
    assert list(world.step([], 22)) == [("final", 1, 12 * MS, 22 * MS)]
    world.drain()


@pytest.mark.parametrize("emission", [on_update(), early(records=2)], ids=str)
def test_what_was_shown_of_closed_sessions_is_forgotten_too(emission):
    world = World(session("10 milliseconds"), emission=emission)
    others = [(1000 * MS, key, 1, 0) for key in [*range(2, 8)] * 2]
    world.step([(0, 1, 1, 0), (10 * MS, 1, 1, 0), *others], 15)
    world.step([], 20)
    world.step([(12 * MS, 1, 5, 0), (12 * MS, 1, 5, 0)], 20)
    world.step([(14 * MS, 1, 5, 0), (14 * MS, 1, 5, 0)], 20)
    world.drain()


def test_what_was_shown_of_a_closed_session_is_not_taken_back_by_one_that_lies_over_it():
    """::

    shown      [100  110)  closed by 110
    then    [95              122)  not shown yet
    then    [95                 125)  shown: nothing of it was before
    """
    world = World(session("10 milliseconds", late_by="session"), emission=early(records=4), names=("sum",))
    others = [(1000 * MS, key, 1, 0) for key in [*range(2, 8)] * 4]
    world.step([(100 * MS, 1, 1, 0)] * 4 + others, 15)
    world.step([], 110)
    world.step([(time * MS, 1, 1, 0) for time in (95, 104)] + [(112 * MS, 2, 1, 0)], 110)
    world.step([(112 * MS, 1, 1, 0)], 110)
    assert list(world.step([(115 * MS, 1, 1, 0)] * 3, 110)) == [("early", 1, 95 * MS, 125 * MS)]


def went_on(emissions, graces):
    """The rows of one session [100, 110), at 115 and, when the query has gone on with another option, at 300."""
    found, world = [], World(session("10 milliseconds"), names=("sum",))
    others = [(1000 * MS, key, 1, 0) for key in [*range(2, 8)] * 4]
    steps = ([(100 * MS, 1, 1, 0), *others], 0), ([], 115), ([], 300), ([], 301)
    for (records, watermark), emission, grace in zip(steps, emissions, graces, strict=True):
        world.emission, world.grace = emission, grace * MS
        bucket = world.bucket()
        bucket.accept(world.shipped(records) if records else [])
        found += [place[0] for place in world.rows(bucket.close(moment(watermark))) if place[1] == 1]
    return found


def test_what_has_gone_out_stays_out_when_the_query_changes():
    corrected, once = on_close(corrections=True), ON_CLOSE
    assert went_on([once] * 4, [0, 0, 0, 0]) == ["final"]
    assert went_on([once] * 4, [0, 0, 60, 60]) == ["final"]
    assert went_on([once] * 4, [60, 60, 0, 0]) == ["final"]
    assert went_on([corrected] * 4, [60] * 4) == ["final"]
    assert went_on([corrected, corrected, once, once], [60] * 4) == ["final"]
    assert went_on([on_update(), on_update(), corrected, corrected], [0, 60, 60, 60]) == ["update", "final"]


@pytest.mark.parametrize("late_by", ["record", "session"])
def test_ten_thousand_sub_sessions_of_one_key_come_at_once(late_by):
    """And a day of one session, which they bridge."""
    world = World(session("1 second", late_by=late_by), names=("sum",))
    far = [(number * 3_000_000, 1, 1, 0) for number in range(10_000)]
    began = time.perf_counter()
    bucket = world.bucket()
    bucket.accept(world.shipped(far))
    assert list(bucket.close(moment(0))) == []
    assert bucket.extent() == {"open_windows": 10_000, "slices": 10_000}
    between = [(number * 1_000_000, 1, 1, 0) for number in range(30_000)]
    bucket = world.bucket()
    bucket.accept(world.shipped(between))
    rows = world.rows(bucket.close(moment(40_000_000)))
    assert time.perf_counter() - began < 5
    assert rows == {("final", 1, 0, 30_000_000_000): [40_000, 40_000]}
    assert not world.store.pages


def test_a_session_that_grows_for_ever_does_not_pile_up():
    """Its rows are merged as soon as more than half of them say nothing; idle keys are gone."""
    world = World(session("10 milliseconds"), names=("sum",))
    written = 0
    for step in range(300):
        world.store.forget_counts()
        bucket = world.bucket()
        bucket.accept(world.shipped([(step * 5 * MS, 1, 1, 0), (step * 5 * MS, 2 + step, 1, 0)]))
        list(bucket.close(moment(step * 5)))
        assert world.bucket().rows.count <= 12
        written += bucket.pages.written
    assert written <= 3 * 600
    assert len(world.store.text) < 2000


def test_gaps_of_a_millisecond_and_of_a_month():
    for gap in ("1 millisecond", "30 days"):
        rng = random.Random(gap)
        world = World(session(gap), emission=on_update())
        for records, watermark in stream(rng, 15, gap=world.window.gap):
            world.step(records, watermark)
        world.drain()


@pytest.mark.parametrize("emission", EMISSIONS, ids=str)
def test_a_watermark_from_1970_to_now_costs_nothing(emission):
    world = World(session("10 milliseconds"), emission=emission, names=("sum",))
    world.step([(0, 1, 1, 0)], 0)
    began = time.perf_counter()
    now = 1_750_000_000_000
    world.step([(now * MS, 1, 1, 0)], now)
    world.step([], now + 100)
    assert time.perf_counter() - began < 0.5
    assert not world.store.pages


def test_keys_times_microseconds_may_leave_64_bits():
    """Ends of a hundred thousand keys over two hundred thousand years, as a broken clock gives them."""
    world = World(session("1 second", late_by="session"), names=("sum",))
    far = 1 << 62
    keys = np.arange(100_000)
    records = [
        (int(key) * 7 - (far if key % 3 == 0 else 0) + (far if key % 3 == 1 else 0), int(key), 1, 0) for key in keys
    ]
    shipped = world.shipped(records, chunks=1)
    found = [len(frame) for frame in all_sessions(world.shape, world.window, shipped)]
    assert sum(found) == 100_000


@pytest.mark.parametrize("names", [("sum", "highest", "floats"), ("joined",)])
def test_bounded_input_has_the_sessions_of_all_records(names):
    """Times before 1970 too. Of one time and key all records have one gap, or order would be by gap."""
    rng = random.Random(11)
    world = World(session(gap_column="gap"), names=names)
    records = [r for records, _ in stream(rng, 40, start=-300_000) for r in records]
    records = [(time, key, value, [1, 3000, 10_000][time // 2500 % 3]) for time, key, value, _ in records]
    chosen = support_of(world.window).strategy(
        Aggregation(world.shape, world.strategy.trees, world.strategy.arguments, judges=False)
    )
    assert chosen.merges is ("joined" not in names)
    world.strategy = chosen
    half = len(records) // 2
    shipped = [block for part in (records[:half], records[half:]) for block in world.shipped(part)]
    world.model.emission, world.model.watermark = on_close(), -(1 << 50)
    wanted = world.model.step(records, 1 << 43)
    world.compare(world.rows(chosen.all_windows(shipped)), wanted)
    assert len(wanted) > 40


def test_another_gap_is_another_state():
    world = World(session("10 milliseconds"), names=("sum",))

    def opened(window):
        found = fingerprint_of(shape_of(window.family, world.cases), ["partials"], [["v"]], "1 bucket")
        return SessionBucket(world.shape, window, 0, found, world.store, on_close())

    bucket = opened(world.window)
    bucket.accept(world.shipped([(0, 1, 1, 0)]))
    list(bucket.close(moment(0)))
    opened(session("10 milliseconds", late_by="session"))
    with pytest.raises(StateMismatch, match=r'checkpoint `\["session", 10000, null, 0\]`.*`\["session", 20000'):
        opened(session("20 milliseconds"))


def test_calls_are_shown_and_checked():
    assert repr(session("30 minutes")) == "session('30 minutes')"
    assert repr(session(gap_column="g", late_by="session")) == "session(gap_column='g', late_by='session')"
    assert repr(session("1 hour", unit="1 millisecond")) == "session('1 hour', unit='1 millisecond')"
    assert session("1 hour") == session("60 minutes")
    for error, words, call in [
        (InvalidValue, "either `gap` or `gap_column`", lambda: session()),
        (InvalidValue, "either `gap` or `gap_column`", lambda: session("1 hour", gap_column="g")),
        (InvalidType, "name of a column", lambda: session(gap_column=3)),
        (InvalidValue, "`gap` must be positive; got '0 seconds'", lambda: session("0 seconds")),
        (InvalidValue, "must be shorter than", lambda: session("99999999 weeks")),
        (InvalidValue, "`late_by` takes record, session; got 'key'", lambda: session("1 hour", late_by="key")),
        (InvalidValue, "`unit` must be whole milliseconds", lambda: session("1 hour", unit="1 microsecond")),
        (InvalidValue, "of session.* records decide", lambda: session("1 hour").windows_of(0)),
        (InvalidValue, "records decide where it ends. Give it a call alone", both),
    ]:
        with pytest.raises(error, match=words):
            call()


def both():
    group_by(None, "k").window(session("1 hour"), tumbling("1 hour"), time="ts")


@pytest.mark.parametrize("emission", [on_close(), on_update()], ids=str)
def test_sessions_by_the_clock_are_of_what_it_shows(emission):
    """A clock that steps back counts as the greatest that the bucket has seen, and makes nothing late."""
    rng, world = random.Random(8), World(session("10 milliseconds"), emission=emission, names=("sum",))
    stage, model, clock, seen = world.strategy.first_stage((0,)), Model(world.window, emission), 0, 0
    for _ in range(80):
        clock = max(0, clock + rng.choice([0, 1, 4, 15, -3]))
        seen = max(seen, clock)
        came = [(rng.randrange(3), rng.randrange(100)) for _ in range(rng.randrange(4))]
        bucket = world.bucket()
        chunk = world.chunk([(clock * MS, *record, 0) for record in came])
        blocks = [stage._block(stage._read(chunk, Dropped()))] if came else []
        late = bucket.accept([not_before(world.shape, block, bucket.head.watermark) for block in blocks])
        assert late.all == 0
        got = world.rows(bucket.close(moment(clock, clock)))
        world.compare(got, model.step([(seen * MS, *record, world.window.gap) for record in came], seen))


def plan_of(*names, streaming=True, emission=ON_CLOSE, **options):
    window = session("30 minutes", **options)
    shape = shape_of(window.family, [CASES[name] for name in names])
    return SessionPlan(window, shape, ("merging",) * len(names), streaming, 4, 2, emission)


def test_a_plan_says_what_sessions_cost():
    text = " ".join(str(plan_of("sum")).split())
    assert "session('30 minutes') on a stream" in text
    assert "a partial for each key and time: late ones are told apart behind the shuffle" in text
    assert "merging records decide where windows end" in text
    assert "per record, at most 2 reads, 2 writes 1 read, 1 write" in text
    assert "2 rows for each open session" in text
    assert "a partial for each sub-session" in str(plan_of("sum", late_by="session"))
    assert "order is kept" in str(plan_of("joined", late_by="session"))
    assert plan_of("sum", emission=on_update()).per_record.writes == 4
    bounded = plan_of("sum", streaming=False)
    assert (bounded.state_bytes_per_key, bounded.shipped) == (0, "a partial for each sub-session of an input partition")
    assert "1 through the shuffle" in str(bounded)
    assert plan_of("sum").state_bytes_per_key == 2 * (24 + 28)


class Frame:
    """What a check asks a DataFrame."""

    def __init__(self, streaming=True, **columns):
        types = pytest.importorskip("pyspark.sql.types")
        self.isStreaming, self.columns = streaming, list(columns)
        self.schema = types.StructType([types.StructField(name, kind()) for name, kind in columns.items()])


def test_calls_that_mean_nothing_are_refused():
    types = pytest.importorskip("pyspark.sql.types")
    from slicing.spark.columns_of import columns_of
    from slicing.spark.names import Names

    def check(frame, window, *call):
        support_of(columns_of(window).resolved(Names(frame))).check(*call, frame.isStreaming)

    hour, gaps = session("1 hour"), session(gap_column="gap")
    frame = Frame(gap=types.DayTimeIntervalType, n=types.LongType, x=types.DoubleType)
    check(frame, gaps, "auto", False, on_close())
    check(frame, session(gap_column="n"), "auto", False, on_close(corrections=True))
    check(Frame(streaming=False), session("5 microseconds"), "auto", False, on_close())
    for error, words, call in [
        (InvalidValue, "gap column `g` does not exist; the columns are gap, n, x", (session(gap_column="g"),)),
        (InvalidType, "must be an interval, or microseconds as long; got double", (session(gap_column="x"),)),
        (InvalidValue, "sessions are merged, .* got `two_layer`. Leave", (hour, "two_layer")),
        (InvalidValue, "nothing is late by the clock", (session("1 hour", late_by="session"), "auto", True)),
        (InvalidValue, "at least 1 ms on a stream", (session("5 microseconds"),)),
        (InvalidValue, r"on_change\(\) compares a window", (hour, "auto", False, on_change())),
    ]:
        with pytest.raises(error, match=words):
            check(frame, *(call + ("auto", False, on_close())[len(call) - 1 :]))
    frame.schema = types.StructType([*frame.schema.fields, types.StructField("gap", types.LongType())])
    with pytest.raises(InvalidValue, match="ambiguous"):
        check(frame, gaps, "auto", False, on_close())


@pytest.mark.parametrize("emission", [on_close(), on_update()], ids=str)
@pytest.mark.parametrize("names", [("sum", "highest"), ("joined",)], ids=str)
def test_results_do_not_depend_on_buckets(names, emission):
    """Rows are written anew at other times where a bucket has other keys; what they come to is the same."""
    found = []
    for labels in [(0,), (0, 1, 2)]:
        rng, out = random.Random(21), []
        world = World(session("10 milliseconds"), names, emission, grace=40 * MS)
        stores = {label: CountingStore() for label in labels}
        stage = world.strategy.first_stage(labels)
        for records, watermark in stream(rng, 40, keys=9):
            blocks = {label: [] for label in labels}
            for part in (records[::2], records[1::2]):
                if part:
                    for label, block in stage._by_bucket(stage._block(stage._read(world.chunk(part), Dropped()))):
                        blocks[label].append(block)
            rows = {}
            for label, world.store in stores.items():
                bucket = world.bucket()
                bucket.accept(blocks[label])
                rows |= world.rows(bucket.close(moment(watermark)))
            out.append(rows)
        found.append(out)
    assert found[0] == found[1]
    assert sum(map(len, found[0])) > 100


def test_what_is_open_is_read_once_and_then_held():
    world = World(session("1 hour"), names=("sum",))
    world.step([(0, key, 1, 0) for key in range(50)], 0)
    memory._kept.clear()
    read = []
    for step in range(3):
        bucket = world.bucket()
        bucket.accept(world.shipped([(step * MS, 3, 1, 0)]))
        list(bucket.close(moment(0)))
        read.append(bucket.pages.read)
    assert read[0] >= 50
    assert read[1:] == [0, 0]


def test_stored_sessions_go_on():
    """State as it was when sessions came: open ones, and what had gone out of them."""
    stored = json.loads(lzma.decompress(golden.FILE.read_bytes()))
    world = golden.world()
    for records, watermark in stored["batches"][: golden.SEEN]:
        world.model.step([world.known(record) for record in records], watermark)
    world.late, world.store.text, world.store.pages = world.model.late, stored["header"], dict(stored["pages"])
    assert {name.split()[0] for name in world.bucket().head.lists} == {"sessions", "shown"}
    rows = sum(len(world.step(records, watermark)) for records, watermark in stored["batches"][golden.SEEN :])
    assert rows > 10
    world.drain()
