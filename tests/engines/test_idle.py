"""`.idle(after=)`: a bucket without input closes windows as one whose watermark is told to go on with the clock."""

import random

import pytest
from streams import MINUTE, SECOND, START

from slicing import cumulating, early, group_by, hopping, on_close, on_update, session, sliding, tumbling
from slicing.engines.lifecycle import restart_idle
from slicing.errors import InvalidValue
from slicing.stages.local_runner import _Run
from slicing.triggers.trigger import MicroBatchTime

AFTER = 30 * SECOND
WINDOWS = [
    tumbling("1 minute"),
    hopping("3 minutes", advance="1 minute"),
    cumulating("4 minutes", step="1 minute"),
    session("90 seconds"),
    sliding("1 minute"),
]
TRIGGERS = [on_close(), on_update(), on_close(corrections=True), early(records=2, per="window")]


def batches(seed):
    """Times, Spark's watermark and the clock: bursts of records, and pauses in which only the clock moves.

    Times are None in a micro-batch without data, and empty in one with records of other buckets alone.
    """
    rng, now, clock, greatest = random.Random(seed), START, START + 7 * SECOND, None
    for number in range(60):
        times = [] if rng.random() < 0.6 else [now - rng.randrange(90) * SECOND for _ in range(rng.randrange(1, 4))]
        has_data = bool(times) or number % 2 > 0
        yield times if has_data else None, 0 if greatest is None else greatest - 20 * SECOND, clock
        greatest = max([*times, *([] if greatest is None else [greatest])], default=None)
        step = rng.choice([0, 1, 10, 29, 30, 31, 200]) * SECOND
        now, clock = now + rng.choice([0, step]), clock + step


def played(window, trigger, made, idle):
    """Rows and late records of each micro-batch, every one on the state that the one before has stored."""
    run = _Run(window, trigger, MINUTE)
    for number, (times, watermark, clock) in enumerate(made):
        bucket, late = run.bucket(trigger), None
        if times is not None:
            shipped, _ = run.ship(times)
            late = bucket.accept(shipped)
            restart_idle(bucket.head, shipped)
        at = MicroBatchTime(watermark, clock, idle)
        rows = [row for windows in bucket.close(at) for row in run.out(windows, number)]
        yield rows, late and (late.all, late.some)


def told(made):
    """The same with the watermark that there should be, from all that has happened so far."""
    moved, greatest, last, streams = None, 0, 0, 0
    for times, watermark, clock in made:
        if moved is None or times or watermark > streams:
            moved, last, streams = clock, max(watermark, greatest), watermark
        waited = clock - moved
        greatest = max(greatest, watermark, last + waited if last and waited >= AFTER else 0)
        yield times, greatest, clock


@pytest.mark.one_in(4)
@pytest.mark.parametrize("trigger", TRIGGERS, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_close_as_if_event_time_had_gone_on(window, trigger):
    early, late = 0, 0
    for seed in range(4):
        made = list(batches(seed))
        found = list(played(window, trigger, made, AFTER))
        assert found == list(played(window, trigger, told(made), 0))
        plain = list(played(window, trigger, made, 0))
        early += found != plain
        late += sum(each[0] for _, each in found if each) - sum(each[0] for _, each in plain if each)
    assert early
    assert late > 0


def test_it_is_off_by_default_and_leaves_nothing_in_the_header():
    run = _Run(tumbling("1 minute"), on_close(), 0)
    for times, watermark, clock in batches(1):
        bucket = run.bucket(on_close())
        if times:
            bucket.accept(run.ship(times)[0])
        list(bucket.close(MicroBatchTime(watermark, clock)))
    assert run.bucket(on_close()).head.idle == []


def test_less_than_a_second_is_refused():
    with pytest.raises(InvalidValue, match=r"`after` must be at least 1 second, .* got '10 milliseconds'"):
        group_by("user").window(tumbling("1 hour"), time="ts").idle(after="10 milliseconds")
    asked = group_by("user").window(tumbling("1 hour"), time="ts").idle(after="1 minute")
    assert "idle('1 minute')" in repr(asked)
