"""Functions of the records of windows, and evictors, against brute force over raw records; without Spark.

Records are (time, key, value). Streams have records out of order, late ones, equal times, and every micro-batch opens
the state anew. What a window holds is told by the bounds that its row has, and by nothing of the engine.
"""

import math
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial, wraps
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from oracle import seeds
from processing import END, MINUTE, Play, cut, random_records

import combinators as C
from slicing import (
    assigned_by,
    by_edges,
    counting,
    cumulating,
    early,
    hopping,
    keep_last,
    keep_newest,
    on_change,
    on_close,
    on_update,
    session,
    sliding,
    tumbling,
    unbounded,
    within_delta,
)
from slicing.aggregates.fields import arrow_type
from slicing.assembly import partitions
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, TooLarge
from slicing.process.call import then
from slicing.process.evictors import evictor
from slicing.process.states import declared
from slicing.stages import local_runner
from slicing.state import pages
from slicing.windows.sets import windows_of_call

START = 20_000 * 24 * 60 * MINUTE
STARTS = [START + at * MINUTE for at in (-40, -3, 0, 4, 11, 30)]
BY_TIME = {
    "tumbling": tumbling("5 minutes"),
    "hopping": hopping("10 minutes", advance="1 minute"),
    "hopping, long": hopping("40 minutes", advance="1 minute"),
    "hopping, no multiple": hopping("7 minutes", advance="3 minutes", offset="1 minute"),
    "hopping, gaps": hopping("2 minutes", advance="5 minutes", gaps=True),
    "cumulating": cumulating("10 minutes", step="2 minutes"),
    "zone": tumbling("1 day", zone="Europe/Berlin"),
    "edges": by_edges([datetime.fromtimestamp(t / 1e6, UTC) for t in STARTS[:-1]],
                      [datetime.fromtimestamp(t / 1e6, UTC) for t in STARTS[1:]]),
    "several": windows_of_call((tumbling("4 minutes"), hopping("10 minutes", advance="2 minutes")), {}, False),
}  # fmt: skip
BY_RECORDS = {
    "session": session("30 seconds"),
    "session, judged whole": session("30 seconds", late_by="session"),
    "sliding": sliding("1 minute"),
    "left": sliding("1 minute", right=False),
    "before": sliding("1 minute", right=False, closed="left"),
    "counting": counting(5, advance=3),
    "counting, tumbling": counting(4),
}
ALL = BY_TIME | BY_RECORDS
LISTED = "n long, values array<long>"


def listed(key, window, records, context):
    """All values of the records, in their order."""
    return [(len(records), records["v"].to_pylist())]


def counted(key, window, records, context):
    return [{"n": records.num_rows}]


def shifted(records):
    return [(time + START, key, value) for time, key, value in records]


def inside(records, key, start, stop):
    """The values of a window by brute force: by time, equal times in their order."""
    found = [(time, value) for time, own, value in records if own == key and start <= time < stop]
    return [value for _, value in sorted(found, key=lambda each: each[0])]


def same_times_apart(records):
    """Records with no two of one key at one time, where the order of input partitions would decide."""
    return list({(time, key): (time, key, value) for time, key, value in records}.values())


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", BY_TIME)
def test_bounded_input_against_brute_force(name, seed):
    """Every window that holds a record, with its records by time."""
    window, records = BY_TIME[name], same_times_apart(random_records(seed, 250, 40 * MINUTE))
    records = records if seed == 0 else shifted(records)  # also before 1970
    rows = Play(window, listed, LISTED, streaming=False).bounded(records)
    for key, start, stop, n, values, _ in rows:
        assert values == inside(records, key, start, stop)
        assert n == len(values) > 0
    wanted = Counter()
    for family in window.family.families:
        for time, key, _ in records:
            index = family.slice_at(np.array([time]))
            if not np.any(family.in_gap(index)):
                low, high = int(family.first_window(index)[0]), int(family.last_window(index)[0])
                edges = np.arange(low, high + 1)
                pairs = zip(family.window_start(edges).tolist(), family.window_end(edges).tolist(), strict=True)
                wanted |= Counter({(key, *pair): 1 for pair in pairs})
    assert Counter({row[:3]: 1 for row in rows}) == wanted
    assert len(rows) >= len(wanted)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("name", BY_TIME)
