"""What Kafka Streams and Flink test of hopping, tumbling and sliding windows, replayed here.

`vectors/*.json` holds inputs and results of their own tests as data, one file per test class; `upstream` and `test` say
which. Times are milliseconds. An event is a record (`key`, `time`, `value`), a `watermark` (Flink's: no record up to
and including it is to come), a `restart` from state, or a reading of the `clock`, which is given to the engine as the
time of the records that follow, and as the watermark. A row names the `event` that brings
it; its `time` is the newest record in the window for Kafka, the last millisecond of the window for Flink. A row that is
`late` is a refused record. `dropped` counts, for Kafka, (record, window) pairs, for Flink, records.

Kafka's stream time is the newest record so far, and a window closes when `end + grace` has been reached: so the
watermark here is the stream time, and the grace is Kafka's. Flink's watermark W stands for W + 1 here. Every case runs

    slices   as it is written; its windows have at most 4 slices, which are recombined
    tree     with a fifth of the advance, so that a tree stands; of the windows, those of the case are compared
    eager    with every record folded into every window

Kafka has no windows that start before 0; those rows are left out, as a filter behind the query would.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from oracle import Case, block_of, results, shape_of, windows_of
from scenarios.kind import PARTIALS, RECORDS
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario
from streams import Live, Output, micros, record, starts, table

from slicing import group_by, late_records
from slicing import results as without_late
from slicing.aggregates.aggregate import Aggregate
from slicing.assembly.assembling import assemble
from slicing.errors import InvalidValue
from slicing.triggers.emission import on_close, on_update
from slicing.windows import window as windows_window
from slicing.windows.families.even import Even as EvenFamily


def cases_of(file):
    """The cases of a file; of windows by the clock, records have the time that it shows, and the watermark is it."""
    for case in json.loads(file.read_text(encoding="utf-8"))["cases"]:
        clock, events = 0, []
        for event in case["events"] if case["window"].get("clock") else []:
            clock = event.get("clock", clock)
            timed = event | {"time": clock} if "key" in event else event
            events.append({"watermark": clock - 1} if "clock" in event else timed)
        yield case | {"events": events} if events else case


FILES = sorted((Path(__file__).parents[1] / "vectors").glob("*.json"))
VECTORS = {case["name"]: case for file in FILES for case in cases_of(file)}
UNITS = ("assignment", "slices", "validation")
STREAMING = {name: case for name, case in VECTORS.items() if case["emit"] not in UNITS}
UNIT = {name: case for name, case in VECTORS.items() if case["emit"] in UNITS}

NULL_KEY = "null keys are a group on Spark"
TRIGGER = "an early trigger, or one of a user's own: replayed in tests/triggers/test_early_vectors.py"
OPTIONAL = "optional upstream feature"

EXCEPTIONS = {
    "hopping_null_key_on_update": NULL_KEY,
    "hopping_null_key_on_close": NULL_KEY,
    "flink_cleanup_tumbling_custom_purging": TRIGGER,
    # Windows that are shifted by the clock of the first record.
    "flink_assign_tumbling_stagger_natural": OPTIONAL,
    # An accumulator that has no record count, which is refused there; here there is always one.
    "flink_slicing_hopping_needs_count": OPTIONAL,
}

STRATEGIES = ("slices", "tree", "eager")
EMISSIONS = {
    "on_update": on_update(),
    "on_close": on_close(),
    "final": on_close(),
    "event_time": on_close(),
    "processing_time": on_close(),
    "purging(event_time)": on_close(corrections=True, discarding=True),
}


def text(lower=None):
    """The values in order, each after a "+"."""
    result = {"lower": lower, "returns": "string"} if lower else {}
    return Aggregate(str, lambda acc, value: f"{acc}+{value}", lambda a, b: a + b, ordered=True, **result)


def add(a, b):
    return a + b


def subtract(ab, a):
    return ab - a


AGGREGATES = {
    "sum": Aggregate(int, add, add, subtract),
    "count": Aggregate(int, lambda acc, _: acc + 1, add, subtract),
    "sum_count": Aggregate(
        lambda: (0, 0),
        lambda acc, value: (acc[0] + value, acc[1] + 1),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda ab, a: (ab[0] - a[0], ab[1] - a[1]),
    ),
    "concat_plus_init0": text(lambda joined: "0" + joined),
    "concat_plus_init_empty": text(),
}
TRUTHS = {
    "sum": sum,
    "count": len,
    "sum_count": lambda values: (sum(values), len(values)),
    "concat_plus_init0": lambda values: "".join(["0", *(f"+{value}" for value in values)]),
    "concat_plus_init_empty": lambda values: "".join(f"+{value}" for value in values),
}
NEWEST = Case(Aggregate(int, max, max), max, of_time=True)


# --- streaming cases ------------------------------------------------------------------------------------------------


def missing(case):
    """Why a case cannot be written down here, or None."""
    if case["emit"] not in (*EMISSIONS, *UNITS):
        return TRIGGER
    return OPTIONAL if "stagger" in case["window"] or "error" in case else None


def slicing_of(case, parts=1):
    """The windows of a case; with `parts`, those that start so many times as often."""
    window = case["window"]
    size, advance = 1000 * window["size"], 1000 * window.get("advance", window["size"])
    return EvenFamily(size, advance // parts, 1000 * window.get("offset", 0))


def grace_of(case):
    """Kafka's grace or Flink's allowed lateness, in milliseconds."""
    return case["window"].get("grace", case["window"].get("lateness", 0))


def start(case, strategy):
    """A stream that will be fed a case."""
    family = slicing_of(case, 5 if strategy == "tree" else 1)
    values = {type(event["value"]) for event in case["events"] if "value" in event}
    return Scenario(
        Even(windows_window.Hopping(family.size, family.advance, family.offset)),
        EMISSIONS[case["emit"]],
        1000 * grace_of(case),
        RECORDS if strategy == "eager" else PARTIALS,
        [Case(AGGREGATES[case["aggregate"]], TRUTHS[case["aggregate"]]), NEWEST],
        key="string",
        value="string" if values == {str} else "bigint",
    )


def batches(case):
    """The micro-batches: the number of the event that ends each, its records in microseconds, the watermark."""
    waiting, watermark = [], 0
    for number, event in enumerate(case["events"]):
        if "time" in event:
            waiting.append((1000 * event["time"], event["key"], event["value"]))
            if case["engine"] == "kafka-streams":
                watermark = max(watermark, event["time"])
            if not (case["by_record"] or puts_out_late(case)):
                continue
        elif "watermark" in event:
            watermark = event["watermark"] + 1
        else:
            continue  # a restart needs nothing: every micro-batch reads from the store all that it knows
        yield number, waiting, watermark
        waiting = []


def replay(case, strategy):
    """The rows of a case in the order of events, and the stream that put them out."""
    stream, rows = start(case, strategy), []
    for number, records, watermark in batches(case):
        for (_, key, _, begin, _), ((_, value, newest), _) in stream.step(records, watermark).items():
            if is_of(case, begin):
                rows.append((number, key, begin // 1000, value, newest // 1000))
        if puts_out_late(case):
            (late,) = stream.late_records(records)
            rows += late_rows(case, number, [(*record, taken) for record, (_, taken) in late])
    return rows, stream


def late_rows(case, number, records):
    """The refused records of a micro-batch as rows, from (time, key, value, start of the first window that took it).

    Refused are those that no window of the case took; where windows start more often, another one may have.
    """
    family = slicing_of(case)
    newest = [family.offset + windows_of(family, time)[-1] * family.advance for time, *_ in records]
    return [
        (number, key, None, ("late", time // 1000, value), None)
        for begin, (time, key, value, taken) in zip(newest, records, strict=True)
        if taken is None or begin < taken
    ]


def puts_out_late(case):
    """Whether refused records are rows of the case, and then not dropped."""
    return any("late" in row for row in case["rows"])


def is_of(case, begin):
    """Whether the case has a window that starts there, in microseconds."""
    family = slicing_of(case)
    aligned = (begin - family.offset) % family.advance == 0
    return aligned and (begin >= 0 or case["engine"] != "kafka-streams")


def wanted(case):
    """The rows of a case, as `replay` gives them."""
    rows = [row for row in case["rows"] if "late" not in row]
    assert all(row["end"] - row["start"] == case["window"]["size"] for row in rows)
    late = [
        (row["event"], row["key"], None, ("late", row["time"], row["value"]), None)
        for row in case["rows"]
        if "late" in row
    ]
    return [(row["event"], row["key"], row["start"], row["value"], row.get("time")) for row in rows] + late


def comparable(case, rows, exact):
    """Rows as a multiset, with the parts of a text in any order unless `exact`."""

    def shown(value):
        value = tuple(value) if isinstance(value, list) else value
        return "+".join(sorted(value.split("+"))) if isinstance(value, str) and not exact else value

    of_kafka = case["engine"] == "kafka-streams"
    return Counter((event, key, begin, shown(value), of_kafka and time) for event, key, begin, value, time in rows)


def in_order(case, family):
    """Whether the records come in the order of slices."""
    slices = [family.slice_at(1000 * event["time"]) for event in case["events"] if "time" in event]
    return all(a <= b for a, b in pairwise(slices))


def refused(case, late):
    """What a case counts as dropped, of the records late for all windows and for some; what it puts out is not."""
    if case["engine"] == "kafka-streams":
        # Pairs of record and window; in these cases a late record is refused by one window that starts at 0 or later.
        return sum(late)
    return late[0] - sum("late" in row for row in case["rows"])


def differences(case, strategy):
    """What a replay puts out and the case does not, and the other way round; last the numbers of refused records."""
    rows, stream = replay(case, strategy)
    expected, dropped = wanted(case), refused(case, (stream.seen["late"], stream.seen["late for some"]))
    if strategy == "tree":
        # With windows that start more often a record is late for other ones.
        dropped = case["dropped"]
    exact = strategy == "eager" or in_order(case, stream.family)
    rows, expected = comparable(case, rows, exact), comparable(case, expected, exact)
    return list((rows - expected).elements()), list((expected - rows).elements()), dropped, case["dropped"]


def passes(case):
    """Whether a case can be replayed, and is."""
    if missing(case) is not None:
        return False
    if case["emit"] in UNITS:
        return unit_fault(case) is None
    return all(differences(case, strategy) == ([], [], case["dropped"], case["dropped"]) for strategy in STRATEGIES)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", sorted(STREAMING.keys() - EXCEPTIONS.keys()))
def test_streaming(name, strategy):
    more, less, dropped, expected = differences(STREAMING[name], strategy)
    assert (more, less, dropped) == ([], [], expected)


# --- unit cases -----------------------------------------------------------------------------------------------------


def window_of(case, **other):
    """The window of a case as a user makes it."""
    given = {
        name: timedelta(milliseconds=length) for name, length in (case["window"] | other).items() if name != "kind"
    }
    return windows_window.hopping(
        given["size"], given.get("advance", given["size"]), offset=given.get("offset", timedelta(0))
    )


def next_end(window, record, end):
    """The end of the first window after `end` that holds a record, in microseconds; None if there is none."""
    cases = [Case(AGGREGATES["count"], None)]
    shape = shape_of(window.family, cases)
    rows = results(shape, assemble(shape, ["recompute"], block_of(shape, cases, [(record, 1, 1)])))
    return min((e for _, at in rows if (e := int(window.family.window_end(at))) > end), default=None)


def fact(window, check):
    """What holds here of a window or slice, in milliseconds."""
    if check["fact"] == "slice_end":
        return window.slice_of(1000 * check["time"])[1] // 1000
    end = 1000 * check["end"]
    if check["fact"] == "window_start":
        begin, its_end = window.windows_of(end - 1)[0]
        assert its_end == end
        return begin // 1000
    assert check["fact"] == "next_window"
    # A window is empty, and so is every later one, when the last record is in the slice that has just left it.
    found = next_end(window, end - window.size - 1 if check["empty"] else end - 1, end)
    return None if found is None else found // 1000


def accepts(case, parameters):
    """Whether a window of these parameters can be made."""
    try:
        window_of(case, **parameters)
    except InvalidValue:
        return False
    return True


def unit_fault(case):
    """What differs in a unit case, or None."""
    if case["emit"] == "validation":
        checks = [dict(check) for check in case["checks"]]
        wrong = [check for check in checks if check.pop("valid") != accepts(case, check)]
    elif case["emit"] == "slices":
        wrong = [check for check in case["checks"] if fact(window_of(case), check) != check["is"]]
    else:
        expected = defaultdict(list)
        for row in case["rows"]:
            expected[row["event"]].append((1000 * row["start"], 1000 * row["end"]))
        assigned = [window_of(case).windows_of(1000 * event["time"]) for event in case["events"]]
        wrong = [(at, found) for at, found in enumerate(assigned) if found != sorted(expected[at])]
    return wrong or None


@pytest.mark.parametrize("name", sorted(UNIT.keys() - EXCEPTIONS.keys()))
def test_unit(name):
    assert unit_fault(UNIT[name]) is None


# --- what is left out -----------------------------------------------------------------------------------------------


def test_the_exceptions_are_the_cases_that_do_not_pass():
    """The others are above."""
    assert not [name for name in EXCEPTIONS if passes(VECTORS[name])]
    cannot = {name: reason for name, case in VECTORS.items() if (reason := missing(case)) is not None}
    assert cannot == {name: reason for name, reason in EXCEPTIONS.items() if reason != NULL_KEY}


def test_most_cases_pass():
    assert len(STREAMING.keys() - EXCEPTIONS.keys()) >= 23
    assert len(UNIT.keys() - EXCEPTIONS.keys()) >= 18


@pytest.mark.parametrize("name", [name for name, reason in EXCEPTIONS.items() if reason == NULL_KEY])
def test_a_null_key_is_a_group(name):
    rows, stream = replay(VECTORS[name], "slices")
    left = stream.step([], 1 << 40)
    assert {*(row[1] for row in rows), *(place[1] for place in left)} == {None}


@pytest.mark.parametrize("content", [PARTIALS, RECORDS])
def test_a_window_is_empty_without_records_not_when_its_sum_is_zero(content):
    stream = Scenario(Even.of(3, 1), on_close(), content=content, results=[Case(AGGREGATES["sum"], sum)])
    stream.step([(2000, 1, 5), (3000, 1, -5), (7000, 1, 0)])
    sums = {0: 5, 1: 0, 2: 0, 3: -5, 5: 0, 6: 0, 7: 0}
    rows = stream.step([], 1 << 40)
    assert {start // 1000: total for (*_, start, _), ((_, total), _) in rows.items()} == sums


def test_every_case_cites_its_source():
    for file in FILES:
        content = json.loads(file.read_text(encoding="utf-8"))
        assert content["upstream"].keys() == {"repo", "commit", "path", "license"}
        assert content["upstream"]["path"].endswith(file.stem.partition(".")[2] + ".java")
        assert all(case["test"] for case in content["cases"])


# --- on Spark's streams ---------------------------------------------------------------------------------------------

ON_SPARK = {
    "flink_side_output_tumbling",
    "flink_slicing_expired_slice_restore",
    "hopping_final_resumes_after_restart_on_update",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ON_SPARK))
def test_on_spark(spark, tmp_path, name):
    replay_on_spark(spark, tmp_path, name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(STREAMING.keys() - EXCEPTIONS.keys() - ON_SPARK))
def test_all_on_spark(spark, tmp_path, name):
    replay_on_spark(spark, tmp_path, name)


@dataclass
class Apart(Output):
    """Late records apart from the results: (time, key, value, start of the first window that took it)."""

    late: dict = field(default_factory=dict)

    def sink(self, frame, batch):
        """For foreachBatch."""
        super().sink(without_late(frame), batch)
        self.late[batch] = [
            (micros(row["ts"]), row["world"], row[2], (taken := row["late"]["first_window"]) and micros(taken["start"]))
            for row in late_records(frame).collect()
        ]


def test_a_case_by_the_clock_may_restart(tmp_path):
    """None of the data does; so one is made of a case that they have."""
    (file,) = [file for file in FILES if any(c["window"].get("clock") for c in json.loads(file.read_text())["cases"])]
    case = next(c for c in json.loads(file.read_text())["cases"] if c["window"].get("clock"))
    events = [each for event in case["events"] for each in (event, {"restart": True})]
    made = tmp_path / "made.json"
    made.write_text(json.dumps({"cases": [case | {"events": events}]}))
    (restarting,) = cases_of(made)
    plain, again = (replay(each, "slices") for each in (VECTORS[case["name"]], restarting))
    assert [row[1:] for row in again[0]] == [row[1:] for row in plain[0]]
    assert plain[0]


def replay_on_spark(spark, tmp_path, name):
    """Every micro-batch of a case is a step, with a restart where the case has one.

    Kafka's stream time is Spark's watermark without a delay. Flink's watermark is made by a record of a key of its own,
    which lies ahead of all others by a delay so long that no other record moves the watermark.
    """
    case = VECTORS[name]
    ticking = case["engine"] != "kafka-streams"
    delay = max((event["time"] for event in case["events"] if "time" in event), default=0) if ticking else 0
    live = Live(spark, tmp_path, delay=f"{delay} milliseconds")
    window = window_of(case)
    windowed = group_by(live.source(), "world").window(window, time="ts")
    windowed = windowed.grace(timedelta(milliseconds=grace_of(case))).emit(EMISSIONS[case["emit"]])
    column = {str: "s", int: "n"}[next(type(event["value"]) for event in case["events"] if "value" in event)]
    output = Apart() if puts_out_late(case) else Output()
    windowed = windowed.late("records" if puts_out_late(case) else "counts")
    live.add(windowed.aggregate(value=AGGREGATES[case["aggregate"]].on(column)), output=output)
    keys = sorted({event["key"] for event in case["events"] if "key" in event})
    rows = []
    for number, records, watermark in batches(case):
        made = [record(keys.index(key), time, **{column: value}) for time, key, value in records]
        if ticking:
            made.append(record(-1, 1000 * (watermark + delay)))
        for batch in live.step(table(made)):
            found = output.tables[batch]
            rows += [
                (number, keys[row["world"]], begin // 1000, plain(row["value"]), None)
                for row, begin in zip(found.to_pylist(), starts(found), strict=True)
                if row["world"] >= 0 and is_of(case, begin)
            ]
            if puts_out_late(case):
                late = [(time, keys[world], *rest) for time, world, *rest in output.late[batch]]
                rows += late_rows(case, number, late)
        if any("restart" in event for event in case["events"][number + 1 : number + 2]):
            live.restart()
    live.stop()
    expected = [(*row[:4], None) for row in wanted(case)]
    exact = in_order(case, window.family)
    assert comparable(case, rows, exact) == comparable(case, expected, exact)
    late, some = (sum(output.counters(name).values()) for name in ("late", "late_for_some"))
    assert refused(case, [late, some]) == case["dropped"]


def plain(value):
    """A struct as the list of its fields, as in the data."""
    return list(value.values()) if isinstance(value, dict) else value
