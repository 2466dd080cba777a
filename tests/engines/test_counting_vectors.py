"""What Flink tests of windows that count, replayed here, a record a micro-batch; `test_vectors.py` says what files are.

Flink makes them of parts: one window for ever, a trigger by count, and what takes records out of it. A trigger that
purges makes tumbling windows, one behind an evictor that keeps n sliding ones of n, one with an evictor behind it those
of n and what comes until it fires again; without either it is `unbounded()`. Kafka's unlimited windows are that too.
"""

import json
from pathlib import Path

import pytest
from scenarios.kinds.counting import Counting
from scenarios.kinds.unbounded import Unbounded
from scenarios.scenario import Process, Scenario

from slicing.errors import InvalidValue
from slicing.stages import local_runner
from slicing.triggers.emission import ON_CLOSE, early, on_update
from slicing.windows.counting import counting
from slicing.windows.unbounded import unbounded

FILES = sorted((Path(__file__).parents[1] / "vectors" / "counting").glob("*.json"))
VECTORS = {case["name"]: case for file in FILES for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}
WINDOWS = {
    "flink_count_trigger_separation": counting(3),
    "flink_global_count_trigger_purging": counting(4),
    "flink_count_evictor_before": counting(4, 2),
    "flink_count_evictor_after": counting(6, 2),
    "flink_time_evictor_no_timestamp": unbounded(),
    "flink_global_end_of_stream": unbounded(),
    "unlimited_window_rejects_on_close": unbounded(),
}
ENDED = "flink_global_end_of_stream"
"""Its last watermark is the end of the input; bounded input has that end."""
EXCEPTIONS = {
    "flink_time_evictor_after": "evictor by time",
    "flink_delta_evictor_before": "evictor by values",
    "flink_delta_evictor_after": "evictor by values",
    "flink_count_trigger_merge_subsuming": "trigger of windows that merge",
    "flink_global_continuous_event_time": "trigger by event time",
}


def stream_of(window):
    """A stream whose process caches nothing between two micro-batches."""
    kind, trigger = (Unbounded, early(records=2)) if window == unbounded() else (Counting, ON_CLOSE)
    made = Scenario(kind(window), trigger, results=("sum",), key="string")
    made.process = Process(None, "all")
    return made


def fired(window, events):
    """The rows of each event: (number, key, sum)."""
    stream = stream_of(window)
    for number, event in enumerate(events):
        records = [(1000 * (event["time"] or 0), event["key"], event["value"])] if "key" in event else []
        for (_, key, *_), (row, _) in stream.step(records).items():
            yield number, key, row[1]


@pytest.mark.parametrize("name", sorted(name for name in WINDOWS if VECTORS[name]["events"] and name != ENDED))
def test_rows_go_out_with_the_record_that_fills_a_window(name):
    wanted = [(row["event"], row["key"], row["value"]) for row in VECTORS[name]["rows"]]
    assert list(fired(WINDOWS[name], VECTORS[name]["events"])) == wanted


def test_a_window_that_never_closes_fires_at_the_end_of_bounded_input():
    *events, end = VECTORS[ENDED]["events"]
    rows = stream_of(unbounded()).bounded([(1000 * each["time"], each["key"], each["value"]) for each in events])
    assert end == {"watermark": (1 << 63) - 1}
    assert sorted((place[1], row[1]) for place, (row, _) in rows.items()) == [
        (row["key"], row["value"]) for row in VECTORS[ENDED]["rows"]
    ]


def test_a_window_that_never_closes_is_refused_at_close():
    window = WINDOWS["unlimited_window_rejects_on_close"]
    with pytest.raises(InvalidValue, match=r"never does\. .*on_update\(\)"):
        local_runner.check(window, ON_CLOSE, by_clock=False, streaming=True)
    local_runner.check(window, on_update(), by_clock=False, streaming=True)


def test_keys_are_counted_each_for_itself():
    """The windows of the trigger are keys here."""
    operations = VECTORS["flink_count_trigger_separation"]["ops"]
    events = [{"key": str(each["window"]), "time": 0, "value": 1} for each in operations]
    fires = {number for number, each in enumerate(operations) if each["result"] == "fire"}
    assert {number for number, *_ in fired(WINDOWS["flink_count_trigger_separation"], events)} == fires


def test_all_cases_are_replayed_but_those_with_a_reason():
    assert WINDOWS.keys() | EXCEPTIONS.keys() == VECTORS.keys()
    assert not WINDOWS.keys() & EXCEPTIONS.keys()
    evicted = {name for name, case in VECTORS.items() if case.get("evictor", {}).get("type") in ("time", "delta")}
    assert {name for name, reason in EXCEPTIONS.items() if "evictor" in reason} <= evicted
