"""What Kafka Streams tests of its sliding windows, replayed here; `test_vectors.py` says what the files hold.

Kafka's windows have both ends: with a unit of 1 ms ours end a millisecond later, and close when its do. Where its store
has forgotten windows, the rows are those without that. A text has the values in the order of their times here, and of
their coming there: its parts are compared.
"""

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from oracle import Case
from scenarios.kinds.sliding import Sliding
from scenarios.scenario import Process, Scenario
from test_vectors import AGGREGATES, NEWEST, TRUTHS, text

from slicing.aggregates.aggregate import Aggregate
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
MORE_TRUTHS = {"reduce_concat_plus": "+".join, "sorted_chars": lambda values: "".join(sorted("".join(values)))}


def stream_of(case):
    """A stream of sliding windows that will be fed a case; every micro-batch is a restart."""
    name = case["aggregate"]
    made = Scenario(
        Sliding(sliding(f"{case['window']['difference']} milliseconds")),
        EMISSIONS[case["emit"]],
        1000 * case["window"]["grace"],
        results=[Case((AGGREGATES | MORE)[name], (TRUTHS | MORE_TRUTHS)[name]), NEWEST],
        key="string",
        value="string",
    )
    made.process = Process(None, "all")
    return made


def replay(case, events):
    """The rows of the events of a case, by their numbers, and how many of them are late for some or all windows."""
    stream, rows, watermark = stream_of(case), [], 0
    for number, event in enumerate(events):
        watermark = max(watermark, event["time"])
        made = [(1000 * event["time"], event["key"], event["value"])]
        for (_, key, _, start, end), ((_, value, newest), _) in stream.step(made, watermark).items():
            rows.append((number, key, start // 1000, end // 1000 - 1, shown(value), newest // 1000))
    return rows, stream.seen["late"] + stream.seen["late for some"]


def shown(value):
    """A value, a text with its parts in order."""
    return "+".join(sorted(value.split("+"))) if isinstance(value, str) else value


def wanted(row):
    return row["key"], row["start"], row["end"], shown(row["value"]), row["time"]


REPLAYED = sorted(name for name, case in CASES.items() if name not in EXCEPTIONS and "generator" not in case)


@pytest.mark.parametrize("name", REPLAYED)
def test_streaming(name):
    case = CASES[name]
    rows, late = replay(case, case["events"])
    assert Counter(rows) == Counter((row["event"], *wanted(row)) for row in case["rows"])
    assert late == case["dropped"]


@pytest.mark.parametrize("name", sorted(name for name, case in CASES.items() if "generator" in case))
def test_any_order_comes_to_the_same(name):
    """The last row of each window; those that Kafka clamps are ours from before 0 on, and left out."""
    case = CASES[name]
    expected = {row["start"]: wanted(row) for row in case["rows"] if row["start"] > 0}
    for seed in range(4):
        events = random.Random(seed).sample(case["generator"]["records"], len(case["generator"]["records"]))
        rows, late = replay(case, [*events, *case["generator"]["tail"]])
        assert {start: (key, start, *row) for _, key, start, *row in rows if start > 0} == expected
        assert late == case["dropped"]


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
    case = CASES[name]
    rows, _ = replay(case, case["events"])
    expected = Counter((row["event"], *wanted(row)) for row in case["rows"] if row["start"] > 0)
    assert Counter(row for row in rows if row[2] > 0) == expected
