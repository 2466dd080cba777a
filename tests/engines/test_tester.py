"""`slicing.testing.run`: rows by the definition of every kind of windows, forms of records, times, and what is refused.

Equality with streams of Spark is in `tests/spark/test_tester_spark.py`.
"""

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
from scenarios.expected import Call
from scenarios.kinds import KINDS
from scenarios.streams import stream
from test_scenarios import TRIGGERS, allows

import combinators as C
from slicing import (
    InvalidType,
    InvalidValue,
    assigned_by,
    counting,
    early,
    group_by,
    hopping,
    on_update,
    processing_time,
    session,
    tumbling,
)
from slicing.state import bucket_cache
from slicing.testing import run
from slicing.windows.time.edges import AFTER, BEFORE

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = "key bigint, ts timestamp, value bigint, gap bigint"
RESULTS = {"rows": C.count(), "total": C.sum("value"), "highest": C.max("value")}
NAMES = ("ts", "key", "value", "gap")
DAY = "2024-05-01T"
HOURLY = group_by("user").window(tumbling("1 hour"), time="ts").define(orders=C.count(), spent=C.sum("amount"))
ORDERS = [
    [{"user": "ada", "ts": "2024-05-01 12:03", "amount": 1}, {"user": "bob", "ts": "2024-05-01 12:04", "amount": 5}],
    [{"user": "ada", "ts": "2024-05-01 14:00", "amount": 2}],
    [{"user": "ada", "ts": "2024-05-01 12:10", "amount": 4}, {"user": None, "ts": "2024-05-01 15:10", "amount": None}],
]


def micros(instant):
    return (instant - EPOCH) // timedelta(microseconds=1)


def truth(records, place=None):
    """The results of some records."""
    values = [record.value for record in records if record.value is not None]
    return len(records), sum(values) if values else None, max(values, default=None)


def shown(row, names, wide):
    """The results of a row, by what tells its windows from all others; windows side by side have only their ends."""
    fired = getattr(row, "emission", "final")
    if wide:
        at = fired, row.key, None, micros(row.window_end)
        results = {part: tuple(row[f"{result}_{name}"] for result in RESULTS) for part, name in enumerate(names)}
        return {(part, *at): found for part, found in results.items() if found[0] is not None}
    found = tuple(row[result] for result in RESULTS)
    if "first_record" in row:
        return {(0, fired, row.key, row.first_record, row.last_record + 1): found}
    part = names.index(row.windows) if "windows" in row else 0
    return {(part, fired, row.key, *(map(micros, row.window) if row.window else (BEFORE, AFTER))): found}


def expected(rows, window):
    """The rows by the definition; without results where a window is taken back, or of records that are not in it."""
    found, wide, bare = {}, window.wide, (None, None, None)
    for (fired, key, part, start, end), (records, _) in rows.items():
        if records or not wide:
            is_bare = records is None or (not records and window.family.may_be_empty)
            found[part, fired, key, None if wide else start, end] = bare if is_bare else truth(records)
    return found


def definition(window, trigger, grace):
    """The results of windows, also of windows that no call makes."""
    made = group_by("key").window(tumbling("1 second"), time="ts").emit(trigger).define(**RESULTS)
    options = replace(made.windowed.options, grace=grace)
    return replace(made, windowed=replace(made.windowed, windows=window, options=options))


