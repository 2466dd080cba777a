"""What Flink tests of windows that count, replayed here, a record a micro-batch; `test_vectors.py` says what files are.

Flink makes them of parts: one window for ever, a trigger by count, and what takes records out of it. A trigger that
purges makes tumbling windows, one behind an evictor that keeps n sliding ones of n, one with an evictor behind it those
of n and what comes until it fires again; without either it is `unbounded()`. Kafka's unlimited windows are that too.
"""

import json
from pathlib import Path

import pytest
from oracle import CASES, FINGERPRINT, block_of, moment, records_of, results, shape_of

from slicing.engines.unbounded.bucket import UnboundedBucket
from slicing.errors import InvalidValue
from slicing.stages import local_runner
from slicing.stages.execution_plan import Aggregation
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache as memory
from slicing.state.store import MemoryStore
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


def bucket_of(window, shape, store):
    if window == unbounded():
        return UnboundedBucket(shape, FINGERPRINT, store, early(records=2))
    return (
        support_of(window)
        .execution_plan(Aggregation(shape, ("runs",), ((0,),)))
        .bucket(0, FINGERPRINT, store, ON_CLOSE)
    )


def fired(window, events):
    """The rows of each event: (number, key, sum). The process keeps nothing between two of them."""
    case, store = CASES["sum"], MemoryStore()
    shape, made = shape_of(window.family, [case], ("string",)), block_of if window == unbounded() else records_of
    for number, event in enumerate(events):
        memory._entries.clear()
        bucket = bucket_of(window, shape, store)
        if "key" in event:
            record = (1000 * (event["time"] or 0), event["key"], event["value"])
            bucket.accept([made(shape, [case], [record])])
        for (key, _), (_, total) in results(shape, list(bucket.close(moment(0)))).items():
            yield number, key, total


@pytest.mark.parametrize("name", sorted(name for name in WINDOWS if VECTORS[name]["events"] and name != ENDED))
def test_rows_go_out_with_the_record_that_fills_a_window(name):
    wanted = [(row["event"], row["key"], row["value"]) for row in VECTORS[name]["rows"]]
    assert list(fired(WINDOWS[name], VECTORS[name]["events"])) == wanted


def test_a_window_that_never_closes_fires_at_the_end_of_bounded_input():
    case, events = CASES["sum"], VECTORS[ENDED]["events"]
    shape = shape_of(unbounded().family, [case], ("string",))
    block = block_of(shape, [case], [(1000 * each["time"], each["key"], each["value"]) for each in events[:-1]])
    plan = support_of(unbounded()).execution_plan(Aggregation(shape, ("recompute",), ((0,),)))
    rows = [(key, total) for (key, _), (_, total) in results(shape, plan.all_windows([block])).items()]
    assert events[-1] == {"watermark": (1 << 63) - 1}
    assert sorted(rows) == [(row["key"], row["value"]) for row in VECTORS[ENDED]["rows"]]


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
