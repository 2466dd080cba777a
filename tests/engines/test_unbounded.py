"""What windows that never close keep and forget; their rows for any records are asked in `test_scenarios.py`."""

import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from oracle import CASES, FINGERPRINT, block_of, moment, results, shape_of

from slicing import processing_time, unbounded
from slicing.aggregates.aggregate import Aggregate
from slicing.engines.unbounded.bucket import TOTALS, UnboundedBucket
from slicing.errors import InvalidType, InvalidValue
from slicing.grouping import group_by
from slicing.state import bucket_cache as memory
from slicing.state.format.header import Header
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.state.store import MemoryStore
from slicing.triggers.emission import early, on_update

FAMILY = unbounded().family
NAMES = ("sum", "joined", "rows")


class Forever:
    """A bucket of a window that never closes, beside all that each key has had since it was idle."""

    def __init__(self, emission, ttl=None, held=True):
        self.cases, self.emission, self.ttl, self.held = [CASES[name] for name in NAMES], emission, ttl, held
        self.shape, self.store = shape_of(FAMILY, self.cases), MemoryStore()
        self.values, self.last, self.since = defaultdict(list), {}, Counter()

    def bucket(self):
        ttl = None if self.ttl is None else 1000 * self.ttl
        return UnboundedBucket(self.shape, FINGERPRINT, self.store, self.emission, ttl)

    def step(self, records, now):
        if not self.held:
            memory._entries.clear()  # another process has the bucket now
        # A clock that was ahead has been corrected: what it stamped is of now, what was idle by it is forgotten.
        self.last = {key: min(last, now) for key, last in self.last.items()}
        for key in [key for key, last in self.last.items() if self.ttl is not None and last < now - self.ttl]:
            del self.values[key], self.last[key]
            self.since.pop(key, None)
        for _, key, value in records:
            self.values[key].append(value)
            self.since[key] += 1
            self.last[key] = now
        bucket = self.bucket()
        half = len(records) // 2
        late = bucket.accept(
            [block_of(self.shape, self.cases, part) for part in (records[:half], records[half:]) if part]
        )
        assert (late.all, late.some, late.refused) == (0, 0, ())
        found = results(self.shape, list(bucket.close(moment(0, now))))
        bucket.check()
        return {key: row for (key, window), row in found.items() if window == 0}

    def truth(self, keys):
        return {key: [len(self.values[key]), *(case.truth(self.values[key]) for case in self.cases)] for key in keys}

    def stored(self):
        """The rows of the ledger."""
        pages = Pages(self.store, FINGERPRINT, [0])
        return sum(map(len, PageLists(pages, TOTALS, self.shape).read(TOTALS)))


def records(rng, keys=6):
    return [
        (rng.randrange(-(10**9), 10**9), rng.randrange(keys), rng.randrange(-50, 100)) for _ in range(rng.randrange(9))
    ]


@pytest.mark.parametrize("held", [True, False])
def test_a_clock_that_was_ahead_by_more_than_the_ttl_loses_no_record(held):
    """Under `early(every=)` the clock may be corrected; records stamped before and after it are of one key."""
    rng, world, now, fired = random.Random(11), Forever(early(every="2 milliseconds"), ttl=20, held=held), 100, 0
    for step in range(120):
        now += rng.choice([1, 2, 3])
        if step in (20, 70):
            now += 5000  # the clock is wrong ...
        if step in (25, 72):
            now -= 5000  # ... and set right
        got = world.step(records(rng), now)
        assert got == world.truth(got)
        fired += len(got)
    assert fired > 100
    world.step([], now + 21)
    assert not world.stored(), "a key that was stamped ahead is idle when all others are"


def test_a_key_is_forgotten_one_millisecond_after_its_ttl():
    for idle, begins_anew in [(7, False), (8, True)]:
        world = Forever(on_update(), ttl=7)
        world.step([(0, 1, 5)], 100)
        assert world.step([(0, 1, 6)], 100 + idle)[1][0] == (1 if begins_anew else 2)
    for idle in range(1, 12):
        world = Forever(on_update(), ttl=7)
        world.step([(0, 1, 5)], 100)
        world.step([], 100 + idle)
        assert world.stored() == (idle <= 7)


