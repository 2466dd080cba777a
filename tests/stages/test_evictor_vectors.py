"""What Flink tests of evictors, replayed: each record is a micro-batch, and `expected` rows name the record's number.

`vectors/evictors/*.json` holds inputs and results of Flink's own tests as data; times are milliseconds. The windows are
Flink's global ones, which fire at every second record of a key.
"""

import json
from pathlib import Path

import pytest
from processing import Play

from slicing import early, keep_last, keep_newest, unbounded
from slicing.errors import InvalidValue

FILES = sorted((Path(__file__).parent.parent / "vectors" / "evictors").glob("*.json"))
CASES = {case["name"]: case for file in FILES for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}

AFTER = "nothing is evicted after the function: each firing starts from all records of its window"
EXCEPTIONS = {
    "flink_count_evictor_after": AFTER,
    "flink_time_evictor_after": AFTER,
    "flink_delta_evictor_after": AFTER,
    # Flink keeps all records then; `keep_newest` without a time is refused when the query is built.
    "flink_time_evictor_no_timestamp": "records without times",
}
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


def replayed(case):
    evictor = MADE[case["evictor"]["type"]](case["evictor"])
    play = Play(unbounded(), total, "sum long", trigger=early(records=case["records"]), evict=[evictor])
    for number, event in enumerate(case["events"]):
        for row in play.step([(event["time"] * 1000, event["key"], event["value"])], 0):
            yield {"event": number, "key": row[0], "value": row[3]}


@pytest.mark.parametrize("name", [name for name in CASES if name not in EXCEPTIONS])
def test_vectors(name):
    assert list(replayed(CASES[name])) == CASES[name]["rows"]


def test_exceptions_are_exceptions():
    """Each of them is there, and gives other rows or is refused; the first firing of each key is the same."""
    for name in EXCEPTIONS:
        if CASES[name]["events"][0]["time"] is None:
            with pytest.raises(InvalidValue, match="goes by the time of records"):
                Play(unbounded(), total, "sum long", trigger=early(records=2), evict=[keep_newest("1 s")], timed=False)
        else:
            assert list(replayed(CASES[name])) != CASES[name]["rows"]
