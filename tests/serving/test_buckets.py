"""What a stream has written, against raw records: with late ones for merged steps, restarts, failed micro-batches."""

import random
from copy import deepcopy

import pytest
from serving.in_buckets import SLICE, Served, Stream
from serving.in_process import hand
from serving.test_failures import Fails
from serving.test_served import RESULTS, check, expected, floor, hop, micros, tail
from streams import DAY, HOUR, MINUTE, START, record

from slicing import InvalidValue, group_by, hopping, serve_to
from slicing.serving import Reader, store_of

KEYS = ["ada", "bob", "é", "nobody"]
TAILS = {
    "one": ({"h6": hopping("6 hours", "5 minutes", tail="1 hour")}, {"h6": tail(6 * HOUR, SLICE, HOUR)}, 5 * HOUR),
    "several": (
        {
            "m10": hopping("10 minutes", "5 minutes"),
            "h6": hopping("6 hours", "5 minutes", tail="1 hour"),
            "d2": hopping("2 days", "5 minutes", tail="6 hours"),
        },
        {"m10": hop(10 * MINUTE, SLICE), "h6": tail(6 * HOUR, SLICE, HOUR), "d2": tail(2 * DAY, SLICE, 6 * HOUR)},
        40 * HOUR,
    ),
}
"""Windows, the definitions of their starts, and how late a record may be that is in one of them."""
PLAIN = {"h1": hopping("1 hour", "5 minutes")}, {"h1": hop(HOUR, SLICE)}, HOUR // 2
KEPT = {"now": ({}, 0), "grace": ({"grace": "11 hours"}, 5 * HOUR), "retain": ({"retain": "4 days"}, DAY)}
"""Options of a definition that answers instants before the watermark, and how long before it."""


def definition(kind, **options):
    asked = group_by("user").window(**TAILS[kind][0], time="ts", long=True)
    for name, value in options.items():
        asked = getattr(asked, name)(value)
    return asked.define(**RESULTS)


def feed(choice, batches, latest):
    """Micro-batches of records, in order but for late ones."""
    now = START
    for _ in range(batches):
        now += choice.choice([SLICE, 4 * SLICE, HOUR])
        yield [some_record(choice, now + choice.randint(0, SLICE), latest) for _ in range(8)]


def some_record(choice, now, latest):
    late = choice.choice([0, 0, choice.randint(0, latest)])
    values = {
        "n": choice.choice([None, choice.randint(-9, 2**40)]),
        "x": choice.uniform(-1, 1),
        "s": choice.choice(["a", "bb", "é"]),
    }
    return record(None, now - late, **values) | {"key": choice.choice(KEYS[:3])}


CASES = [(kind, kept) for kept in KEPT for kind in TAILS]
QUICK = ("several", "now")


