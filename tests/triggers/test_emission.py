"""Emissions: the values, what they cost, what a process keeps, and one after another on the same state.

Which rows each one emits on random streams is asked in `test_scenarios.py`.

A bucket is new at every step. What the process keeps is dropped in some streams, so that a step is a restart there.
"""

import math
import operator
import pickle
import random
import struct
from collections import OrderedDict, defaultdict
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from oracle import (
    ARRIVED,
    FINGERPRINT,
    Case,
    CountingStore,
    block_of,
    cases,
    columns_of,
    evenly,
    hopping,
    moment,
    results,
    seeds,
    shape_of,
    windows_of,
)
from scenarios.kind import CONTENTS, MIXED, PARTIALS, RECORDS
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario
from scenarios.scenario import records_of as numbered
from scenarios.streams import stream

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.assembly.assembling import assemble
from slicing.assembly.choice import choose
from slicing.assembly.comparing import result_codes
from slicing.assembly.ranges.point_lookups import lookup
from slicing.content import block as blocks_block
from slicing.content import marks as blocks_marks
from slicing.content import sizes
from slicing.engines.dirty_set import PENDING, DirtySet
from slicing.engines.sliced import latest
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.errors import InvalidType, InvalidValue
from slicing.explain.costs import MERGING
from slicing.state import bucket_cache as memory
from slicing.state import lists, pages, slice_groups
from slicing.state.store import MemoryStore
from slicing.triggers.buffer import buffer
from slicing.triggers.by_records import ByWaitingRecords
from slicing.triggers.emission import early, on_change, on_close, on_update
from slicing.triggers.trigger import ENDS, QUESTIONS, STORED
from slicing.windows.families.even import Even as EvenFamily
from slicing.windows.time import slices as windows_slices

CHANGING = ("most", "parity")
MODES = {
    "on_update()": on_update(),
    "on_update(latest_only=True)": on_update(latest_only=True),
    "on_close(corrections=True)": on_close(corrections=True),
    "on_close(corrections=True, old=True)": on_close(corrections=True, old=True),
    "on_close(corrections=True, discarding=True)": on_close(corrections=True, discarding=True),
    "on_change()": on_change(),
    "on_change(drained=True)": on_change(drained=True),
    "early(every='3 seconds')": early(every="3 seconds"),
    "early(records=3)": early(records=3),
}


def random_slicing(rng, seed):
    size = int(rng.integers(1, 40))
    kinds = (
        lambda: int(rng.integers(1, 50)),
        lambda: int(rng.integers(1, 5)),
        lambda: int(rng.choice([d for d in range(1, size + 1) if size % d == 0])),
    )
    return EvenFamily(size * 1000, kinds[seed % 3]() * 1000, int(rng.integers(-100, 100)) * 1000)


def random_records(rng):
    """Records in order of arrival: disorder, records late by much, duplicates, gaps longer than a window."""
    count, keys = int(rng.integers(1, 120)), int(rng.integers(1, 5))
    arrival = np.sort(rng.integers(0, rng.choice([50, 200, 1000]), count)) + int(rng.choice([0, 10**4]))
    lateness = rng.exponential(rng.choice([1e-9, 3, 30]), count).astype(np.int64)
    times = ((arrival - lateness) * 1000).tolist()
    names = [key or None for key in rng.integers(0, keys, count).tolist()]
    records = list(zip(times, names, rng.integers(-100, 100, count).tolist(), strict=True))
    return [each for record in records for each in [record] * (1 + (rng.random() < 0.1))]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kept", [0, 1 << 30], ids=["read", "kept"])
