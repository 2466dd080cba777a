"""Live changes of a definition that is served: a reader answers what its slices tell, and no part of it as a whole."""

import random

import pytest
from serving.in_buckets import SLICE, Served, Stream
from serving.test_buckets import KEYS, feed
from serving.test_failures import Fails
from serving.test_served import expected, floor, hop, micros, run, tail
from streams import DAY, HOUR, MINUTE, START, record, source, table, write

import combinators as C
from slicing import InvalidValue, group_by, hopping, serve_to
from slicing.serving import Reader, store_of

WINDOWS = {
    "m10": (hopping("10 minutes", "5 minutes"), hop(10 * MINUTE, SLICE)),
    "h2": (hopping("2 hours", "5 minutes"), hop(2 * HOUR, SLICE)),
    "h4": (hopping("4 hours", "5 minutes"), hop(4 * HOUR, SLICE)),
    "t4": (hopping("4 hours", "5 minutes", tail="1 hour"), tail(4 * HOUR, SLICE, HOUR)),
}
EACH = 12
"""How many micro-batches there are of each definition."""
RESULTS = {"n": C.count(), "total": C.sum("n"), "low": C.min("s"), "x": C.sum("x")}


def card(windows, results=("n", "total")):
    asked = group_by("user").window(**{name: WINDOWS[name][0] for name in windows}, time="ts", long=True)
    return asked.adapt("allow").define(**{name: RESULTS[name] for name in results})


