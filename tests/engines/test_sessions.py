"""What sessions cost, forget and refuse; which rows they emit of any records is asked in `test_scenarios.py`."""

import json
import lzma
import time

import numpy as np
import pytest
from golden import open_sessions as golden
from oracle import CASES, shape_of
from scenarios.kinds.sessions import Sessions
from scenarios.scenario import Scenario, records_of

from slicing import group_by, tumbling
from slicing.engines.sessions.bucket import all_sessions
from slicing.errors import InvalidType, InvalidValue, StateMismatch
from slicing.explain.ledgers import SessionPlan
from slicing.options import Options
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


def made(window, trigger=ON_CLOSE, **options):
    return Scenario(Sessions(window), trigger, results=("sum",), **options)


def test_kafkas_sessions_close_a_unit_later_and_merge_at_the_same_distance():
    """With a unit of 1 ms [0, 10] is [0, 10 + gap + 1): closed at 16, not at 15; 15 joins it, 16 does not."""
    world = made(session("5 milliseconds", late_by="session", unit="1 millisecond"))
    world.step([(0, 1, 1, 0), (5 * MS, 1, 1, 0), (11 * MS, 1, 1, 0)], 10)
    assert world.step([], 10) == {}
    assert list(world.step([], 11)) == [("final", 1, 0, 0, 11 * MS)]
    assert list(world.step([], 17)) == [("final", 1, 0, 11 * MS, 17 * MS)]


def test_what_closed_is_forgotten_and_never_merged_with():
    """::

    stored     [0           20)  closed by 20, its rows still stored beside those of other keys
    then           [12       22) not late, and a session of its own
    """
    world = made(session("10 milliseconds"))
    others = [(1000 * MS, key, 1, 0) for key in range(2, 8)]
    world.step([(0, 1, 1, 0), (10 * MS, 1, 1, 0), *others], 15)
    assert list(world.step([], 20)) == [("final", 1, 0, 0, 20 * MS)]
    assert world.bucket().rows.count == 8
    world.step([(12 * MS, 1, 5, 0)], 20)
    assert world.bucket().rows.count == 7, "what is void was written out of its way"
    world.step([(1001 * MS, 3, 5, 0)], 20)
    assert list(world.step([], 22)) == [("final", 1, 0, 12 * MS, 22 * MS)]
    world.drain()


@pytest.mark.parametrize("emission", [on_update(), early(records=2)], ids=str)
def test_what_was_shown_of_closed_sessions_is_forgotten_too(emission):
    world = made(session("10 milliseconds"), emission)
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
    world = made(session("10 milliseconds", late_by="session"), early(records=4))
    others = [(1000 * MS, key, 1, 0) for key in [*range(2, 8)] * 4]
    world.step([(100 * MS, 1, 1, 0)] * 4 + others, 15)
    world.step([], 110)
    world.step([(time * MS, 1, 1, 0) for time in (95, 104)] + [(112 * MS, 2, 1, 0)], 110)
    world.step([(112 * MS, 1, 1, 0)], 110)
    assert list(world.step([(115 * MS, 1, 1, 0)] * 3, 110)) == [("early", 1, 0, 95 * MS, 125 * MS)]


def went_on(emissions, graces):
    """The rows of one session [100, 110), at 115 and, when the query has gone on with another option, at 300."""
    found, world = [], made(session("10 milliseconds"))
    others = [(1000 * MS, key, 1, 0) for key in [*range(2, 8)] * 4]
    steps = ([(100 * MS, 1, 1, 0), *others], 0), ([], 115), ([], 300), ([], 301)
    for (records, watermark), emission, grace in zip(steps, emissions, graces, strict=True):
        world.trigger, world.grace = emission, grace * MS
        found += [place[0] for place in world.emit(records, watermark) if place[1] == 1]
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
    world = made(session("1 second", late_by=late_by))
    far = [(number * 3_000_000, 1, 1, 0) for number in range(10_000)]
    began = time.perf_counter()
    assert world.emit(far) == {}
    assert world.opened[0].extent() == {"open_windows": 10_000, "slices": 10_000}
    between = [(number * 1_000_000, 1, 1, 0) for number in range(30_000)]
    rows = world.emit(between, 40_000_000)
    assert time.perf_counter() - began < 5
    assert rows == {("final", 1, 0, 0, 30_000_000_000): ((40_000, 40_000), None)}
    assert not world.store.pages


def test_a_session_that_grows_for_ever_does_not_pile_up():
    """Its rows are merged as soon as more than half of them say nothing; idle keys are gone."""
    world = made(session("10 milliseconds"))
    written = 0
    for step in range(300):
        world.store.forget_counts()
        world.emit([(step * 5 * MS, 1, 1, 0), (step * 5 * MS, 2 + step, 1, 0)], step * 5)
        assert world.bucket().rows.count <= 12
        written += world.written
    assert written <= 3 * 600
    assert len(world.store.text) < 2000


@pytest.mark.parametrize("emission", EMISSIONS, ids=str)
def test_a_watermark_from_1970_to_now_costs_nothing(emission):
    world = made(session("10 milliseconds"), emission)
    world.step([(0, 1, 1, 0)], 0)
    began = time.perf_counter()
    now = 1_750_000_000_000
    world.step([(now * MS, 1, 1, 0)], now)
    world.step([], now + 100)
    assert time.perf_counter() - began < 0.5
    assert not world.store.pages


