"""Windows that are added where slices are retained: they begin as far back as all records are there.

The truth is a stream that has always had the windows: of each window all records that came before it closed.
"""

import random
from functools import cache

import pytest
from adapting import POOL, SECOND, Model, Query, close_to, order, stream
from oracle import seeds

from slicing import hopping, tumbling
from slicing.engines.looking import Look
from slicing.state.format.header import Header
from slicing.state.store import MemoryStore

FIVE, TWENTY, MINUTE = hopping("5 seconds", "1 second"), hopping("20 seconds", "1 second"), tumbling("1 minute")
NAMES = ["rows", "total", "most"]


def at(second, n=1):
    """A record."""
    return second * SECOND, 1, n, "a"


class Always(Model):
    """A stream that has always had its windows; `accepted` says since when none of the other query was refused."""

    other: Query | None = None
    accepted: int = -(1 << 60)

    def add(self, records):
        """Count the records; note where those are that the query before the change refuses, and so does not store."""
        for time, *_ in records:
            windows = [span for each in self.other.members for span in each.windows_of(time)]
            if all(end + self.other.grace <= self.watermark for _, end in windows):
                self.accepted = max(self.accepted, self._end(self.other, time))
        super().add(records)


@cache  # two tests ask for the same seeds
def compare(seed, retain):
    """Change from some windows to others; how many rows of new windows began before the oldest one that was open."""
    rng = random.Random(seed)
    grace, names = rng.choice([0, 0, 4 * SECOND]), rng.sample(NAMES, 2)
    old = Query(rng.sample(POOL[:4], rng.choice([1, 2])), names, grace=grace, retain=retain)
    new = Query([*old.members, *rng.sample([each for each in POOL if each not in old.members], 2)], names, grace=grace,
                retain=rng.choice([0, retain]))  # fmt: skip
    if any(new.family.slice_at(x) != old.family.slice_at(x) - old.family.slice_at(0) + new.family.slice_at(0)
           for x in range(0, 120 * SECOND, SECOND)):  # fmt: skip
        return 0  # other edges, which slices do not have
    model, store, early = Always(), MemoryStore(), 0
    model.other = old
    model.change(new)
    batches = stream(rng, 40)
    change = rng.randrange(12, 34)
    for number, (records, watermark) in enumerate(batches):
        if number == change:
            oldest = min(model._oldest_open(old, each) for each in old.members)
            since = max(model.accepted, (model.watermark - retain) // SECOND * SECOND)
            must, closed = min(oldest, since), model.watermark
        query = old if number < change else new
        model.add(records)
        found, _ = query.step(store, records, watermark)
        found, wanted = sorted(found, key=order), {row[:3]: row for row in model.close(watermark)}
        assert all(close_to(row, wanted[row[:3]]) for row in found), (seed, number)
        if number >= change:
            lacking = wanted.keys() - {row[:3] for row in found}
            assert not [row for row in lacking if row[0] >= must and row[1] + grace > closed], (seed, number, must)
            lengths = {each.size for each in old.members}
            early += sum(row[0] < oldest and row[1] - row[0] not in lengths for row in found)
    return early


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(5, 200))
def test_windows_that_are_added_are_whole_as_far_as_slices_are_retained(seed):
    compare(seed, 30 * SECOND)


@pytest.mark.slow
def test_some_begin_before_the_oldest_window_that_was_open():
    assert sum(compare(seed, 30 * SECOND) for seed in range(5)) > 5


def begun(query, late=()):
    """A bucket with a record in each second from 10 to 70; then come late ones."""
    store = MemoryStore()
    for second in range(10, 71):
        query.step(store, [at(second)], max(0, (second - 2) * SECOND))
    query.step(store, [at(second) for second in late], 68 * SECOND)
    return store


