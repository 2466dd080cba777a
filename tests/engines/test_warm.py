"""Warm start in process: a bucket that has loaded a history continues with the rows of one that took it as a stream.

The cold replay takes the history in a micro-batch of its own. Its rows of windows that end after `until`, emitted
after that, are those of the warm start, on every kind of windows under every trigger::

    history    * *  *   * **  *|                      the window [=====) straddles `until`: it is whole
    stream                     | *  **   *  *
                             until
"""

import json
import random
from dataclasses import dataclass

import pyarrow as pa
import pytest
from golden.every_kind import BEGIN, EMISSIONS, IN_TURNS, SCENARIOS, SECOND, WINDOWS, Line, micro_batches
from oracle import few

from slicing import early, on_close, session
from slicing.stages import flat
from slicing.stages.metrics import BEFORE_WARM
from slicing.stages.not_before import NotBefore
from slicing.stages.output import flat_windows
from slicing.stages.support_of import support_of
from slicing.state import bucket_cache
from slicing.triggers.trigger import KINDS, MicroBatchTime

CLOCK, DAY = 3 * SECOND, 86_400 * SECOND
EARLY, MERGED = map(KINDS.index, ("early", "merged"))
CLOSE = "hopping, combined, on close"


class Bucket(Line):
    """The bucket of a scenario, which can be warmed; a step gives rows as dicts."""

    def load(self, records, until, parts=1):
        """Load what a warm start reads of a history, in some parts."""
        first = support_of(self.window).history_from(until, self.emission, self.fingerprint.retain)
        records = [each for each in records if each[0] < until and (first is None or each[0] >= first)]
        size = len(records) // parts + 1
        for start in range(0, len(records) + 1, size):
            self.bucket().load(self.shipped(records[start : start + size]), MicroBatchTime(until, 0))
            self.bucket().check()

    def step(self, records, watermark, clock=0):
        """The rows of a micro-batch, by the names of their columns; the watermark is in milliseconds."""
        bucket, shape, found = self.bucket(), self.execution_plan.shape, []
        self.late = bucket.accept(self.shipped(records))
        for frame in bucket.close(MicroBatchTime(watermark * 1000, clock)):
            table = flat_windows(shape, frame, self.emission, bucket.head.revision, self.execution_plan.wide)
            found += table.to_pylist()
        self.bucket().check()
        return found


@dataclass
class Story:
    """A history, the micro-batches of the stream after it, and the instant between them."""

    history: list
    stream: list
    until: int


