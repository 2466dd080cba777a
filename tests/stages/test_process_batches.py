"""Functions that get the records of a window part by part, against the same functions of whole tables; without Spark.

Bounds are lowered, so that few records do not fit. What is measured is the peak of a process of its own.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from processing import MINUTE, Play, cut, random_records
from rooms import python_path
from test_process import ALL, BY_TIME, LISTED, listed, shifted

from slicing import (
    counting,
    early,
    group_by,
    hopping,
    keep_last,
    keep_newest,
    on_close,
    on_update,
    session,
    sliding,
    tumbling,
    unbounded,
    within_delta,
)
from slicing.aggregates import record_file
from slicing.aggregates.record_file import RecordFile
from slicing.assembly import partitions
from slicing.content import sizes
from slicing.errors import InvalidType, InvalidValue, TooLarge

PART = 7


def by_parts(key, window, records, context):
    """`listed` of small parts."""
    parts = [part["v"].to_pylist() for part in records]
    assert all(0 < len(part) <= PART for part in parts)
    values = [value for part in parts for value in part]
    return [(len(values), values)]


@pytest.fixture
def small(monkeypatch):
    """Partitions, pages and parts of few records; the windows that have been in a file."""
    monkeypatch.setattr(partitions, "PARTITION_BYTES", 250)
    monkeypatch.setattr(sizes, "PAGE_BYTES", 80)
    monkeypatch.setattr(record_file, "PART_ROWS", PART)
    files = []
    made = RecordFile.__init__
    monkeypatch.setattr(RecordFile, "__init__", lambda self, type_: made(self, type_) or files.append(self))
    return files


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ALL)
def test_bounded_input(name, seed, small, monkeypatch):
    records = shifted(random_records(seed, 140, 40 * MINUTE, keys=1))
    found = Play(ALL[name], by_parts, LISTED, streaming=False, batches=True).bounded(records)
    assert small or name not in BY_TIME or name == "hopping, gaps", "some windows do not fit"
    assert all(file._file is None or file._file.closed for file in small)
    monkeypatch.undo()
    assert sorted(found) == sorted(Play(ALL[name], listed, LISTED, streaming=False).bounded(records))


TRIGGERS = {
    "close": (on_close(), 0),
    "corrections": (on_close(corrections=True), 4 * MINUTE),
    "update": (on_update(), 0),
    "early": (early(records=3), 0),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("name", ["tumbling", "hopping, no multiple", "cumulating", "several", "session", "sliding"])
def test_streams(name, trigger, small, monkeypatch):
    emission, grace = TRIGGERS[trigger]
    batches = cut(shifted(random_records(3, 140, 40 * MINUTE, keys=1)), 3, 60)
    options = {"trigger": emission, "grace": grace}
    found = Play(ALL[name], by_parts, LISTED, batches=True, **options).stream(batches, 3 * MINUTE)
    assert small or name not in BY_TIME or trigger in ("update", "early"), "some windows do not fit"
    monkeypatch.undo()
    assert sorted(found, key=str) == sorted(
        Play(ALL[name], listed, LISTED, **options).stream(batches, 3 * MINUTE), key=str
    )


@pytest.mark.parametrize("window", [counting(9, advance=4), unbounded()], ids=str)
def test_windows_in_order_of_arrival(window, small, monkeypatch):
    batches = cut(random_records(4, 100, 40 * MINUTE, keys=2), 4)
    options = {"trigger": on_close() if window.closes else on_update()}
    found = Play(window, by_parts, LISTED, batches=True, **options).stream(batches)
    monkeypatch.undo()
    assert found == Play(window, listed, LISTED, **options).stream(batches)


@pytest.mark.parametrize("order", ["rising", "falling", "one time", "two times", "any"])
def test_a_slice_that_does_not_fit_is_in_the_order_of_time(order, small):
    """Equal times stay in the order in which they came."""
    random = np.random.default_rng(1)
    times = {
        "rising": np.arange(300),
        "falling": np.arange(300)[::-1],
        "one time": np.zeros(300),
        "two times": np.arange(300) % 2,
        "any": random.integers(0, 90, 300),
    }[order]
    records = [(int(time) * 1000, "a", number) for number, time in enumerate(times)]
    for play in (Play(tumbling("1 minute"), by_parts, LISTED, batches=True, streaming=i == 0) for i in range(2)):
        rows = play.bounded(records)
        assert [row[4] for row in rows] == [[number for _, _, number in sorted(records, key=lambda each: each[0])]]
    assert small


EVICTORS = {
    "last": [keep_last(4)],
    "more": [keep_last(4000)],
    "newest": [keep_newest("90 seconds")],
    "delta": [within_delta("v", 25)],
    "chain": [keep_newest("3 minutes"), within_delta("v", 60), keep_last(9)],
}


@pytest.mark.parametrize("name", EVICTORS)
@pytest.mark.parametrize("window", [tumbling("5 minutes"), hopping("9 minutes", advance="3 minutes")], ids=str)
def test_evictors_by_parts(window, name, small, monkeypatch):
    records = random_records(6, 150, 40 * MINUTE, keys=1)
    found = Play(window, by_parts, LISTED, batches=True, evict=EVICTORS[name]).stream([records])
    assert small
    monkeypatch.undo()
    assert sorted(found, key=str) == sorted(
        Play(window, listed, LISTED, evict=EVICTORS[name]).stream([records]), key=str
    )


def every(records, window, context):
    return [True] * len(records)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"evict": [every]}, "`every` is a function of all records of a window"),
        ({"window_bytes": 5}, "`window_bytes` bounds the records that a function gets at once"),
        ({"window": unbounded(), "trigger": on_update(), "after": [keep_last(2)]}, r"evict\(keep_last\(2\), after="),
    ],
)
def test_what_needs_whole_windows_is_refused(options, message):
    options = {"window": tumbling("1 minute"), **options}
    with pytest.raises(InvalidValue, match=message):
        Play(options.pop("window"), by_parts, LISTED, batches=True, **options)


def test_arguments_are_the_same_in_both_calls():
    days = group_by("user").window(tumbling("1 day"), time="ts")
    for call in (days.process, days.define_process):
        with pytest.raises(InvalidType, match=r"`process` has no argument `batch`. It takes returns, columns, batches"):
            call(by_parts, returns=LISTED, columns="v", batch=True)
        with pytest.raises(InvalidType, match=r"`batches` says .* True or False; got 5"):
            call(by_parts, returns=LISTED, columns="v", batches=5)
        with pytest.raises(InvalidType, match="`returns` is the types of the rows as DDL"):
            call(by_parts, columns="v")
    made = days.define_process(listed, returns=LISTED, columns="v", window_bytes=77)
    assert dict(made.results)["process"].source.window_bytes == 77


LARGE = {
    "tumbling": tumbling("1 day"),
    "hopping": hopping("1 day", advance="12 hours"),
    "session": session("1 hour"),
    "sliding": sliding("1 day", right=False),
    "counting": counting(500),
    "unbounded": unbounded(),
}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", LARGE)
def test_a_window_that_is_too_large_says_what_it_is(name, streaming):
    """Records, bytes, key, window, bound and remedy, also on bounded input; with parts it is no matter."""
    window, records = LARGE[name], [(number * 1_000_000, "a", number) for number in range(1000)]
    options = {"streaming": streaming, "trigger": on_update() if name == "unbounded" and streaming else on_close()}

    def rows(function, **more):
        play = Play(window, function, "n long", **options, **more)
        return play.stream([records]) if streaming else play.bounded(records)

    bound = r"at most 0.00381 MiB together \(`window_bytes`\); got 0.0\d+ MiB of [\d,]{3,5} records for key \('a',\)"
    with pytest.raises(TooLarge, match=bound + " in window.* Say `batches=True`"):
        rows(lambda key, window, records, context: [(len(records),)], window_bytes=4000)
    counted = rows(lambda key, window, records, context: [(sum(map(len, records)),)], batches=True)
    assert max(row[3] for row in counted) in (500, 1000)


PEAK = """
import resource, sys
import numpy as np
import pyarrow as pa
from processing import MINUTE, Play
from slicing import hopping, tumbling
from slicing.state.store import MemoryStore

