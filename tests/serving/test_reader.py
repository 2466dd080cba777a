"""`Reader` on a store of rows made of raw records: what is answered, what is refused."""

import asyncio
import math
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from textwrap import dedent
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from serving import stored
from serving.stored import manifest, publish, rows

import combinators as C
from slicing import InvalidType, InvalidValue, by_edges, cumulating, group_by, hopping, session, tumbling
from slicing.serving import Reader, Stale, key_text, store_of

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
START = 1_700_006_400 * SECOND
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
RESULTS = stored.RESULTS | {"seen": C.collect_set("s"), "both": C.struct(high=C.max("n"), day=C.max("d"))}


def micros(instant):
    return (instant.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


def local(t):
    return (EPOCH + timedelta(microseconds=t)).astimezone(BERLIN)


def day(t, back=0):
    """The start of the day in Berlin that holds an instant, or of an earlier day."""
    at = local(t) - timedelta(days=back)
    return micros(datetime(at.year, at.month, at.day, tzinfo=BERLIN))


def month(t):
    at = local(t - 1)
    return micros(datetime(at.year, at.month, 1, tzinfo=BERLIN))


def floor(t, length, offset=0):
    return (t - offset) // length * length + offset


# The windows, and for each the definition of its start as of an instant.
CASES = {
    "hopping": ([hopping("10 minutes", "1 minute")], [lambda t: floor(t, MINUTE) - 10 * MINUTE]),
    "offset": (
        [hopping("10 minutes", "5 minutes", offset="2 minutes")],
        [lambda t: floor(t, 5 * MINUTE, 2 * MINUTE) - 10 * MINUTE],
    ),
    "uneven": (
        [hopping("7 minutes", "3 minutes")],
        [lambda t: floor(t - 7 * MINUTE, 3 * MINUTE)],
    ),
    "tumbling": ([tumbling("5 minutes")], [lambda t: floor(t, 5 * MINUTE) - 5 * MINUTE]),
    "several": (
        [hopping("10 minutes", "1 minute"), hopping("1 hour", "2 minutes")],
        [lambda t: floor(t, MINUTE) - 10 * MINUTE, lambda t: floor(t, 2 * MINUTE) - HOUR],
    ),
    "tails": (
        [
            hopping("10 minutes", "1 minute"),
            hopping("3 hours", "1 minute", tail="1 hour"),
            hopping("2 days", "1 minute", tail="6 hours"),
        ],
        [
            lambda t: floor(t, MINUTE) - 10 * MINUTE,
            lambda t: floor(floor(t, MINUTE) - 3 * HOUR, HOUR),
            lambda t: floor(floor(t, MINUTE) - 2 * DAY, 6 * HOUR),
        ],
    ),
    "zone": ([hopping("3 days", "1 day", zone="Europe/Berlin")], [lambda t: day(t, 3)]),
    "cumulating": ([cumulating("1 day", "1 hour", zone="Europe/Berlin")], [lambda t: day(t - 1)]),
    "month": ([cumulating("1 month", "1 day", zone="Europe/Berlin")], [month]),
}
# Both days on which the clocks of Berlin change, and one without a change.
ORIGINS = [micros(datetime(2024, *date, tzinfo=UTC)) for date in ((3, 30, 12), (10, 26, 12), (7, 1, 12))]


def definition(windows, results=RESULTS, key="user"):
    return group_by(key).window(*windows, time="ts").define(**results)


def records(seed, origin, spread, count=400):
    choice = random.Random(seed)
    return [
        {
            "key": choice.choice(["ada", "bob", "é"]),
            "ts": origin + choice.randint(0, spread),
            "n": choice.choice([None, choice.randint(-(2**50), 2**50)]),
            "x": choice.choice([choice.uniform(-1, 1), 1e6]),
            "s": choice.choice(["a", "bb", "", "é", None]),
            "m": Decimal(choice.randint(-(10**9), 10**9)).scaleb(-2),
            "d": (EPOCH + timedelta(days=choice.randint(0, 10_000))).date(),
        }
        for _ in range(count)
    ]


def expected(held):
    numbers, texts = ([each[name] for each in held if each[name] is not None] for name in ("n", "s"))
    return {
        "n": len(held),
        "total": sum(numbers) if numbers else None,
        "x": math.fsum(each["x"] for each in held) if held else None,
        "low": min(texts, key=str.encode) if texts else None,
        "m": sum((each["m"] for each in held), Decimal(0)) if held else None,
        "shops": len(set(texts)),
        "seen": sorted(set(texts)),
        "both": {"high": max(numbers, default=None), "day": max((each["d"] for each in held), default=None)},
    }


def compare(values, held):
    wanted = expected(held)
    x, wanted_x = values["x"], wanted.pop("x")
    assert (x is None) == (wanted_x is None)
    assert x is None or math.isclose(x, wanted_x, rel_tol=0, abs_tol=1e-12 * sum(abs(each["x"]) for each in held))
    assert {**{name: value for name, value in values.items() if name != "x"}, "seen": sorted(values["seen"])} == wanted


def made(tmp_path, card, held, **progress):
    url = f"sqlite:///{tmp_path}/features.db"
    written = store_of(url)
    written.put("user", rows(card, held))
    publish(written, card, **progress)
    return url


@pytest.mark.parametrize("kind", CASES)
def test_windows_equal_raw_records_at_random_instants(tmp_path, kind):
    windows, starts = CASES[kind]
    card = definition(windows)
    choice = random.Random(kind)
    for number, origin in enumerate(ORIGINS):
        (tmp_path / str(number)).mkdir()
        spread = {"month": 40 * DAY}.get(kind, 3 * DAY)
        held = records(number, origin, spread)
        reader = Reader(made(tmp_path / str(number), card, held), card)
        cut = reader._levels.cut
        for _ in range(100):
            t = choice.randint(origin - HOUR, origin + spread + 2 * DAY)
            if t <= origin + spread:
                t = cut.slice_start(cut.slice_at(t))
            key = choice.choice(["ada", "bob", "é", "nobody"])
            answer = reader.read(key, at=t)
            for name, start in zip(answer, starts, strict=True):
                assert micros(answer.starts[name]) == start(t)
                compare(answer[name], [each for each in held if each["key"] == key and start(t) <= each["ts"] < t])


def test_windows_that_were_never_declared(tmp_path):
    card = definition([hopping("10 minutes", "1 minute"), hopping("3 hours", "1 minute", tail="1 hour")])
    held = records(7, START, 6 * HOUR)
    reader = Reader(made(tmp_path, card, held), card)
    other = hopping("7 minutes", "1 minute")
    named = {"h5": hopping("5 hours", "1 hour"), "day": cumulating("1 day", "2 minutes")}
    t = START + 5 * HOUR
    own = [each for each in held if each["key"] == "ada"]
    compare(reader.read("ada", at=t, windows=other)[other], [e for e in own if t - 7 * MINUTE <= e["ts"] < t])
    answer = reader.read("ada", at=t, windows=named)
    compare(answer["h5"], [each for each in own if START <= each["ts"] < t])
    compare(answer["day"], [each for each in own if floor(t, DAY) <= each["ts"] < t])
    with pytest.raises(InvalidValue, match="has edges inside of them"):
        reader.read("ada", windows=hopping("5 minutes", "10 seconds"))


def test_windows_that_were_asked_for_once_are_not_kept_for_ever(tmp_path):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    reader = Reader(made(tmp_path, card, [{"key": "ada", "ts": START}]), card)
    for minutes in range(1, 300):
        window = hopping(f"{minutes} minutes", "1 minute")
        assert reader.read("ada", at=START + 1, windows=window)[window] == {"n": 1}
    assert len(reader._others) <= 100


def test_records_leave_by_the_clock(tmp_path):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count(), "x": C.sum("x")})
    reader = Reader(made(tmp_path, card, records(1, START, MINUTE)), card)
    counts = []
    for minutes in range(13):
        reader._clock = lambda: START + minutes * MINUTE + 1  # noqa: B023
        counts.append(reader.read("ada")["hopping('10 minutes', advance='1 minute')"]["n"])
    assert counts[1] > 0
    assert counts[1:11] == [counts[1]] * 10
    assert counts[11:] == [0, 0]