@pytest.mark.parametrize("mode", ["on_close()", *MODES])
def test_slices_that_are_cut_before_they_enter(mode, kept, monkeypatch):
    """8 slices in a micro-batch, of windows of 12; they close in the next one, when a record comes to one of them."""
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)
    monkeypatch.setattr(memory, "KEPT_BYTES", kept)
    emission = MODES.get(mode, on_close())
    grace = 5000 if emission.fires_late else 0
    one, ahead = Scenario(Even.of(12, 1), emission, grace, results=("sum", "most")), 0
    for first in range(0, 64, 8):
        records = evenly(one.family, [first - 3, *range(first, first + 8)], keys=2)
        one.step(records, int(one.family.slice_start(first)) // 1000, now=first)
        head = one.bucket().head
        spans = [key * head.layout["stripe"] + cut[1] for key, each in head.slice_groups.items() for cut in each.cuts]
        ahead += max(spans, default=0) > one.family.entered(head.families[0].next_to_fire)
    assert ahead > 5
    one.drain()


# --- the values -------------------------------------------------------------------------------------------------------


def test_an_emission_prints_as_the_call_that_makes_it():
    for emission in [on_close(), early(final=True), *MODES.values()]:
        names = {"on_close": on_close, "on_update": on_update, "on_change": on_change, "early": early}
        made = eval(str(emission), names)
        assert made == emission
        assert hash(made) == hash(emission)
        assert pickle.loads(pickle.dumps(emission)) == emission
    assert len(set(MODES.values())) == len(MODES)


def test_triggers_say_what_they_ask_and_mean():
    combined = [early(records=3, after="1 second"), early(every="1 second", by="event"), early(records=3, per="key")]
    combined += [early(delta=("n", 1.0)), early(records=3, purge=True), on_close(empty="1 hour")]
    triggers = [on_close(), *MODES.values(), *combined]
    assert len({each.meaning for each in triggers}) == len(triggers)
    assert set().union(*(each.asks for each in triggers)) == set(QUESTIONS) - {ENDS, STORED}, (
        "of sessions and of serving"
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: on_close(old=True), InvalidValue, "write on_close"),
        (lambda: on_close(discarding=True), InvalidValue, "write on_close"),
        (lambda: on_close(True, True, True), InvalidValue, "exclude each other"),
        (lambda: early(), InvalidValue, "at least one of `every`, `records`, `after`, `when`, `delta` and `on_time`"),
        (lambda: early(after="1500 microseconds"), InvalidValue, "`after` must be whole milliseconds"),
        (lambda: early(records=3, per="bucket"), InvalidValue, 'counted for, "window" or "key"; got per=\'bucket\''),
        (lambda: early(every="1 second", per="key"), InvalidValue, "and records=None"),
        (lambda: early(every="1 second", by="watermark"), InvalidValue, 'go by, "clock" or "event"; got by=\'wat'),
        (lambda: early(records=3, by="event"), InvalidValue, "and every=None"),
        (lambda: early(records=3, repeat=True), InvalidValue, "there is no `every`"),
        (lambda: early(records=3, final=1), InvalidType, "`final` says"),
        (
            lambda: early(final=False),
            InvalidValue,
            "at least one of `every`, `records`, `after`, `when`, `delta` and `on_time`",
        ),
        (
            lambda: early(final=1),
            InvalidValue,
            "at least one of `every`, `records`, `after`, `when`, `delta` and `on_time`",
        ),
        (lambda: early(final=True, purge=True), InvalidValue, "alone has none. Add a condition"),
        (lambda: early(final=True, buffer=buffer(records=1)), InvalidValue, "or leave `buffer` out"),
        (lambda: early(every="0 seconds"), InvalidValue, "at least one; got '0 seconds'"),
        (lambda: early(every="1500 microseconds"), InvalidValue, "whole milliseconds"),
        (lambda: early(every=10), InvalidType, "needs a unit"),
        (lambda: early(records=0), InvalidValue, "must be positive; got 0"),
        (lambda: early(records=1.5), InvalidType, "whole number; got 1.5"),
        (lambda: early(records=True), InvalidType, "whole number; got True"),
    ],
)
def test_what_is_not_an_emission_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


# --- chosen windows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(3, 12))
def test_chosen_windows_are_those_of_the_assembly(seed):
    """Exact results are equal; what was not chosen is left out, and a window without records holds `init()`."""
    rng = np.random.default_rng(seed)
    chosen = cases("sum", "rows", "highest", "joined", "floats")
    family = random_slicing(rng, seed)
    shape = shape_of(family, chosen)
    records = [(time, key, value) for time, key, value in random_records(rng)]
    block = block_of(shape, chosen, records)
    if not len(block):
        return
    trees = [choose(kernel, family) for kernel in shape.kernels]
    expected = results(shape, assemble(shape, trees, block))
    names = {name: code for code, name in enumerate(block.names["k0"].to_pylist())}
    places = [(names[key], window) for key, window in expected] + [(0, 10**6)]
    keys, windows = (np.array(column) for column in zip(*places, strict=True))
    found = lookup(shape, block, keys, windows)
    assert found.records[-1] == 0
    got = results(shape, [found.take(np.arange(len(places) - 1))])
    assert got.keys() == expected.keys()
    for place, row in expected.items():
        assert got[place][:5] == row[:5]
        assert math.isclose(got[place][5], row[5], rel_tol=1e-9, abs_tol=1e-9)


def test_results_are_compared_as_the_docs_say():
    """Null equals null, NaN equals NaN whatever its bits, and 0.0 is not -0.0."""
    odd = np.array([0x7FF8000000000001], dtype=np.int64).view(np.float64)[0]
    values = [0.0, -0.0, math.nan, odd, 1.5, 1.5, None, None]
    case = Case(
        Aggregate(lambda: -1, lambda acc, v: v, lambda a, b: b, lower=values.__getitem__, returns="double"), max
    )
    shape = shape_of(hopping(1), [case])
    block = block_of(shape, [case], [(index * 1000, 1, index) for index in range(len(values))])
    frames = list(assemble(shape, ["recompute"], block))
    (codes,) = result_codes(shape, frames)
    assert codes[0] != codes[1]
    for one, other in ((2, 3), (4, 5), (6, 7)):
        assert codes[one] == codes[other]
    assert len(set(codes.tolist())) == 5


QUIET = 0x7FF8_0000_0000_0000


def odd_nan(total):
    """NaN of one of many bits, or a number."""
    return struct.unpack("d", struct.pack("q", QUIET + total % 97))[0] if total % 3 else float(total % 2)