CASES = [(kind, trigger) for kind in KINDS for trigger in TRIGGERS if allows(kind, TRIGGERS[trigger])]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("kind", "trigger"), CASES)
def test_rows_and_late_records_are_those_of_the_definition(kind, trigger):
    """Of any kind of windows: the records of micro-batches against the windows of all records."""
    rng = random.Random(f"{kind} {trigger} tester")
    kind, trigger = KINDS[kind](rng), TRIGGERS[trigger]
    grace = max(1000, kind.step // 1000 * 1000) if trigger.fires_late else rng.choice([0, kind.step // 1000 * 1000])
    batches, marks, clocks = map(list, zip(*stream(rng, kind, batches=10), strict=True))
    batches, marks, clocks = [*batches, []], [*marks, 1 << 43], [*clocks, 1 << 43]
    grace = grace if kind.window.by_time else 0
    call, window = Call(kind, trigger, grace, truth=truth), kind.window
    if len(window.parts) > 1 and not window.names:
        window = replace(window, names=tuple(f"w{part}" for part in range(len(window.parts))))
    found = run(
        definition(window, trigger, grace),
        [[dict(zip(NAMES, record, strict=True)) for record in batch] for batch in batches],
        [1000 * mark for mark in marks] if window.by_time else None,
        schema=SCHEMA,
        clock=[1000 * clock for clock in clocks],
        restart_between=rng.random() < 0.5,
    )
    assert len(found) == len(batches)
    for number, (batch, mark, clock) in enumerate(zip(batches, marks, clocks, strict=True)):
        wanted, got = expected(call.step(call.made(batch), mark, clock), window), {}
        for row in found[number].rows:
            got |= shown(row, window.names, window.wide)
        assert got == wanted, number
        late = Counter("late" if by_all else "late_for_some" for _, by_all in call.late())
        counted = {name: found[number].counters[name] for name in ("late", "late_for_some")}
        assert counted == {"late": late["late"], "late_for_some": late["late_for_some"]}, number


# --- records and rows -----------------------------------------------------------------------------------------------


def shape(found):
    """User, hour and results of the rows of each micro-batch."""
    return [[(row.user, row.window.start.hour, row.orders, row.spent) for row in batch.rows] for batch in found]


def test_a_micro_batch_has_rows_late_rows_counters_and_a_watermark():
    found = run(HOURLY, ORDERS, "1 hour")
    noon, ends = datetime(2024, 5, 1, 12, tzinfo=UTC), [None, *(datetime(2024, 5, 1, *at, tzinfo=UTC) for at in MARKS)]
    assert shape(found) == [[], [], [("ada", 12, 2, 5), ("bob", 12, 1, 5)], []]
    assert [each.watermark for each in found] == ends
    assert found[2].rows[0].window == (noon, noon + timedelta(hours=1))
    assert found[2].rows[0]["user"] == "ada"
    assert [each.late for each in found] == [[], [], [], []]
    assert [each.counters["results"] for each in found] == [0, 0, 2, 0]


MARKS = [(11, 4), (13, 0), (14, 10)]


def test_the_watermark_is_the_greatest_time_so_far_less_the_delay_in_whole_milliseconds():
    records = [
        [{"ts": "2024-05-01T12:00:00.000999"}],
        [],
        [{"ts": "2024-05-01T11:00:00"}, {"ts": None}],
        [{"ts": "2024-05-01T12:00:01"}],
    ]
    made = group_by().window(tumbling("1 hour"), time="ts").define(n=C.count())
    found = run(made, records, "1 millisecond")
    marks = ["11:59:59.999", "11:59:59.999", "11:59:59.999", "12:00:00.999"]
    assert [each.watermark for each in found] == [None, *(datetime.fromisoformat(f"{DAY}{at}+00:00") for at in marks)]
    assert found[2].counters["late"] == 0  # by the watermark of the micro-batch before
    assert found[2].counters["no_time"] == 1
    assert [len(each.rows) for each in found] == [0, 0, 0, 0, 1]


def test_without_a_watermark_that_moves_no_micro_batch_follows():
    found = run(HOURLY, [ORDERS[1], ORDERS[0]], "1 hour")
    assert len(found) == 2
    assert run(HOURLY, [], "1 hour", schema="user string, ts timestamp, amount bigint") == []


FORMS = {
    "dicts": lambda batch: batch,
    "tuples": lambda batch: [tuple(each.values()) for each in batch],
    "an Arrow table": pa.Table.from_pylist,
    "a pandas frame": pd.DataFrame,
    "datetimes": lambda batch: [{**each, "ts": datetime.fromisoformat(each["ts"])} for each in batch],
    "instants": lambda batch: [{**each, "ts": datetime.fromisoformat(each["ts"] + "+00:00")} for each in batch],
    "microseconds": lambda batch: [
        {**each, "ts": micros(datetime.fromisoformat(each["ts"] + "+00:00"))} for each in batch
    ],
    "times of Arrow": lambda batch: pa.table(
        {
            "user": [each["user"] for each in batch],
            "ts": pa.array([datetime.fromisoformat(each["ts"]) for each in batch], pa.timestamp("ns")),
            "amount": [each["amount"] for each in batch],
        }
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_records_have_many_forms(form):
    typed = "user string, ts timestamp, amount bigint"
    found = run(HOURLY, map(FORMS[form], ORDERS), "1 hour", schema=typed)
    assert found == run(HOURLY, ORDERS, timedelta(hours=1))
    assert shape(found)[2] == [("ada", 12, 2, 5), ("bob", 12, 1, 5)]


def test_types_are_those_that_are_declared_or_found():
    made = (
        group_by("k")
        .window(tumbling("1 hour"), time="ts")
        .define(
            n=C.sum("n"),
            m=C.max("m"),
            d=C.min("d"),
            s=C.max("s"),
            all=C.collect_list("x", limit=9),
            by=C.struct(x=C.sum("x")),
        )
    )
    time = datetime(2024, 5, 1, 12, tzinfo=UTC)
    record = {"k": b"\x00", "ts": time, "n": 3, "m": Decimal("1.5"), "d": date(1969, 5, 1), "s": time, "x": 0.5}
    (row,) = run(made, [[record]], [None, "2030-01-01"][1:])[0].rows
    start = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert row == (
        b"\x00",
        (start, start + timedelta(hours=1)),
        3,
        Decimal("1.5"),
        date(1969, 5, 1),
        time,
        [0.5],
        (0.5,),
    )
    typed = made.declare(
        "k binary, ts timestamp, n int, m decimal(5,1), d date, s timestamp, x float",
        streaming=True,
        watermark="1 minute",
    )
    (declared,) = run(typed, [[record], []], ["2024-05-01", "2030-01-01"])[1].rows
    assert declared == row
    assert str(declared.m) == "1.5"


def test_times_without_a_zone_are_in_that_of_the_session():
    records = [
        [{"user": "ada", "ts": "2024-05-01 12:03", "amount": 1}],
        [{"user": "ada", "ts": "2024-05-01T10:59Z", "amount": 1}],
    ]
    found = run(HOURLY, records, ["2024-05-01 12:00", "2024-05-01T11:00Z"], zone="Europe/Berlin")
    (row,) = found[1].rows
    assert row.window.start == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert row.window.start.tzinfo == ZoneInfo("Europe/Berlin")
    assert row.window.start.hour == 12
    assert row.orders == 2


def test_keys_and_values_may_be_structs_and_fields_of_them():
    made = group_by("who", "who.name").window(tumbling("1 hour"), time="ts").define(total=C.sum("paid.cents"))
    who = {"name": "ada", "at": {"town": None, "x": -0.0}}
    records = [
        {"who": who, "ts": DAY + "12:00", "paid": {"cents": 2}},
        {"who": {"name": "ada", "at": {"town": None, "x": 0.0}}, "ts": DAY + "12:01", "paid": {"cents": 3}},
        {"who": {"name": "ada", "at": None}, "ts": DAY + "12:02", "paid": None},
        {"who": None, "ts": DAY + "12:02", "paid": {"cents": 7}},
    ]
    schema = "who struct<name: string, at: struct<town: string, x: double>>, ts timestamp, paid struct<cents: bigint>"
    found = run(made, [records, []], [None, "2030-01-01"], schema=schema)[1].rows
    assert {(row.who, row.name, row.total) for row in found} == {
        (("ada", (None, 0.0)), "ada", 5),
        (("ada", None), "ada", None),
        (None, None, 7),
    }


def test_conditions_read_columns():
    made = (
        group_by("user")
        .window(tumbling("1 hour"), time="ts")
        .emit(early(when="out", delta=("n", 9)))
        .define(n=C.sum("n"))
    )
    records = [
        [{"user": "a", "ts": DAY + "12:00", "n": 4, "out": False}],
        [{"user": "a", "ts": DAY + "12:00", "n": 2, "out": True}],
    ]
    assert [[(row.n, row.emission) for row in each.rows] for each in run(made, records, "1 hour")] == [
        [],
        [(6, "early")],
    ]


def test_late_rows_are_partials_or_records():
    records = [[{"user": "a", "ts": DAY + "15:00", "amount": 1}], [], [{"user": "b", "ts": DAY + "12:30", "amount": 2}]]
    for kind, wanted in (("partials", ("b", 1, 2)), ("records", ("b", datetime(2024, 5, 1, 12, 30, tzinfo=UTC), 2))):
        made = replace(HOURLY, windowed=replace(HOURLY.windowed, options=replace(HOURLY.windowed.options, late=kind)))
        (late,) = run(made, records, "5 minutes")[2].late
        assert late[:3] == wanted
        assert late.late.cause == "late"
        assert late.late.watermark == datetime(2024, 5, 1, 14, 55, tzinfo=UTC)
    assert run(HOURLY, records, "5 minutes")[2].counters["late"] == 1


# --- time -----------------------------------------------------------------------------------------------------------


def test_the_clock_closes_windows_by_the_clock():
    made = group_by("user").window(tumbling("1 minute"), time=processing_time()).define(n=C.count())
    records = [[{"user": "a"}], [{"user": "a"}, {"user": "a"}]]
    found = run(made, records, clock=[DAY + "12:00:10", DAY + "12:00:50", DAY + "12:01:00"])
    assert [[row.n for row in each.rows] for each in found] == [[], [], [3]]
    assert [each.watermark for each in found] == [None] * 3


def test_idle_keys_close_by_the_clock():
    made = group_by("user").window(session("1 minute"), time="ts").idle("10 minutes").define(n=C.count())
    clock = [DAY + "12:00", DAY + "12:05", DAY + "12:20"]
    found = run(made, [[{"user": "a", "ts": DAY + "12:00"}]], "1 minute", clock=clock)
    assert [[row.n for row in each.rows] for each in found] == [[], [], [1]]


# --- functions and restarts -----------------------------------------------------------------------------------------

SEEN = []


def remembering(key, window, records, context):
    context.key_state.n = (context.key_state.n or 0) + len(records)
    return [(context.key_state.n,)]


def test_functions_keep_what_they_store_and_nothing_else():
    made = (
        group_by("user")
        .window(counting(2), time="ts")
        .define_process(remembering, returns="n long", key_state="n long")
    )
    records = [[{"user": "a", "ts": DAY + "12:00"}] * 2] * 3
    for restart in (False, True):
        found = run(made, records, restart_between=restart)
        assert [[row.n for row in each.rows] for each in found] == [[2], [4], [6]]
    calls = []

    def forgetful(key, window, results, context):
        calls.append(key)
        return [(len(calls),)]

    hourly = group_by("user").window(counting(2), time="ts").define(n=C.count(), then=forgetful, returns="calls long")
    assert [[row.calls for row in each.rows] for each in run(hourly, records)] == [[1], [1], [1]]


def test_between_restarts_nothing_is_cached():
    made = group_by("user").window(hopping("1 hour", "1 minute"), time="ts").emit(on_update()).define(n=C.count())
    records = [[{"user": "a", "ts": DAY + f"12:{minute:02}"}] for minute in range(9)]
    bucket_cache.forget()
    read = [
        sum(each.counters["partials_read"] for each in run(made, records, "1 hour", restart_between=restart))
        for restart in (False, True)
    ]
    assert read[0] < read[1]
    assert not bucket_cache._entries
    assert run(made, records, "1 hour") != run(made, records[1:], "1 hour")


# --- what is refused ------------------------------------------------------------------------------------------------

ORDER = {"user": "a", "ts": DAY + "12:00", "amount": 1}
TYPES = "user string, ts timestamp, amount int"


def of(batch=(ORDER,), definition=HOURLY, watermark="1 hour", **options):
    return lambda: run(definition, [batch], watermark, **options)


def counts(window, time="ts", key="user"):
    return group_by(key).window(window, time=time).define(n=C.count())


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (of(definition=tumbling("1 hour")), InvalidType, "takes a definition"),
        (of(watermark=None), InvalidValue, 'watermark="10 minutes"'),
        (of(ORDER), InvalidType, "a micro-batch is a list of dicts"),
        (of(["a"]), InvalidType, "a record is a dict or a tuple"),
        (of([("a", 1)]), InvalidValue, "there is no `schema`"),
        (of([("a", 1)], schema=TYPES), InvalidValue, "the columns are user, ts, amount"),
        (of([]), InvalidValue, "the types of columns are those of the records"),
        (of([{**ORDER, "user": None}]), InvalidValue, "`user` has only nulls"),
        (of([ORDER, {**ORDER, "user": 1}]), InvalidType, "column `user`"),
        (of(schema=f"{TYPES}s"), InvalidValue, "ints"),
        (of([{**ORDER, "amounts": 1}], schema=TYPES), InvalidValue, "a record has `amounts`"),
        (of([{**ORDER, "ts": "noon"}]), InvalidValue, "ISO text"),
        (of([{**ORDER, "ts": "noon"}], schema=TYPES), InvalidValue, "ISO text"),
        (of([{**ORDER, "amount": "x"}], schema=TYPES), InvalidType, "column `amount` must be int"),
        (of(zone="Mars"), InvalidValue, "no time zone"),
        (of(restart_between="no"), InvalidType, "`restart_between`"),
        (of(definition=counts(assigned_by(lambda time: []))), InvalidValue, "`slicing.testing.run` is not built for"),
        (of(definition=counts(tumbling("1 hour"), processing_time()), watermark=None), InvalidValue, "clock="),
        (of(definition=counts(counting(2), None)), InvalidValue, "counting(2) with watermark='1 hour'"),
        (of(definition=counts(counting(2)), watermark=[DAY + "12:00"]), InvalidValue, f"watermark=['{DAY}12:00']"),
        (of(definition=counts(counting(2, order_by="ts")), watermark=None), InvalidValue, "Write counting(2)."),
        (of(definition=counts(tumbling("1 hour"), key="lower(user)")), InvalidValue, "lower(user)"),
    ],
)
def test_errors_say_what_to_do(call, error, said):
    with pytest.raises(error) as raised:
        call()
    assert said in str(raised.value)