def test_a_window_whose_slices_are_gone_is_null_with_the_instant_from_which_they_are_there(tmp_path):
    windows = [hopping("10 minutes", "1 minute"), hopping("3 hours", "1 minute", tail="1 hour")]
    card = definition(windows, {"n": C.count()})
    t = START + 5 * HOUR + 30 * MINUTE
    url = made(tmp_path, card, records(2, START, 6 * HOUR), gone=(START + 5 * HOUR, START + 2 * HOUR))
    reader = Reader(url, card)
    answer = reader.read("ada", at=t)
    assert None not in answer.values()
    assert set(answer.known_from.values()) == {None}
    early = reader.read("ada", at=t - HOUR)
    assert [early[window] for window in windows] == [None, None]
    assert {micros(each) for each in early.known_from.values()} == {START + 5 * HOUR}
    longer = hopping("4 hours", "1 minute", tail="1 hour")
    answer = reader.read("ada", at=t, windows=longer)
    assert answer[longer] is None
    assert [micros(each) for each in answer.known_from.values()] == [START + 2 * HOUR]


def test_a_stream_that_starts_without_its_history_answers_no_earlier_window(tmp_path):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    reader = Reader(made(tmp_path, card, records(2, START, HOUR), known_from=START + 30), card)
    (name,) = reader.read("ada", at=START)
    assert reader.read("ada", at=START + 10 * MINUTE)[name] is None
    assert reader.read("ada", at=START + 11 * MINUTE)[name]["n"] > 0


