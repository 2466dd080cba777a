"""What Flink tests of evictors, replayed: each record is a micro-batch, and `expected` rows name the record's number.

`vectors/evictors/*.json` holds inputs and results of Flink's own tests as data; times are milliseconds. The windows are
Flink's global ones, which fire at every second record of a key.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from processing import Play

import combinators as C
from slicing import early, keep_last, keep_newest, session, tumbling, unbounded
from slicing.errors import InvalidValue

FILES = sorted((Path(__file__).parent.parent / "vectors" / "evictors").glob("*.json"))
CASES = {case["name"]: case for file in FILES for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}

WITHOUT_TIMES = {"flink_time_evictor_no_timestamp"}
"""Flink's evictor keeps all records then; `keep_newest` is refused, and says to leave it out."""
MADE = {
    "count": lambda given: keep_last(given["max"]),
    "time": lambda given: keep_newest(f"{given['keep_ms']} milliseconds"),
    "delta": lambda given: signed(given["threshold"]),
}


def signed(threshold):
    """The delta of Flink's test is signed, newest less older, so that greater values stay; `within_delta` is not."""

    def kept(records, window, context):
        values = records["v"].to_numpy()
        return values[-1] - values < threshold

    return kept


def total(key, window, records, context):
    return [(sum(records["v"].to_pylist()),)]


FUNCTIONS = {"process": (total, "sum long"), "aggregate": ({"sum": C.sum("v")}, None)}


def replayed(case, function):
    given = MADE[case["evictor"]["type"]](case["evictor"])
    when = {"before": "evict", "after": "after"}[case["evictor"]["when"]]
    options = {"trigger": early(records=case["records"]), "timed": case["name"] not in WITHOUT_TIMES}
    if not options["timed"]:
        with pytest.raises(InvalidValue, match="or leave the evictor out, which keeps all records, as Flink's does"):
            Play(unbounded(), *FUNCTIONS[function], **options, **{when: [given]})
        when = None
    play = Play(unbounded(), *FUNCTIONS[function], **options, **({when: [given]} if when else {}))
    for number, event in enumerate(case["events"]):
        for row in play.step([((event["time"] or 0) * 1000, event["key"], event["value"])], 0):
            yield {"event": number, "key": row[0], "value": row[3]}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", CASES)
def test_vectors(name, function):
    assert list(replayed(CASES[name], function)) == CASES[name]["rows"]


@pytest.mark.parametrize("window", [tumbling("1 minute"), session("1 minute"), unbounded(ttl="1 day")])
def test_windows_without_places_are_refused(window):
    with pytest.raises(InvalidValue, match=r"`evict\(..., after=True\)`"):
        Play(window, total, "sum long", trigger=early(records=2), after=[keep_last(1)])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("when", ["before", "after", "both"])
def test_evicted_records_are_gone_for_good(when):
    """Random evictors by values, against a list per key as Flink keeps it; every micro-batch opens the state anew."""

    def odd(records, window, context):
        return [value % 3 > 0 for value in records["v"].to_pylist()]

    evict, after = (
        ([odd] if when != "after" else []),
        [keep_last(4)] if when != "before" else [lambda r, w, c: [True] * len(r)],
    )
    play = Play(unbounded(), listed, "values array<long>", trigger=early(records=3), evict=evict, after=after)
    random, held, came = np.random.default_rng(3), {}, {}
    for number in range(50):
        key, value = f"k{random.integers(3)}", int(random.integers(100))
        held.setdefault(key, []).append(value)
        came[key] = came.get(key, 0) + 1
        rows = play.step([(number, key, value)], 0)
        if came[key] % 3:
            assert not rows
            continue
        given = [each for each in held[key] if each % 3 > 0] if when != "after" else held[key]
        assert [row[3] for row in rows] == [given]
        held[key] = given[-4:] if when != "before" else given


def test_what_was_evicted_of_purged_records_is_forgotten():
    """Else the next records would be taken for those that are gone."""
    play = Play(unbounded(), listed, "values array<long>", trigger=early(records=2), after=[keep_last(1)])
    play.step([(at, key, value) for value, key in enumerate("abc") for at in (1, 2)], 0)
    play.trigger = early(records=2, purge=True)
    assert [row[3] for row in play.step([(3, "a", 8), (4, "a", 9)], 0)] == [[0, 8, 9]]
    assert [row[3] for row in play.step([(5, "a", 10), (6, "a", 11)], 0)] == [[10, 11]]


def listed(key, window, records, context):
    return [(records["v"].to_pylist(),)]
