"""A warm start that retains slices: lookups of the past find what a cold replay of the same records has.

Both retain slices for 25 steps, whole windows of them::

    history    * *  *   * **  *|                     windows that begin from `until` - 25 steps on can be looked up
    stream                     | *  **   *  *
                             until
"""

from dataclasses import replace

import pytest
from golden.every_kind import EMISSIONS, IN_TURNS, SCENARIOS, WINDOWS
from oracle import few, seeds
from test_look import Asking
from test_retain import NAMES
from test_warm import BEGIN, SECOND, Bucket, record, story

from slicing import early
from slicing.state.format.header import Header

STEPS = 25


class Warm(Asking):
    """The bucket of a scenario that retains slices for some steps, which can be warmed and asked."""

    load = Bucket.load

    def __init__(self, name, steps=STEPS):
        super().__init__(name)
        self.retain = steps * WINDOWS[SCENARIOS[name][0]][1]
        self.fingerprint = replace(self.fingerprint, retain=self.retain)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", few(IN_TURNS, NAMES))
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_lookups_of_the_past_find_what_a_cold_replay_has(name, seed):
    """Rows are those of a warm start that retains nothing."""
    told = story(SCENARIOS[name][0], seed, "drop")
    warm, plain, cold, before = Warm(name), Warm(name, 0), Warm(name), 0
    cold.step(told.history, 0, 0)
    for each in (warm, plain):
        each.load(told.history, told.until, 1 + seed % 2)
    for number, each in enumerate(told.stream):
        cold.step(*each)
        assert warm.step(*each) == plain.step(*each), number
        if number % 3:
            continue
        found, wanted = warm.ask(), cold.ask()
        since = max(told.until, each[1] * 1000) - warm.retain
        assert {place for place in found if place[2] >= since} == {place for place in wanted if place[2] >= since}
        assert all(row == wanted[place] for place, row in found.items() if place in wanted), number
        before += sum(place[3] <= told.until for place in found)
    assert before


def test_retained_records_of_a_history_count_for_no_trigger(monkeypatch):
    """Records count by key until it fires: one in an open window, and four in windows that end before `until`."""
    monkeypatch.setitem(EMISSIONS, "by key", early(records=5, per="key"))
    monkeypatch.setitem(SCENARIOS, "by key", ("few slices", "combined", "by key"))
    warm = Warm("by key")
    warm.load([record(second) for second in (5, 6, 7, 8, 29)], BEGIN + 30 * SECOND)
    assert {(place[2] - BEGIN) // SECOND for place in warm.ask() if place[3] <= BEGIN + 20 * SECOND} == {4, 7}
    assert warm.step([record(30)], 0, 0)[0] == []
    assert warm.step([record(31), record(32), record(32)], 0, 0)[0]


def test_retained_slices_of_a_history_leave_as_those_of_a_stream_do():
    """Windows of 6 s begin every 3 s, at 1 s, 4 s and so on. The oldest that is kept holds the instant 25 s ago."""
    warm = Warm("few slices, combined, on close")
    warm.load([record(second) for second in range(30)], BEGIN + 30 * SECOND)
    head = Header.from_text(warm.store.text)
    assert _first_start(warm) == 4, "it holds second 5"
    warm.step([record(30)], 0, 0)
    warm.step([], (BEGIN + 40 * SECOND) // 1000, 0)
    assert _first_start(warm) == 13, "it holds second 15"
    assert Header.from_text(warm.store.text).refused == head.refused, "no record was late"


def _first_start(warm):
    return min(place[2] - BEGIN for place in warm.ask()) // SECOND