def test_the_watermark_is_floored_to_an_edge(tmp_path):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    held = records(3, START, HOUR)
    reader = Reader(made(tmp_path, card, held, watermark=START + 20 * MINUTE + 17), card)
    answer = reader.read("ada", at="watermark")
    assert micros(answer.at) == START + 20 * MINUTE
    assert micros(answer.watermark) == START + 20 * MINUTE + 17
    wanted = [e for e in held if e["key"] == "ada" and START + 10 * MINUTE <= e["ts"] < START + 20 * MINUTE]
    assert next(iter(answer.values())) == {"n": len(wanted)}
    (tmp_path / "no").mkdir()
    reader = Reader(made(tmp_path / "no", card, held, watermark=None), card)
    with pytest.raises(InvalidValue, match="has none before its second micro-batch"):
        reader.read("ada", at="watermark")
    publish(store_of(f"sqlite:///{tmp_path}/no/features.db"), card, batch=1, watermark=START + 20 * MINUTE)
    assert dict(reader.read("ada", at="watermark")) == dict(answer)


def test_stale_values_are_refused_and_a_clock_may_step_back(tmp_path):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    reader = Reader(made(tmp_path, card, [], written=START), card)
    reader._clock = lambda: START + 61 * SECOND
    assert reader.read("ada").age == timedelta(seconds=61)
    assert reader.read("ada", max_age="2 minutes").as_of.batch == 0
    with pytest.raises(Stale, match=r"must not be older than 1 minute; those of `user` are 61 seconds old"):
        reader.read("ada", max_age="1 minute")
    reader._clock = lambda: START - DAY
    answer = reader.read("ada", max_age="1 minute")
    assert answer.age == timedelta(0)
    assert next(iter(answer.values())) == {"n": 0}


def test_an_unknown_key_is_a_value(tmp_path):
    card = definition([hopping("10 minutes", "1 minute")])
    answer = Reader(made(tmp_path, card, records(1, START, HOUR)), card).read("nobody", at=START + HOUR)
    compare(next(iter(answer.values())), [])