def test_streams_with_late_records_against_brute_force(name, seed):
    """A record counts in the windows that were open when it came: `end > W(b-1)`."""
    window, delay = BY_TIME[name], 2 * MINUTE
    records = same_times_apart(shifted(random_records(seed, 250, 40 * MINUTE)))
    batches = cut(records, seed)
    rows = Play(window, listed, LISTED).stream(batches, delay)
    before, greatest, judged = 0, 0, []
    for batch in batches:
        judged += [(*record, before) for record in batch]
        before, greatest = max(before, greatest - delay), max([greatest, *(record[0] for record in batch)])
    # W(b-1) is that of the micro-batch before; a micro-batch closes by that of the records before it.
    late = 0
    for key, start, stop, n, values, _ in rows:
        open_for = [(time, own, value) for time, own, value, closed in judged if stop > closed]
        assert values == inside(open_for, key, start, stop)
        assert n == len(values)
        late += values != inside(records, key, start, stop)
    assert len({row[:3] for row in rows}) == len({(*row[:3],) for row in rows})
    if name in ("hopping", "cumulating"):
        assert late, "some records come late"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ALL)
def test_a_stream_equals_bounded_input(name):
    """In any micro-batches, where nothing is late."""
    records = same_times_apart(shifted(random_records(5, 100, 30 * MINUTE)))
    rows = Play(ALL[name], listed, LISTED).stream(cut(records, 3), 400 * MINUTE)
    again = Play(ALL[name], listed, LISTED).stream(cut(records, 4, most=90), 400 * MINUTE)
    bounded = Play(ALL[name], listed, LISTED, streaming=False).bounded(records)
    assert sorted(rows) == sorted(bounded) == sorted(again)
    assert len(rows) > 2


@pytest.mark.one_in(4)
@pytest.mark.parametrize("delay", [0, 400 * MINUTE])
@pytest.mark.parametrize("name", ALL)
def test_a_function_that_counts_is_count(name, delay):
    """Of every kind of windows, the rows of `C.count()`, micro-batch by micro-batch, late records and all.

    A function is called for windows with records.
    """
    batches = [
        [(time, "k0", 0) for time, _, _ in batch] for batch in cut(shifted(random_records(7, 60, 30 * MINUTE)), 5)
    ]
    rows = Play(ALL[name], counted, "n long").stream(batches, delay)
    replay = local_runner.stream(ALL[name], [[time for time, _, _ in batch] for batch in batches], delay)
    counts = [row.records for row in replay.rows] + [row.records for row in replay.open]
    assert sorted(row[3] for row in rows) == sorted(filter(None, counts))
    bounded = Play(ALL[name], counted, "n long", streaming=False).bounded([r for batch in batches for r in batch])
    times = [time for batch in batches for time, _, _ in batch]
    assert sorted(row[3] for row in bounded) == sorted(
        row.records for row in local_runner.bounded(ALL[name], times).rows if row.records
    )


