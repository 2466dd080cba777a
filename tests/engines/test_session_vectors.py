"""What Kafka Streams and Flink test of sessions, replayed here; `test_vectors.py` says what the files hold.

Kafka's sessions end at their last record, both ends inclusive: with a unit of 1 ms ours end gap + 1 ms later, and close
when its do. A row without a value takes an earlier one back. Flink's allowed lateness is a time of corrections.
"""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from oracle import Case
from scenarios.kinds.sessions import Sessions
from scenarios.scenario import Process, Scenario
from test_vectors import AGGREGATES, NEWEST, TRIGGER, TRUTHS, batches

from slicing.assembly.ranges.merging import chains
from slicing.content.block import encode_keys
from slicing.errors import InvalidValue
from slicing.triggers.emission import on_close, on_update
from slicing.windows.session import session

FILES = sorted((Path(__file__).parents[1] / "vectors" / "sessions").glob("*.json"))
CASES = {case["name"]: case for file in FILES for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}
UNITS = ("assignment", "merge", "validation", "relation")
NULL_KEY = "null keys are a group here"
FORGOTTEN = "a session that has closed is forgotten here; Kafka finds it in its store, and changes what was final"
EXCEPTIONS = {
    "session_null_key": NULL_KEY,
    "session_bridge_merges_two_on_update": FORGOTTEN,
    "flink_session_count_trigger_purging": TRIGGER,
    "flink_session_continuous_event_time": TRIGGER,
    "flink_session_small_lateness_purging": TRIGGER,
    "flink_session_huge_lateness_purging": TRIGGER,
}
STREAMING = sorted(name for name, case in CASES.items() if case["emit"] not in UNITS and name not in EXCEPTIONS)
EMISSIONS = {"on_update": on_update(), "on_close": on_close(), "final": on_close(), "event_time": on_close()}


def stream_of(case):
    """A stream of sessions that will be fed a case; every micro-batch is a restart."""
    window = case["window"]
    unit = {"unit": "1 millisecond"} if case["engine"] == "kafka-streams" else {}
    gap = {"gap": f"{window['gap']} milliseconds"} if "gap" in window else {"gap_column": "gap"}
    name = {"pass_through": "sum"}.get(case["aggregate"], case["aggregate"])  # of one record that is the same
    made = Scenario(
        Sessions(session(**gap, late_by="session", **unit)),
        on_close(corrections=True) if "lateness" in window else EMISSIONS[case["emit"]],
        1000 * window.get("grace", window.get("lateness", 0)),
        results=[Case(AGGREGATES[name], TRUTHS[name]), NEWEST],
        key="string",
    )
    made.process = Process(None, "all")
    return made


def gap_of(case, key, value):
    gaps = case["window"].get("gaps", {})
    return next((1000 * gaps[name] for name in (f"{key}:{value}", key, "default") if name in gaps), 0)


def replay(case):
    """The rows of a case by event, and how many records were late."""
    stream, rows, is_kafka = stream_of(case), [], case["engine"] == "kafka-streams"
    behind = case["window"]["gap"] + 1 if is_kafka else 0
    for number, records, watermark in batches(case):
        made = [(at, key, n if isinstance(n, int) else 1, gap_of(case, key, n)) for at, key, n in records]
        for (_, key, _, start, end), (row, _) in stream.step(made, watermark).items():
            _, value, newest = row or (0, None, None)
            time = newest // 1000 if is_kafka and row else None
            rows.append((number, key, start // 1000, end // 1000 - behind, value, time))
    return rows, stream.seen["late"]


def wanted(case):
    for row in case["rows"]:
        value = tuple(row["value"]) if isinstance(row["value"], list) else row["value"]
        # Flink's time of a row is its window's last millisecond, Kafka's that of the newest record.
        newest = row["time"] if case["engine"] == "kafka-streams" and value is not None else None
        yield row["event"], row["key"], row["start"], row["end"], value, newest


@pytest.mark.parametrize("name", STREAMING)
def test_streaming(name):
    rows, late = replay(CASES[name])
    assert Counter(rows) == Counter(wanted(CASES[name]))
    assert late == CASES[name]["dropped"]


def test_a_closed_session_is_not_merged_with():
    """The only difference from the exception: what came third finds [0, 0] closed, and leaves it as it is."""
    rows, _ = replay(CASES["session_bridge_merges_two_on_update"])
    assert [row[:1] + row[2:5] for row in rows[2:]] == [(2, 300_001, 300_001, None), (2, 150_000, 300_001, 2)]


def test_all_cases_are_replayed_but_those_with_a_reason():
    assert len(STREAMING) == 13
    assert set(EXCEPTIONS) <= set(CASES)
    assert {case["emit"] for name, case in CASES.items() if name in EXCEPTIONS and EXCEPTIONS[name] == TRIGGER} == {
        "purging(count(4))",
        "continuous_event_time(2000)",
        "purging(event_time)",
    }


def joins(*intervals):
    """The sessions of half-open intervals of one key, in milliseconds."""
    starts, ends = (pa.array([each[i] for each in intervals]).to_numpy() for i in (0, 1))
    keys, _ = encode_keys(pa.table({"k0": ["a"] * len(intervals)}))
    rows, heads = chains(keys, starts, ends)
    groups = [rows[low:high] for low, high in zip(heads, [*heads[1:], len(rows)], strict=True)]
    return [[list(intervals[row]) for row in group] for group in groups]


@pytest.mark.parametrize("name", sorted(name for name, case in CASES.items() if case["emit"] in UNITS))
def test_units(name):
    case = CASES[name]
    if case["emit"] == "assignment":
        for event, row in zip(case["events"], case["rows"], strict=True):
            assert [event["ts"], event["ts"] + case["window"]["gap"]] == [row["start"], row["end"]]
    elif case["emit"] == "merge":
        found = joins(*((event["start"], event["end"]) for event in case["events"]))
        assert found == [row["merged"] for row in case["rows"]]
    elif case["emit"] == "relation":
        # Of intervals with both ends: half-open ones in units that touch would be apart by one.
        for check in case["checks"]:
            assert (len(joins(check["a"], check["b"])) == 1) is check["result"], check
    else:
        for check in case["checks"]:
            with pytest.raises(InvalidValue, match="`gap` must be positive"):
                session(f"{check['gap']} milliseconds")
