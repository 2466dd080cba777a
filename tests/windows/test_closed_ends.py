"""Windows that are open or closed at other ends than here, as Polars names them: exact by one microsecond."""

import random

import pytest

from slicing import hopping, sliding, tumbling
from slicing.stages.local_runner import bounded

EVERY = 600_000_000
LESS, MORE = f"{EVERY - 1} microseconds", f"{EVERY + 1} microseconds"
HOLDS = {
    "left": lambda start, time, end: start <= time < end,
    "right": lambda start, time, end: start < time <= end,
    "both": lambda start, time, end: start <= time <= end,
    "none": lambda start, time, end: start < time < end,
}
EVEN = {
    "left": (tumbling("10 minutes"), 0),
    "right": (tumbling("10 minutes", closed="right"), 0),
    "both": (hopping(MORE, advance="10 minutes"), 0),
    "none": (hopping(LESS, advance="10 minutes", offset="1 microsecond", gaps=True), 1),
}
"""The windows here, and how much later they start than those of Polars."""
ROLLING = {"right": sliding(LESS, right=False), "both": sliding("10 minutes", right=False)}


def times(seed):
    """Instants on edges, beside them, and anywhere."""
    rng = random.Random(seed)
    edges = [rng.randrange(4) * EVERY + rng.choice([-1, 0, 1, rng.randrange(EVERY)]) for _ in range(30)]
    return [max(0, time) for time in edges]


@pytest.mark.parametrize("closed", EVEN)
def test_windows_of_equal_distances(closed):
    window, later = EVEN[closed]
    records = times(closed)
    found = {row.start - later: row.records for row in bounded(window, records).rows}
    counts = {s * EVERY: sum(HOLDS[closed](s * EVERY, t, (s + 1) * EVERY) for t in records) for s in range(-1, 5)}
    assert found == {start: count for start, count in counts.items() if count}


@pytest.mark.parametrize("closed", ROLLING)
def test_windows_that_end_with_a_record(closed):
    records = times(closed)
    found = {row.end - 1: row.records for row in bounded(ROLLING[closed], records).rows}
    assert found == {at: sum(HOLDS[closed](at - EVERY, time, at) for time in records) for at in records}
