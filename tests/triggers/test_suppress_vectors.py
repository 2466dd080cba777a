"""What Kafka Streams tests of suppression with a time limit, replayed as early triggers; `test_vectors.py` says how.

`vectors/suppress` has updates of a table: a key, a value, a time, and the limits of `suppress`. An update is a record
of a window that is longer than the case, one in a micro-batch. Kafka's stream time is the watermark. A table that
counts others' rows takes an old row back: that is a record of -1.
"""

import json
from pathlib import Path

import pytest
from scenarios.kinds.even import Even
from scenarios.kinds.sessions import Sessions
from scenarios.scenario import Scenario

from slicing.errors import TooLarge
from slicing.state import bucket_cache
from slicing.triggers.buffer import buffer
from slicing.triggers.emission import early, on_close, on_update
from slicing.windows.session import session

FOLDER = Path(__file__).parents[1] / "vectors" / "suppress"
VECTORS = {
    case["name"]: case
    for file in sorted(FOLDER.glob("*.json"))
    for case in json.loads(file.read_text(encoding="utf-8"))["cases"]
}
TOMBSTONE = "an update without a value: windows have results here"
BEFORE = "suppression before an aggregation: what an early trigger emits is an aggregation"
EXCEPTIONS = {
    "buffer_final_drops_tombstone_time": TOMBSTONE,
    "buffer_limit_keeps_tombstone_time": TOMBSTONE,
    "buffer_limit_keeps_tombstone_table": TOMBSTONE,
    "suppress_before_group_by": BEFORE,
}
LONG = 10**9
LIMITED = {"after": "100 days", "by": "event", "final": False}
"""In place of a limit that is never over."""


def one_pair():
    """How many bytes a pair takes: Kafka's limits are for its own format, and have room for one entry."""
    return Scenario(Even.of(1, 1), on_update(), results=("sum",)).bucket().pair_bytes


def trigger_of(case):
    """The trigger that stands for limits; without a time to wait for, every update is emitted."""
    limits = case["suppress"]
    if limits["mode"] == "until_window_closes":
        return on_close()
    if not limits["wait"]:
        return on_update()
    bound = {"records": limits.get("max_records"), "bytes": one_pair() if "max_bytes" in limits else None}
    full = "fail" if limits.get("full") == "fail" else "emit"
    waits = LIMITED | ({"after": f"{limits['wait']} milliseconds"} if limits["wait"] < LONG else {})
    return early(**waits, buffer=buffer(**bound, full=full) if any(bound.values()) else None)


def updates(case):
    """The records of each event: (key, value); a table of counts per value takes the old row of its key back."""
    rows = {}
    for event in case["events"]:
        if isinstance(event["value"], str):
            old = rows.get(event["key"])
            rows[event["key"]] = event["value"]
            yield event["time"], [*([(old, -1)] if old else []), (event["value"], 1)]
        else:
            yield event["time"], [(event["key"], event["value"] or 0)]


def replay(case):
    """The rows of a case: (event, key, value), 0 for none."""
    size = next((event["end"] for event in case["events"] if "end" in event), LONG)
    one = Scenario(Even.of(size, size), trigger_of(case), results=("sum",))
    names, watermark = [], 0
    for number, (time, records) in enumerate(updates(case)):
        bucket_cache._entries.clear()
        names += [key for key, _ in records if key not in names]
        made = [(1000 * time, names.index(key), value) for key, value in records]
        watermark = max(watermark, time)
        for (_, key, *_), (row, _) in one.emit(made, watermark, time).items():
            yield number, names[key], row[1]


RETRACTED = "buffer_limit_keeps_tombstone_session"
"""A session without a value is one that has become part of another."""


def test_a_session_is_retracted_with_the_record_that_changes_it():
    """The session of a record at 0, whose gap ends one unit after Kafka's, is changed by the record of the event."""
    (event,) = VECTORS[RETRACTED]["events"]
    window = session("100 milliseconds", late_by="session", unit="1 millisecond")
    one = Scenario(Sessions(window), trigger_of(VECTORS[RETRACTED]), results=("sum",), key="string")
    one.emit([(1000 * event["start"], event["key"], 1, 0)], 0)
    rows = one.emit([(1000 * event["time"], event["key"], 1, 0)], 0)
    found = [
        {"event": 0, "key": key, "value": row, "time": event["time"], "start": start // 1000, "end": end // 1000 - 101}
        for (kind, key, _, start, end), (row, _) in rows.items()
        if kind == "merged"
    ]
    assert found == VECTORS[RETRACTED]["rows"]


@pytest.mark.parametrize("name", sorted(VECTORS.keys() - EXCEPTIONS.keys() - {RETRACTED}))
def test_suppression(name):
    case = VECTORS[name]
    if "error" in case:
        with pytest.raises(TooLarge, match="2 windows of keys wait in a bucket"):
            list(replay(case))
        return
    assert list(replay(case)) == [(row["event"], row["key"], row["value"] or 0) for row in case["rows"]]


def test_the_exceptions_are_cases_of_other_things():
    assert len(VECTORS) == 11
    assert EXCEPTIONS.keys() <= VECTORS.keys()
    for name, reason in EXCEPTIONS.items():
        values = [event["value"] for event in VECTORS[name]["events"]]
        assert values == [None] if reason == TOMBSTONE else VECTORS[name]["suppress"]["placed"] == "before_aggregation"


def test_every_case_cites_its_source():
    for file in FOLDER.glob("*.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        assert content["upstream"].keys() == {"repo", "commit", "path", "license"}
        assert content["upstream"]["path"].endswith(file.stem.partition(".")[2] + ".java")
        assert all(case["test"] for case in content["cases"])
