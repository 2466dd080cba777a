"""Records at the ends of int64 microseconds: in the windows that have bounds there, and counted if there is none."""

import numpy as np
import pyarrow as pa
import pytest

from slicing import by_edges, counting, cumulating, hopping, on_update, session, sliding, tumbling, unbounded
from slicing.stages.local_runner import LOST, _Run, bounded, stream
from slicing.triggers.emission import on_close
from slicing.windows.sets import windows_of_call
from slicing.windows.time.edges import AFTER, BEFORE

MINUTE = 60 * 10**6
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
NEAR = [0, 1, MINUTE, 29 * MINUTE, 61 * MINUTE, 5 * HOUR]
TIMES = [BEFORE + shift for shift in NEAR] + [AFTER - shift for shift in NEAR]


def even(size, advance, offset=0):
    def of(time):
        last = (time - offset) // advance
        starts = (offset + number * advance for number in range(last - size // advance - 1, last + 1))
        return [(start, start + size) for start in starts if start <= time < start + size]

    return of


def growing(size, step):
    def of(time):
        start = time // size * size
        return [(start, start + at) for at in range(step, size + 1, step) if start + at > time]

    return of


def tailed(size, advance, tail):
    def of(time):
        ends = range(time // advance * advance, time + size + 2 * tail, advance)
        found = [((end - size) // tail * tail, end) for end in ends]
        return [(start, end) for start, end in found if start <= time < end]

    return of


LIST = [BEFORE + 2, BEFORE + HOUR, 0], [BEFORE + MINUTE, BEFORE + 2 * HOUR, AFTER - MINUTE]
KINDS = {
    "tumbling": (tumbling("1 hour"), even(HOUR, HOUR)),
    "offset": (tumbling("1 hour", offset="7 minutes"), even(HOUR, HOUR, 7 * MINUTE)),
    "hopping": (hopping("1 hour", "10 minutes"), even(HOUR, 10 * MINUTE)),
    "odd": (hopping("61 minutes", "10 minutes"), even(61 * MINUTE, 10 * MINUTE)),
    "cumulating": (cumulating("1 hour", "10 minutes"), growing(HOUR, 10 * MINUTE)),
    "tail": (hopping("2 hours", "10 minutes", tail="1 hour"), tailed(2 * HOUR, 10 * MINUTE, HOUR)),
    "several": (
        windows_of_call([hopping("1 hour", "10 minutes"), hopping("2 hours", "10 minutes")], {}, False),
        lambda time: even(HOUR, 10 * MINUTE)(time) + even(2 * HOUR, 10 * MINUTE)(time),
    ),
    "edges": (by_edges(*LIST), lambda time: [each for each in zip(*LIST, strict=True) if each[0] <= time < each[1]]),
    "session": (session("10 minutes"), lambda time: [(time, time + 10 * MINUTE)]),
    "sliding": (
        sliding("10 minutes", right=False, unit="1 microsecond"), lambda time: [(time - 10 * MINUTE, time + 1)]
    ),
}  # fmt: skip


def counters(window, times):
    """How many records the first stage counts as without a time, and as without a window."""
    run = _Run(window, on_close() if window.closes else on_update(), 0)
    columns = {"time": pa.array(times, pa.int64()), "k0": pa.nulls(len(times), pa.bool_())}
    rows = pa.Table.from_batches(run.stage([pa.RecordBatch.from_pydict(columns)]))
    return sum(rows["no_time"].to_pylist()), sum(rows["no_window"].to_pylist())


@pytest.mark.parametrize("name", KINDS)
def test_each_record_is_in_the_windows_with_bounds_or_is_counted(name):
    window, of = KINDS[name]
    for time in TIMES:
        wanted = sorted((start, end) for start, end in of(time) if start >= BEFORE and end < AFTER)
        gone = (0, 1) if not of(time) else (int(not wanted), 0)
        assert counters(window, [0, time]) == gone, time
        once = bounded(window, [time])
        assert sorted((row.start, row.end) for row in once.rows) == wanted, time
        assert (once.batches[0].outcomes == (LOST,)) == (not wanted)
        if time > 0:
            end = max((end for _, end in wanted), default=AFTER - 1000) // 1000 * 1000 + 1000
            closed = stream(window, [[time], []], [None, min(end, AFTER // 1000 * 1000)])
            assert {(row.start, row.end) for row in closed.rows} <= set(wanted)
            assert len(closed.rows) >= sum(end <= AFTER // 1000 * 1000 for _, end in wanted)


@pytest.mark.parametrize(
    "window",
    [
        tumbling("1 day", zone="Europe/Berlin"),
        tumbling("1 hour", zone="Europe/Berlin"),
        cumulating("1 month", "1 day", zone="UTC"),
        hopping("2 days", "1 hour", tail="1 day", zone="Europe/Berlin"),
        sliding("10 minutes"),
    ],
    ids=str,
)
def test_at_the_ends_there_is_no_window_of_a_clock(window):
    for time in (BEFORE, BEFORE + 1, AFTER - 1, AFTER):
        assert counters(window, [0, time]) == (1, 0)
        assert not bounded(window, [time]).rows
        assert not stream(window, [[time], []], [None, AFTER // 1000 * 1000]).rows


def test_a_window_without_bounds_has_every_record():
    times = [BEFORE, BEFORE + 1, 0, AFTER - 1, AFTER]
    assert counters(unbounded(), times) == (0, 0)
    assert [row.records for row in bounded(unbounded(), times).rows] == [5]
    assert [row.records for row in stream(unbounded(), [times], [None], on_update()).rows] == [5]


def test_a_count_window_ends_after_its_last_record():
    assert counters(counting(1), [BEFORE, AFTER - 1]) == (0, 0)
    assert counters(counting(1), [0, AFTER]) == (1, 0)
    assert len(bounded(counting(1), [BEFORE, 0, AFTER - 1, AFTER]).rows) == 3


def test_records_of_other_times_are_not_asked_one_by_one():
    """The earliest and the latest record tell that all are in windows."""
    asked = []

    class Noted(type(tumbling("1 hour").family)):
        def in_time(self, index, times):
            asked.append(len(index))
            return super().in_time(index, times)

    run = _Run(tumbling("1 hour"), on_close(), 0)
    object.__setattr__(run.stage.shape, "family", Noted(HOUR, HOUR))
    times = np.arange(1000) * MINUTE
    columns = {"time": pa.array(times, pa.int64()), "k0": pa.nulls(len(times), pa.bool_())}
    list(run.stage([pa.RecordBatch.from_pydict(columns)]))
    assert asked == [2]
