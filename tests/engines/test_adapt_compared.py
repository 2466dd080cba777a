"""Windows that are added and removed under `on_change` and in wide rows, against the records.

Under `on_change` the first whole window of windows that are new has a row for every key with records, as the one before
is not whole. In wide rows the columns of windows that are not whole are null.
"""

import random

import pytest
from adapting import SECOND, Model, Query, close_to, order, stream
from oracle import seeds

from slicing import hopping, on_change, on_close, tumbling
from slicing.state import bucket_cache
from slicing.state.store import MemoryStore

POOL = [
    hopping("5 seconds", "1 second"),
    hopping("3 seconds", "1 second"),
    hopping("20 seconds", "1 second"),
    tumbling("1 second"),
]
"""Windows of which one ends at each second."""
NAMES = ["rows", "total", "most", "mean", "least"]


class Compared(Model):
    """The rows of `on_change`: those of windows that differ from the one before as it was when it closed."""

    def __init__(self):
        super().__init__()
        self.held = {}  # (length, end, key) -> start and results, of all windows that have closed

    def change(self, query):
        """Let another query go on; what is removed is forgotten."""
        super().change(query)
        lengths = set(map(length_of, query.members))
        self.held = {place: found for place, found in self.held.items() if place[0] in lengths}

    def wide(self, watermark):
        """The wide rows of windows that a watermark closes, and of the windows before these."""
        rows = {}
        for start, end, key, results in self.close(watermark):
            self.held[end - start, end, key] = start, results
            rows[end, key] = None
        return [(end, key, self._row(end, key), self._row(end - SECOND, key)) for end, key in rows]

    def _row(self, end, key):
        nothing = None, dict.fromkeys(self.query.names)
        return {
            (repr(each), name): value
            for each in self.query.members
            for name, value in self.held.get((length_of(each), end, key), nothing)[1].items()
        }

    def changed(self, watermark):
        """The rows of windows that a watermark closes and that are not as the ones before."""
        closed = sorted(self.close(watermark), key=order)
        self.held |= {(end - start, end, key): (start, results) for start, end, key, results in closed}
        return [
            (start, end, key, results)
            for start, end, key, results in closed
            if self.held.get((end - start, end - SECOND, key), (None, None))[1] != results
        ]


def length_of(window):
    start, end = window.windows_of(100 * SECOND)[0]
    return end - start


def compare(seed, names=NAMES, changes=3, batches=40, retain=0):
    """A chain of three changes; how many rows, and how many windows were not emitted as they are as before."""
    rng = random.Random(seed)
    store, model = MemoryStore(), Compared()
    query = Query(rng.sample(POOL, rng.choice([1, 2])), rng.sample(names, 2), on_change(), retain=retain)
    model.change(query)
    at, rows = set(rng.sample(range(5, batches), changes)), 0
    for number, (records, watermark) in enumerate(stream(rng, batches)):
        if number in at:
            query = Query(rng.sample(POOL, rng.choice([1, 2, 3])), query.names, on_change(), retain=retain)
            model.change(query)
            if rng.random() < 0.5:
                bucket_cache._kept.clear()
        model.add(records)
        found, wanted = sorted(query.step(store, records, watermark)[0], key=order), model.changed(watermark)
        assert len(found) == len(wanted), (seed, number, found, wanted)
        assert all(map(close_to, found, wanted)), (seed, number, found, wanted)
        rows += len(found)
    return rows, len(model.held) - rows


@pytest.mark.parametrize("seed", seeds(8, 150))
def test_chains_of_windows_that_are_compared_equal_the_records(seed):
    assert compare(seed)[0] > 20


def wide_rows(seed, emission, changes=3, batches=40):
    """A chain of three changes of windows side by side; how many columns were null that later had values."""
    rng = random.Random(seed)
    store, model = MemoryStore(), Compared()
    names = rng.sample(NAMES, 2)
    query = Query(rng.sample(POOL, 2), names, emission, wide=True)
    model.change(query)
    at, rows, nulls = set(rng.sample(range(5, batches), changes)), 0, 0
    for number, (records, watermark) in enumerate(stream(rng, batches)):
        if number in at:
            query = Query(rng.sample(POOL, rng.choice([2, 3])), names, emission, wide=True)
            model.change(query)
            if rng.random() < 0.5:
                bucket_cache._kept.clear()
        model.add(records)
        found, wanted = query.wide_step(store, records, watermark), model.wide(watermark)
        found, wanted = (sorted(each, key=lambda row: (row[0], repr(row[1]))) for each in (found, wanted))
        assert [row[:2] for row in found] == [row[:2] for row in wanted], (seed, number)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours[2] == pytest.approx(theirs[2]), (seed, number, ours, theirs)
        rows += len(found)
        nulls += sum(value is None for row in found for value in row[2].values())
    return rows, nulls


@pytest.mark.parametrize("seed", seeds(6, 120))
def test_chains_of_windows_side_by_side_equal_the_records(seed):
    rows, nulls = wide_rows(seed, on_close())
    assert rows > 10
    assert nulls
