"""Windows as of given instants, against brute force over raw records; and any runs of rows, against plain loops."""

import math
import random
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from oracle import CASES, Case, assert_right, block_of, cases, results, seeds, shape_of

import combinators as C
from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import choose
from slicing.assembly.ranges.segment_tree import SegmentTree
from slicing.content.block import Shape, empty
from slicing.engines import features as engine
from slicing.engines.features import Instants, answered, features
from slicing.errors import FunctionFailed, InvalidType, InvalidValue, TooLarge
from slicing.spark.features import SPINE, Answer
from slicing.spark.spine import ShipSpine
from slicing.stages import preaggregate
from slicing.stages.execution_plan import Aggregation
from slicing.stages.support_of import support_of
from slicing.windows.lookback import frame as span_of
from slicing.windows.lookback import lookbacks

KEYS = [None, 0, 1, 2, 3, 7]
DISTINCT = [
    Case(C.count_distinct("v").resolve(("bigint",)), lambda values: len(set(values))),
    Case(C.count_distinct("v").resolve(("string",)), lambda values: len(set(values)), CASES["highest"].argument),
    Case(
        C.count_distinct("v").resolve(("array<bigint>",)),
        lambda values: len({abs(value) for value in values}),
        lambda column: pa.array([[abs(value.as_py())] for value in column], pa.list_(pa.int64())),
    ),
]
"""Their results come without combines."""


