"""Slices that are retained though no window needs them, against the records so far and the same stream without.

The truth is that of lookups: windows are asked for their edges, records are late by the windows of the query alone.
"""

import random
from dataclasses import replace

import pytest
from golden.every_kind import BEGIN, EAGER, IN_TURNS, MIXED, SCENARIOS, SECOND, WINDOWS, Line
from oracle import few, seeds
from test_look import OTHERS, TIMED, Asking, Truth, batches

from slicing import tumbling

STEPS = 30
NAMES = [name for name in TIMED if SCENARIOS[name][1] not in (EAGER, MIXED)]


def retaining(name, steps=STEPS):
    line = Asking(name)
    line.retain = steps * WINDOWS[SCENARIOS[name][0]][1]
    line.fingerprint = replace(line.fingerprint, retain=line.retain)
    return line


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", few(IN_TURNS, NAMES))
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_windows_that_have_closed_are_whole_as_long_as_their_slices_are_retained(name, seed):
    plain, line = Line(name), retaining(name)
    truth, closed = Truth(line, SCENARIOS[name][1]), 0
    for each in batches(SCENARIOS[name][0], seed):
        truth.add(*each)
        assert line.step(*each) == plain.step(*each)
        if line.store.text is None:
            continue
        all_windows, found = truth.of_time(line.window), line.ask()
        assert all(row[0] == truth.expected(all_windows[place]) for place, row in found.items())
        since = truth.watermark - line.retain if truth.watermark else -(1 << 62)
        assert {place for place in all_windows if place[2] >= since} <= found.keys()
        closed += sum(truth.is_closed(place[3]) for place in found)
    assert closed > 10


@pytest.mark.parametrize("name", [f"{windows}, combined, on close" for windows in OTHERS])
def test_longer_windows_that_lie_in_retained_slices_are_whole(name):
    line, other = retaining(name), tumbling("10 seconds")
    window = next(each for each in (other, *OTHERS[SCENARIOS[name][0]]) if name.startswith("hopping") or each != other)
    truth, closed = Truth(line, SCENARIOS[name][1]), 0
    for each in batches(SCENARIOS[name][0], 9):
        truth.add(*each)
        line.step(*each)
        if line.store.text is None:
            continue
        all_windows, found = truth.of_time(window), line.ask(other=window)
        assert all(row[0] == truth.expected(all_windows[place]) for place, row in found.items())
        since = truth.watermark - line.retain if truth.watermark else -(1 << 62)
        assert {place for place in all_windows if place[2] >= since} <= found.keys()
        closed += sum(truth.is_closed(place[3]) for place in found)
    assert closed


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", few(IN_TURNS, NAMES))
def test_more_or_less_is_retained_from_any_micro_batch_on(name):
    """Rows are those without, and nothing that a lookup finds lacks a record."""
    rng, plain, line = random.Random(name), Line(name), retaining(name)
    truth = Truth(line, SCENARIOS[name][1])
    for each in [*batches(SCENARIOS[name][0], 10), *batches(SCENARIOS[name][0], 11)[:8]]:
        line.fingerprint = replace(line.fingerprint, retain=rng.choice([0, line.retain // 3, line.retain]))
        truth.add(*each)
        assert line.step(*each) == plain.step(*each)
        if line.store.text is not None:
            all_windows = truth.of_time(line.window)
            assert all(row[0] == truth.expected(all_windows[place]) for place, row in line.ask().items())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("on close", "corrections"))])
def test_slices_leave_once_the_watermark_has_passed_them_by_so_much(name):
    line, step = retaining(name, 10), WINDOWS[SCENARIOS[name][0]][1]
    made = batches(SCENARIOS[name][0], 12)
    for each in made:
        line.step(*each)
    before, (_, watermark, clock) = line.ask(), made[-1]
    for ahead in (500, 1000, 1500):
        records = [[BEGIN + ahead * step, 1, 1, "a", SECOND]]
        line.step(records, watermark + (ahead - 500) * step // 1000, clock)
    assert before
    assert not line.ask().keys() & before.keys()
    assert len(line.store.pages) < 20