def odd_nans(totals):
    return np.where(totals % 3 != 0, (QUIET + totals % 97).view(np.float64), (totals % 2).astype(np.float64))


@pytest.mark.parametrize("seed", seeds(1, 6))
@pytest.mark.parametrize("columns", [False, True])
def test_a_nan_of_other_bits_is_no_change(columns, seed):
    """Against the windows one by one, over micro-batches with records out of order; NaN follows NaN in most of them."""
    add = Aggregate(lambda: 0, lambda acc, v: acc + v, operator.add, columns=columns, returns="double")
    case = Case(replace(add, lower=odd_nans if columns else odd_nan), sum)
    rng, shape, store, found = random.Random(seed), shape_of(EvenFamily(3000, 1000, 0), [case]), MemoryStore(), {}
    trees, held = [choose(shape.kernels[0], shape.family)], defaultdict(list)
    for step in range(20):
        records = [(step * 5000 + rng.randrange(9000), rng.randrange(3), rng.randrange(99)) for _ in range(20)]
        bucket = SlicedBucket(shape, trees, 0, FINGERPRINT, store, on_change())
        assert not bucket.accept([block_of(shape, [case], records)]).all
        for time, key, value in records:
            for window in windows_of(shape.family, time):
                held[key, window].append(value)
        for frame in bucket.close(moment(step * 5 if step < 19 else 200)):
            names = frame.names["k0"].take(pa.array(frame.keys)).to_pylist()
            (shown,) = columns_of(shape, frame)
            for key, window, result in zip(names, frame.windows.tolist(), shown, strict=True):
                assert (key, window) not in found
                found[key, window] = repr(result)
    results = {place: repr(odd_nan(sum(values))) for place, values in held.items()}
    before = {(key, window): results.get((key, window - 1)) for key, window in results}
    assert found == {place: result for place, result in results.items() if result != before[place]}
    repeated = sum(result == before[place] == "nan" for place, result in results.items())
    assert repeated > 20


# --- cost -------------------------------------------------------------------------------------------------------------


def test_a_sparse_key_costs_its_slices_not_the_windows_over_them():
    """A record every 1,000 slices, R = 500: two rows and no combine each, on close 500 rows."""
    calls = []

    def combine(a, b):
        calls.append(a.size)
        return np.maximum(a, b)

    case = Case(Aggregate(lambda: 0, lambda acc, v: v, combine, columns=True), lambda values: max(values, default=0))
    one = Scenario(Even.of(500, 1), on_change(drained=True), results=[case])
    for index in range(0, 10_000, 1000):
        one.step(evenly(one.family, [index], value=lambda index, key: 1 + index), index)
    one.drain()
    assert one.seen["final"] + one.seen["drained"] == 20
    assert not any(calls)


def test_a_float_does_not_flicker_while_its_slices_are_the_same():
    """Three addends whose sum depends on the order, far apart: a row for each that enters or leaves, no more."""
    values = {0: 1, 7: 2, 13: 3, 40: 1, 47: 2, 53: 3}
    one = Scenario(Even.of(30, 1), on_change(), results=("floats",))
    total = 0
    for index in range(0, 140):
        came = [(index * 1000, 1, values[index])] if index in values else []
        total += len(one.emit(came, index))
    assert total == 2 * 6 - 1, "the last to leave drains the key"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", ["on_update()", "on_change()", "early(records=3)"])
