"""What Kafka Streams and Flink test of sessions, replayed here; `test_vectors.py` says what the files hold.

Kafka's sessions end at their last record, both ends inclusive: with a unit of 1 ms ours end gap + 1 ms later, and close
when its do. A row without a value takes an earlier one back. Flink's allowed lateness is a time of corrections.
"""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from oracle import FINGERPRINT, moment, shape_of
from test_vectors import AGGREGATES, NEWEST, TRIGGER, Case

from slicing.assembly.ranges.merging import chains
from slicing.content.block import encode_keys
from slicing.engines.sessions.bucket import SessionBucket
from slicing.errors import InvalidValue
from slicing.stages.execution_plan import Aggregation
from slicing.stages.preaggregate import Dropped
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache as memory
from slicing.state.store import MemoryStore
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


class Replayed:
    """A stream of sessions that is fed a case."""

    def __init__(self, case):
        window = case["window"]
        self.is_kafka = case["engine"] == "kafka-streams"
        self.gap, self.gaps = window.get("gap"), window.get("gaps")
        unit = {"unit": "1 millisecond"} if self.is_kafka else {}
        gap = {"gap_column": "gap"} if self.gaps else {"gap": f"{self.gap} milliseconds"}
        self.window = session(**gap, late_by="session", **unit)
        self.grace = window.get("grace", window.get("lateness", 0))
        self.emission = on_close(corrections=True) if "lateness" in window else EMISSIONS[case["emit"]]
        name = {"pass_through": "sum"}.get(case["aggregate"], case["aggregate"])  # of one record that is the same
        self.cases = [Case(AGGREGATES[name], None), NEWEST]
        self.shape = shape_of(self.window.family, self.cases, ("string",))
        self.execution_plan = support_of(self.window).execution_plan(
            Aggregation(self.shape, ("merging",) * 2, ((0,), (-1,)))
        )
        self.store, self.late = MemoryStore(), 0

    def gap_of(self, event):
        named = f"{event['key']}:{event['value']}", event["key"], "default"
        return next(self.gaps[name] for name in named if name in self.gaps) * 1000

    def step(self, events, watermark):
        memory._entries.clear()  # a restart at every micro-batch
        bucket = SessionBucket(self.shape, self.window, 1000 * self.grace, FINGERPRINT, self.store, self.emission)
        self.late += bucket.accept(self.shipped(events) if events else []).all
        for frame in bucket.close(moment(watermark)):
            keys = frame.names["k0"].take(pa.array(frame.keys)).to_pylist()
            columns = [
                kernel.results_to_arrow(partials, dictionary)
                for kernel, partials, dictionary in zip(
                    self.shape.kernels, frame.partials, frame.dictionaries, strict=True
                )
            ]
            shown = [list(zip(*(array.to_pylist() for array in arrays), strict=True)) for arrays in columns]
            for row, key in enumerate(keys):
                value, (newest,) = (None, (None,)) if frame.kind == "merged" else (shown[0][row], shown[1][row])
                yield key, *self.extent(int(frame.windows[row]), int(frame.ends[row])), value, newest and newest // 1000

    def extent(self, start, end):
        assert start % 1000 == end % 1000 == 0
        return start // 1000, end // 1000 - (self.gap + 1 if self.is_kafka else 0)

    def shipped(self, events):
        columns = {
            "time": pa.array([1000 * event["time"] for event in events], pa.timestamp("us", "UTC")),
            "k0": pa.array([event["key"] for event in events], pa.string()),
        }
        if self.gaps:
            columns["k1"] = pa.array([self.gap_of(event) for event in events], pa.int64())
        values = [event["value"] if isinstance(event["value"], int) else 1 for event in events]
        stage = self.execution_plan.first_stage((0,))
        block = stage._block(stage._read(pa.table(columns | {"v0": pa.array(values)}), Dropped()))
        return [
            self.execution_plan.decode(page)
            for label, each in stage._by_bucket(block)
            for _, page in stage._pages({label: each})
        ]


def batches(case):
    """The micro-batches: the number of the event that ends each, its records, the watermark."""
    waiting, watermark = [], 0
    for number, event in enumerate(case["events"]):
        if "time" in event:
            waiting.append(event)
            if case["engine"] == "kafka-streams":
                watermark = max(watermark, event["time"])
            if not case["by_record"]:
                continue
        elif "watermark" in event:
            watermark = event["watermark"] + 1
        else:
            continue
        yield number, waiting, watermark
        waiting = []


def wanted(case):
    for row in case["rows"]:
        value = row["value"]
        shown = None if value is None else tuple(value) if isinstance(value, list) else (value,)
        # Flink's time of a row is its window's last millisecond, Kafka's that of the newest record.
        newest = row["time"] if case["engine"] == "kafka-streams" and shown else None
        yield row["event"], row["key"], row["start"], row["end"], shown, newest


@pytest.mark.parametrize("name", STREAMING)
def test_streaming(name):
    case = CASES[name]
    stream, rows = Replayed(case), []
    for number, events, watermark in batches(case):
        rows += [(number, *row) for row in stream.step(events, watermark)]
    if not stream.is_kafka:
        rows = [(*row[:-1], None) for row in rows]
    assert Counter(rows) == Counter(wanted(case))
    assert stream.late == case["dropped"]


def test_a_closed_session_is_not_merged_with():
    """The only difference from the exception: what came third finds [0, 0] closed, and leaves it as it is."""
    stream, rows = Replayed(CASES["session_bridge_merges_two_on_update"]), []
    for number, events, watermark in batches(CASES["session_bridge_merges_two_on_update"]):
        rows += [(number, *row[1:4]) for row in stream.step(events, watermark)]
    assert rows[2:] == [(2, 300_001, 300_001, None), (2, 150_000, 300_001, (2,))]


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