TRIGGERS = {
    "on_update": on_update(),
    "early": early(records=3),
    "by the clock": early(every="10 seconds"),
    "late firings": on_close(corrections=True),
    "discarding": on_close(corrections=True, discarding=True),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("name", [name for name in ALL if not name.startswith("counting")])
def test_every_firing_counts_as_count_does(name, trigger):
    """Early and late firings of every kind of windows that has them."""
    grace = 5 * MINUTE if "late" in trigger or trigger == "discarding" else 0
    batches = [
        [(time, "k0", 0) for time, _, _ in batch] for batch in cut(shifted(random_records(8, 36, 20 * MINUTE)), 6, 9)
    ]
    clock = [START + 4_000_000 * number for number in range(len(batches))]
    play = Play(ALL[name], counted, "n long", trigger=TRIGGERS[trigger], grace=grace)
    rows, greatest = [], 0
    for batch, now in zip(batches, clock, strict=True):
        rows += play.step(batch, max(0, greatest - MINUTE), now)
        greatest = max([greatest, *(time for time, _, _ in batch)])
    rows += play.step([], greatest - MINUTE, clock[-1])
    times = [[time for time, _, _ in batch] for batch in batches]
    replay = local_runner.stream(ALL[name], times, MINUTE, TRIGGERS[trigger], grace, clock)
    ours = Counter((start, stop, n or 0, kind) for _, start, stop, n, kind in rows)
    called = [row for row in replay.rows if row.records or row.emission == "merged"]
    assert ours == Counter((row.start, row.end, row.records, row.emission) for row in called)
    assert ours or name == "zone", "some windows fire"


def tied(seed, rounds=30):
    """Micro-batches of records of one key at a few times, numbered as they come; some lie far ahead of the others."""
    random, batches, number = Random(f"tied {seed}"), [], 0
    for now in range(rounds):
        ahead = [random.choice([0, 0, 0, 1, 2, 7, 40]) for _ in range(random.randint(1, 4))]
        back = [random.choice([0, 0, 0, 1, 3]) for _ in ahead]
        times = [START + (now + far - late) * MINUTE for far, late in zip(ahead, back, strict=True)]
        batches.append([(time, "a", number + at) for at, time in enumerate(times)])
        number += len(times)
    return batches


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(2, 12))
@pytest.mark.parametrize("name", ALL)
def test_records_of_one_time_are_in_arrival_order(name, seed, monkeypatch):
    """Across micro-batches, wherever the records before are stored, and in every firing."""
    monkeypatch.setattr(pages, "FAN_IN", [8, 2, 3, 2][seed % 4])
    trigger = [on_close(), on_update()][seed // 2 % 2 if not name.startswith("counting") else 0]
    batches = tied(seed)
    times = {value: time for batch in batches for time, _, value in batch}
    play = Play(ALL[name], listed, LISTED, trigger=trigger)
    rows = [row for at, batch in enumerate(batches) for row in play.step(batch, START + (at - 3) * MINUTE)]
    rows += play.step([], END)
    place = (lambda value: value) if name.startswith("counting") else lambda value: (times[value], value)
    shown = [row[4] for row in rows if row[4] is not None]
    assert shown == [sorted(values, key=place) for values in shown]
    assert any(len({times[value] for value in values}) < len(values) for values in shown)


SECOND = 1_000_000


@pytest.mark.parametrize("evict", [(), [keep_last(9)]], ids=["process", "evict"])
def test_records_of_one_time_are_in_arrival_order_where_some_are_stored_far_ahead(evict):
    play = Play(tumbling("1 second"), listed, LISTED, evict=evict)
    batches = [[(12, 0), (11, 1)], [(12, 100), (10, 101)], [(15, 200), (11, 201)], [], []]
    rows = []
    for batch, watermark in zip(batches, [6, 7, 6, 9, 40], strict=True):
        rows += play.step([(time * SECOND, "a", value) for time, value in batch], watermark * SECOND)
    assert {row[1] // SECOND: row[4] for row in rows} == {10: [101], 11: [1, 201], 12: [0, 100], 15: [200]}


@pytest.mark.parametrize("late_by", ["record", "session"])
def test_records_of_one_time_are_in_arrival_order_where_a_later_session_begins_earlier(late_by):
    """An input partition ships [5, 9] and, a micro-batch later, [3, 9]."""
    play = Play(session("10 seconds", late_by=late_by), listed, LISTED)
    batches = [[(5, 0), (9, 1), (9, 2), (5, 3)], [(3, 4), (9, 5), (9, 6), (3, 7)]]
    rows = [play.step([(time * SECOND, "a", value) for time, value in batch], 0) for batch in batches]
    (row,) = play.step([], 60 * SECOND)
    assert rows == [[], []]
    assert row[4] == [4, 7, 0, 3, 1, 2, 5, 6]


def test_unbounded_windows_hold_all_records_in_arrival_order():
    """Each firing has all records of a key so far; `window` is None."""
    seen, given = defaultdict(list), []

    def check(key, window, records, context):
        assert window is None
        given.append((key, records["v"].to_pylist()))
        return [(len(records),)]

    play = Play(unbounded(), check, "n long", trigger=on_update())
    for batch in cut(random_records(3, 200, 30 * MINUTE), 2):
        rows = play.step(batch, 0)
        for _, key, value in batch:
            seen[key].append(value)
        assert dict(zip((key for (key,), _ in given), (values for _, values in given), strict=True)) == {
            key: seen[key] for key in {key for _, key, _ in batch}
        }
        assert {(row[0], row[3]) for row in rows} == {(key, len(seen[key])) for key in {key for _, key, _ in batch}}
        given.clear()


def test_count_windows_tell_the_numbers_of_their_records():
    """In arrival order, with first and last event time."""
    got = []

    def note(key, window, records, context):
        got.append((window.first_record, window.last_record, window.start_us, window.end_us, records["v"].to_pylist()))

    records = [(time, "a", number) for number, time in enumerate([5, 1, 9, 3, 7, 2, 8])]
    assert Play(counting(4, advance=2), note, "n long").stream([records[:3], records[3:]], last=False) == []
    assert got == [(1, 2, 1, 6, [0, 1]), (1, 4, 1, 10, [0, 1, 2, 3]), (3, 6, 2, 10, [2, 3, 4, 5])]


# --- evictors -------------------------------------------------------------------------------------------------------


def newest(pairs, duration):
    return [(time, value) for time, value in pairs if time > max(t for t, _ in pairs) - duration]


EVICTORS = {
    "last": (keep_last(3), lambda pairs: pairs[-3:]),
    "newest": (keep_newest("2 minutes"), lambda pairs: newest(pairs, 2 * MINUTE)),
    "delta": (within_delta("v", 20), lambda pairs: [each for each in pairs if abs(each[1] - pairs[-1][1]) < 20]),
    "function": (
        lambda records, window, context: [value % 2 == 0 for value in records["v"].to_pylist()],
        lambda pairs: [each for each in pairs if each[1] % 2 == 0],
    ),
    "arrow": (
        lambda records, window, context: pa.compute.greater(records["v"], 50),
        lambda pairs: [each for each in pairs if each[1] > 50],
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("evictor", EVICTORS)
@pytest.mark.parametrize("name", ["tumbling", "hopping", "cumulating", "session", "sliding"])
def test_evictors_against_brute_force(name, evictor):
    """What is left of each window; other windows of the same records are not changed."""
    ours, brute = EVICTORS[evictor]
    records = same_times_apart(shifted(random_records(11, 80, 30 * MINUTE)))
    rows = Play(ALL[name], listed, LISTED, evict=[ours]).stream(cut(records, 3), 400 * MINUTE)
    for key, start, stop, _, values, _ in rows:
        pairs = sorted(((time, value) for time, own, value in records if own == key and start <= time < stop))
        assert values == [value for _, value in brute(pairs)]
    assert len(rows) > 10


def test_evictors_follow_one_another():
    records = [(number, "a", number) for number in range(10)]
    play = Play(tumbling("1 minute"), listed, LISTED, evict=[keep_last(6), keep_newest("4 microseconds"), keep_last(3)])
    assert [row[4] for row in play.stream([records])] == [[7, 8, 9]]


def test_nulls_are_not_within_a_delta():
    records = [(1, "a", 5), (2, "a", None), (3, "a", 7), (1, "b", 5), (2, "b", None)]
    rows = Play(tumbling("1 minute"), listed, LISTED, evict=[within_delta("v", 3)]).stream([records])
    assert sorted((row[0], row[4]) for row in rows) == [("a", [5, 7]), ("b", [])]


WIDTHS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
DECIMALS = {"decimal(3,1)": (3, 1), "decimal(10,2)": (10, 2), "decimal(38,0)": (38, 0), "decimal(38,38)": (38, 38)}


def drawn(random, kind):
    """A value of a kind: small, or near the ends of its range."""
    digits = DECIMALS.get(kind)
    most = 10 ** digits[0] - 1 if digits else (1 << (WIDTHS[kind] - 1)) - 1
    number = random.choice([random.randint(-3, 3), random.randint(-most, most), most, -most - (digits is None)])
    return Decimal((number < 0, Decimal(abs(number)).as_tuple().digits, -digits[1])) if digits else number


@pytest.mark.parametrize("kind", [*WIDTHS, *DECIMALS])
def test_exact_numbers_are_compared_exactly(kind):
    """Also where their distance does not fit the type or a float; a threshold stands for what is written."""
    random = Random(kind)
    for _ in range(300):
        values = [None if random.random() < 0.1 else drawn(random, kind) for _ in range(6)]
        last = values[-1]
        apart = [abs(Fraction(one) - Fraction(other)) for one in values for other in values if None not in (one, other)]
        chosen = random.choice([*apart, Fraction(1), Fraction(3, 2), Fraction(1, 10), Fraction(1 << 70)])
        threshold = (
            random.choice([int(chosen), float(chosen), math.nextafter(float(chosen), math.inf), math.inf]) or 0.1
        )
        exact = threshold if threshold in (int(min(threshold, 1e300)), math.inf) else Fraction(str(threshold))
        near = [None not in (each, last) and abs(Fraction(each) - Fraction(last)) < exact for each in values]
        table = pa.table({"v": pa.array(values, arrow_type(kind))})
        kept = within_delta("v", threshold).kept(table, None, None, None)
        assert kept.tolist() == near, (values, threshold)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_floats_are_compared_as_floats(kind):
    def kept(values, threshold):
        table = pa.table({"v": pa.array(values, arrow_type(kind))})
        return within_delta("v", threshold).kept(table, None, None, None).tolist()

    assert kept([1.0, math.nan, None, math.inf, 2.0], 1.5) == [True, False, False, False, True]
    assert kept([1.0, math.nan], math.inf) == [False, False]
    assert kept([1.0, math.inf, 2.0], math.inf) == [True, False, True]
    assert kept([1.0, math.inf, 2.0], 10**400) == [True, False, True]


@pytest.mark.parametrize(
    "kind", ["string", "boolean", "date", "timestamp", "timestamp_ntz", "binary", "array<bigint>", "struct<a:bigint>"]
)
def test_only_numbers_are_within_a_delta(kind):
    """The query is refused when it is built, before `aggregate` as before `process`."""
    for function in (listed, {"orders": C.count()}):
        with pytest.raises(InvalidType, match=rf"`within_delta\('v', 5\)` compares numbers; `v` is {kind}\. Take a"):
            Play(tumbling("1 minute"), function, LISTED, evict=[within_delta("v", 5)], kinds=(("v", kind),))
    options = {"trigger": on_update(), "after": [within_delta("v", 5)], "kinds": (("v", kind),)}
    with pytest.raises(InvalidType, match="compares numbers"):
        Play(unbounded(), listed, LISTED, **options)


# --- types ----------------------------------------------------------------------------------------------------------

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
VALUES = {
    "boolean": [True, None, False],
    "int": [-5, None, 7],
    "double": [0.5, None, float("inf")],
    "string": ["é", None, ""],
    "binary": [b"x", None, b""],
    "date": [NOON.date(), None, datetime(1969, 1, 1).date()],
    "timestamp": [NOON, None, datetime(1969, 1, 1, tzinfo=UTC)],
    "timestamp_ntz": [NOON.replace(tzinfo=None), None, datetime(1969, 1, 1)],
    "decimal(12,2)": [Decimal("1.25"), None, Decimal("-3.00")],
    "array<bigint>": [[1, None, 3], None, []],
    "struct<a:string,b:array<double>>": [{"a": "x", "b": [0.5]}, None, {"a": None, "b": None}],
    "array<struct<at:timestamp,n:decimal(5,1)>>": [[{"at": NOON, "n": Decimal("1.5")}], None, []],
}


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("kind", VALUES)
def test_records_and_rows_of_all_types(kind, streaming):
    """Values and nulls reach the function as they were, and come back."""
    values = VALUES[kind]
    records = [(number, "a", value) for number, value in enumerate(values * 2)]

    def same(key, window, records, context):
        return [(value,) for value in records["v"].to_pylist()]

    play = Play(hopping("2 minutes", advance="1 minute"), same, f"v {kind}", kinds=(("v", kind),), streaming=streaming)
    rows = play.stream([records[:3], records[3:]]) if streaming else play.bounded(records)
    assert [row[3] for row in rows if row[1] == 0] == values * 2
    assert len(rows) == 2 * len(records)


def test_what_a_function_may_return():
    """Tuples, dicts, tables of Arrow and of pandas, nothing; in one query too."""
    table = {"n": [1, 2], "name": ["a", None]}
    returned = {
        "tuples": [(1, "a"), (2, None)],
        "dicts": [{"name": "a", "n": 1}, {"n": 2, "name": None}],
        "arrow": pa.table({"name": ["a", None], "n": pa.array([1, 2], pa.int32())}),
        "pandas": pd.DataFrame(table),
        "generator": None,
        "none": None,
        "empty": [],
    }

    def rows(key, window, records, context):
        return iter(returned["tuples"]) if key == ("generator",) else returned[key[0]]

    records = [(0, name, 1) for name in returned]
    found = defaultdict(list)
    for key, _, _, *row, _ in Play(tumbling("1 minute"), rows, "n long, name string").stream([records]):
        found[key].append(tuple(row))
    assert set(found) == {"tuples", "dicts", "arrow", "pandas", "generator"}
    assert all(each == [(1, "a"), (2, None)] for each in found.values())


def test_a_function_is_told_of_window_and_firing():
    told = []

    def note(key, window, records, context):
        told.append((key, window.start, window.end, context.kind, context.watermark))

    play = Play(tumbling("1 minute"), note, "n long", trigger=early(records=2))
    play.step([(MINUTE + 1, "a", 1), (MINUTE + 2, "a", 2)], 0)
    play.step([], 2 * MINUTE)
    edges = datetime(1970, 1, 1, 0, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 2, tzinfo=UTC)
    assert told == [(("a",), *edges, "early", None), (("a",), *edges, "final", edges[1])]


# --- errors ---------------------------------------------------------------------------------------------------------


def test_a_function_that_raises_is_told_by_key_and_window_and_may_be_mended():
    """The micro-batch that failed is repeated with the mended function, and nothing is lost."""
    records = [(number * MINUTE, key, number) for number in range(6) for key in "ab"]

    def broken(key, window, records, context):
        if key == ("b",) and records["v"].to_pylist() == [1]:
            raise ZeroDivisionError("no one")
        return listed(key, window, records, context)

    play = Play(tumbling("1 minute"), broken, LISTED)
    rows = play.step(records[:2], 0)
    saved = play.restarted().store
    with pytest.raises(FunctionFailed, match=r"ZeroDivisionError: no one for key \('b',\) in window \[.*00:01:00.*\)"):
        play.step(records[2:], 3 * MINUTE)
    mended = Play(tumbling("1 minute"), listed, LISTED)
    mended.store = saved
    rows += mended.step(records[2:], 3 * MINUTE)
    rows += mended.step([], END)
    assert sorted(rows) == sorted(Play(tumbling("1 minute"), listed, LISTED, streaming=False).bounded(records))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([(1, 2)], "a tuple or a dict of 1 values"),
        ((1,), "a tuple or a dict of 1 values"),
        ([{"m": 1}], "a tuple or a dict of 1 values"),
        ("text", "a list of rows"),
        (5, "a list of rows"),
        ([("text",)], "got 'text' for `n bigint`"),
        ([(2.5,)], "got 2.5 for `n bigint`"),
        (pa.table({"m": [1]}), "tables with the columns n; got m"),
        (pa.table([[1], [2]], names=["n", "n"]), "tables with the columns n; got n, n"),
        (pa.table({"n": [2.5]}), "tables of `n bigint`; got `n double`"),
        (pd.DataFrame({"n": ["x"]}), "tables of `n bigint`; got `n string`"),
    ],
)
def test_what_is_no_row_is_told_by_key_and_window(returned, message):
    def wrong(key, window, records, context):
        return returned if window.start_us == MINUTE else [(1,)]

    with pytest.raises(InvalidType, match=message) as caught:
        Play(tumbling("1 minute"), wrong, "n long").stream([[(0, "a", 1), (MINUTE, "a", 1), (2 * MINUTE, "a", 1)]])
    assert "in window [1970-01-01T00:01:00" in str(caught.value)


@pytest.mark.parametrize(
    ("returns", "value", "wrong"),
    [
        ("n array<bigint>", [1, None, np.int64(3)], [1, 2.5]),
        ("n array<array<int>>", [[1], [], None], [[1], [2.5]]),
        ("n struct<a: bigint, b: string>", {"a": 1, "b": "x"}, {"a": 2.5, "b": "x"}),
        ("n array<struct<a: bigint>>", [{"a": 1}, None], [{"a": 2.5}]),
        ("n array<bigint>", None, ["x"]),
        ("n array<bigint>", [], "12"),
        ("n struct<a: bigint>", None, [1]),
    ],
)
def test_whole_numbers_inside_lists_and_structs_are_not_cut(returns, value, wrong):
    play = Play(tumbling("1 minute"), lambda key, window, records, context: [(value,), (None,)], returns)
    assert [row[3] for row in play.stream([[(0, "a", 1)]])] == [value, None]
    play = Play(tumbling("1 minute"), lambda key, window, records, context: [(value,), (wrong,)], returns)
    with pytest.raises(InvalidType, match=f"got {re.escape(repr(wrong))} for `n "):
        play.stream([[(0, "a", 1)]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda f: Play(tumbling("1 minute"), f, LISTED),
            r"the function of `process` is called with \(key, window, records, context\)",
        ),
        (lambda f: then(f, LISTED, tumbling("1 minute")), r"`then` is called with \(key, window, results, context\)"),
        (
            lambda f: declared(None, "n long", f, None, tumbling("1 minute")),
            r"`clear` is called with \(key, window, context\)",
        ),
        (evictor, r"a function of `evict` is called with \(records, window, context\)"),
        (lambda f: assigned_by(f, ["v"]), r"the function of `assigned_by` is called with \(time, v\)"),
    ],
)
def test_functions_of_other_arguments_are_refused_when_they_are_given(make, message):
    with pytest.raises(InvalidType, match=f"{message}; got .*, whose arguments are \\(records\\)"):
        make(lambda records: records)
    make(lambda *given: given)
    make(partial(lambda model, *given: given, None))
    make(wraps(lambda model, *given, of: given)(lambda *given: given))


def test_rows_without_a_column_are_refused():
    with pytest.raises(InvalidValue, match="`returns` names no column"):
        Play(tumbling("1 minute"), listed, " ")


def test_a_window_that_is_too_large_says_how_large(monkeypatch):
    monkeypatch.setattr(partitions, "WINDOW_BYTES", 1 << 14)
    monkeypatch.setattr(partitions, "PARTITION_BYTES", 1 << 14)
    records = [(number * 1000, "a", number) for number in range(60_000)]
    with pytest.raises(TooLarge, match=r"got 0.4\d* MiB of 30,000 records for key \('a',\) in window"):
        Play(hopping("1 minute", advance="30 seconds"), counted, "n long").stream([records])
    wide = Play(hopping("1 minute", advance="30 seconds"), counted, "n long", window_bytes=1 << 20)
    assert [row[3] for row in wide.stream([records])] == [30_000, 60_000, 30_000]


def test_more_records_than_fit_at_once(monkeypatch):
    """Partitions of keys and of windows, with the rows of one partition."""
    records = same_times_apart(shifted(random_records(2, 3000, 40 * MINUTE, keys=20)))
    whole = Play(hopping("10 minutes", advance="1 minute"), listed, LISTED).stream(cut(records, 3, 900), 400 * MINUTE)
    monkeypatch.setattr(partitions, "PARTITION_BYTES", 1 << 13)
    parts = Play(hopping("10 minutes", advance="1 minute"), listed, LISTED).stream(cut(records, 3, 900), 400 * MINUTE)
    assert sorted(whole) == sorted(parts)


REFUSED = {
    "latest": (tumbling("1 minute"), {"trigger": on_update(latest_only=True)}, "one total of each key"),
    "change": (tumbling("1 minute"), {"trigger": on_change()}, "compares the results"),
    "old": (tumbling("1 minute"), {"trigger": on_close(corrections=True, old=True), "grace": 1}, "any number of rows"),
    "wide": (
        windows_of_call((), {"a": tumbling("1 minute"), "b": hopping("2 minutes", advance="1 minute")}, False),
        {},
        "long=True",
    ),
    "no time": (
        unbounded(),
        {"trigger": on_update(), "timed": False, "evict": [keep_newest("1 minute")]},
        "goes by the time",
    ),
    "column": (tumbling("1 minute"), {"evict": [within_delta("w", 1)]}, "not among the columns"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(name):
    window, options, message = REFUSED[name]
    with pytest.raises(InvalidValue, match=message):
        Play(window, listed, LISTED, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: keep_last(0),
        lambda: keep_last(True),
        lambda: keep_newest("0 seconds"),
        lambda: within_delta("v", 0),
        lambda: within_delta("v", float("nan")),
        lambda: within_delta("v", "x"),
    ],
)
def test_evictors_refuse_what_keeps_nothing(make):
    with pytest.raises(InvalidValue):
        make()
