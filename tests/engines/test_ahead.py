"""Records far ahead of the others: what a process keeps, and slices that are written once, are as without them."""

import numpy as np
import pytest
from oracle import evenly, seeds
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario

from slicing.engines.sliced.ahead import newest_ordinary, newest_reached
from slicing.state import bucket_cache as memory
from slicing.state import pages, slice_groups
from slicing.triggers.emission import early, on_change, on_close, on_update

EMISSIONS = {
    str(emission): emission
    for emission in (
        on_close(),
        on_close(corrections=True),
        on_update(),
        on_update(latest_only=True),
        on_change(),
        early(records=3),
        early(every="20 milliseconds"),
    )
}
DELAY, STEP, STEPS = 90, 4, 40


@pytest.mark.parametrize(
    ("slices", "newest"),
    [([7], 7), ([1, 2, 9, 12], 12), ([1, 2, 3, 99], 3), ([1, 50, 51, 52, 99, 100], 52), ([1, 98, 99, 100], 100)],
)
def test_what_is_far_ahead_of_most_is_not_ordinary(slices, newest):
    assert newest_ordinary(np.array(slices), 10) == newest


@pytest.mark.parametrize(("start", "newest"), [(0, 22), (2, 22), (12, 22), (30, 40), (60, 60), (89, 99), (150, 150)])
def test_what_follows_a_slice(start, newest):
    assert newest_ordinary(np.array([2, 12, 22, 40, 99]), 10, start) == newest


def test_spans_are_followed_to_the_first_gap():
    spans = np.array([(40, 45), (0, 3), (90, 91), (12, 31), (5, 14)])
    assert [newest_reached(spans, start, 10) for start in (2, 8, 44, 60, 85)] == [44, 44, 44, 60, 90]


def ran(emission, ahead, judged=False, ordered=False, kind=None):
    """A stream in order, a few slices in a micro-batch; `ahead` has slices more to come beside, by micro-batch.

    Returns the pages read in each micro-batch and the rows that each wrote.
    """
    kind = kind or Even.of(12, 1)
    results, grace = ("joined",) if ordered else ("sum", "most"), 20_000 if emission.fires_late else 0
    one, costs, family = Scenario(kind, emission, grace, results=results), [], kind.window.family
    for number in range(STEPS):
        first = STEP * number
        again = [first - 5] if number % 3 == 0 else []
        records = evenly(family, [*again, *range(first, first + STEP), *ahead.get(number, ())], keys=4)
        if number in ALONE and number in ahead:
            records = evenly(family, ahead[number])
        watermark, now = int(family.slice_start(max(0, first - DELAY))) // 1000, 1000 + 7 * number
        one.store.forget_counts()
        (one.step if judged else one.emit)(records, watermark, now)
        costs.append((one.store.reads, one.written))
    if judged:
        one.drain()
    return costs


ALONE = (15, 16)
BESIDE = {12: [4 * 12 + 80]}
"""A slice that the watermark does not come to, ahead by more than a window and by less than the delay."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", EMISSIONS)
def test_a_record_far_ahead_costs_its_own_reads_only(name, monkeypatch):
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)
    plain, with_one = (np.array(ran(EMISSIONS[name], ahead)) for ahead in ({}, BESIDE))
    reads, written = (with_one - plain)[12:].sum(axis=0)
    assert plain[12:, 1].sum() > 400
    assert reads <= 0.05 * plain[12:, 0].sum() + 6
    assert written <= 0.15 * plain[12:, 1].sum()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["on_update()", "on_update(latest_only=True)", "early(records=3)"])
def test_a_micro_batch_of_nothing_else_is_read_for_once(name, monkeypatch):
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)
    plain, with_some = (np.array(ran(EMISSIONS[name], ahead)) for ahead in ({}, {15: [160], 16: [260]}))
    # Apart from that, pages are merged in other micro-batches.
    assert abs((with_some - plain)[17:, 0].sum()) <= 10


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "ordered"), [(name, bool(at % 2)) for at, name in enumerate(EMISSIONS)])
def test_results_are_right_with_records_far_ahead(name, ordered, monkeypatch):
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)
    ahead = {3: [90, 91], 4: [200], 8: [90, 140], 9: [1000, 90], 20: [180, 90], 25: [300], 15: [180], 16: [181, 500]}
    ran(EMISSIONS[name], ahead, judged=True, ordered=ordered)


@pytest.mark.parametrize("seed", seeds(1, 200))
def test_random_records_far_ahead(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(slice_groups, "CUT_BYTES", int(rng.choice([1, 300, 16_000])))
    monkeypatch.setattr(pages, "FAN_IN", int(rng.choice([2, 3, 8])))
    monkeypatch.setattr(memory, "KEPT_BYTES", int(rng.choice([0, 3000, 1 << 30])))
    size = int(rng.integers(1, 20))
    kind = Even.of(size, int(rng.integers(1, size + 1)), int(rng.integers(-100, 100)))
    steps = rng.choice(STEPS, 15, replace=False).tolist()
    ahead = {step: (STEP * step + rng.integers(0, 400, int(rng.integers(1, 4)))).tolist() for step in steps}
    emission = list(EMISSIONS.values())[seed % len(EMISSIONS)]
    ran(emission, ahead, judged=True, ordered=seed % 4 == 3, kind=kind)


def test_rows_far_ahead_have_pages_of_their_own():
    one = Scenario(Even.of(12, 1), on_close(), results=("sum",))
    for number in range(30):
        slices = [*range(2 * number, 2 * number + 2), 500 + number]
        one.step(evenly(one.kind.window.family, slices), max(0, 2 * number - 40))
        spans = [(first, end) for _, first, end, *_ in one.bucket().head.fresh]
        assert all(end - first < 2 * 60 for first, end in spans)
        assert len(spans) < 3 * pages.FAN_IN
    one.drain()


def test_what_is_kept_is_where_records_come_to():
    """Of the slices around the record far ahead none was kept before, and all others are."""
    one = Scenario(Even.of(12, 1), on_update(), results=("sum",))
    for number in range(30):
        one.step(evenly(one.kind.window.family, [number, *([139] if number == 20 else [])]), 0)
        bucket = one.bucket()
        assert bucket.slices.cache.first <= max(0, number - 11)