def compare(reader, stream, choice, changed, count=30):
    """Compare answers as of the watermark and later with all records; return the windows that some do not have.

    Only windows may be unknown that begin before a change, by the newest slice.
    """
    newest, without = max(each["ts"] for each in stream.read), set()
    edges = range(floor(stream.known, SLICE), stream.end, SLICE)
    for t in ("watermark", newest + choice.randint(1, DAY), *choice.choices(edges, k=count)):
        key = choice.choice(KEYS)
        answer = reader.read(key, at=t)
        at, own = micros(answer.at), [each for each in stream.read if each["key"] == key]
        for name, values in answer.items():
            start = WINDOWS[name][1](at)
            assert micros(answer.starts[name]) == start
            if values is None:
                assert start < changed
                known = changed if name != "t4" else -(-changed // HOUR) * HOUR  # the next step of the tail
                assert start < micros(answer.known_from[name]) <= known
                without.add(name)
            else:
                wanted = expected([each for each in own if start <= each["ts"] < at])
                for each, value in values.items():
                    assert value == (pytest.approx(wanted[each]) if each == "x" else wanted[each]), (name, at, each)
    return without


@pytest.mark.parametrize("keep", ["0 seconds", "2 days"])
def test_windows_come_and_go(tmp_path, keep):
    """Rows that are kept longer lack late records that no window held when they came."""
    url, choice, stream = f"sqlite:///{tmp_path}/features.db", random.Random(keep), Stream(10 * MINUTE)
    chain = [["m10"], ["m10", "h4"], ["h2"], ["m10", "h2"], ["m10", "h4"]]
    served, changed, lacked = [Served(card(each)) for each in chain], 0, 0
    for number, records in enumerate(feed(choice, 5 * EACH, 8 * HOUR)):
        at = number // EACH
        changed = stream.end if at and number % EACH == 0 else changed
        stream.step(served[at], serve_to(url, keep=keep), records)
        if stream.known:
            without = compare(Reader(url, served[at].card), stream, choice, changed)
            assert without <= {*chain[at]} - {*chain[at - 1]}
            lacked += len(without)
    assert lacked


CHAIN = [
    card(["m10", "h2"]),
    card(["m10", "h2"], ["n", "total", "low"]),
    card(["m10", "h2"], ["low", "n"]),
    card(["m10", "t4"], ["low", "n"]),
    card(["m10"], ["x", "low", "total"]),
]


def refused(url, definition, why):
    with pytest.raises(InvalidValue, match=why):
        Reader(url, definition)


def test_results_and_tails_come_and_go(tmp_path):
    """Micro-batches fail at each change: with the old definition, then with the new one, whose rows replace those."""
    url, choice, stream = f"sqlite:///{tmp_path}/features.db", random.Random(1), Stream(10 * MINUTE)
    served, changed, lacked = list(map(Served, CHAIN)), 0, 0
    for number, records in enumerate(feed(choice, 5 * EACH, 4 * HOUR)):
        at = number // EACH
        if number % EACH == 0 and at:
            old, changed = Reader(url, CHAIN[at - 1]), stream.end
            with pytest.raises(RuntimeError, match="the power is gone"):
                stream.step(served[at - 1], serve_to(Fails(store_of(url), 0)), records, fails=True)
            with pytest.raises(RuntimeError, match="the power is gone"):
                stream.step(served[at], serve_to(Fails(store_of(url))), records, fails=True)
            with pytest.raises(InvalidValue, match="a reader has the definition that has written `user`, and its"):
                old.read("ada")
            refused(url, CHAIN[at], "the store has no `user`")
        stream.step(served[at], serve_to(url), records)
        if stream.known:
            lacked += len(compare(Reader(url, CHAIN[at]), stream, choice, changed))
    assert lacked
    levels = store_of(url)._connection().execute("SELECT DISTINCT level FROM slices").fetchall()
    assert levels == [(0,)]


def test_a_change_that_fails_may_be_taken_back(tmp_path):
    url, choice, stream = f"sqlite:///{tmp_path}/features.db", random.Random(2), Stream(10 * MINUTE)
    (old, new), changed = map(Served, CHAIN[:2]), 0
    for number, records in enumerate(feed(choice, 2 * EACH, 2 * HOUR)):
        if number == EACH:
            changed = stream.end
            with pytest.raises(RuntimeError, match="the power is gone"):
                stream.step(new, serve_to(Fails(store_of(url))), records, fails=True)
        stream.step(old, serve_to(url), records)
        if stream.known:
            compare(Reader(url, CHAIN[0]), stream, choice, changed)
    refused(url, CHAIN[1], "its result `low` is only here")


def test_another_checkpoint_does_not_change_a_definition(tmp_path):
    """Its records are read again from the first one on, so it gets a name of its own."""
    url, choice, stream = f"sqlite:///{tmp_path}/features.db", random.Random(3), Stream(10 * MINUTE)
    old, new = map(Served, CHAIN[:2])
    for records in feed(choice, 2, HOUR):
        stream.step(old, serve_to(url), records)
    with pytest.raises(InvalidValue, match=r"its result `low` is only here.* Write this one under another name"):
        Stream(10 * MINUTE, "another").step(new, serve_to(url), stream.read)


@pytest.mark.slow
def test_a_query_goes_on_with_another_definition(spark, tmp_path):
    (tmp_path / "in").mkdir()
    events, url = source(spark, tmp_path / "in", "1 minute"), f"sqlite:///{tmp_path}/features.db"
    asked = group_by("world").window(WINDOWS["m10"][0], time="ts").adapt("allow")
    definitions = asked.define(n=C.count()), asked.define(n=C.count(), low=C.min("s"))
    for number, of in enumerate(definitions):
        write([table([record(1, START + (number * 9 + each) * SLICE) for each in range(9)])], tmp_path / "in", number)
        run(spark, of.serve(events), serve_to(url, keep="1 day"), tmp_path / "checkpoint")
    reader, (window,) = Reader(url, definitions[1]), definitions[1].windowed.windows.parts
    with pytest.raises(InvalidValue, match="its result `low` is only there"):
        Reader(url, definitions[0])
    known = [reader.read(1, at=START + at * SLICE) for at in range(9, 19)]
    assert [answer[window] for answer in known] == [None] * 2 + [{"n": 2, "low": "a"}] * 8
    assert {micros(each) for answer in known[:2] for each in answer.known_from.values()} == {START + 9 * SLICE}