def test_what_the_process_keeps_is_not_read_again_and_changes_nothing(mode, monkeypatch):
    """The same stream with and without it; what belongs to other buckets is not taken for it."""
    outputs, reads = [], []
    for kept in (1 << 30, 0):
        monkeypatch.setattr(memory, "KEPT_BYTES", kept)
        one, other = (Scenario(Even.of(10, 1), MODES[mode], results=("sum", "joined")) for _ in range(2))
        rows, before = [], None
        for index in range(24):
            came = evenly(one.family, [index], 3, lambda index, key: index // 9 + key)
            rows.append(one.step(came, index))
            other.step([(time, key, -value) for time, key, value in came], index)
            before = one.store.reads if index == 12 else before
        outputs.append(rows)
        reads.append(one.store.reads - before)
    assert outputs[0] == outputs[1]
    assert reads[0] < reads[1]


LATEST = on_update(latest_only=True)


@pytest.mark.parametrize("kept", [True, False])
def test_windows_that_a_total_is_not_of(kept):
    """Size 4, one slice a millisecond::

    slices      6   7   8   9  10
    window 7        [===========)       closed when the watermark is at 11
    window 8            [===========)   then the first one that a record of slice 10 counts in
    late        *                       accepted while window 6 is open, in no window of slice 10
    """
    one = Scenario(Even.of(4, 1), LATEST, results=("sum", "most"))

    def step(slices, watermark):
        if not kept:
            memory._entries.clear()
        return [start // 1000 for *_, start, _ in one.step(evenly(one.family, slices), watermark)]

    assert step(range(6, 11), 0) == [7]
    assert step([6], 0) == []
    assert step([10], 11) == [7]
    assert step([10], 11) == [8]
    assert step([9], 11) == [8]
    assert step([12], 11) == [9]
    assert step([8], 11) == []


class Counted:
    """A maximum whose combines are counted."""

    def __init__(self, ordered=False):
        self.count = 0
        self.case = Case(Aggregate(lambda: 0, lambda acc, v: v, self.combine, columns=True, ordered=ordered), max)

    def combine(self, a, b):
        self.count += a.size
        return np.maximum(a, b)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("n", [12, 400])
def test_a_record_in_the_newest_slice_costs_one_combine(n, ordered):
    """As the bucket calls it: what is looked at, and combines, for records here and there around the newest slice."""
    counted, keys, asked = Counted(ordered), 7, []
    shape = shape_of(hopping(n), [counted.case])

    def run(totals, slices):
        came = block_of(shape, [counted.case], evenly(shape.family, slices, keys))
        counted.count, asked[:] = 0, []
        frame, totals = latest.newest_windows(shape, totals, came, 0, look)
        return len(frame) / keys, counted.count / keys, asked == [], totals

    def look(marks, first):
        asked.append(first)
        rows = range(first, int(marks.index.max()) + 1)
        yield blocks_marks.of_keys(block_of(shape, [counted.case], evenly(shape.family, rows, keys)), marks)

    *found, totals = run(blocks_block.empty(shape), [1000])
    assert found == [1, n - 1, False], "nothing is kept: made from its slices"
    *found, totals = run(totals, [1000])
    assert found == [1, 1, True], "kept"
    *found, totals = run(totals, [999])
    assert found == ([1, n - 2, False] if ordered else [1, 1, True]), "an order does not allow to add older records"
    if ordered:
        *_, totals = run(totals, [1000])
    *found, totals = run(totals, [1000 - n, 1000])
    assert found == [1, 1, True], "what is too old for the window is left out"
    *found, totals = run(totals, [1000 - n])
    assert found == [0, 0, True], "nothing of the window"
    *found, totals = run(totals, [1001])
    assert found == [1, n - 1, False], "the window moved on"


def shipped(one, records):
    """What reaches the only bucket of the records of one input partition."""
    return one.ship(numbered(records))[0]


def test_two_slices_an_advance_share_a_window():
    """Size 5, advance 2: the total of a window continues from its last slice but one to its last."""
    counted, asked = Counted(), []
    one = Scenario(Even.of(5, 2), LATEST, results=[counted.case])
    for index in range(20):
        bucket = one.bucket()
        (walker,) = bucket.families
        walker.look = lambda marks, first, look=walker.look: asked.append(first) or look(marks, first)
        bucket.accept(shipped(one, evenly(one.family, [index])))
        list(bucket.close(moment(0)))
    assert asked == [-4, *(index - 3 for index in range(1, 20, 2))]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [30, 400])
def test_micro_batches_inside_a_slice_neither_read_nor_fold_its_window(n):
    """All combines of the bucket: those of small pages and of what is kept too, each at most 5/4 a record."""
    counted = Counted()
    one = Scenario(Even.of(n, 1), LATEST, results=[counted.case])
    one.step(evenly(one.family, range(2 * n), 3), 0)
    one.step(evenly(one.family, [2 * n - 1], 3), 0)
    one.judged, counted.count, reads, rows, batches = False, 0, [], 0, 20
    for _ in range(batches):
        rows += len(one.step(evenly(one.family, [2 * n - 1], 3), partitions=1))
        reads.append(one.read)
    assert rows == batches * 3
    assert counted.count <= rows * (1 + 5 / 4 + 5 / 4)
    assert sum(reads) <= rows * MERGING.reads + 2 * n * 3, "but for merging small pages, once with the first one"


def test_slices_are_dropped_before_what_is_made_from_them(monkeypatch):
    one = Scenario(Even.of(60, 1), LATEST, results=("sum",))
    one.step(evenly(one.family, range(120), 5), 0)
    ((_, entry),) = [each for each in memory._entries.items() if each[0] == one.bucket().head.nonce]
    monkeypatch.setattr(memory, "KEPT_BYTES", entry.slices_bytes)
    one.step(evenly(one.family, [119], 5), 0)
    bucket = one.bucket()
    assert bucket.slices.cache.first == windows_slices.FOREVER
    one.judged = False  # the scenario does not know the records of buckets opened here
    bucket.accept(shipped(one, evenly(one.family, [119], 5)))
    assert sum(map(len, bucket.close(moment(0)))) == 5
    assert bucket.pages.read == 0
    monkeypatch.setattr(memory, "KEPT_BYTES", 0)
    one.step([])
    bucket = one.bucket()
    bucket.accept(shipped(one, evenly(one.family, [119], 5)))
    list(bucket.close(moment(0)))
    assert not memory._entries


class Marks:
    """What waits for three records, alone: micro-batches in which ten keys begin to wait and five others go out."""

    def __init__(self, waiting, keeps):
        self.family, self.store, self.keeps, self.number = hopping(60), CountingStore(), keeps, 0
        self.kept, self.rows = None, 0
        self.shape = shape_of(self.family, [])
        assert self.step(range(-waiting, 0)) == 0

    def step(self, keys):
        pages_ = pages.Pages(self.store, FINGERPRINT, [0])
        waiting = DirtySet(lists.PageLists(pages_, "early", self.shape), self.kept)
        new = block_of(self.shape, [], [(0, key, 1) for key in keys])
        due = waiting.take(new, 0, ByWaitingRecords(3).enough)
        pages_.save_header()
        self.kept, self.rows = waiting.cached if self.keeps else None, self.rows + pages_.written
        return len(due)

    def next(self):
        """Keys from 10,000,000 on go out after three micro-batches, those below never."""
        self.number += 1
        ripe = [10_000_000 + 5 * (self.number - back) + key for key in range(5) for back in range(3)]
        return self.step([*range(10 * self.number, 10 * self.number + 10), *ripe])


@pytest.mark.parametrize("keeps", [True, False], ids=["held", "read"])
def test_what_a_micro_batch_writes_does_not_grow_with_what_is_pending(keeps):
    written, reads = [], []
    for waiting in (1000, 30_000):
        marks = Marks(waiting, keeps)
        went = [marks.next() for _ in range(5)]
        marks.store.forget_counts()
        went += [marks.next() for _ in range(15)]
        assert went == [0, 0, *[5] * 18]
        written.append(marks.store.bytes_written)
        reads.append(marks.store.bytes_read)
    assert written[1] < 1.1 * written[0]
    # The process reads only what it merges, and the large page has been merged before.
    assert reads[1] < 1.1 * reads[0] if keeps else reads[1] > 1.2 * reads[0]


def test_marks_that_have_fired_stay_so_when_older_pages_are_forgotten():
    family = hopping(3)
    shape, store = shape_of(family, []), CountingStore()

    def waiting():
        return DirtySet(lists.PageLists(pages_, "early", shape), None)

    def marks(*places):
        return block_of(shape, [], [(index * family.advance, key, 1) for index, key in places])

    def of_key_1(live):
        return np.isin(live.keys, np.flatnonzero([key == 1 for key in live.names["k0"].to_pylist()]))

    pages_ = pages.Pages(store, FINGERPRINT, [0])
    waiting().add(marks(*((10, key) for key in (1, 3, 4, 5, 6))), 0)
    assert len(waiting().take(marks((5, 1), (5, 7), (10, 1)), 0, of_key_1)) == 2
    waiting().add(blocks_block.empty(shape), 9)
    left = waiting().take_all(blocks_block.empty(shape), 9)
    assert sorted(left.names["k0"].take(pa.array(left.keys)).to_pylist()) == [3, 4, 5, 6]


def test_marks_are_written_anew_when_half_of_the_rows_say_nothing():
    """Five keys go out each time: a row that came is written once for each level, as gone, and with what is left."""
    marks = Marks(100, keeps=True)
    levels = math.log(300) / math.log(pages.FAN_IN)
    for number in range(300):
        marks.step([5 * (number - back) + key for key in range(5) for back in range(3)])
    assert marks.rows <= (100 + 300 * 15) * (2 + levels)
    assert len(marks.kept) <= 2 * (100 + 3 * 5)
    stored = lists.PageLists(pages.Pages(marks.store, FINGERPRINT, [0]), "early", marks.shape).read(PENDING)
    assert sum(map(len, stored)) <= len(marks.kept)


@pytest.mark.parametrize("mode", ["on_update()", "on_update(latest_only=True)", "on_change()"])
def test_a_process_forgets_the_keys_and_the_values_that_have_gone(mode, monkeypatch):
    monkeypatch.setattr(memory, "_entries", memory.OrderedDict())
    one = Scenario(Even.of(3, 1), MODES[mode], results=("highest",))
    for index in range(60):
        one.step([(index * 1000, index, index)], index)
        for entry in memory._entries.values():
            for block in [*entry.parts, *entry.derived.values()]:
                assert len(block.names) <= 8
                assert len(block.dictionaries[0]) <= 16


def test_state_that_was_put_back_is_not_mixed_with_what_the_process_kept():
    """A micro-batch that failed after its state was written to memory only: it runs again on the state before it."""
    one = Scenario(Even.of(10, 1), on_update(), results=("sum",))
    for index in range(20):
        one.step(evenly(one.family, [index]), index)
    text, held = one.store.text, dict(one.store.pages)
    first = one.emit(evenly(one.family, [20]), 20)
    one.store.text, one.store.pages = text, held
    one.watermark = 19
    assert one.step(evenly(one.family, [20]), 20) == first


@pytest.mark.parametrize("keep", [None, 6])
def test_slices_that_were_given_up_are_read_and_not_taken_from_what_is_still_there(keep):
    """A part of what is kept has slices before the first one that is kept, until they are half of it."""
    shape = shape_of(hopping(4), cases("rows"))
    block = block_of(shape, cases("rows"), evenly(shape.family, range(20)))
    first = memory.BucketCache(shape, "", "all", lambda low, high: [block.between(low, high)])
    list(first.slices([(5, windows_slices.FOREVER)], keep=5))
    again = memory.BucketCache(shape, first.keep(8), "all", first.read)
    assert (again.first, again._parts[0].index[0]) == (8, 5)
    assert [n for part in again.slices([(6, windows_slices.FOREVER)], keep) for n in part.records] == [1] * 14
    assert again.first == (6 if keep else 8)
    assert [n for part in again.since(2) for n in part.records] == [1] * 18


def test_records_touch_at_most_the_slices_around_them():
    """A late record reads no more than 2n - 1 slices, however many there are between it and the newest."""
    one = Scenario(Even.of(5, 1), on_update(), results=("sum",))
    one.step(evenly(one.family, range(0, 300)), 0)
    asked = []
    bucket = one.bucket()
    cache = bucket.slices.cache
    cache.first, cache._parts = 1 << 62, []
    cache.read = lambda low, high: asked.append((low, high)) or bucket.slices._all(low, high)
    bucket.accept(shipped(one, [(100_500, 1, 1)]))
    list(bucket.close(moment(0)))
    assert asked == [(96, 105)]


def test_the_header_stays_as_small_as_it_was_in_plain_on_close():
    one = Scenario(Even.of(60, 1), on_close(), results=("sum",))
    one.step(evenly(one.family, range(60)), 60)
    assert one.bucket().head.nonce == ""
    text = one.store.text
    one.step([], 60)
    assert one.store.text == text, "a micro-batch without news writes nothing"


def test_fieldwise_aggregates_are_joined_by_stripes():
    """Dense keys, n = 400: at most 2 sqrt(n) combines per window that is looked up."""
    calls = []

    def combine(a, b):
        calls.append(a.size)
        return np.maximum(a, b)

    case = Case(Aggregate(lambda: 0, lambda acc, v: v, combine, columns=True), max)
    family = hopping(400)
    shape = shape_of(family, [case])
    block = block_of(shape, [case], evenly(family, range(1000)))
    calls.clear()
    windows = np.arange(600)
    lookup(shape, block, np.zeros(600, np.int64), windows)
    assert sum(calls) <= 2 * 1000 + 600 * 2 * 20


@pytest.mark.parametrize("at_once", [1, 5])
def test_emission_changes_on_a_live_state(at_once, monkeypatch):
    """One emission after another on the same state: each continues as if it had always been there, from its first row.

    Where slices come several at once, most are cut under the emission before the one under which they enter.
    """
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)
    modes = [on_close(), on_update(), on_change(), on_close(), early(records=2), on_change(drained=True), on_close()]
    modes += [LATEST, on_update(), LATEST, early(records=2), LATEST]
    one = Scenario(Even.of(8, 1), on_close(), results=("sum", "most"))
    for number, emission in enumerate(modes):
        one.change(emission)
        for index in range(10 * number, 10 * number + 10, at_once):
            came = [*range(index, index + at_once), max(0, index - (3 if at_once == 1 else 1))]
            one.step(evenly(one.family, came, 2, lambda index, key: index // 4), index - 1)
    one.drain()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same process", "another process"])
@pytest.mark.parametrize("other", [on_update(), on_update(latest_only=True)], ids=str)
def test_what_the_process_keeps_goes_with_its_emission(other, elsewhere, monkeypatch):
    """Marks are forgotten when another emission takes over, also in a micro-batch without records."""
    one = Scenario(Even.of(8, 1), early(records=3), results=("sum",))
    one.step(evenly(one.family, [5, 6]), 0)
    one.change(other)
    with monkeypatch.context() as patch:
        if elsewhere:
            patch.setattr(memory, "_entries", OrderedDict())
        one.step([], 0)
    one.change(early(records=3))
    assert one.step(evenly(one.family, [6]), 0) == {}
    assert len(one.step(evenly(one.family, [6, 6]), 0)) == 8


EAGER = pytest.mark.parametrize("content", [PARTIALS, RECORDS])


@EAGER
@pytest.mark.parametrize("before", [on_close(), on_close(corrections=True), on_change()], ids=str)
def test_the_first_newest_windows_are_those_of_what_another_emission_has_kept(before, content):
    """A record in the oldest slice of the window that ends with the newest one of its key, in the first micro-batch."""
    one = Scenario(Even.of(8, 1), before, 4_000, content, ("most",))
    one.step(evenly(one.family, [20, 25]), 0)
    one.change(on_update(latest_only=True))
    assert len(one.step(evenly(one.family, [18]), 0)) == 1
    assert len(one.step(evenly(one.family, [17]), 0)) == 0


BY_EVENTS = {name: each for name, each in {"on_close()": on_close(), **MODES}.items() if "every" not in name}


def run_changing_stream(before, after, seed, monkeypatch, content):
    """From one emission to another and back, at random micro-batches of a random stream."""
    rng = random.Random(f"{before} {after} {seed} {content}")
    monkeypatch.setattr(memory, "KEPT_BYTES", rng.choice([0, 1 << 30]))
    monkeypatch.setattr(slice_groups, "CUT_BYTES", rng.choice([1, 16_000]))
    family, grace = random_slicing(np.random.default_rng(rng.randrange(1 << 30)), seed), 1000 * rng.choice([2, 7, 30])
    kind = Even.of(*(each // 1000 for each in (family.size, family.advance, family.offset)), begin=10**7)
    chosen = CHANGING if "on_change" in before + after else ("sum", "most", "rows")
    if content == MIXED and len(chosen) % 2:
        chosen = (*chosen, ARRIVED)
    one, changes = Scenario(kind, BY_EVENTS[before], grace, content, chosen), [after, before, after]
    for number, (records, watermark, now) in enumerate(stream(rng, kind, batches=16 if content == PARTIALS else 12)):
        if number and changes and rng.random() < 0.3:
            one.change(BY_EVENTS[changes.pop(0)])
        one.step(records, watermark, now, partitions=rng.choice([1, 2]))
    one.drain()


PAIRS = [pair for pair in product(BY_EVENTS, repeat=2) if pair[0] != pair[1]]


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("seed", seeds(1, 12))
def test_emission_changes_at_any_micro_batch(seed, content, monkeypatch):
    """Every pair of emissions, a share of them for each seed."""
    for number, (before, after) in enumerate(PAIRS):
        if number % 12 == seed:
            run_changing_stream(before, after, seed, monkeypatch, content)


def test_corrections_begin_and_end_on_a_live_state():
    one = Scenario(Even.of(8, 1), on_close(corrections=True), 5000, results=("sum", "most"))
    for index in range(20):
        one.step(evenly(one.family, [index, max(0, index - 9)], 2), index)
    bucket = one.bucket()
    family = bucket.head.families[0]
    first_accepting, next_to_fire = family.first_accepting, family.next_to_fire
    assert first_accepting < next_to_fire
    one.change(on_close())
    plain = one.bucket()
    now = plain.head.families[0]
    assert now.first_accepting == now.next_to_fire == next_to_fire, "what went out is closed"
    late = plain.accept(shipped(one, evenly(one.family, [first_accepting], 1)))
    assert late.all == 1


def test_after_a_change_to_on_change_every_key_with_records_has_one_row():
    """The result is the same in every window: what went out before is not known, so it goes out once more."""
    one = Scenario(Even.of(5, 1), on_close(), results=("most",))
    for index in range(12):
        one.step(evenly(one.family, [index], 2, lambda index, key: 1), index)
    one.change(on_change())
    rows = [len(one.step(evenly(one.family, [index], 2, lambda index, key: 1), index)) for index in range(12, 20)]
    assert rows == [2, 0, 0, 0, 0, 0, 0, 0]


@EAGER
def test_a_correction_replaces_nothing_where_no_result_went_out(content):
    """Size 3, one slice a second::

    slices      0   1   2   3   4   5
    key 0       *   *   *   *   *   *
    key 2                       *        window [0, 3) is over, key 2 has no result there
    key 2 late      *                    counts in [0, 3), [-1, 2), [1, 4)
    """
    one = Scenario(Even.of(3, 1), on_close(corrections=True, old=True), 60_000, content, ("sum", "rows"))
    for index in range(6):
        one.step(evenly(one.family, [index]), index)
    one.step([(4000, 2, 7)], 5)
    got = one.step([(1000, 2, 5), (2000, 0, 1)], 5)
    shown = {place: (row[1:], before and before[1:]) for place, (row, before) in got.items()}
    ((_, _, part, *_), *_) = shown
    for start in (-1000, 0, 1000):
        assert shown["correction", 2, part, start, start + 3000] == ((5, (5, 1)), None)
    assert shown["correction", 0, part, 0, 3000] == ((4, (4, 4)), (3, (3, 3)))


def looked(one, times):
    """Which triggers, by these clock times, put something out; each brings a record of an open window."""
    got = [one.step([(1000 * 10_000, 0, 1)], 0, now) for now in times]
    return [number for number, rows in enumerate(got) if rows]


@EAGER
def test_a_clock_that_steps_back_by_an_interval_at_most_is_waited_for(content):
    one = Scenario(Even.of(4, 1), early(every="1 second"), content=content, results=("sum",))
    times = [10_000, 11_000, 10_500, 10_000, 10_900, 11_100, 11_900, 12_000, 11_999, 12_001]
    assert looked(one, times) == [1, 7], "no tick comes twice"


@EAGER
def test_a_clock_that_was_ahead_does_not_end_early_results(content):
    one, year = Scenario(Even.of(4, 1), early(every="1 second"), content=content, results=("sum",)), 365 * 86_400_000
    assert looked(one, [10_000, 11_000, year, 11_500, 11_900, 12_000, 12_500, 13_000]) == [1, 2, 5, 7]
    assert one.bucket().head.clock == 13_000_000


@pytest.mark.one_in(2)
@EAGER
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_random_clocks(seed, content):
    rng = np.random.default_rng(seed)
    one = Scenario(Even.of(6, 1), early(every="1 second"), content=content, results=("sum", "most"))
    now = 100_000
    for at in range(60):
        now += int(rng.choice([0, 300, 700, 1000, -200, -900, -1000, -1001, -5000, 20_000], p=[0.1] * 10))
        one.step([(1000 * (at - int(back)), 0, 1) for back in rng.integers(0, 6, 3)], max(0, at - 3), max(0, now))
    one.drain()


@pytest.mark.one_in(2)
@EAGER
def test_marks_of_windows_that_have_closed_do_not_pile_up_until_the_tick(content, monkeypatch):
    """Two keys, windows of 5 slices, 20 slices a second: a tick a day would find the marks of two million slices."""
    monkeypatch.setattr(sizes, "PAGE_BYTES", 2000)
    one = Scenario(Even.of(5, 1), early(every="1 day"), content=content, results=("sum",), judged=False)
    most = 0
    for at in range(200):
        one.step(evenly(one.family, [at], keys=2), at, 1 + at // 1000, partitions=1)
        (bucket,) = one.opened
        stored = lists.PageLists(bucket.pages, "early", one.shape.select(())).read(PENDING)
        assert {at, max(0, at - 3)} <= {index for block in stored for index in block.index.tolist()}
        most = max(most, sum(map(len, stored)))
    assert most <= 2 * 5 * 2 * pages.FAN_IN


PAIR = {"init": lambda: (0, 0), "combine": lambda a, b: (a[0] + b[0], a[1] + b[1]), "partial": "n long, s long"}
BY_ROW = Case(Aggregate(agg=lambda acc, v: (acc[0] + 1, acc[1] + v), **PAIR), lambda vs: (len(vs), sum(vs)))
BY_COLUMN = Case(Aggregate(agg=lambda acc, v: (np.ones_like(v), v), columns=True, **PAIR), BY_ROW.truth)


@pytest.mark.parametrize("emission", [on_update(), on_update(latest_only=True)], ids=str)
@pytest.mark.parametrize("before", [BY_ROW, BY_COLUMN], ids=["rows", "columns"])
def test_functions_for_rows_do_not_take_what_functions_for_columns_keep(before, emission):
    """The layout in memory is not that of the pages, which both can read if their types agree."""
    go_on_with(before, BY_COLUMN if before is BY_ROW else BY_ROW, emission)


def go_on_with(case, other, emission):
    """A micro-batch of one result, and one of another over the same state."""
    one, after = (Scenario(Even.of(10, 1), emission, results=[each]) for each in (case, other))
    records = evenly(one.family, range(8), 2)
    one.step(records, 0)
    after.known(records)
    after.stores = one.stores
    assert after.step(evenly(after.family, [7, 8], 2), 0)


def negated_in_place(partial):
    return np.negative(partial, out=partial)


def popped(partial):
    sketch = partial if isinstance(partial, bytearray) else bytearray(partial)
    return sketch.pop() if sketch else None


def unioned(a, b):
    return bytearray(sorted({*a, *b}))


LOWERS_IN_PLACE = {
    "columns": Case(
        Aggregate(lambda: 0, lambda acc, v: v, np.add, lower=negated_in_place, returns="long", columns=True),
        lambda values: -sum(values),
    ),
    "fieldwise": Case(
        Aggregate(lambda: 0, lambda acc, v: v, fieldwise(np.add), lower=negated_in_place, returns="long", columns=True),
        lambda values: -sum(values),
    ),
    "rows": Case(
        Aggregate(
            bytearray, lambda acc, v: unioned(acc, [v]), unioned, None, popped, partial="s binary", returns="long"
        ),
        lambda values: max(values, default=None),
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("emission", [*MODES.values(), on_close()], ids=str)
@pytest.mark.parametrize("name", LOWERS_IN_PLACE)
def test_a_lower_that_changes_its_argument_changes_no_more_than_that(name, emission):
    """What it is given is not what the process keeps, nor what another result is made of."""
    one = Scenario(Even.of(5, 1), emission, 2000, results=[LOWERS_IN_PLACE[name]])
    rng = np.random.default_rng(5)
    for index in np.repeat(range(12), 2).tolist():
        came = [*rng.integers(max(0, index - 4), index + 1, 2).tolist(), index]
        records = evenly(one.family, came, 2, lambda index, key: int(rng.integers(0, 200)))
        one.step(records, index // 2, 500 * index)


def test_functions_of_one_view_do_not_take_what_those_of_another_keep():
    """As ranks the largest text is a number in memory, as values it is the text; pages have the text."""

    def largest(view):
        none = -1 if view == "ranks" else ""
        aggregate = Aggregate(lambda: none, np.maximum, np.maximum, partial="v string", columns=True, view=view)
        return Case(aggregate, lambda values: max(map(str, values)), lambda column: column.cast(pa.string()))

    for emission, views in product(
        (on_update(), on_update(latest_only=True)), (("ranks", "values"), ("values", "ranks"))
    ):
        go_on_with(*map(largest, views), emission)
