"""The delay that records need: what one run counts has to be what runs with other delays refuse."""

import random

import numpy as np
import pytest

from slicing import by_edges, counting, cumulating, hopping, session, sliding, tumbling, unbounded
from slicing.stages import local_runner
from slicing.triggers.emission import ON_CLOSE, on_update
from slicing.triggers.required_delay import BOUNDS, NO_ENDS, FirstEnds, counted, joined, required_delays
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.sets import Set
from slicing.windows.time.edges import Every
from slicing.windows.time.slices import FOREVER

SECOND, MINUTE, HOUR = 10**6, 60 * 10**6, 3600 * 10**6
START = 1_714_564_800 * SECOND
HOLES = by_edges(Every(7 * MINUTE), Every(7 * MINUTE, 4 * MINUTE))
WINDOWS = {
    "tumbling": tumbling("1 minute"),
    "hopping": hopping("10 minutes", advance="20 seconds"),
    "hopping with gaps": hopping("20 seconds", advance="1 minute", gaps=True),
    "cumulating": cumulating("10 minutes", "1 minute"),
    "edges with gaps": HOLES,
    "days of a zone": tumbling("1 day", zone="Europe/Berlin"),
    "several": Set((hopping("10 minutes", advance="1 minute"), tumbling("15 seconds")), ("long", "short")),
    "sessions": session("30 seconds"),
    "sliding": sliding("1 minute"),
    "sliding, left": sliding("1 minute", right=False),
}


def stream(seed, batches=12, records=60, start=START):
    """Times with disorder, mostly short and sometimes long; jumps, empty micro-batches, duplicates."""
    chosen, at, found = random.Random(seed), start, []
    for _ in range(batches):
        at += chosen.choice([0, 5 * SECOND, MINUTE, 20 * MINUTE])
        late = (chosen.choice([0, 0, 1000, SECOND, MINUTE, 10 * MINUTE, HOUR]) for _ in range(records))
        times = [at - int(chosen.random() * most) for most in late] if chosen.random() < 0.9 else []
        found.append([*times, *times[:3]])
    return found


def run(window, batches, delay, grace=0, trigger=ON_CLOSE):
    """The records by the delay that they need, those that were refused, and those that were judged."""
    stage = local_runner._Run(window, trigger, grace)
    found, refused, newest = np.zeros(len(BOUNDS) + 1, np.int64), 0, None
    for number, times in enumerate(batches):
        bucket = stage.bucket(trigger)
        late = bucket.accept(stage.ship(times)[0])
        found += counted(required_delays(late.first_ends, bucket.head.watermark, delay, grace), late.first_ends.records)
        refused += late.all + late.some
        watermark = 0 if newest is None else max(0, newest // 1000 * 1000 - delay)
        for _ in bucket.close(MicroBatchTime(watermark, number)):
            pass
        newest = max([*times, *([] if newest is None else [newest])], default=None)
    return found, refused


@pytest.mark.one_in(4)
@pytest.mark.parametrize("grace", [0, 90 * SECOND])
@pytest.mark.parametrize("kind", WINDOWS)
def test_one_run_tells_what_every_other_delay_refuses(kind, grace):
    batches = stream(0)
    runs = {delay: run(WINDOWS[kind], batches, delay, grace) for delay in BOUNDS[::3]}
    for delay, (found, _) in runs.items():
        beyond = found.sum() - np.cumsum(found)
        predicted = {other: int(beyond[BOUNDS.index(other)]) for other in runs}
        assert predicted == {other: refused for other, (_, refused) in runs.items()}, delay
    refusals = {refused for _, refused in runs.values()}
    assert len(refusals) > 3 or kind == "days of a zone", "delays matter"


def test_records_are_counted_once_by_several_windows_and_not_in_gaps():
    batches = stream(1)
    both, _ = run(WINDOWS["several"], batches, MINUTE)
    assert both.sum() == sum(map(len, batches))
    inside = sum(time % (7 * MINUTE) < 4 * MINUTE for times in batches for time in times)
    assert run(HOLES, batches, MINUTE)[0].sum() == inside


def test_what_the_trigger_is_does_not_matter():
    batches = stream(2)
    found = [run(WINDOWS["hopping"], batches, MINUTE, 0, trigger)[0].tolist() for trigger in (ON_CLOSE, on_update())]
    assert found[0] == found[1]


@pytest.mark.parametrize("window", [counting(3), unbounded()])
def test_where_time_closes_no_window_no_delay_is_needed(window):
    trigger = on_update() if window == unbounded() else ON_CLOSE
    assert run(window, stream(3), 0, 0, trigger)[0].sum() == 0


def test_before_1970_no_delay_is_long_enough():
    batches = stream(4, start=-30 * MINUTE)
    found, refused = run(tumbling("1 minute"), batches, 0)
    assert refused > found[-1] > 0
    for delay in (0, HOUR, 100 * HOUR):
        assert run(tumbling("1 minute"), batches, delay)[1] >= found[-1]


def test_the_required_delay_is_the_shortest_that_suffices():
    """A window that ends at 10 ms; the newest record at 25 ms, the grace 3 ms: 12 ms are one too few."""
    ends = FirstEnds(np.array([10_000, 10_001, 22_000, 22_001, FOREVER]), np.ones(5, np.int64))
    assert required_delays(ends, 5_000, 20_000, 3_000).tolist() == [13_000, 12_000, 1_000, 0, 0]
    assert required_delays(ends, 0, 20_000, 3_000).tolist() == [0] * 5, "there is no watermark yet"


def test_bounds_belong_to_the_delays_that_reach_them():
    required = np.array([0, 1000, SECOND, SECOND + 1000, 7 * 24 * HOUR, 8 * 24 * HOUR])
    found = counted(required, np.array([1, 2, 4, 8, 16, 32]))
    assert {i: n for i, n in enumerate(found.tolist()) if n} == {0: 1, 1: 6, 2: 8, len(BOUNDS) - 1: 16, len(BOUNDS): 32}
    assert counted(np.zeros(0, np.int64), np.zeros(0, np.int64)).sum() == 0
    assert joined([]) is NO_ENDS