def story(windows, seed, overlap):
    """A random one: `until` is inside of slices, or, of each third seed, at an edge.

    With overlap="keep" the stream was cut by micro-batches, and `until` is within the first one after the cut.
    """
    batches, step = micro_batches(windows), WINDOWS[windows][1]
    rng = random.Random(f"{windows} {seed}")
    until = BEGIN + int(rng.uniform(14, 40) * step) // 1000 * 1000
    if seed % 3 == 0:
        until = until // step * step
    records = [each for each, *_ in batches]
    past, live = records, [[each for each in some if each[0] >= until] for some in records]
    if overlap == "keep":
        cut = rng.choice([at for at in range(8, 20) if len(records[at]) > 1])
        times = [each[0] for each in records[cut]]
        until = (min(times) + max(times)) // 2000 * 1000
        past, live = records[:cut], records[cut:]
    stream, greatest = [], 0
    for some in [*live, []]:
        if some or stream:
            stream.append((some, greatest, CLOCK * (len(stream) + 1)))
        greatest = max([greatest, *((each[0] - 2 * step) // 1000 for each in some)])
    return Story([each for some in past for each in some if each[0] < until], stream, until)


def shown(rows, until, without=()):
    """Rows of windows that end after an instant, as sorted texts without their revision."""
    chosen = [row for row in rows if row[flat.STOP] > until and row.get(flat.KIND) not in without]
    return sorted(json.dumps({name: each for name, each in row.items() if name != flat.REVISION}) for row in chosen)


def both(name, told, parts=1, held=True, reached=0):
    """The rows of a warm start and of a cold replay, micro-batch by micro-batch."""
    windows, _, emission = SCENARIOS[name]
    cold, warm = Bucket(name), Bucket(name)
    cold.step(told.history, 0)
    cold.step([], reached)
    warm.load(told.history, told.until, parts)
    # What the history made has never been emitted: it is not retracted, and waits to be emitted early.
    without = {MERGED, EARLY} if emission == "early by records" else {MERGED}
    by_time = not windows.startswith(("counting", "unbounded"))
    for records, watermark, clock in told.stream:
        if not held:
            bucket_cache._entries.clear()
        ours, theirs = (each.step(records, watermark, clock) for each in (warm, cold))
        assert not by_time or all(row[flat.STOP] > told.until for row in ours), "others are never emitted"
        yield tuple(shown(rows, told.until if by_time else 0, without) for rows in (ours, theirs))


def compare(name, seed, overlap="drop"):
    """Compare both, and return how many rows there were; in several parts, or without what the process has kept."""
    told, rows = story(SCENARIOS[name][0], seed, overlap), 0
    reached = told.until // 1000 if overlap == "keep" else 0
    assert overlap == "drop" or any(each[0] < told.until for records, *_ in told.stream for each in records)
    for number, (ours, theirs) in enumerate(both(name, told, 1 + seed % 2, seed % 4 < 2, reached)):
        assert ours == theirs, (seed, number)
        rows += len(ours)
    return rows


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("seed", "name"), [*enumerate(IN_TURNS)])
def test_rows_are_those_of_a_cold_replay(seed, name):
    assert compare(name, seed) > 4 or name.endswith("early by records")


PAIRS = {"by number": early(records=5, per="window"), "by event time": early(every="2 seconds", by="event")}


TIMED = [each for each in WINDOWS if not each.startswith(("counting", "unbounded"))]


OF_PAIRS = [(name, at, windows) for at, windows in enumerate(TIMED) for name in PAIRS]
BY_TURNS = [each for number, each in enumerate(OF_PAIRS) if number % 4 in (0, 3)]
"""Each of the windows, and each trigger on every second one of them."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "seed", "windows"), few(BY_TURNS, OF_PAIRS))
def test_pairs_of_a_history_count_and_wait(name, seed, windows, monkeypatch):
    """The multiples of a history count as fired; of sessions, which are remembered one by one, they are still due."""
    if name == "by number" and windows.startswith("sessions"):
        pytest.skip("the first record after the history fires them")
    monkeypatch.setitem(EMISSIONS, name, PAIRS[name])
    monkeypatch.setitem(SCENARIOS, name, (windows, "combined", name))
    assert compare(name, seed) > 4


GREATEST = {
    "greatest length": session("4 seconds", longest="9 seconds"),
    "greatest length, own gaps": session(gap_column="gap", longest="9 seconds"),
    "greatest length, late by session": session("4 seconds", longest="9 seconds", late_by="session"),
}
FOLLOWED = ("tumbling", "gaps", "cumulating", "several", "hopping", "by edges")
OTHERS = [
    *((windows, each, "drop") for windows in GREATEST for each in ("on close", "on update", "early by ticks")),
    *((windows, "empty", overlap) for windows in FOLLOWED for overlap in ("drop", "keep")),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("windows", "emission", "overlap"), OTHERS)
def test_sessions_of_a_greatest_length_and_windows_without_records(windows, emission, overlap, monkeypatch):
    monkeypatch.setitem(WINDOWS, windows, (GREATEST.get(windows) or WINDOWS[windows][0], SECOND))
    monkeypatch.setitem(EMISSIONS, "empty", on_close(empty="30 seconds"))
    name = f"{windows}, {emission}"
    monkeypatch.setitem(SCENARIOS, name, (windows, "combined", emission))
    assert sum(compare(name, seed, overlap) for seed in (1, 2, 5)) > 4


KEPT = [
    name
    for name in IN_TURNS
    if not support_of(WINDOWS[SCENARIOS[name][0]][0]).cannot_keep
    and name.endswith(("on close", "on update", "on change"))
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("seed", "name"), [*enumerate(KEPT)])
def test_records_before_the_end_of_the_history_can_be_counted_in(seed, name):
    assert compare(name, seed, "keep") > 4


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_rows_are_those_of_a_cold_replay_for_many_seeds(name):
    assert sum(compare(name, seed) for seed in range(20)) > 100 or name.endswith("early by records")


# --- one case at a time: windows of 20 s every second ---------------------------------------------------------------


def record(second, key=1, n=1):
    return [BEGIN + round(second * SECOND), key, n, "a", SECOND]


def warmed(history, until, name=CLOSE):
    found = Bucket(name)
    found.load(history, BEGIN + round(until * SECOND))
    return found


def ends(rows):
    """(key, end in seconds) -> the sum of n."""
    return {(row["k0"], (row[flat.STOP] - BEGIN) // SECOND): row["r0"] for row in rows}


def watermark(second):
    return (BEGIN + round(second * SECOND)) // 1000


def test_a_window_that_straddles_the_end_of_the_history_is_whole():
    """`until` is inside the slice [30 s, 31 s)::

    history   10 ... 29.5 30.2 |
    stream                     | 30.7
    """
    found = warmed([record(10, n=1), record(29.5, n=10), record(30.2, n=100)], 30.5)
    rows = ends(found.step([record(30.7, n=1000)], 0) + found.step([], watermark(60)))
    assert rows == {(1, end): 1110 for end in range(31, 50)} | {(1, 50): 1100}
    assert rows[1, 31] == 1110, "the one that begins at 11 s does not hold the record at 10 s"


def test_keys_of_the_history_alone_and_of_the_stream_alone():
    found = warmed([record(29, key=1), record(29, key=2)], 30)
    rows = ends(found.step([record(30, key=2), record(30, key=3)], 0) + found.step([], watermark(90)))
    assert {end: n for (key, end), n in rows.items() if key == 1} == dict.fromkeys(range(31, 50), 1)
    assert {end: n for (key, end), n in rows.items() if key == 3} == dict.fromkeys(range(31, 51), 1)
    assert rows[2, 31] == 2
    assert rows[2, 50] == 1


def test_a_record_older_than_every_open_window_is_late():
    found = warmed([record(29)], 30)
    assert found.step([record(9.5), record(25)], 0) == []
    assert (found.late.all, found.late.some) == (1, 1), "with overlap='keep'; else a first stage has dropped both"
    assert ends(found.step([], watermark(31))) == {(1, 31): 2}


def test_an_idle_source_emits_nothing_until_its_watermark_has_passed_the_end_of_the_history():
    found = warmed([record(29)], 30)
    for _ in range(3):
        assert found.step([], 0) == []
    assert found.step([], watermark(30)) == []
    assert ends(found.step([], watermark(32))) == {(1, 31): 1, (1, 32): 1}


def test_a_record_in_the_far_future_closes_all_windows_of_the_history():
    found = warmed([record(29)], 30)
    future = record(29)
    future[0] += 3650 * DAY
    assert found.step([future], 0) == []
    assert ends(found.step([], future[0] // 1000)) == {(1, end): 1 for end in range(31, 50)}
    assert len(found.step([], (future[0] + DAY) // 1000)) == 20


def test_a_history_in_the_far_past_leaves_nothing():
    found = warmed([record(29)], 3000)
    assert found.bucket().extent() == {"open_windows": 0, "slices": 0}
    assert len(ends(found.step([record(3000)], 0) + found.step([], watermark(4000)))) == 20


def test_without_any_history_windows_before_its_end_are_not_emitted_either():
    found = warmed([], 30)
    rows = ends(found.step([record(25), record(31)], 0) + found.step([], watermark(90)))
    assert min(end for _, end in rows) == 31


def test_a_session_that_ends_with_the_history_goes_on_if_the_stream_touches_it():
    """Gap 4 s; the session of 26 s ends at 30 s, where the history ends: it fires only with a record at 30 s."""
    name = "sessions, combined, on close"
    for live, expected in ((record(30), {(1, 34): 2}), (record(30.5), {(1, 34.5): 1})):
        found = warmed([record(26), record(10)], 30, name)
        rows = found.step([live], 0) + found.step([], watermark(90))
        assert {(row["k0"], (row[flat.STOP] - BEGIN) / SECOND): row["r0"] for row in rows} == expected


@pytest.mark.parametrize("name", [each for each in SCENARIOS if each.startswith("sessions")])
@pytest.mark.parametrize("idle", [[[]], [[record(31, key=2)]], [[record(31, key=2)], [record(32, key=2)]]], ids=len)
def test_a_session_that_ends_with_the_history_goes_on_in_any_micro_batch_before_the_watermark(name, idle):
    """Gap 4 s, or 1 s of a record; the sessions of keys 1 and 3 end at 30 s, and a record at 30 s comes last."""
    gap = 1 if "gaps" in name else 4
    history, last = [record(30 - gap), record(30 - gap, key=3), record(30 - 2 * gap, key=4)], record(30, n=7)
    stream = [(records, 0, 0) for records in [*idle, [last]]] + [([], watermark(30.5), 0), ([], watermark(90), 0)]
    told, rows = Story(history, stream, BEGIN + 30 * SECOND), []
    for ours, theirs in both(name, told, held=False):
        assert ours == theirs
        rows += ours
    fired = {(row["k0"], row[flat.START]) for row in map(json.loads, rows)}
    assert (1, BEGIN + (30 - gap) * SECOND) in fired
    assert {key for key, _ in fired} <= {1, 2}


def test_the_history_waits_for_the_first_tick():
    found = warmed([record(29)], 30, "hopping, combined, early by ticks")
    assert found.step([], 0, clock=SECOND) == []
    assert ends(found.step([], 0, clock=8 * SECOND)) == {(1, end): 1 for end in range(31, 50)}
    assert found.step([], 0, clock=16 * SECOND) == []


# --- the first stage of the stream ----------------------------------------------------------------------------------


def batch(found, *seconds):
    times = [None if second is None else record(second)[0] for second in seconds]
    columns = {"time": times, "key": [1] * len(times), "n": [1] * len(times), "s": ["a"] * len(times)}
    types = {"time": pa.int64(), "key": pa.int64(), "n": pa.int64(), "s": pa.string()}
    return pa.RecordBatch.from_arrays([pa.array(columns[name], types[name]) for name in types], [*types])


@pytest.mark.parametrize("name", [CLOSE, "few slices, eager, on close"])
@pytest.mark.parametrize("partition", [0, 1])
def test_records_of_the_stream_in_its_history_are_dropped_and_counted(name, partition):
    found = Bucket(name)
    stage = NotBefore(found.stage, BEGIN + 30 * SECOND)
    rows = pa.Table.from_batches(stage([batch(found, 29, 30, None), batch(found, 29.999)], partition))
    assert rows[BEFORE_WARM].to_pylist()[0] == sum(rows[BEFORE_WARM].to_pylist()) == 2
    assert sum(rows["no_time"].to_pylist()) == 1
    assert [end for _, end in sorted(ends(found_rows(found, rows)))] == found_ends(found)


def found_rows(found, rows):
    bucket = found.bucket()
    bucket.accept(found.execution_plan.shipped(rows.to_pydict()))
    return [
        row
        for frame in bucket.close(MicroBatchTime(BEGIN + DAY, 0))
        for row in flat_windows(found.execution_plan.shape, frame, found.emission).to_pylist()
    ]


def found_ends(found):
    return [(end - BEGIN) // SECOND for _, end in found.window.windows_of(BEGIN + 30 * SECOND)]


@pytest.mark.parametrize("partition", [0, 1])
def test_what_is_dropped_is_counted_where_nothing_is_left(partition):
    found = Bucket(CLOSE)
    rows = pa.Table.from_batches(NotBefore(found.stage, BEGIN + 30 * SECOND)([batch(found, 1, 2, 3)], partition))
    assert sum(rows[BEFORE_WARM].to_pylist()) == 3
    assert rows["block"].null_count == len(rows)
    assert sum(rows["no_time"].to_pylist()) == 0
