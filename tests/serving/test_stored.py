"""Which rows a stream emits to be served, in this process: as of each watermark and later, they make the windows."""

import random

import pytest

from slicing import cumulating, hopping, tumbling
from slicing.serving import Levels, Windows, needed
from slicing.serving.levels import Stored
from slicing.spark.serving import windows_to_store
from slicing.stages.local_runner import LATE, _Run, stream
from slicing.triggers.emission import on_close
from slicing.triggers.stored import OnStored
from slicing.windows.as_of import held_now, start_as_of
from slicing.windows.sets import windows_of_call

MINUTE = 60_000_000
HOUR = 60 * MINUTE
START = 1_700_006_400_000_000
KINDS = {
    "hopping": [hopping("10 minutes", "1 minute")],
    "several": [hopping("10 minutes", "1 minute"), hopping("1 hour", "2 minutes")],
    "tail": [hopping("3 hours", "1 minute", tail="1 hour")],
    "tails": [
        hopping("10 minutes", "1 minute"),
        hopping("2 hours", "1 minute", tail="30 minutes"),
        hopping("5 hours", "1 minute", tail="2 hours"),
    ],
    "cumulating": [cumulating("6 hours", "10 minutes")],
    "summer time ends": [tumbling("1 day", zone="Europe/Berlin")],
}
AUTUMN = 1_730_008_800_000_000
"""8 o'clock in Berlin, on 27 October 2024, which has 25 hours."""


def micro_batches(seed, count=80):
    """Times of records, mostly in order; some are hours late, with days two days."""
    choice, now, most = random.Random(seed), START, 8 * HOUR
    if seed == "summer time ends":
        now, most = AUTUMN, 48 * HOUR
    for _ in range(count):
        now += choice.choice([5 * MINUTE, 10 * MINUTE, 40 * MINUTE])
        late = [choice.choice([0, 0, choice.randint(0, most)]) for _ in range(6)]
        yield [now + choice.randint(0, 5 * MINUTE) - each for each in late]


@pytest.mark.parametrize("kind", KINDS)
def test_stored_rows_make_the_windows_as_of_the_watermark_and_later(kind):
    window = windows_of_call(KINDS[kind], {}, long=False)
    levels, families = Levels.of(window), held_now(window)
    held, grace = windows_to_store(window, levels)
    trigger = OnStored(1 + len(levels.tails))
    replay = stream(held, list(micro_batches(kind)), 3 * MINUTE, trigger, grace)
    store, read, merged = {}, [], 0
    emitted = iter(replay.rows)
    row = next(emitted)
    for number, batch in enumerate(replay.batches):
        while row is not None and row.batch == number:
            assert row.part < trigger.levels
            assert (row.part, row.start) not in store or store[row.part, row.start][1] <= row.records
            store[row.part, row.start] = row.end, row.records
            row = next(emitted, None)
        read += batch.times
        if batch.watermark is None:
            continue
        gone = needed(families, batch.watermark)
        for late in (time for time, outcome in zip(batch.times, batch.outcomes, strict=True) if outcome == LATE):
            assert all(late < start_as_of(each, batch.watermark) for each in families)
        newest = max(read)
        for t in (levels.around(batch.watermark)[0], newest, newest + HOUR):
            cover = Windows(window, levels).cover(t, Stored(gone, levels.ended(batch.watermark)))
            for start, parts in zip(cover.starts, cover.parts, strict=True):
                assert parts is not None
                merged += any(part.level for part in parts)
                found = sum(
                    records
                    for part in parts
                    for (level, begin), (_, records) in store.items()
                    if level == part.level and part.low <= begin < part.high
                )
                assert found == sum(start <= each < parts[-1].high for each in read)
    assert merged or not levels.tails


def test_the_state_is_as_small_as_that_of_the_windows():
    """A key has 6 slices of 10 minutes and about 120 steps of an hour, instead of 720 slices."""
    window = hopping("5 days", "10 minutes", tail="1 hour")
    held, grace = windows_to_store(window, Levels.of(window))
    runs = [_Run(held, OnStored(2), grace), _Run(window, on_close(), 0)]
    for number in range(6 * 24):
        at = START + number * HOUR
        for run in runs:
            run.step(
                [at + each * 10 * MINUTE for each in range(6)], at - MINUTE if number else None, number, number, []
            )
    stored, own = (sum(map(len, run.store.pages.values())) for run in runs)
    assert stored < 1.3 * own, (stored, own)