count, streaming = int(sys.argv[1]), sys.argv[2] == "stream"
alive = 0

def total(key, window, records, context):
    found = size = 0
    for part in records:
        assert len(part) <= 1 << 16
        found, size = found + int(part["v"].to_numpy().sum()), size + len(part)
    return [(size, found)]

play = Play(tumbling("1 day"), total, "n long, total long", batches=True, streaming=streaming)
stage = play.execution_plan.first_stage((0,))

def batch(number, rows):
    times = pa.array(np.random.default_rng(number).integers(0, 86_400_000_000, rows))
    key = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["a"]).cast(pa.string())
    values = pa.array(np.ones(rows, np.int64))
    columns = {"time": times, "user": key, "v_ts": times.cast(pa.timestamp("us", "UTC")), "v_v": values}
    return pa.RecordBatch.from_pydict(columns)

def shipped():
    for number in range(count // 200_000):
        for made in stage([batch(number, 200_000)], number):
            yield from play.execution_plan.shipped(made.to_pydict())

(row,) = [row for windows in play.execution_plan.all_windows(shipped()) for row in play.rows(windows)]
assert row[3:5] == (count, count), row
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def peak(count, kind):
    """MiB of a process that goes through a window of so many records of one key, at times in any order."""
    environment = {**os.environ, "PYTHONPATH": python_path()}
    made = subprocess.run(
        [sys.executable, "-c", PEAK, str(count), kind], env=environment, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return int(made.stdout)


@pytest.mark.slow
def test_the_memory_of_a_window_is_bounded():
    """8 million records of 16 bytes take 500 MiB as one table, with what sorts them; parts take what 4 million do."""
    assert peak(8_000_000, "bounded") - peak(4_000_000, "bounded") < 40
