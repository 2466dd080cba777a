"""What windows that never close keep and forget; their rows for any records are asked in `test_scenarios.py`."""

import random
from dataclasses import replace

import pytest
from oracle import FINGERPRINT
from scenarios.kinds.unbounded import Unbounded
from scenarios.scenario import Process, Scenario

from slicing import processing_time, unbounded
from slicing.engines.unbounded.bucket import TOTALS
from slicing.errors import InvalidType, InvalidValue
from slicing.grouping import group_by
from slicing.state import bucket_cache as memory
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.triggers.emission import early, on_update


def made(trigger, ttl=None, held=True):
    """A window that never closes; with `held=False` every micro-batch is in another process."""
    window = unbounded(None if ttl is None else f"{ttl} milliseconds")
    one = Scenario(Unbounded(window), trigger, results=("sum", "joined", "rows"))
    one.process = None if held else Process(None, "all")
    return one


def rows_of(one, of, name, shape):
    """How many rows are stored in a list of pages."""
    return sum(map(len, PageLists(Pages(one.store, FINGERPRINT, [0]), of, shape).read(name)))


def stored(one):
    """The rows of the ledger."""
    return rows_of(one, TOTALS, TOTALS, one.shape)


def records(rng, keys=6):
    return [
        (rng.randrange(-(10**9), 10**9), rng.randrange(keys), rng.randrange(-50, 100)) for _ in range(rng.randrange(9))
    ]


@pytest.mark.parametrize("held", [True, False])
def test_a_clock_that_was_ahead_by_more_than_the_ttl_loses_no_record(held):
    """Under `early(every=)` the clock may be corrected; records stamped before and after it are of one key."""
    rng, one, now = random.Random(11), made(early(every="2 milliseconds"), 20, held), 100
    for step in range(120):
        now += rng.choice([1, 2, 3])
        if step in (20, 70):
            now += 5000  # the clock is wrong ...
        if step in (25, 72):
            now -= 5000  # ... and set right
        one.step(records(rng), now=now)
    assert one.seen["early"] > 100
    one.step([], now=now + 21)
    assert not stored(one), "a key that was stamped ahead is idle when all others are"


def test_a_key_is_forgotten_one_millisecond_after_its_ttl():
    for idle in range(1, 12):
        one = made(on_update(), 7)
        one.step([(0, 1, 5)], now=100)
        one.step([], now=100 + idle)
        assert stored(one) == (idle <= 7)
        ((row, _),) = one.step([(0, 1, 6)], now=100 + idle).values()
        assert row[0] == (2 if idle <= 7 else 1)


def test_what_was_forgotten_stays_forgotten_by_another_ttl_and_a_clock_that_steps_back():
    """Whether or not its rows are still stored; of a clock that advances, see `test_scenarios.py`."""
    fired = 0
    for seed in range(12):
        rng, now = random.Random(seed), 1000
        one = made(early(every="2 milliseconds"), 20, held=seed % 2 == 0)
        for _ in range(60):
            now += rng.choice([0, 1, 3, 9, 25, -30])
            if rng.random() < 0.2:
                ttl = rng.choice([None, 5000, 20_000, 60_000])
                one.kind.window = replace(one.kind.window, ttl=ttl)
                one.execution_plan = one._execution_plan()
            one.step(records(rng, keys=3)[:2], now=now)
        fired += one.seen["early"]
    assert fired > 50


def test_marks_of_forgotten_keys_do_not_pile_up():
    one, live = made(early(records=5), 7), 20
    for now in range(100, 300):
        one.emit([(0, now * live + key, 1) for key in range(live)], now=now)
    marks = rows_of(one, "early", "pending", one.shape.select(()))
    assert marks <= 2 * 8 * live, "twice the keys of the last 8 ms"


def test_a_smaller_count_is_seen_without_a_record():
    """Keys that are ready by the count of the query that continues are emitted in its first micro-batch."""
    one = made(early(records=7), held=False)
    assert one.step([(0, key, 1) for key in (1, 1, 1, 1, 2)], now=10) == {}
    one.change(early(records=3))
    assert [place[1] for place in one.step([], now=11)] == [1]
    assert [place[1] for place in one.step([(0, 2, 1), (0, 2, 1)], now=12)] == [2]


def test_rows_do_not_pile_up():
    """A key has two rows in the ledger on average at most, and each row is written twice at most."""
    rng, one, keys = random.Random(5), made(on_update()), set()
    for now in range(300):
        some = records(rng, keys=50)
        one.emit(some, now=now)
        keys |= {key for _, key, _ in some}
        assert stored(one) <= 2 * len(keys)
    assert one.bucket().head.serial < 3 * 300


def test_a_process_that_has_not_got_the_totals_reads_them_once():
    one, read = made(on_update()), []
    for now in range(5):
        one.step([(0, key, 1) for key in range(20)], now=now)
    memory._entries.clear()
    for now in range(6, 9):
        one.step([(0, 3, 1)], now=now)
        read.append(one.read)
    assert read[0] > 0
    assert read[1:] == [0, 0]


def test_what_these_windows_are_made_with():
    assert repr(unbounded()) == "unbounded()"
    assert repr(unbounded("30 days")) == "unbounded(ttl='30 days')"
    assert repr(processing_time()) == "processing_time()"
    with pytest.raises(InvalidValue, match="at least 1 ms"):
        unbounded(ttl="10 microseconds")
    with pytest.raises(InvalidType, match="name of a column, or processing_time"):
        group_by(None, "k").window(unbounded(), time=3)
    assert group_by(None, "k").window(unbounded()).time is None


def test_the_clock_of_a_bucket_is_in_its_header():
    one = made(on_update())
    one.step([(0, 1, 1)], now=77)
    one.step([(0, 1, 1)], now=70)
    assert one.bucket().head.clock == 77_000


def test_totals_need_no_order_of_keys():
    """Keys that come in other orders, in blocks of other names, are added to their own totals."""
    one = made(on_update())
    one.step([(0, 2, 5), (0, 1, 7)], now=1)
    assert len(one.step([(0, 1, 1), (0, 3, 2), (0, 2, 9)], now=2)) == 3