def starts(query, store):
    """The first starts of windows of a minute and of 20 seconds, of all rows that are still to come."""
    rows = query.step(store, [], 1000 * SECOND)[0]
    return [min(row[0] // SECOND for row in rows if row[1] - row[0] == length * SECOND) for length in (60, 20)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("retain", "late", "expected"),
    [
        (0, [], [120, 64]),
        (10, [], [60, 58]),
        (100, [], [60, 49]),
        (100, [50], [60, 51]),
        (100, [62], [120, 63]),
        (100, [20], [60, 49]),
        (100, [66], [60, 49]),
    ],
)
def test_new_windows_begin_behind_what_was_removed_and_behind_what_was_refused(retain, late, expected):
    """The watermark is at 68, and windows of 5 seconds are open from second 64 on; those that have ended stay away."""
    old, new = (Query(windows, ["rows"], retain=retain * SECOND) for windows in ([FIVE], [FIVE, TWENTY, MINUTE]))
    store = begun(old, late)
    new.step(store, [at(second) for second in (71, 100, 150)], 68 * SECOND)
    assert starts(new, store) == expected


def test_what_was_refused_before_slices_were_retained_is_not_there():
    plain, old, new = Query([FIVE], ["rows"]), *(Query(each, ["rows"], retain=100 * SECOND) for each in
                                                 ([FIVE], [FIVE, TWENTY, MINUTE]))  # fmt: skip
    store = begun(plain)
    old.step(store, [], 68 * SECOND)
    assert Header.from_text(store.text).refused == 64 * SECOND
    new.step(store, [at(second) for second in (71, 100, 150)], 68 * SECOND)
    assert starts(new, store) == [120, 64]


def test_nothing_is_said_of_it_once_slices_are_no_longer_retained():
    store = begun(Query([FIVE], ["rows"], retain=100 * SECOND))
    assert Header.from_text(store.text).refused is not None
    Query([FIVE], ["rows"]).step(store, [], 68 * SECOND)
    assert Header.from_text(store.text).refused is None


def test_slices_of_a_whole_window_that_begins_before_what_is_retained_stay_in_a_bucket_without_open_windows():
    """Of [960, 1020) all slices stay, as 1000 lies in it: a bucket that forgot 980 would miss it later."""
    old, new = (
        Query(windows, ["rows"], retain=80 * SECOND)
        for windows in ([tumbling("1 second"), MINUTE], [tumbling("1 second"), MINUTE, tumbling("4 minutes")])
    )
    store = MemoryStore()
    old.step(store, [at(980)], 970 * SECOND)
    old.step(store, [], 1080 * SECOND)  # retained since 1000
    new.step(store, [at(1140)], 1080 * SECOND)
    rows = new.step(store, [], 1300 * SECOND)[0]
    assert [row[3]["rows"] for row in rows if row[:2] == (960 * SECOND, 1200 * SECOND)] in ([], [2])


def looked_up(query, store):
    """The counts of all windows that a lookup finds, by start in seconds."""
    frames = query.bucket(store).look(Look())
    return {
        int(own.window_start(window)) // SECOND: int(records)
        for frame in frames
        for own in [query.family.families[frame.family]]
        for window, records in zip(frame.windows, frame.records, strict=True)
    }


def replaced(retain, *steps):
    """A bucket with a record in each second from 600 to 1199 and windows of a second, and the queries that replace it.

    The watermark is at 1190. Each step is a query over other windows.
    """
    store, first = MemoryStore(), Query([tumbling("1 second")], ["rows"], retain=retain * SECOND)
    for second in range(600, 1200, 10):
        first.step(store, [at(each) for each in range(second, second + 10)], second * SECOND)
    return store, [Query(windows, ["rows"], retain=retain * SECOND) for windows in steps]


@pytest.mark.parametrize("steps", [0, 1])
def test_windows_that_replace_others_are_looked_up_as_far_back_as_slices_are_retained(steps):
    """Retained since second 790, or 800; the first whole minute begins at 840."""
    store, (minutes,) = replaced(400, [MINUTE])
    for each in range(steps):
        minutes.step(store, [at(1200 + each)], (1200 + each) * SECOND)
    found = looked_up(minutes, store)
    assert found == dict.fromkeys(range(840, 1200, 60), 60) | ({1200: 1} if steps else {})


def test_windows_that_are_added_before_others_are_removed_are_looked_up_as_far_back():
    store, (both, minutes) = replaced(400, [tumbling("1 second"), MINUTE], [MINUTE])
    both.step(store, [at(1200)], 1200 * SECOND)
    minutes.step(store, [at(1201)], 1201 * SECOND)
    assert looked_up(minutes, store) == dict.fromkeys(range(840, 1200, 60), 60) | {1200: 2}


def test_windows_that_replace_the_ones_that_had_replaced_them_find_all_retained_slices():
    """Seconds are there from 801 on, 400 before the watermark."""
    store, (longer, seconds) = replaced(400, [TWENTY], [tumbling("1 second")])
    longer.step(store, [at(1200)], 1201 * SECOND)
    seconds.step(store, [at(1201)], 1201 * SECOND)
    assert looked_up(seconds, store) == dict.fromkeys(range(801, 1202), 1)


def test_larger_windows_that_replace_smaller_ones_begin_with_the_first_open_one():
    """What has ended is looked up, and is not emitted again."""
    store, (minutes,) = replaced(400, [MINUTE])
    minutes.step(store, [at(1200)], 1190 * SECOND)
    rows = minutes.step(store, [], 2000 * SECOND)[0]
    assert [(row[0] // SECOND, row[3]["rows"]) for row in sorted(rows)] == [(1140, 60), (1200, 1)]


def test_retained_slices_of_replaced_windows_leave_in_time():
    store, (minutes,) = replaced(400, [MINUTE])
    for second in range(1200, 2400, 10):
        minutes.step(store, [at(second)], second * SECOND)
        since = Header.from_text(store.text).retained_since
        assert since is None or since >= (second - 460) * SECOND  # it moves when a window closes
    assert Header.from_text(store.text).retained_since is None
    assert min(looked_up(minutes, store)) == 1920  # the window of 1940, 400 before the last close
    assert len(store.pages) < 20


@pytest.mark.parametrize("names", [["rows"], ["rows", "total"]])
def test_slices_that_are_no_longer_retained_stay_until_the_next_close(names):
    """The header says so: `step` compares it with the pages."""
    store, (minutes,) = replaced(400, [MINUTE])
    minutes.step(store, [at(1200)], 1200 * SECOND)
    Query([MINUTE], names).step(store, [at(1201)], 1200 * SECOND)
    assert min(looked_up(Query([MINUTE], names), store)) == 840


def test_slices_that_are_no_longer_retained_leave_with_the_next_close():
    store, _ = replaced(400)
    minutes = Query([MINUTE], ["rows"])
    minutes.step(store, [at(1200)], 1200 * SECOND)
    minutes.step(store, [at(1261)], 1261 * SECOND)
    assert Header.from_text(store.text).retained_since is None
    assert min(looked_up(minutes, store)) == 1260