@pytest.mark.parametrize("emission", [early(every="2 milliseconds"), early(records=4)], ids=["every", "records"])
@pytest.mark.parametrize("held", [True, False])
def test_what_was_forgotten_stays_forgotten_by_another_ttl_and_clock(emission, held):
    """Of totals and of records that wait for a firing, whether or not their rows are still stored."""
    fired, steps_back = 0, emission == early(every="2 milliseconds")
    for seed in range(12):
        rng, world, now = random.Random(seed), Forever(emission, ttl=20, held=held), 1000
        for _ in range(60):
            now += rng.choice([0, 1, 3, 9, 25, -30 if steps_back else 1])
            world.ttl = rng.choice([None, 5, 20, 60]) if rng.random() < 0.2 else world.ttl
            got = world.step(records(rng, keys=3)[:2], now)
            assert got == world.truth(got)
            if not steps_back:
                ready = {key for key, count in world.since.items() if count >= 4}
                assert got.keys() == ready
                world.since = Counter({key: count for key, count in world.since.items() if key not in ready})
            fired += len(got)
    assert fired > 50


def test_marks_of_forgotten_keys_do_not_pile_up():
    world, live = Forever(early(records=5), ttl=7), 20
    for now in range(100, 300):
        world.step([(0, now * live + key, 1) for key in range(live)], now)
    marks = sum(
        map(len, PageLists(Pages(world.store, FINGERPRINT, [0]), "early", world.shape.select(())).read("pending"))
    )
    assert marks <= 2 * 8 * live, "twice the keys of the last 8 ms"


def test_a_smaller_count_is_seen_without_a_record():
    """Keys that are ready by the count of the query that goes on are emitted in its first micro-batch."""
    world = Forever(early(records=7), held=False)
    assert world.step([(0, key, 1) for key in (1, 1, 1, 1, 2)], 10) == {}
    world.emission = early(records=3)
    assert world.step([], 11) == world.truth({1})
    assert world.step([(0, 2, 1), (0, 2, 1)], 12) == world.truth({2})


def test_rows_do_not_pile_up():
    """A key has two rows in the ledger on average at most, and each row is written twice at most."""
    rng, world = random.Random(5), Forever(on_update())
    written = came = 0
    for now in range(300):
        some = records(rng, keys=50)
        world.step(some, now)
        came += len({key for _, key, _ in some})
        assert world.stored() <= 2 * len(world.values)
    bucket = UnboundedBucket(world.shape, FINGERPRINT, world.store, on_update())
    written = bucket.head.serial
    assert written < 3 * 300, (written, came)


def test_a_process_that_has_not_got_the_totals_reads_them_once():
    world = Forever(on_update())
    for now in range(5):
        world.step([(0, key, 1) for key in range(20)], now)
    memory._entries.clear()
    read = []
    for _ in range(3):
        bucket = UnboundedBucket(world.shape, FINGERPRINT, world.store, on_update())
        bucket.accept([block_of(world.shape, world.cases, [(0, 3, 1)])])
        list(bucket.close(moment(0, 6)))
        read.append(bucket.pages.read)
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
    world = Forever(on_update())
    world.step([(0, 1, 1)], 77)
    world.step([(0, 1, 1)], 70)
    head = Header.from_text(world.store.text)
    assert head.clock == 77_000


def test_totals_need_no_order_of_keys():
    """Keys that come in other orders, in blocks of other names, are added to their own totals."""
    total = Aggregate(int, lambda acc, value: acc + value, lambda a, b: a + b)
    assert total.combine is not None
    world = Forever(on_update())
    world.step([(0, 2, 5), (0, 1, 7)], 1)
    assert world.step([(0, 1, 1), (0, 3, 2), (0, 2, 9)], 2) == world.truth({1, 2, 3})
    assert pa.table({"k0": [1]}).num_rows == 1