def test_many_keys_and_a_task(tmp_path):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    reader = Reader(made(tmp_path, card, records(1, START, HOUR)), card)
    one = reader.read("ada", at=START + HOUR)
    assert dict(asyncio.run(reader.aread("ada", at=START + HOUR))) == dict(one)
    reads = []
    reader._store = Counted(reader._store, reads)
    answers = reader.read_many(["bob", "ada", "nobody", "ada"], at=START + HOUR)
    assert [len(keys) for keys in reads] == [4]
    assert [dict(each) for each in answers] == [
        dict(reader.read(key, at=START + HOUR)) for key in ("bob", "ada", "nobody", "ada")
    ]
    assert dict(answers[1]) == dict(one)
    assert reader.read_many([]) == []


class Counted(NamedTuple):
    """A store, and the keys of each read of it."""

    of: object
    reads: list

    def read(self, feature_set, keys, ranges):
        self.reads.append(keys)
        return self.of.read(feature_set, keys, ranges)


def test_keys_of_several_columns_are_tuples(tmp_path):
    card = group_by("user", "city").window(hopping("10 minutes", "1 minute"), time="ts").define(n=C.count())
    url = f"sqlite:///{tmp_path}/features.db"
    held = [{"key": ("ada", None), "ts": START}, {"key": ("ada", "Rome"), "ts": START}, {"key": ("ada", None), "ts": 0}]
    written = store_of(url)
    written.put("user_city", rows(card, held))
    publish(written, card, name="user_city")
    reader = Reader(url, card)
    assert [next(iter(reader.read(("ada", city), at=START + 1).values()))["n"] for city in (None, "Rome", "x")] == [
        1,
        1,
        0,
    ]
    with pytest.raises(InvalidType, match="a key has a value for each of user, city; got 'ada'"):
        reader.read("ada")
    with pytest.raises(InvalidType, match="key column `city` is string; got 7"):
        reader.read(("ada", 7))


def test_keys_keep_all_digits_of_decimals():
    column = [("n", "decimal(38,0)")]
    one, other = (key_text(Decimal(10**37 + more), column) for more in (1, 2))
    assert one != other
    assert key_text(Decimal("1.50"), [("n", "decimal(9,2)")]) == key_text("1.5", [("n", "decimal(9,2)")]) == '["1.5"]'
    with pytest.raises(InvalidType, match=r"key column `n` is decimal\(9,2\); got 0.1"):
        key_text(0.1, [("n", "decimal(9,2)")])


def test_keys_of_floats_are_those_of_their_column():
    stored = pa.array([0.1], pa.float32()).to_pylist()
    assert key_text(stored[0], [("n", "float")]) == key_text(0.1, [("n", "float")])
    with pytest.raises(InvalidType, match="key column `n` is float; got '1'"):
        key_text("1", [("n", "float")])


def test_what_is_not_there_is_refused(tmp_path):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    with pytest.raises(InvalidValue, match="the store has no `user`"):
        Reader(f"sqlite:///{tmp_path}/none.db", card)
    assert not (tmp_path / "none.db").exists()
    url = made(tmp_path, card, [])
    with pytest.raises(InvalidValue, match="the store has no `other`"):
        Reader(url, card, feature_set="other")
    with pytest.raises(InvalidValue, match="result `n` differs"):
        Reader(url, definition([hopping("10 minutes", "1 minute")], {"n": C.max("n")}))
    with pytest.raises(InvalidValue, match="result `more` is only here"):
        Reader(url, definition([hopping("10 minutes", "1 minute")], {"n": C.count(), "more": C.count()}))
    with pytest.raises(InvalidValue, match="its slices are those of hopping"):
        Reader(url, definition([hopping("10 minutes", "5 minutes")], {"n": C.count()}))
    for other in ("mysql://x", "sqlite:features.db"):
        with pytest.raises(InvalidValue):
            Reader(other, card)
    with pytest.raises(InvalidType, match="a store is a URL, or has the methods"):
        Reader(7, card)
    with pytest.raises(InvalidValue, match=r"a file in a folder that exists; /.*/none does not. Make the folder"):
        Reader(f"sqlite:///{tmp_path}/none/features.db", card)
    for given in ("user", group_by("user")):
        with pytest.raises(InvalidType, match=r"the definition that is served; got .*user"):
            Reader(url, given)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (C.first_n("x", 3), C.last_n("x", 3)),
        (C.largest("x", 3), C.largest("x", 5)),
        (C.percentile_relative("x", 0.5), C.percentile_relative("x", 0.5, 0.05)),
        (C.by("s", C.min("x"), limit=9), C.by("s", C.max("x"), limit=9)),
    ],
)
def test_partials_of_another_meaning_are_refused(tmp_path, written, read):
    windows = [hopping("10 minutes", "1 minute")]
    url = f"sqlite:///{tmp_path}/features.db"
    publish(store_of(url), definition(windows, {"v": written}))
    with pytest.raises(InvalidValue, match="result `v` differs"):
        Reader(url, definition(windows, {"v": read}))