@pytest.mark.parametrize(
    ("kind", "kept"),
    [each if each == QUICK else pytest.param(*each, marks=pytest.mark.slow) for each in CASES],
)
def test_windows_with_tails_are_those_of_the_records(tmp_path, kind, kept):
    (_, starts, latest), (options, before) = TAILS[kind], KEPT[kept]
    card, choice, keep = definition(kind, **options), random.Random(f"{kind} {kept}"), f"{before // MINUTE} minutes"
    url, served, stream = f"sqlite:///{tmp_path}/features.db", Served(card), Stream(10 * MINUTE)
    reader, asked, late = None, 0, 0
    for records in feed(choice, 20 if (kind, kept) == QUICK else 60, latest):
        if choice.random() < 0.1:
            with pytest.raises(RuntimeError, match="the power is gone"):
                stream.step(served, serve_to(Fails(store_of(url), 0), keep=keep), records, fails=True)
        stream.step(served, serve_to(url, keep=keep), records)
        reader = reader or Reader(url, card)
        if stream.known is None:
            continue
        late += sum(each["ts"] < stream.known - HOUR for each in records)
        newest = max(each["ts"] for each in stream.read)
        edges = range(-(-(stream.known - before) // SLICE) * SLICE, newest + 1, SLICE) if before else ()
        edges = edges or range(floor(stream.known, SLICE), newest + 1, SLICE)
        for t in ("watermark", newest + choice.randint(1, DAY), *choice.choices(edges, k=60)):
            key = choice.choice(KEYS)
            answer = reader.read(key, at=t)
            check(answer, [each for each in stream.read if each["key"] == key], starts, micros(answer.at))
            asked += 1
    assert asked > 1000
    assert late > 20
    assert stream.is_merged(served)


def test_instants_are_answered_as_long_as_rows_are_kept(tmp_path):
    """Of all windows: how many slices are needed before an instant depends on the step of the tail that holds it."""
    card, choice = definition("several"), random.Random(1)
    _, starts, _ = TAILS["several"]
    url, served, stream = f"sqlite:///{tmp_path}/features.db", Served(card), Stream(10 * MINUTE)
    for records in feed(choice, 16, 1):
        stream.step(served, serve_to(url, keep="5 hours"), records)
        t = floor((stream.known or START) - 5 * HOUR, SLICE) + SLICE
        check(Reader(url, card).read("ada", at=t), [e for e in stream.read if e["key"] == "ada"], starts, t)


@pytest.mark.parametrize("kind", [*TAILS, "none"])
@pytest.mark.parametrize("fails", [False, True])
def test_windows_after_a_warm_start_are_those_of_the_records(tmp_path, kind, fails):
    choice = random.Random(kind)
    windows, starts, latest = TAILS.get(kind, PLAIN)
    card = group_by("user").window(**windows, time="ts", long=True).define(**RESULTS)
    url, served, stream = f"sqlite:///{tmp_path}/features.db", Served(card), Stream(10 * MINUTE)
    batches = list(feed(choice, 80, latest))
    edge = floor(max(each["ts"] for each in batches[59]), HOUR)
    until = edge + (1234 * 1000 if fails else 0)
    history = [each for records in batches[:60] for each in records if each["ts"] < until]
    history += [some_record(choice, at(edge), 0) | {"key": key} for at in starts.values() for key in KEYS[:3]]
    stream.warm(served, history, until)
    reader, answers = None, 0
    hand(
        serve_to(url),
        0,
        served.rows(deepcopy(stream.state), [], None).slice(0, 0),
        card,
        None,
        past=served.past(until),
    )
    with pytest.raises(InvalidValue, match="the store has no `user`"):
        Reader(url, card)
    for records in batches[60:]:
        records = [each for each in records if each["ts"] >= until]
        if fails and reader is None:
            with pytest.raises(RuntimeError, match="the power is gone"):
                stream.step(served, serve_to(Fails(store_of(url), 0)), records, fails=True)
        stream.step(served, serve_to(url), records)
        reader = reader or Reader(url, card)
        if stream.known is None:
            for key in KEYS:
                check(reader.read(key, at=edge), [e for e in history if e["key"] == key], starts, edge)
        first, newest = max(until, stream.known or 0), max(each["ts"] for each in stream.read)
        for t in (until, newest + choice.randint(1, DAY), *choice.choices(range(first, newest + HOUR, MINUTE), k=30)):
            t = t if t > newest else floor(t, SLICE)
            key = choice.choice(KEYS)
            answer = reader.read(key, at=t)
            if t < first and None in answer.values():
                continue
            check(answer, [each for each in stream.read if each["key"] == key], starts, t)
            answers += 1
    assert answers > 500
    assert stream.is_merged(served) == (kind != "none")


@pytest.mark.parametrize("retain", ["0 seconds", "2 days"])
@pytest.mark.parametrize("keep", ["0 seconds", "2 days"])
@pytest.mark.parametrize("kind", ["several", "none"])
def test_windows_that_a_history_does_not_have_are_unknown(tmp_path, kind, keep, retain):
    """Those as of instants before its end, which a watermark may be behind, also if rows are kept longer."""
    choice, (windows, starts, latest) = random.Random(1), TAILS.get(kind, PLAIN)
    card = group_by("user").window(**windows, time="ts", long=True).retain(retain).define(**RESULTS)
    url, served, stream = f"sqlite:///{tmp_path}/features.db", Served(card), Stream(10 * MINUTE)
    history = [each for records in feed(choice, 300, latest) for each in records]
    until, seen = max(each["ts"] for each in history) + 1, set()
    stream.warm(served, history, until)
    stream.step(served, serve_to(url, keep=keep), [some_record(choice, until, 0)])
    reader, edges = Reader(url, card), range(floor(until, SLICE), until - 4 * DAY, -SLICE)
    for t in (*edges[:9], *choice.choices(edges, k=60)):
        answer = reader.read("ada", at=t)
        own = [each for each in history if each["key"] == "ada" and each["ts"] < t]
        for name, values in answer.items():
            wanted = expected([each for each in own if starts[name](t) <= each["ts"]])
            assert values is None or (values["n"], values["total"]) == (wanted["n"], wanted["total"]), (name, t)
            seen.add((name, values is None, t < until - DAY))
    assert seen >= {(name, True, True) for name in windows}
    assert (("h1", False, True) in seen) == (kind == "none" and keep == retain == "2 days")
