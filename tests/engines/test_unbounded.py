"""Windows that never close, against all records of each key; and windows by the clock, against that of each record."""

import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from oracle import CASES, FINGERPRINT, block_of, moment, results, shape_of

from slicing import processing_time, unbounded
from slicing.aggregates.aggregate import Aggregate
from slicing.assembly.choice import choose
from slicing.content.folding import fold
from slicing.engines.bounded import all_frames
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.engines.unbounded.bucket import TOTALS, UnboundedBucket
from slicing.errors import InvalidType, InvalidValue
from slicing.grouping import group_by
from slicing.stages.execution_plan import not_before
from slicing.state import bucket_cache as memory
from slicing.state.format.header import Header
from slicing.state.lists import PageLists
from slicing.state.pages import Pages
from slicing.state.store import MemoryStore
from slicing.triggers.emission import early, on_close, on_update
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.even import Even
from slicing.windows.time.edges import Every

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
            memory._kept.clear()  # another process has the bucket now
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
@pytest.mark.parametrize("latest", [False, True])
def test_updates_are_of_all_records_of_the_keys_that_came(latest, held):
    rng, world = random.Random(1), Forever(on_update(latest_only=latest), held=held)
    for now in range(60):
        came = records(rng)
        assert world.step(came, now) == world.truth({key for _, key, _ in came})


@pytest.mark.parametrize("held", [True, False])
def test_a_key_that_was_idle_begins_anew(held):
    rng, world, begun = random.Random(2), Forever(on_update(), ttl=7, held=held), 0
    now = 0
    for _ in range(80):
        now += rng.choice([0, 1, 2, 9])
        came = records(rng, keys=4)
        begun += sum(world.last.get(key, now) < now - 7 for key in {key for _, key, _ in came})
        assert world.step(came, now) == world.truth({key for _, key, _ in came})
    assert begun > 10
    world.step([], now + 100)
    assert world.stored() == 0, "idle keys are gone with the next micro-batch"
    assert not world.store.pages


@pytest.mark.parametrize("held", [True, False])
def test_early_by_count_is_of_keys_with_so_many_more(held):
    rng, world, since = random.Random(3), Forever(early(records=5), held=held), Counter()
    for now in range(60):
        came = records(rng)
        since.update(key for _, key, _ in came)
        due = {key for key in since if since[key] >= 5}
        assert world.step(came, now) == world.truth(due)
        for key in due:
            del since[key]


def test_early_by_the_clock_is_at_ticks():
    rng, world, since, now = random.Random(4), Forever(early(every="10 milliseconds")), set(), 0
    for _ in range(60):
        tick, now = now // 10, now + rng.choice([1, 4, 12])
        came = records(rng)
        since |= {key for _, key, _ in came}
        got = world.step(came, now)
        if now // 10 > tick and got:
            assert got == world.truth(since)
        if now // 10 > tick:
            since = set()
        else:
            assert not got or not since


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


@pytest.mark.parametrize("held", [True, False])
def test_records_that_count_towards_early_are_forgotten_with_their_key(held):
    rng, world, now, anew = random.Random(12), Forever(early(records=5), ttl=7, held=held), 50, 0
    for _ in range(300):
        now += rng.choice([0, 1, 2, 9])
        came = records(rng, keys=9)
        anew += sum(world.last.get(key, now) < now - 7 for key in {key for _, key, _ in came})
        got = world.step(came, now)
        due = {key for key in {key for _, key, _ in came} if world.since[key] >= 5}
        assert got == world.truth(due)
        for key in due:
            del world.since[key]
    assert anew > 30


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
    memory._kept.clear()
    read = []
    for _ in range(3):
        bucket = UnboundedBucket(world.shape, FINGERPRINT, world.store, on_update())
        bucket.accept([block_of(world.shape, world.cases, [(0, 3, 1)])])
        list(bucket.close(moment(0, 6)))
        read.append(bucket.pages.read)
    assert read[0] > 0
    assert read[1:] == [0, 0]


def test_bounded_input_has_one_row_for_each_key():
    cases = [CASES[name] for name in NAMES]
    shape, rng = shape_of(FAMILY, cases), random.Random(6)
    came = [each for _ in range(9) for each in records(rng)]
    trees = [choose(kernel, FAMILY) for kernel in shape.kernels]
    got = results(shape, list(all_frames(shape, trees, fold(shape, [block_of(shape, cases, came)]))))
    held = defaultdict(list)
    for _, key, value in came:
        held[key].append(value)
    wanted = {(key, 0): [len(each), *(case.truth(each) for case in cases)] for key, each in held.items()}
    assert got == wanted


@pytest.mark.parametrize(
    "family", [Even(7000, 7000), Even(20_000, 5000), Cumulating(Every(20_000), Every(4000))], ids=repr
)
@pytest.mark.parametrize("emission", [on_close(), on_update(), early(every="2 milliseconds")], ids=str)
def test_windows_by_the_clock_hold_what_came_by_then(family, emission):
    """The clock steps back now and then: records are then those of the greatest that the bucket has seen."""
    case, rng, store = CASES["sum"], random.Random(7), MemoryStore()
    shape = shape_of(family, [case])
    trees = [choose(kernel, family) for kernel in shape.kernels]
    clock = seen = 0
    held, out = defaultdict(list), {}
    for _ in range(120):
        clock = max(0, clock + rng.choice([0, 1, 2, 9, -3]))
        seen = max(seen, clock)
        came = [(clock * 1000, rng.randrange(3), rng.randrange(100)) for _ in range(rng.randrange(5))]
        touched = set()
        for _, key, value in came:
            index = family.slice_at(seen * 1000)
            for window in range(family.first_window(index), family.last_window(index) + 1):
                held[key, window].append(value)
                touched.add((key, window))
        bucket = SlicedBucket(shape, trees, 0, FINGERPRINT, store, emission)
        blocks = [not_before(shape, block_of(shape, [case], came), bucket.head.watermark)] if came else []
        late = bucket.accept(blocks)
        assert (late.all, late.some) == (0, 0), "nothing is late"
        got = results(shape, list(bucket.close(moment(clock, clock))))
        if emission == on_update():
            assert {place: row[1] for place, row in got.items()} == {place: sum(held[place]) for place in touched}
        out |= got
    if emission != on_update():
        ended = {place for place in held if family.window_end(place[1]) <= seen * 1000}
        gone = {place: row[1] for place, row in out.items() if emission == on_close() or place in ended}
        assert gone == {place: sum(held[place]) for place in ended}
        assert len(gone) > 20


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