def world(seed):
    """Records (time, key, value) without any order, and what is asked: times that may be null, of keys without any."""
    choice = random.Random(seed)
    span = choice.choice([30, 400, 10**6, 10**15])
    times = [choice.randint(-span, span) for _ in range(choice.choice([0, 1, 30, 300]))]
    times += [choice.choice(times) for _ in range(len(times) // 3)]
    records = [(time, choice.choice(KEYS[: choice.choice([1, 5])]), choice.randint(-50, 50)) for time in times]
    asked = [(choice.choice([*times, choice.randint(-2 * span, 2 * span), None]), choice.choice(KEYS)) for _ in times]
    asked += [(time + choice.choice([-1, 0, 1]), key) for time, key, _ in records[:40]]
    lengths = sorted({1, choice.randint(1, 50), choice.randint(1, span), 4 * span})
    return records, asked + asked[:5], lengths


def found(shape, block, asked, parts=1, since=None):
    """What each instant is answered, by its position and length: records, then results; None where there is none."""
    batches = [asked[part::parts] for part in range(parts)]
    given = [
        Instants(
            pa.array([time for time, _ in each], pa.int64()),
            pa.table([pa.array([key for _, key in each], pa.int64())], shape.key_schema),
        )
        for each in batches
    ]
    answers = {}
    for number, some in features(shape, block, given, since):
        frames = [some.windows, *some.windows.aligned]
        for at, row in enumerate(some.rows.tolist()):
            place = number + row * parts
            assert (place, 0) not in answers, "an instant is answered once"
            time, key = batches[number][row]
            assert all(frame.names["k0"][int(frame.keys[at])].as_py() == key for frame in frames)
            for length, frame in enumerate(frames):
                assert time is None or frame.windows[at] == shape.family.families[length].as_of(time)
                answers[place, length] = int(frame.records[at])
        for length, frame in enumerate(frames):
            held = frame.take(np.flatnonzero(frame.records))
            shown = results(answered(shape, shape), [held.take(np.unique(_places(held), return_index=True)[1])])
            for at, row in enumerate(some.rows.tolist()):
                if answers[number + row * parts, length]:
                    key, window = batches[number][row][1], int(frame.windows[at])
                    answers[number + row * parts, length] = shown[key, window]
    return answers


def _places(frame):
    """A number for each key and window, as `results` wants each once."""
    return np.unique(np.column_stack([frame.keys, frame.windows]), axis=0, return_inverse=True)[1].reshape(-1)


@pytest.mark.parametrize("seed", seeds(12, 120))
def test_features_are_those_of_the_raw_records(seed, monkeypatch):
    records, asked, lengths = world(seed)
    monkeypatch.setattr(engine, "ASSEMBLY_BYTES", random.Random(seed).choice([1, 5_000, 64 << 20]))
    inclusive = bool(seed % 2)
    named = {f"l{length}": timedelta(microseconds=length) for length in lengths}
    windows = lookbacks(None, named, inclusive) if seed % 3 else lookbacks(named[f"l{lengths[0]}"], {}, inclusive)
    lengths = lengths if seed % 3 else lengths[:1]
    used = [*cases(*CASES), *DISTINCT]
    shape = shape_of(windows.family, used)
    block = block_of(shape, used, records) if records else empty(shape)
    held, counts = {}, {}
    for place, (time, key) in enumerate(asked):
        for number, length in enumerate(lengths):
            ordered = sorted(records, key=lambda record: record[0])
            end = None if time is None else time + inclusive
            values = [v for at, k, v in ordered if time is not None and k == key and time - length <= at < end]
            (held if values else counts)[place, number] = values
    got = found(shape, block, asked, parts=1 + seed % 3)
    assert {place for place in got if got[place] == 0} == counts.keys()
    assert_right({place: row for place, row in got.items() if row != 0}, held, used)


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_only_what_was_known_counts(seed, monkeypatch):
    """Two times of each record at once, in any order; text joined in the order of time tells it."""
    choice = random.Random(f"known {seed}")
    records, asked, lengths = world(seed)
    monkeypatch.setattr(engine, "ASSEMBLY_BYTES", choice.choice([1, 5_000, 64 << 20]))
    later = choice.choice([0, 5, 100, 10**6, 10**15])
    created = [time + choice.choice([0, 0, choice.randint(-later, later), later]) for time, *_ in records]
    windows = lookbacks(None, {f"l{length}": timedelta(microseconds=length) for length in lengths}, seed % 2 == 1)
    used = [*cases(*(CASES if seed % 3 else ("joined", "sum", "most"))), DISTINCT[seed % 3]]
    shape = shape_of(windows.family, used)
    every = sorted(zip(records, created, strict=True), key=lambda each: (each[0][0], each[1]))
    block, since = with_knowledge(shape, used, every)
    held, counts = {}, {}
    for place, (time, key) in enumerate(asked):
        for number, length in enumerate(lengths):
            values = [
                v
                for (at, k, v), known in every
                if time is not None and k == key and time - length <= at < time + seed % 2 and known <= time
            ]
            (held if values else counts)[place, number] = values
    got = found(shape, block, asked, parts=1 + seed % 3, since=since)
    assert {place for place in got if got[place] == 0} == counts.keys()
    assert_right({place: row for place, row in got.items() if row != 0}, held, used)


def with_knowledge(shape, used, every):
    """The rows of records ((time, key, value), known), and since when those of each name of the rows are known."""
    if not every:
        return empty(shape), np.zeros(0, np.int64)
    pairs = list(dict.fromkeys((key, at) for (_, key, _), at in every))
    code = {pair: number for number, pair in enumerate(pairs)}
    block = block_of(shape, used, [(time, code[key, at], value) for (time, key, value), at in every])
    named = [pairs[number] for number in block.names["k0"].to_pylist()]
    names = pa.table([pa.array([key for key, _ in named], pa.int64())], shape.key_schema)
    return replace(block, names=names), np.array([at for _, at in named])


CLOSED = {"left": (0, 0), "right": (1, 1), "both": (0, 1), "none": (1, 0)}
"""How far the ends of a frame move if they are written as [a, b), in microseconds."""


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("seed", seeds(3, 30))
def test_frames_are_those_of_the_raw_records(seed, closed, monkeypatch):
    records, asked, lengths = world(seed)
    monkeypatch.setattr(engine, "ASSEMBLY_BYTES", random.Random(seed).choice([1, 5_000, 64 << 20]))
    long, short = max(lengths) + 7, min(lengths) + 1
    ends = {
        "gap": (-long - short, -short),
        "around": (-long, short),
        "ahead": (0, long),
        "later": (short, long + short),
    }
    ends["back"] = (-long, 0)
    frames = {
        name: span_of(*(timedelta(microseconds=end) for end in each)) if each[1] else timedelta(microseconds=-each[0])
        for name, each in ends.items()
    }
    windows = lookbacks(None, frames, False, closed)
    used = [*cases(*CASES), *DISTINCT]
    shape = shape_of(windows.family, used)
    held, counts = {}, {}
    for place, (time, key) in enumerate(asked):
        for number, (low, high) in enumerate(ends.values()):
            ordered = sorted(records, key=lambda record: record[0])
            start, stop = (
                (0, 0)
                if time is None
                else (time + each for each in map(sum, zip((low, high), CLOSED[closed], strict=True)))
            )
            values = [v for at, k, v in ordered if time is not None and k == key and start <= at < stop]
            (held if values else counts)[place, number] = values
    got = found(shape, block_of(shape, used, records) if records else empty(shape), asked, parts=1 + seed % 3)
    assert {place for place in got if got[place] == 0} == counts.keys()
    assert_right({place: row for place, row in got.items() if row != 0}, held, used)


@pytest.mark.parametrize("closed", CLOSED)
def test_ends_are_those_of_pandas(closed):
    choice, theirs = random.Random(closed), closed.replace("none", "neither")
    times = sorted({choice.randrange(200) for _ in range(120)})
    values = [choice.randrange(-9, 9) for _ in times]
    series = pd.Series(values, pd.to_datetime(times, unit="s"))
    used = cases("sum")
    seconds = [time * 10**6 for time in times]
    for windows, wanted in (
        (lookbacks("10 seconds", {}, False, closed), series.rolling("10s", closed=theirs)),
        (
            lookbacks(span_of("-5 seconds", "5 seconds"), {}, False, closed),
            series.rolling("10s", closed=theirs, center=True),
        ),
    ):
        shape = shape_of(windows.family, used)
        block = block_of(shape, used, [(time, 1, value) for time, value in zip(seconds, values, strict=True)])
        got = found(shape, block, [(time, 1) for time in seconds])
        assert [row[1] if row else 0 for row in got.values()] == wanted.sum().fillna(0).astype(int).tolist()


@pytest.mark.parametrize("closed", CLOSED)
def test_months_back_are_those_of_pandas(closed):
    """Many times are in the last days of months, where starts go back from day to day; clock time elapses."""
    choice = random.Random(closed)
    ends = pd.date_range("2023-11-01", "2024-06-01", freq="MS", tz="Europe/Berlin")
    times = [choice.choice(ends) + pd.Timedelta(hours=choice.randrange(-90, 40)) for _ in range(300)]
    # Whole months and weeks before a record, there is another one at times.
    times += [time + pd.DateOffset(**choice.choice([{"months": 1}, {"weeks": 1}])) for time in times[:40]]
    times = [time for time in times if time.hour > 3]  # not where pandas has to be told about changes of the clock
    used = [*cases("sum"), DISTINCT[0]]  # some starts go back, where the latter combines
    lengths = {"month": {"months": 1}, "week": {"weeks": 1}, "hours": {"hours": 30}}
    named = {"month": "1 month", "week": "7 days", "hours": "30 hours"}
    windows = lookbacks(None, named, False, closed, "Europe/Berlin")
    shape = shape_of(windows.family, used)
    records = [(time.value // 1000, choice.randrange(2), choice.randrange(-9, 9)) for time in times]
    keys = pa.table([pa.array([key for _, key, _ in records])], shape.key_schema)
    asked = Instants(pa.array([time for time, *_ in records], pa.int64()), keys)
    after, until = CLOSED[closed]
    for _, answers in features(shape, block_of(shape, used, records), [asked]):
        frames = [answers.windows, *answers.windows.aligned]
        for row, place in enumerate(answers.rows.tolist()):
            time, key, _ = records[place]
            for windows, back in zip(frames, lengths.values(), strict=True):
                start = (times[place] - pd.DateOffset(**back)).value // 1000 + after
                held = [value for at, k, value in records if k == key and start <= at < time + until]
                one = windows.take(np.array([row]))  # as many windows have the same start
                assert (one.windows.tolist(), one.records.tolist()) == ([start], [len(held)])
                wanted = [[len(held), sum(held), len(set(held))]]
                assert not held or list(results(answered(shape, shape), [one]).values()) == wanted


@pytest.mark.parametrize("inclusive", [False, True])
def test_the_ends_of_time_have_no_wrong_nulls(inclusive):
    low, high = -(1 << 63), (1 << 63) - 1
    times = [low, low + 1, -5, 0, 3, high - 1, high]
    for some in (times, times[:3], times[3:], [low], [high], [0]):
        records = [(time, key, 1) for time in some for key in (1, 2)]
        used = cases("sum")
        shape = shape_of(lookbacks(timedelta(microseconds=5), {}, inclusive).family, used)
        asked = [(time, key) for time in times for key in (1, 2, 3)]
        keys = pa.table([pa.array([key for _, key in asked])], shape.key_schema)
        instants = Instants(pa.array([time for time, _ in asked], pa.int64()), keys)
        for _, answers in features(shape, block_of(shape, used, records), [instants]):
            for row, place in enumerate(answers.rows.tolist()):
                time, key = asked[place]
                held = sum(key < 3 and time - 5 <= at < time + inclusive for at in some)
                one = answers.windows.take(np.array([row]))
                assert one.records.tolist() == [held], (time, key)
                if held:
                    assert list(results(shape, [one]).values()) == [[held, held]]


def test_any_run_is_joined_in_order_and_in_few_steps():
    """Text, which shows the order; and the cells that `combine` is called for, which are no more than promised."""
    choice = np.random.default_rng(5)
    counts = np.array([1, 0, 2, 1000, 3, 129, 0])
    starts = np.cumsum(counts) - counts
    letters = np.array([chr(97 + i % 26) for i in range(counts.sum())], dtype=object)
    cells = []

    def combine(a, b):
        cells.append(len(a))
        return a + b

    text = Aggregate(lambda: "", lambda acc, v: v, combine, partial="string", columns=True, ordered=True, laws=False)
    ends = np.repeat(starts + counts, counts)
    rows = SegmentTree(kernel("text", text), [letters], starts, counts, lambda: ends, str)
    keys = choice.choice(np.flatnonzero(counts), 4000)
    pairs = np.sort(choice.integers(0, counts[keys][:, None] + np.array([0, 0]) + 1, (4000, 2)), axis=1)
    held = pairs[:, 0] < pairs[:, 1]
    keys, low, high = keys[held], *(starts[keys] + pairs.T)[:, held]
    (joined,) = rows.joined(keys, low, high, str)
    assert joined.tolist() == ["".join(letters[a:b]) for a, b in zip(low, high, strict=True)]
    most = 2 * np.log2(np.maximum(high - low, 2))
    assert sum(cells) <= counts.sum() + most.sum()
    assert len(cells) <= 3 * math.log2(1000) + 3, "no loop over runs or rows"
    assert (np.ptp(high - low), len(low)) > (900, 3000)


def test_a_result_does_not_depend_on_other_keys_nor_on_other_instants():
    """Floats to the last bit: buckets and parts of the spine may be cut anyhow."""
    choice = random.Random(9)
    shape = shape_of(lookbacks("1 second", {}, False).family, cases("floats", "variance"))
    records = [(choice.randrange(2 * 10**6), key, choice.randrange(10**6)) for key in (1, 2, 3) for _ in range(400)]
    asked = [(time, 2) for time in range(0, 3 * 10**6, 7_001)]
    alone = found(shape, block_of(shape, cases("floats", "variance"), [r for r in records if r[1] == 2]), asked[::3])
    others = found(shape, block_of(shape, cases("floats", "variance"), records), [*asked, (5, 1)])
    assert [others[3 * at, 0] for at, _ in alone] == list(alone.values())
    assert len({row[1] for row in alone.values() if row}) > 100


def test_what_fails_says_for_which_key_and_window():
    """A run whose own joining fails says its window; a node, which is of many runs, its first row."""

    def refuses(a, b):
        if 99 in (a, b):
            raise ZeroDivisionError("nothing left")
        return a + b

    broken = Aggregate(lambda: 0, lambda acc, v: v, refuses, laws=False, columns=False)
    shape = shape_of(lookbacks("10 seconds", {}, False).family, [CASES["rows"]])
    shape = type(shape)(shape.family, shape.keys, (kernel("broken", broken),))
    seconds = 10**6
    others = [(time * seconds, 1, 1) for time in range(5)]
    own = [(time * seconds, 4, 99 if time == 10 else 1) for time in (0, 1, 2, 3, 9, 10, 11)]
    block = block_of(shape, [CASES["rows"]], others + own)
    with pytest.raises(FunctionFailed, match=r"`broken` raised .* key \(4,\) in window \[1970-01-01T00:00:05.500"):
        found(shape, block, [(15_500_000, 4)])
    with pytest.raises(FunctionFailed, match=r"key \(4,\) in slice \[1970-01-01T00:00:09,"):
        found(shape, block, [(12_500_000, 4)])
    later = [(40 * seconds, 4), (41 * seconds, 4)]
    block = block_of(shape, [CASES["rows"]], own + [(time * seconds, 4, 1) for time in range(30, 41)])
    assert found(shape, block, later) == {(0, 0): [10, 10], (1, 0): [10, 10]}, "no window holds 99"


def test_more_distinct_values_than_the_limit_say_in_which_window():
    used = [replace(DISTINCT[0], aggregate=C.count_distinct("v", limit=3).resolve(("bigint",)))]
    shape = shape_of(lookbacks("10 seconds", {}, False).family, used)
    block = block_of(shape, used, [(time * 10**6, key, time // 2) for time in range(9) for key in (1, 4)])
    assert found(shape, block, [(6 * 10**6, 4)]) == {(0, 0): [6, 3]}
    everything = np.full(len(block.names), -(10**9))
    for since in (None, everything):
        with pytest.raises(TooLarge, match=r"got 4, the most are 4 for key \(4,\) in window \[1969-12-31T23:59:57"):
            found(shape, block, [(6 * 10**6, 4), (7 * 10**6, 4)], since=since)


def test_numbers_that_leave_int64_on_the_way_but_not_in_a_window():
    total = Aggregate(lambda: 0, lambda acc, v: v, fieldwise(np.add), fieldwise(np.subtract), columns=True, laws=False)
    shape = shape_of(lookbacks("1 microsecond", {}, False).family, [CASES["rows"]])
    shape = type(shape)(shape.family, shape.keys, (kernel("total", total),))
    block = block_of(shape, [CASES["rows"]], [(time, 0, 2**62) for time in range(9)])
    assert found(shape, block, [(9, 0), (1, 0)]) == {(0, 0): [1, 2**62], (1, 0): [1, 2**62]}


@pytest.mark.parametrize("buckets", [1, 3])
def test_stages_bring_every_row_of_the_spine_back_with_its_results(buckets, monkeypatch):
    """Without Spark: what both first stages ship, in any parts, is answered bucket by bucket; results share fields."""
    monkeypatch.setattr(preaggregate, "CHUNK_ROWS", 70)
    records, asked, _ = world(6)
    windows = lookbacks(None, {"short": timedelta(microseconds=20), "long": timedelta(microseconds=10**6)}, False)
    bound = {"n": C.count(), "total": C.sum("v"), "mean": C.mean("v"), "most": C.max("v")}
    kernels = tuple(kernel(name, each.resolve(("bigint",) * len(each.columns))) for name, each in bound.items())
    shape = Shape(windows.family, (Field("k", "bigint"),), kernels)
    trees = tuple(choose(each, family) for family in windows.family.families for each in kernels)
    chosen = support_of(windows).execution_plan(Aggregation(shape, trees, ((), (0,), (0,), (0,)), may_be_late=False))
    assert chosen.sharing.is_any
    labels = tuple(range(buckets))
    times, keys, values = (list(column) for column in zip(*records, strict=True))
    stage, ship = chosen.first_stage(labels), ShipSpine(shape, labels)
    time = pa.timestamp("us", "UTC")
    table = pa.table({"time": pa.array([*times, None], time), "k0": [*keys, 1], "v0": [*values, 9]})
    spine = pa.table({"time": pa.array([t for t, _ in asked], time), "k0": pa.array([k for _, k in asked], pa.int64())})
    spine = spine.append_column("v0", pa.array(range(len(asked)))).append_column("v1", spine["time"])
    shipped = [pa.Table.from_batches(list(each(t.to_batches(50)))) for each, t in ((stage, table), (ship, spine))]
    assert sum(each["no_time"].to_pylist().count(1) for each in shipped) == 1
    rows = [
        {**row, "block": None if number else row["block"], SPINE: row["block"] if number else None}
        for number, each in enumerate(shipped)
        for row in each.to_pylist()
    ]
    rows.sort(key=lambda row: (row["bucket"], row["partition"], row["part"]))
    answered = pa.Table.from_batches(
        list(Answer(chosen, 1, 1, shape)(pa.Table.from_pylist(rows).to_batches(7)))
    ).to_pylist()
    assert sorted(row["v0"] for row in answered) == list(range(len(asked))), "each row once"
    for row in answered:
        at, key = asked[row["v0"]]
        for number, length in enumerate((20, 10**6)):
            held = [v for t, k, v in records if at is not None and k == key and at - length <= t < at]
            expected = [len(held), sum(held), sum(held) / len(held), max(held)] if held else [None] * 4
            assert [row[f"r{4 * number + result}"] for result in range(4)] == expected
            assert row[f"h{number}"] == bool(held)
    assert "v1" not in answered[0]


@pytest.mark.parametrize(
    ("length", "named", "inclusive", "kind", "rule"),
    [
        (None, {}, False, InvalidValue, "either one length or several by name; got none"),
        ("1 hour", {"day": "1 day"}, False, InvalidValue, "got '1 hour', day='1 day'"),
        ("0 seconds", {}, False, InvalidValue, "`length` must be positive; got '0 seconds'"),
        (None, {"day": "-1 day"}, False, InvalidValue, "`day` must be positive; got '-1 day'"),
        (None, {"day": 24}, False, InvalidType, "`day`: a duration needs a unit; got 24"),
        (None, {"month": "1 month"}, False, InvalidValue, "`month`: months, .* need a zone.* zone=.UTC."),
        (timedelta(days=999_999_999), {}, False, InvalidValue, "at most 36,000 years"),
        ("1 hour", {}, "yes", InvalidType, "`inclusive` says whether .* got 'yes'"),
    ],
)
def test_lengths_that_are_none(length, named, inclusive, kind, rule):
    with pytest.raises(kind, match=rule):
        lookbacks(length, named, inclusive)


@pytest.mark.parametrize(
    ("call", "kind", "rule"),
    [
        (lambda: span_of("1 day", "-3 days"), InvalidValue, "a frame ends after it begins; got '1 day' and '-3 days'"),
        (lambda: span_of("3 days", "1 day"), InvalidValue, 'are negative: `frame."-3 days", "-1 day".`'),
        (lambda: span_of(3, "1 day"), InvalidType, "`start`: a duration needs a unit; got 3"),
        (lambda: lookbacks("1 hour", {}, False, "middle"), InvalidValue, "`closed` is one of left, right, both, none"),
        (lambda: lookbacks("1 hour", {}, True, "left"), InvalidValue, '`inclusive=True` is `closed="both"`'),
        (lambda: lookbacks("1 microsecond", {}, False, "none"), InvalidValue, "holds no instant; got '1 microsecond'"),
    ],
)
def test_frames_that_are_none(call, kind, rule):
    with pytest.raises(kind, match=rule):
        call()


def test_frames_print_as_their_call():
    around = lookbacks(None, {"a": span_of("-1 hour", "1 hour"), "b": "1 day"}, False, "right")
    assert repr(around) == "features_at(a=frame('-1 hour', '1 hour'), b='1 day', closed='right')"
    assert lookbacks(span_of("-3 days", "-1 day"), {}, False).calls == ["frame('-3 days', '-1 day')"]
    months = lookbacks(None, {"quarter": "1 quarter", "hour": "1 hour", "week": "7 days"}, True, zone="UTC")
    assert repr(months) == ("features_at(quarter='3 months', hour='1 hour', week='7 days', inclusive=True, zone='UTC')")
    assert lookbacks("2 months", {}, False, zone="UTC").calls == ["2 months"]


def test_clock_time_beside_days_of_a_zone_prints_in_hours():
    given = {"fixed": "24 hours", "day": "1 day", "week": "168 hours"}
    windows = lookbacks(None, given, False, zone="Europe/Berlin")
    assert repr(windows) == "features_at(fixed='24 hours', day='1 day', week='168 hours', zone='Europe/Berlin')"
    printed = eval(repr(windows), {"features_at": lambda zone, **lengths: lookbacks(None, lengths, False, zone=zone)})
    assert printed == windows != lookbacks(None, given | {"fixed": "1 day"}, False, zone="Europe/Berlin")


def test_a_window_ends_before_its_instant_or_with_it():
    """[t - d, t) and [t - d, t], which is [t - d, t + 1 us)."""
    for inclusive in (False, True):
        windows = lookbacks(None, {"a": "1 second", "b": "1 day"}, inclusive)
        assert repr(windows) == f"features_at(a='1 second', b='1 day'{', inclusive=True' * inclusive})"
        for family, length in zip(windows.family.families, (10**6, 86_400 * 10**6), strict=True):
            for time in (-5, 0, 10**15):
                as_of = family.as_of(time)
                assert (family.window_start(as_of), family.window_end(as_of)) == (time - length, time + inclusive)
    with pytest.raises(InvalidValue, match="the spine does"):
        windows.windows_of(0)
