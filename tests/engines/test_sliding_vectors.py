"""What Kafka Streams tests of its sliding windows, replayed here; `test_vectors.py` says what the files hold.

Kafka's windows have both ends: with a unit of 1 ms ours end a millisecond later, and close when its do. Where its store
has forgotten windows, the rows are those without that. A text has the values in the order of their times here, and of
their coming there: its parts are compared.
"""

import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from oracle import FINGERPRINT, moment, shape_of
from test_vectors import AGGREGATES, NEWEST, Case, text

from slicing.aggregates.aggregate import Aggregate
from slicing.engines.sliding.bucket import SlidingBucket
from slicing.stages.execution_plan import Aggregation
from slicing.stages.preaggregate import Dropped
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache as memory
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_close, on_update
from slicing.windows.sliding import sliding

FILES = sorted((Path(__file__).parents[1] / "vectors" / "sliding").glob("*.json"))
CASES = {case["name"]: case for file in FILES for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}
CLAMP = "Kafka clamps windows at 0"
EXCEPTIONS = {
    "sliding_early_large_on_update": CLAMP,
    "sliding_early_large_on_close": CLAMP,
    "sliding_early_no_grace_small_on_update": CLAMP,
    "sliding_early_no_grace_small_on_close": CLAMP,
    "sliding_retention_too_small": "how long Kafka's store keeps windows is set beside them; here it follows from them",
}
EMISSIONS = {"on_update": on_update(), "on_close": on_close()}
MORE = {
    "reduce_concat_plus": text(lambda joined: joined[1:]),
    "sorted_chars": Aggregate(str, lambda acc, v: "".join(sorted(acc + v)), lambda a, b: "".join(sorted(a + b))),
}


class Replayed:
    """A stream of sliding windows that is fed a case."""

    def __init__(self, case):
        self.difference, self.emission = case["window"]["difference"], EMISSIONS[case["emit"]]
        self.window = sliding(f"{self.difference} milliseconds")
        self.cases = [Case((AGGREGATES | MORE)[case["aggregate"]], None), NEWEST]
        self.shape = shape_of(self.window.family, self.cases, ("string",))
        self.execution_plan = support_of(self.window).execution_plan(
            Aggregation(self.shape, ("places",) * 2, ((0,), (-1,)))
        )
        self.grace, self.store, self.late, self.watermark = case["window"]["grace"], MemoryStore(), 0, 0

    def step(self, event):
        """The rows of a micro-batch of one record, and what it drops; every one begins in a new process."""
        memory._entries.clear()
        self.watermark = max(self.watermark, event["time"])
        bucket = SlidingBucket(self.shape, 1000 * self.grace, FINGERPRINT, self.store, self.emission)
        late = bucket.accept([self.shipped(event)])
        self.late += late.all + late.some
        for frame in bucket.close(moment(self.watermark)):
            keys = frame.names["k0"].take(pa.array(frame.keys)).to_pylist()
            kernels = zip(self.shape.kernels, frame.partials, frame.dictionaries, strict=True)
            values, newest = (k.results_to_arrow(partials, own)[0].to_pylist() for k, partials, own in kernels)
            starts = (self.window.family.window_start(frame.windows) // 1000).tolist()
            for key, start, value, latest in zip(keys, starts, values, newest, strict=True):
                yield key, start, start + self.difference, shown(value), latest // 1000

    def shipped(self, event):
        columns = {
            "time": pa.array([1000 * event["time"]], pa.timestamp("us", "UTC")),
            "k0": pa.array([event["key"]], pa.string()),
            "v0": pa.array([event["value"]], pa.string()),
        }
        stage = self.execution_plan.first_stage((0,))
        block = stage._block(stage._read(pa.table(columns), Dropped()))
        ((_, page),) = stage._pages({0: block})
        return self.execution_plan.decode(page)


def shown(value):
    """A value, a text with its parts in order."""
    return "+".join(sorted(value.split("+"))) if isinstance(value, str) else value


def wanted(row):
    return row["key"], row["start"], row["end"], shown(row["value"]), row["time"]


REPLAYED = sorted(name for name, case in CASES.items() if name not in EXCEPTIONS and "generator" not in case)


@pytest.mark.parametrize("name", REPLAYED)
def test_streaming(name):
    case, rows = CASES[name], Counter()
    stream = Replayed(case)
    for number, event in enumerate(case["events"]):
        rows.update((number, *row) for row in stream.step(event))
    assert rows == Counter((row["event"], *wanted(row)) for row in case["rows"])
    assert stream.late == case["dropped"]


@pytest.mark.parametrize("name", sorted(name for name, case in CASES.items() if "generator" in case))
def test_any_order_comes_to_the_same(name):
    """The last row of each window; those that Kafka clamps are ours from before 0 on, and left out."""
    case = CASES[name]
    expected = {row["start"]: wanted(row) for row in case["rows"] if row["start"] > 0}
    for seed in range(4):
        events = random.Random(seed).sample(case["generator"]["records"], len(case["generator"]["records"]))
        stream, last = Replayed(case), {}
        for event in [*events, *case["generator"]["tail"]]:
            last |= {row[1]: row for row in stream.step(event)}
        assert {start: row for start, row in last.items() if start > 0} == expected
        assert stream.late == case["dropped"]


def test_all_cases_are_replayed_but_those_with_a_reason():
    assert len(REPLAYED) == 15
    assert set(EXCEPTIONS) <= set(CASES)
    for name, reason in EXCEPTIONS.items():
        if reason == CLAMP:
            case = CASES[name]
            assert any(event["time"] < case["window"]["difference"] for event in case["events"])


@pytest.mark.parametrize("name", sorted(name for name, reason in EXCEPTIONS.items() if reason == CLAMP))
def test_windows_that_are_not_clamped(name):
    """Of the cases with windows before 0, those rows that Kafka gives too: of windows that begin behind 0."""
    case, rows = CASES[name], Counter()
    stream = Replayed(case)
    for number, event in enumerate(case["events"]):
        rows.update((number, *row) for row in stream.step(event) if row[1] > 0)
    assert rows == Counter((row["event"], *wanted(row)) for row in case["rows"] if row["start"] > 0)