def test_keys_times_microseconds_may_leave_64_bits():
    """Ends of a hundred thousand keys over two hundred thousand years, as a broken clock gives them."""
    world = made(session("1 second", late_by="session"))
    far = 1 << 62
    keys = np.arange(100_000)
    records = [
        (int(key) * 7 - (far if key % 3 == 0 else 0) + (far if key % 3 == 1 else 0), int(key), 1, 0) for key in keys
    ]
    shipped = world.arriving(records_of(records), 1)[0]
    found = [len(frame) for frame in all_sessions(world.shape, world.kind.window, shipped)]
    assert sum(found) == 100_000


def test_another_gap_is_another_state():
    stores = made(session("10 milliseconds")).stores

    def opened(window):
        world = made(window)
        world.stores, world.fingerprint = stores, fingerprint_of(world.shape, ["partials"], [["v"]], "1 bucket")
        return world

    opened(session("10 milliseconds")).emit([(0, 1, 1, 0)])
    opened(session("10 milliseconds", late_by="session")).bucket()
    with pytest.raises(
        StateMismatch, match=r"session\('20 milliseconds'\) is new.*session\('10 milliseconds'\) is gone"
    ):
        opened(session("20 milliseconds")).bucket()
    with pytest.raises(StateMismatch, match=r"session\('10 milliseconds', longest='1 second'\) is new"):
        opened(session("10 milliseconds", longest="1 second")).bucket()


def test_calls_are_shown_and_checked():
    assert repr(session("30 minutes")) == "session('30 minutes')"
    assert repr(session(gap_column="g", late_by="session")) == "session(gap_column='g', late_by='session')"
    assert repr(session("1 hour", unit="1 millisecond")) == "session('1 hour', unit='1 millisecond')"
    assert session("1 hour") == session("60 minutes")
    assert repr(session("1 hour", longest="90 minutes")) == "session('1 hour', longest='90 minutes')"
    for error, words, call in [
        (InvalidValue, "either `gap` or `gap_column`", lambda: session()),
        (InvalidValue, "either `gap` or `gap_column`", lambda: session("1 hour", gap_column="g")),
        (InvalidType, "name of a column", lambda: session(gap_column=3)),
        (InvalidValue, "`gap` must be positive; got '0 seconds'", lambda: session("0 seconds")),
        (InvalidValue, "must be shorter than", lambda: session("99999999 weeks")),
        (InvalidValue, "`late_by` takes record, session; got 'key'", lambda: session("1 hour", late_by="key")),
        (InvalidValue, "`unit` must be whole milliseconds", lambda: session("1 hour", unit="1 microsecond")),
        (InvalidValue, "`longest` must be positive; got '0 s'", lambda: session("1 hour", longest="0 s")),
        (InvalidValue, "at least the gap, 1 hour; got 5 minutes", lambda: session("1 hour", longest="5 minutes")),
        (InvalidValue, "Leave `late_by` out", lambda: session(gap_column="g", late_by="session", longest="1 hour")),
        (InvalidValue, "of session.* records decide", lambda: session("1 hour").windows_of(0)),
        (InvalidValue, "records decide where it ends. Give it a call alone", both),
    ]:
        with pytest.raises(error, match=words):
            call()


def both():
    group_by(None, "k").window(session("1 hour"), tumbling("1 hour"), time="ts")


def plan_of(*names, streaming=True, emission=ON_CLOSE, **options):
    window = session("30 minutes", **options)
    shape = shape_of(window.family, [CASES[name] for name in names])
    return SessionPlan(window, shape, ("merging",) * len(names), streaming, 4, 2, Options(trigger=emission))


def test_a_plan_says_what_sessions_cost():
    text = " ".join(str(plan_of("sum")).split())
    assert "session('30 minutes') on a stream" in text
    assert "a partial for each key and time: late ones are separated after the shuffle" in text
    assert "merging records decide where windows end" in text
    assert "per record, at most 2 reads, 2 writes 1 read, 1 write" in text
    assert "2 rows for each open session" in text
    assert "a partial for each sub-session" in str(plan_of("sum", late_by="session"))
    assert "order is kept" in str(plan_of("joined", late_by="session"))
    longest = str(plan_of("sum", late_by="session", longest="2 hours"))
    assert "all records decide where a session is cut" in longest
    assert "2 rows for each time of an open session" in longest
    assert plan_of("sum", emission=on_update()).per_record.writes == 4
    bounded = plan_of("sum", streaming=False)
    assert bounded.state_bytes_per_key == 0
    assert bounded.shuffled == "a partial for each sub-session of an input partition"
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
    from slicing.spark.names import Names
    from slicing.spark.window_columns import columns_of

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


def test_what_is_open_is_read_once_and_then_held():
    world = made(session("1 hour"))
    world.step([(0, key, 1, 0) for key in range(50)], 0)
    memory._entries.clear()
    read = []
    for step in range(3):
        world.emit([(step * MS, 3, 1, 0)])
        read.append(world.read)
    assert read[0] >= 50
    assert read[1:] == [0, 0]


def test_stored_sessions_go_on():
    """State as it was when sessions came: open ones, and what had gone out of them."""
    stored = json.loads(lzma.decompress(golden.FILE.read_bytes()))
    world = golden.world()
    for records, watermark in stored["batches"][: golden.SEEN]:
        world.known(records, watermark)
    world.store.text, world.store.pages = stored["header"], dict(stored["pages"])
    assert {name.split()[0] for name in world.bucket().head.lists} == {"sessions", "shown"}
    rows = sum(len(world.step(records, watermark)) for records, watermark in stored["batches"][golden.SEEN :])
    assert rows > 10
    world.drain()