def test_keys_are_those_of_the_stored_definition(tmp_path):
    url = made(tmp_path, definition([hopping("10 minutes", "1 minute")], {"n": C.count()}), [])

    def by(*keys):
        return group_by(*keys).window(hopping("10 minutes", "1 minute"), time="ts").define(n=C.count())

    for key in ("user", "USER", "`user`", "payment.user"):
        assert Reader(url, by(key), feature_set="user").read("ada").as_of.batch == 0
    for keys, told in ((("card",), "card"), (("user", "shop"), "user, shop"), ((), "none")):
        with pytest.raises(InvalidValue, match=f"its keys are {told}, the stored ones user string"):
            Reader(url, by(*keys), feature_set="user")


def test_a_wrong_name_of_a_window_is_told_the_names(tmp_path):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    reader = Reader(made(tmp_path, card, []), card)
    with pytest.raises(KeyError, match=r"by window, .*; got "):
        reader.read("ada")["n"]
    assert "n" not in reader.read("ada")
    with pytest.raises(InvalidType, match="got '7 minutes'"):
        reader.read("ada", windows="7 minutes")


@pytest.mark.parametrize(
    "window", [session("5 minutes"), by_edges([0, 10], [5, 20]), hopping("1 minute", "5 minutes", gaps=True)]
)
def test_windows_that_have_no_value_now_are_refused(tmp_path, window):
    with pytest.raises(InvalidValue, match="Use windows"):
        Reader(f"sqlite:///{tmp_path}/none.db", definition([window], {"n": C.count()}))


HEAVY = ("pandas", "asyncio", "slicing.spark", "slicing.explain", "slicing.drawing", "slicing.laws")
"""What a reader does not import. pandas takes as long as all else; pyarrow imports it later, where it is installed."""


def test_a_reader_loads_nothing_of_pyspark(tmp_path):
    card = definition([hopping("10 minutes", "1 minute", tail="5 minutes")], {"n": C.count(), "low": C.min("s")})
    url = made(tmp_path, card, records(1, START, HOUR))
    code = f"""
        import sys
        import combinators as C
        from slicing import group_by, hopping
        from slicing.serving import Reader
        windows = hopping("10 minutes", "1 minute", tail="5 minutes")
        card = group_by("user").window(windows, time="ts").define(n=C.count(), low=C.min("s"))
        print(*[name for name in {HEAVY} if name in sys.modules])
        reader = Reader({url!r}, card)
        print(reader.read("ada", at={START + HOUR})[windows]["n"])
        print(*[name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j")])
    """
    found = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=False)
    count = next(iter(Reader(url, card).read("ada", at=START + HOUR).values()))["n"]
    assert found.stdout.split() == [str(count)], found.stdout + found.stderr


def test_a_manifest_of_a_later_format_is_refused_by_its_number(tmp_path):
    card = definition([hopping("10 minutes", "1 minute")], {"n": C.count()})
    written = store_of(f"sqlite:///{tmp_path}/features.db")
    publish(written, card)
    found = written.read("user", (), ())
    written.publish("user", found.manifest.replace('"format": 1', '"format": 2'), found.progress, found.progress)
    with pytest.raises(InvalidValue, match="have format 1 here; those of the store have 2"):
        Reader(written, card)
    assert manifest(card).format == 1
