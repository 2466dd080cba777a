"""Long windows with a coarse start: what state holds of them, what closes read, lookups, and live changes.

Rows under every trigger, with late records and restarts, are in `test_scenarios`.
"""

import gc
import random
import weakref
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from adapting import SECOND, Query
from oracle import Case, moment
from scenarios.kind import MS, Record
from scenarios.kinds.cumulating import Cumulating
from scenarios.kinds.even import Even
from scenarios.kinds.several import several
from scenarios.kinds.tailed import Coarse
from scenarios.scenario import Process, Scenario

from slicing import Aggregate, by_edges, hopping
from slicing.assembly import partitions
from slicing.assembly.results import Windows
from slicing.engines.looking import Look, Other, Unknown, over_one_cut
from slicing.engines.sliced import merging, tailed_close, unknown
from slicing.engines.sliced.unknown import Emitted
from slicing.errors import InvalidType
from slicing.stages import flat
from slicing.stages.local_runner import bounded, stream
from slicing.stages.looking import KNOWN, LookUp
from slicing.state import bucket_cache, slice_groups
from slicing.state.format.header import Header
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_change, on_close, on_update
from slicing.windows.families.tailed import tailed
from slicing.windows.sets import windows_of_call
from slicing.windows.time.slices import FOREVER

SUMS = ("sum", "highest")


def dense(until, keys=(1, 2), late=0.0, seed=0):
    """A record of each key in each slice of a millisecond; by micro-batch, with its watermark."""
    rng = random.Random(seed)
    for at in range(until):
        records = [(at * MS + rng.randrange(MS), key, rng.randrange(100)) for key in keys]
        if rng.random() < late:
            records.append((max(0, at - rng.randrange(1, 60)) * MS, keys[0], 7))
        yield records, at + 1


def partials(bucket):
    """How many partials the state has of each key."""
    found = Counter()
    for block in bucket.slices.stored(-FOREVER, FOREVER):
        found.update(block.names["k0"].take(pa.array(block.keys)).to_pylist())
    return found


def open_starts(bucket):
    return [each.family.first_slice(each.state.retained_from) for each in bucket.families]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("size", "tail", "cut"), [(36, 6, 16_000), (36, 6, 1), (75, 15, 300), (45, 20, 16_000)])
def test_a_key_has_a_partial_for_each_tail_and_for_each_slice_of_one(size, tail, cut, monkeypatch):
    monkeypatch.setattr(slice_groups, "CUT_BYTES", cut)
    monkeypatch.setattr(merging, "AT_ONCE", 2)
    made, most = Scenario(Coarse.of(size, 1, tail), on_close(), results=SUMS), 0
    bound = -(-size // tail) + tail + 1
    for records, watermark in dense(size + 3 * tail):
        made.step(records, watermark)
        most = max(most, *partials(made.bucket()).values())
    assert bound - 3 <= most <= bound


@pytest.mark.one_in(2)
@pytest.mark.parametrize("cut", [16_000, 1])
def test_slightly_late_records_leave_one_partial_for_each_tail(cut, monkeypatch):
    """Late rows join their tail when the next one is merged; only in the last tail may each slice have another one."""
    monkeypatch.setattr(slice_groups, "CUT_BYTES", cut)
    size, tail, most = 72, 8, 0
    made = Scenario(Coarse.of(size, 1, tail), on_close(), results=SUMS)
    for records, watermark in dense(size + 3 * tail, keys=(1,)):
        at = watermark - 1
        made.step([*records, *(((at - back) * MS, 1, 3) for back in (2, 9) if at >= back)], watermark)
        most = max(most, *partials(made.bucket()).values())
    assert made.seen["late for some"] > 2 * size
    without = size // tail + tail + 1
    assert most <= without + tail + 1


def test_late_records_join_merged_slices():
    made = Scenario(Coarse.of(60, 1, 6), on_close(), results=SUMS)
    for records, watermark in dense(90):
        made.step(records, watermark)
    assert made.bucket().head.merged == 90
    made.step([(50 * MS, 1, 5), (53 * MS, 1, 6), (90 * MS, 1, 7)], 91)
    assert made.seen["late for some"] == 2
    rows = [index for block in made.bucket().slices.stored(48, 54) for index in block.index.tolist()]
    assert rows == [48, 48, 48], "two keys, and one row of what came late"


def test_records_that_are_a_little_late_are_merged_too():
    made = Scenario(Coarse.of(60, 1, 6), on_close(), results=SUMS)
    for records, watermark in dense(108):
        at = watermark - 1
        late = [((at - back) * MS, 1, 3) for back in (1, 3) if at > back]
        made.step([*records, *late], watermark)
    assert made.seen["late for some"] > 140
    bucket = made.bucket()
    index = {at for block in bucket.slices.stored(-FOREVER, FOREVER) for at in block.index.tolist()}
    assert {at for at in index if at < bucket.head.merged} == {*range(48, 108, 6)}


def test_slices_are_merged_as_far_as_no_window_of_several_needs_them():
    kind = several(Even.of(3, 1), Coarse.of(12, 1, 2), Coarse.of(60, 1, 6), reach=66 * MS)
    made = Scenario(kind, on_close(), results=SUMS)
    for records, watermark in dense(100):
        made.step(records, watermark)
    bucket = made.bucket()
    index = sorted({at for block in bucket.slices.stored(0, 200) for at in block.index.tolist()})
    short, middle, long = open_starts(bucket)
    assert (long, middle, short) == (36, 88, 98)
    assert [at for at in index if at < 84] == [*range(36, 84, 6)]
    assert [at for at in index if 88 <= at < 96] == [88, 90, 92, 94]
    assert [at for at in index if at >= short] == [98, 99]


GROUPED = several(Coarse.of(20, 1, 10), Even.of(10, 2), reach=30 * MS)
"""The shorter windows have slice groups of three slices, and one begins at every second slice."""


def test_slices_are_not_merged_into_the_slice_group_before_them():
    made = Scenario(GROUPED, on_close(), results=("floats", "variance"))
    for records, watermark in dense(80, late=0.2):
        made.step(records, watermark)
    bucket = made.bucket()
    index = {at for block in bucket.slices.stored(0, 200) for at in block.index.tolist()}
    long, short = open_starts(bucket)
    assert (bucket.head.merged, short) == (78, 72)
    assert {at for at in index if 70 <= at < 79} == {*range(70, 80, 2), 72, 75, 78}
    assert {at for at in index if at < 70} == {*range(long, 70, 10)}


SELDOM = several(Coarse.of(20, 1, 10), Even.of(10, 2), Even.of(30, 30), reach=30 * MS)
"""Slices are merged a few at a time when the longest windows have closed, and a merge may be half done."""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", [GROUPED, SELDOM], ids=["always", "seldom"])
@pytest.mark.parametrize("seen", range(31, 43))
def test_state_whose_slice_groups_were_merged_by_older_code_goes_on(kind, seen, monkeypatch):
    made, batches = Scenario(kind, on_close(), results=("floats", "variance")), list(dense(90, late=0.2))
    with monkeypatch.context() as older:
        older.setattr(merging, "group_length", lambda family, trees: 0)
        for records, watermark in batches[:seen]:
            made.emit(records, watermark)
            made.known(records, watermark)
    merged = made.bucket().head.merged
    assert [state.apart for state in made.bucket().head.families[:2]] == [None, None]
    for records, watermark in batches[seen:]:
        made.step(records, watermark)
    assert made.bucket().head.families[1].apart == (-FOREVER if merged is None else merged)


def test_slices_that_another_process_has_merged_are_not_taken_from_the_cache():
    made = Scenario(Coarse.of(4, 1, 2), on_update(), results=SUMS)
    made.step([(at * MS, 1, 1) for at in range(8, 21)], 0)
    kept = dict(bucket_cache._entries)
    assert kept
    bucket_cache._entries.clear()
    made.step([], 14)
    assert made.bucket().head.merged == 14
    bucket_cache._entries.update(kept)
    made.step([(12 * MS + 500, 1, 5)], 14)


@pytest.mark.parametrize("kind", [Coarse.of(60, 1, 20), Cumulating.of(60, 1)], ids=["tail", "cumulating"])
@pytest.mark.parametrize("at_once", [True, False])
def test_running_totals_beyond_64_bits_are_refused(kind, at_once):
    plain = Aggregate(lambda: 0, lambda acc, v: acc + v, lambda a, b: a + b, lambda ab, a: ab - a)
    made = Scenario(kind, on_close(), results=[Case(plain, sum)])
    made.step([(at * MS, 1, 0) for at in range(60)], 60)
    made.step([(61 * MS, 1, 2**62), (62 * MS, 1, 2**62 - 1)], 62)
    made.step([], 63)
    with pytest.raises(InvalidType, match="bigint"):
        made.step([(63 * MS, 1, 2**62), (64 * MS, 1, 7)], 65 if at_once else 64)


def of_some_tails(rng):
    """Three or four windows whose tails share few edges."""
    specs = {(11, 1, 11)}
    while len(specs) < rng.choice([3, 4]):
        advance = rng.choice([1, 1, 2, 3])
        tail = advance * rng.choice([3, 5, 7, 8, 10, 12, 15])
        specs.add((tail * rng.choice([1, 2]), advance, tail))
    return several(
        *(Coarse.of(*spec) for spec in sorted(specs)), reach=max(size + tail for size, _, tail in specs) * MS
    )


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(24))
def test_windows_whose_tails_share_few_edges_lose_no_record(seed, monkeypatch):
    """Starts are given up in the middle of a tail, too: its rows are then those of an earlier slice."""
    rng, now = random.Random(seed), 0
    monkeypatch.setattr(slice_groups, "CUT_BYTES", rng.choice([1, 16_384]))
    made = Scenario(of_some_tails(rng), on_close(), results=("sum",))
    while now < 100:
        begin, now = now, now + rng.choice([1, 1, 1, 2, 5, 12])
        late = [now - rng.randrange(1, 40) for _ in range(2) if rng.random() < 0.3]
        times = [*range(begin, now), *(time for time in late if time >= 0)]
        made.step([(time * MS, 1, time) for time in times], now - rng.choice([0, 0, 2]))
    made.drain()


def test_rows_do_not_leave_the_pages_that_are_merged(monkeypatch):
    """The shortest stream that lost records: a merge wrote a slice before the first one that it had read."""
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)
    windows = [Coarse.of(*spec) for spec in ((24, 1, 24), (21, 1, 7), (16, 2, 16), (15, 1, 15))]
    made = Scenario(several(*windows, reach=48 * MS), on_close(), results=("sum",))
    for times, watermark in (([81], 91), ([77], 106), ([84], 110), ([], 117)):
        made.step([(time * MS, 1, time) for time in times], watermark)
    made.drain()


def test_a_close_reads_a_few_partials_whatever_the_size():
    reads = {}
    for size in (400, 1600):
        made, found, waiting = Scenario(Coarse.of(size, 1, 20), on_close(), results=("highest",)), [], []
        for records, watermark in dense(size + 60, keys=(1,)):
            waiting += [Record(*each) for each in records]
            if watermark < size and watermark % 10:
                continue  # the first window takes few micro-batches, as only the closes after it are counted
            bucket = made.bucket()
            bucket.accept(made.arriving(waiting, 1)[0])
            for _ in bucket.close(moment(watermark, 0)):
                pass
            found.append(bucket.pages.read)
            waiting = []
        reads[size] = np.mean(found[-60:])
    assert reads[1600] < 1.5 * reads[400] < 60


COMBINED = []
"""How many partials each call has combined."""


def highest(a, b):
    COMBINED.append(np.size(a))
    return np.maximum(a, b)


def added(a, b):
    COMBINED.append(np.size(a))
    return a + b


def removed(ab, a):
    COMBINED.append(np.size(ab))
    return ab - a


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("size", "step"), [(540, 14), (90, 33), (540, 520), (540, 630)])
@pytest.mark.parametrize(("combine", "invert"), [(highest, None), (added, removed)], ids=["max", "sum"])
def test_combines_are_of_records_and_of_tails_not_of_windows(combine, invert, step, size):
    aggregate = Aggregate(lambda: 0, lambda acc, v: v, combine, invert, columns=True)
    made = Scenario(Coarse.of(size, 1, 30), on_close(), results=[Case(aggregate, max)], judged=False)
    rng, keys, rows, at = random.Random(1), 30, 0, 0
    while at < 3 * 630:
        at, before = at + step, at
        records = [((before + step * i // 30) * MS, rng.randrange(keys), 1) for i in range(max(1, step // 3))]
        steady = before >= 630
        COMBINED[:] = COMBINED if steady else []
        rows += len(made.emit(records, at)) * steady
    assert sum(COMBINED) < rows / 2


def dense_floats(until, keys=(1, 2)):
    rng = random.Random(3)
    return [(at * MS, key, rng.randrange(1000)) for at in range(until) for key in keys if rng.random() < 0.7]


@pytest.mark.parametrize(("size", "tail", "advance"), [(60, 6, 1), (75, 15, 3), (64, 20, 2)])
def test_floats_have_the_same_bits_however_the_stream_is_cut_and_in_bounded_input(size, tail, advance, monkeypatch):
    """They are within the bound of `math.fsum`, too: `bounded` compares."""
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 300)
    kind, records = Coarse.of(size, advance, tail), dense_floats(3 * size)
    records = list({(time // (advance * MS), key): (time, key, v) for time, key, v in records}.values())
    results, found = ("floats", "variance"), []
    wanted = {
        place[1:]: row for place, (row, _) in Scenario(kind, on_close(), results=results).bounded(records).items()
    }
    rng = random.Random(size)
    for steps in ([advance * tail], [5 * size], [1, 2, tail + 3, size // 2, size + 7]):
        made, now, got = Scenario(kind, on_close(), results=results, judged=False), 0, {}
        while now < 5 * size:
            before, now = now, now + rng.choice(steps)
            some = [record for record in records if before * MS <= record[0] < now * MS]
            got |= made.emit(some, max(0, now - rng.choice([0, 0, 3])), partitions=1)
        found.append({place[1:]: row for place, (row, _) in got.items()})
    assert all(each == wanted for each in found)


@pytest.mark.parametrize(("size", "tail"), [(60, 6), (12, 6), (75, 15)])
def test_records_stay_after_a_close_of_as_many_tails_as_a_window_has(size, tail):
    """One record, then a micro-batch that closes windows of about a whole window length, then more of them."""
    for jump in range(size - tail - 2, size + 2):
        stream, rows = Scenario(Coarse.of(size, 1, tail), on_close(), results=("sum",)), 0
        record = (38_805 * size // 60, 1, 12)
        for number, watermark in enumerate([8, 8 + jump, 8 + jump + tail, 8 + jump + 2 * tail, 3 * size]):
            records = [] if number else [record]
            found, wanted = stream.emit(records, watermark, 0, 2), stream.known(records, watermark, 0)
            assert found.keys() == wanted.keys(), (jump, watermark)
            assert {row for row, _ in found.values()} <= {(1, 12)}
            rows += len(found)
        assert rows >= size


@pytest.mark.one_in(3)
@pytest.mark.parametrize("trigger", [on_close(), on_update(), on_change()], ids=str)
def test_rows_are_those_of_the_same_edges_without_merging(trigger):
    """Rows of exact results are equal, micro-batch by micro-batch, whatever restarts lose."""
    size, tail, until = 20, 4, 45
    ends = [at * MS for at in range(-60, 200)]
    starts = [(end - size * MS) // (tail * MS) * tail * MS for end in ends]
    coarse = Scenario(Coarse.of(size, 1, tail), trigger, results=SUMS)
    listed = Coarse(by_edges(starts, ends), 0, MS, 24 * MS, coarse.kind.spec)
    plain = Scenario(listed, trigger, results=SUMS)
    coarse.process = Process(random.Random(1), "some")
    for records, watermark in dense(until, late=0.3, seed=4):
        assert coarse.step(records, watermark - 3) == plain.step(records, watermark - 3)
    assert coarse.bucket().head.merged
    assert plain.bucket().head.merged is None


def test_slice_groups_of_merged_slices_take_no_more_in_the_header_of_a_longer_window():
    """They look alike, and are written once."""
    taken, groups = {}, {}
    for size in (45, 180):
        made = Scenario(Coarse.of(size, 1, 3), on_close(), results=SUMS)
        for records, watermark in dense(size + 20, keys=(1,)):
            made.emit(records, watermark)
        header = Header.from_text(made.stores[0].text)
        assert Header.from_text(header.to_text()) == header
        whole, groups[size] = len(header.to_text()), len(header.slice_groups)
        header.slice_groups = {}
        taken[size] = whole - len(header.to_text())
    assert groups[180] > 1.5 * groups[45]
    assert taken[180] < 1.5 * taken[45] < 200


def test_only_windows_with_a_tail_write_of_merged_slices():
    texts = {}
    for kind in (Even.of(12, 1), Coarse.of(12, 1, 3)):
        made = Scenario(kind, on_close(), results=SUMS)
        for records, watermark in dense(40):
            made.step(records, watermark)
        header = Header.from_text(made.stores[0].text)
        texts[type(kind)] = header.merged
        assert Header.from_text(header.to_text()) == header
    assert texts[Even] is None
    assert texts[Coarse] == 39


# --- lookups --------------------------------------------------------------------------------------------------------


def looked_up(made, asked, window=None):
    """Windows by (key, start, end): how many records; those of the query, or others."""
    bucket, families = made.bucket(), made.families
    if window is not None:
        families = (window.family.over(families[0].cut),)
        asked = Look(**{**vars(asked), "other": Other(families)})
    found = {}
    for frame in bucket.look(asked):
        own = families[frame.family]
        starts = own.window_start(frame.windows)
        keys = frame.names["k0"].to_pylist()
        rows = zip(
            frame.keys, starts, frame.ends_by(own), frame.records, bucket.coverage.known_since(starts), strict=True
        )
        for key, start, end, count, known in rows:
            found[keys[key], int(start) // MS, int(end) // MS] = int(count), int(known) // MS
    return found


def test_lookups_are_of_windows_that_begin_and_end_between_merged_slices():
    made = Scenario(Coarse.of(30, 1, 6), on_close(), results=SUMS)
    for records, watermark in dense(100):
        made.step(records, watermark)
    # 100 slices; of the first window that is open, [66, 101), 66 is the start; up to 96 slices are merged.
    bucket = made.bucket()
    assert (bucket.head.merged, open_starts(bucket)) == (96, [66])
    own = looked_up(made, Look())
    assert {place[1:]: count for place, (count, _) in own.items() if place[0] == 1} == {
        (start, end): min(100, end) - start
        for end in range(96, 136)
        if (start := (end - 30) // 6 * 6) >= 66 and start < 100
    }
    hourly = looked_up(made, Look(), hopping("12 milliseconds", "6 milliseconds"))
    assert {place[1:]: count for place, (count, _) in hourly.items() if place[0] == 2} == {
        (start, start + 12): min(100, start + 12) - start for start in range(66, 100, 6)
    }
    fine = looked_up(made, Look(), hopping("4 milliseconds", "1 millisecond"))
    assert {place[1:] for place in fine if place[0] == 1} == {(start, start + 4) for start in range(96, 100)}


def test_incomplete_lookups_say_from_which_merged_slice_on_they_know():
    made = Scenario(Coarse.of(30, 1, 6), on_close(), results=SUMS)
    for records, watermark in dense(100):
        made.step(records, watermark)
    found = looked_up(made, Look(incomplete=True), hopping("20 milliseconds", "1 millisecond"))
    inside = {start: (count, known) for (key, start, _), (count, known) in found.items() if key == 1 and start < 96}
    # Windows that end between slices 72 and 96 do so inside of a merged slice, unless they end at its edge.
    assert sorted(inside) == sorted({end - 20 for end in (72, 78, 84, 90, *range(96, 116))})
    for start, (count, known) in inside.items():
        assert known == max(66, -(-start // 6) * 6), start
        assert count == min(100, start + 20) - known


def test_latest_lookups_find_the_first_window_that_does_not_end_inside_a_merged_slice():
    """The size is no multiple of the tail: windows that begin at the first tail may end inside of a later one."""
    made, seen = Scenario(Coarse.of(45, 1, 20), on_close(), results=SUMS), 0
    for at, (records, watermark) in enumerate(dense(130)):
        made.step([*records, *([(at * MS, 3, 1)] if at == 78 else [])], watermark)
        if at < 100:
            continue
        every, latest = looked_up(made, Look()), looked_up(made, Look(latest=True))
        assert {key for key, _, _ in latest} == {key for key, _, _ in every}
        assert latest.items() <= every.items()
        ends = {end for key, _, end in every if key == 3}
        assert [end for key, _, end in latest if key == 3] == ([min(ends)] if ends else [])
        seen += bool(ends)
    assert seen > 15


KEYS = pa.table({"k0": pa.array([1, 3, 9], pa.int64())})
"""A key with records in all slices, one with a single record, and one without."""


def not_known(made, asked, window):
    """The windows that are named and not known, by (key, start, end), with the time from which they are."""
    bucket, family = made.bucket(), window.family.over(made.families[0].cut)
    asked = replace(asked, other=Other((family,)), unknown=True)
    found = bucket.look(asked)
    return {
        (key, start // MS, end // MS): known // MS
        for each in found
        if isinstance(each, Unknown)
        for key, start, end, known in zip(
            each.names["k0"].take(pa.array(each.keys)).to_pylist(),
            family.window_start(each.windows).tolist(),
            family.window_end(each.windows).tolist(),
            each.known.tolist(),
            strict=True,
        )
    }


def test_named_windows_that_begin_or_end_inside_a_merged_slice_are_not_known():
    made, window = Scenario(Coarse.of(30, 1, 6), on_close(), results=SUMS), hopping("8 milliseconds", "1 millisecond")
    for at, (records, watermark) in enumerate(dense(100)):
        made.step([*records, *([(at * MS, 3, 1)] if at == 80 else [])], watermark)
    merged, first = 96, 66
    asked = Look(keys=KEYS, starts=(40 * MS, 99 * MS))
    whole, unknown = looked_up(made, asked, window), not_known(made, asked, window)
    edges = {*range(first, merged, 6), *range(merged, 200)}
    named = {(start, start + 8) for start in range(40, 100)}
    known = {place for place in named if {*place} <= edges}
    assert {(key, *place) for key in (1, 3, 9) for place in named - known} == unknown.keys()
    assert {place[1:] for place in whole if place[0] == 1} == known
    for (_, start, end), since in unknown.items():
        assert since == min(edge for edge in edges if edge >= (start if end in edges else end))
    near = not_known(made, replace(asked, keys=None), window)
    assert near.items() <= unknown.items() | {((2, *place[1:]), since) for place, since in unknown.items()}
    assert {place[1:] for place in near if place[0] == 3} == {
        (start, end) for start, end in named - known if start < 84 and end > 78
    }
    assert not not_known(made, replace(asked, starts=(-(FOREVER >> 1), 99 * MS)), window)


@pytest.mark.parametrize("keys", [None, KEYS], ids=["all keys", "keys"])
def test_a_key_whose_latest_window_is_not_known_is_there(keys):
    made, window = Scenario(Coarse.of(30, 1, 6), on_close(), results=SUMS), hopping("3 milliseconds", "1 millisecond")
    for at, (records, watermark) in enumerate(dense(100)):
        made.step([*records, *([(at * MS, 3, 1)] if at == 80 else [])], watermark)
    asked = Look(keys=keys, latest=True)
    assert 3 not in {key for key, _, _ in looked_up(made, asked, window)}
    # Its record is in the slice of 78 to 84: the first window that may hold it ends inside of this slice.
    assert not_known(made, asked, window) == {(3, 76, 79): 84}
    assert not_known(made, replace(asked, latest=False), window) == {(3, 76, 79): 84} if keys else True


LAST_SECONDS, TEN = (0, 100 * SECOND), hopping("10 seconds", "1 second").family


@pytest.mark.parametrize(
    ("window", "asked"),
    [
        (hopping("20 seconds", "1 second"), Look(starts=LAST_SECONDS)),
        (hopping("20 seconds", "1 second"), Look(starts=LAST_SECONDS, incomplete=True)),
        (hopping("30 seconds", "1 second", tail="6 seconds"), Look(latest=True, other=Other((TEN,)))),
    ],
    ids=["whole windows", "windows that lack slices", "latest windows"],
)
def test_keys_of_emitted_windows_are_read_once(window, asked, monkeypatch):
    """Twice the keys, twice the rows of keys; not four times, as if all were read again for each few keys."""
    monkeypatch.setattr(unknown, "FRAME_ROWS", 2000)
    monkeypatch.setattr(partitions, "PARTITION_BYTES", 2_000)
    concat, read = pa.concat_tables, Counter()

    def counted(tables, *more, **named):
        table = concat(tables, *more, **named)
        read[count] += len(table)
        return table

    for count in (500, 1000):
        query, store = Query([window], ["rows"]), MemoryStore()
        for second in range(60, 100, 8):
            query.step(store, [(second * SECOND, key, 1, "a") for key in range(count)], second * SECOND)
        keys = None if asked.latest else pa.table({"k0": pa.array(range(count), pa.int64())})
        shape = query.shape if asked.other is None else query.shape.over(TEN)
        looked, bucket = replace(asked, keys=keys, unknown=True), query.bucket(store)
        with monkeypatch.context() as patched:
            patched.setattr(pa, "concat_tables", counted)
            plan = query.execution_plan, query.fingerprint, query.emission
            found = [*LookUp(*plan, 0, shape, False, True, None, looked, {}).rows(bucket)]
        rows = pa.concat_tables([table.select(["k0", flat.START]) for table in found])
        assert len(rows) >= count
        assert len(rows.group_by(rows.column_names).aggregate([])) == len(rows)
    assert read[1000] < 3 * read[500]


def test_lookups_hold_no_window_that_they_have_returned(monkeypatch):
    windows = hopping("20 seconds", "1 second"), hopping("5 seconds", "1 second")
    query, store = Query(windows, ["rows"], wide=True), MemoryStore()
    for second in range(60, 100, 8):
        query.wide_step(store, [(second * SECOND, 1, 1, "a")], second * SECOND)
    bucket, held = query.bucket(store), []

    def seen(frames):
        for frame in frames:
            for row in range(len(frame)):
                one = frame.take(np.array([row]))
                held.append([weakref.ref(each) for each in (one.windows, one.keys, *one.aligned)])
                yield one

    monkeypatch.setattr(bucket, "_looked_up", lambda asked, look=bucket._looked_up: seen(look(asked)))
    look, plan = Look(keys=KEYS, starts=LAST_SECONDS, unknown=True), (query.execution_plan, query.fingerprint)
    for table in LookUp(*plan, query.emission, 0, query.shape, True, True, None, look, {}).rows(bucket):
        if 9 in table["k0"].to_pylist():
            gc.collect()
            assert len(held) > 5
            assert sum(any(each() is not None for each in refs) for refs in held) <= 1, "the last one"
            return
    raise AssertionError("a key without records has windows that are not known")


@pytest.mark.parametrize("is_same", [False, True], ids=["hashes", "one hash"])
@pytest.mark.parametrize("named", [np.array([3, 5, 6]), None], ids=["windows", "keys"])
def test_emitted_windows_are_told_from_others(named, is_same, monkeypatch):
    if is_same:
        monkeypatch.setattr(unknown, "hashes", lambda names: np.zeros(len(names), np.uint64))
    rng, some, returned = random.Random(7), Emitted(named), set()

    def keys(length):
        return [(rng.choice([1, 2, 3, None]), rng.choice(["a", "b", None])) for _ in range(length)]

    def drawn(length, windows):
        own = [*dict.fromkeys(keys(length))]
        names = pa.table({"n": pa.array([n for n, _ in own], pa.int64()), "s": pa.array([s for _, s in own])})
        pairs = {(rng.randrange(len(own)), rng.choice(windows)) for _ in range(length)}
        codes, numbers = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
        return [(own[code], window) for code, window in pairs], codes, numbers, names

    for _ in range(3):
        places, codes, windows, names = drawn(3, range(2, 9))
        some.add(Windows(windows, codes, names, np.ones(len(codes)), [], []))
        returned.update(places)
    of_keys, left_out = {key for key, _ in returned}, 0
    for _ in range(20):
        places, codes, windows, names = drawn(5, [3, 5, 6])
        found = some.without(Unknown(0, windows, codes, names, windows * 10))
        expected = [each for each in places if (each not in returned if named is not None else each[0] not in of_keys)]
        rows = names.take(pa.array(found.keys)).to_pylist()
        assert [((row["n"], row["s"]), at) for row, at in zip(rows, found.windows.tolist(), strict=True)] == expected
        assert found.known.tolist() == [10 * at for _, at in expected]
        left_out += len(places) - len(expected)
    assert left_out


LONG, DAY = hopping("30 seconds", "1 second", tail="6 seconds"), hopping("12 seconds", "6 seconds")
SHORT = hopping("4 seconds", "1 second")


def wide_rows(query, bucket, look, shape):
    """Wide rows by their end in seconds: the records in the long and in the short window, and since when all are known.

    A window without records has no result.
    """
    asked = LookUp(query.execution_plan, query.fingerprint, query.emission, 0, shape, True, True, None, look, {})
    rows = [row for table in asked.rows(bucket) for row in table.to_pylist()]
    found = {row["start"] // SECOND: (row.get("r0") or 0, row.get("r1") or 0, row[KNOWN]) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("is_declared", [True, False], ids=["windows of the query", "other windows"])
def test_a_wide_row_is_left_out_if_one_of_its_windows_begins_inside_a_merged_slice(is_declared):
    query = Query([LONG, SHORT] if is_declared else [LONG], ["rows"], wide=is_declared)
    store, step = MemoryStore(), query.wide_step if is_declared else query.step
    for second in range(100):
        step(store, [(second * SECOND, 1, 1, "a")], second * SECOND)
    bucket, look, shape = query.bucket(store), Look(), query.shape
    if not is_declared:
        parts = windows_of_call((), {"long": LONG, "short": SHORT}, long=False).parts
        look = Look(other=Other(tuple(part.family.over(query.family.cut) for part in parts), True))
        shape = query.shape.over(over_one_cut(look.other.families))
    merged = 96
    assert [at for at in range(85, 101) if bucket.coverage.is_separate(np.array([at]))] == [90, 96, 97, 98, 99, 100]

    def counted(start, end):
        return min(100, end) - min(100, start)

    def begins(end):
        return (end - 30) // 6 * 6, end - 4

    starts = (40 * SECOND, 100 * SECOND)
    named = wide_rows(query, bucket, replace(look, starts=starts), shape)
    unknown = wide_rows(query, bucket, replace(look, starts=starts, unknown=True, keys=KEYS.slice(0, 1)), shape)
    assert named.items() <= unknown.items()
    for end in unknown.keys() - named.keys():
        assert unknown[end][:2] == (0, 0)
        assert unknown[end][2] > min(begins(end)) * SECOND
    begun = {begins(end)[0] for end in unknown}
    assert begun >= {*range(42, 100, 6)}
    found = wide_rows(query, bucket, look, shape)
    assert min(found) == merged + 4
    for end, row in found.items():
        assert row == (*(counted(start, end) for start in begins(end)), None), end
    partial = wide_rows(query, bucket, replace(look, incomplete=True), shape)
    assert found.items() <= partial.items()
    assert {merged, merged + 1, merged + 2, merged + 3} <= partial.keys(), "long windows that end here are known"
    for end in partial.keys() - found.keys():
        # The first slice of a long window is known from 66 on, and that of a short window from the next tail on.
        known = [max(66, -(-start // 6) * 6) if start < merged else start for start in begins(end)]
        since = max(at for at, start in zip(known, begins(end), strict=True) if at > start)
        assert partial[end] == (*(counted(at, max(at, end)) for at in known), since * SECOND), end


# --- live changes ---------------------------------------------------------------------------------------------------


def counted(query, store, seconds, found):
    """Feed a record of each second, and collect rows by (start, end) in seconds."""
    for second in seconds:
        for start, end, _, results in query.step(store, [(second * SECOND, 1, 1, "a")], second * 1000 * 1000)[0]:
            found[start // SECOND, end // SECOND] = results["rows"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "other", [DAY, hopping("12 seconds", "1 second"), hopping("18 seconds", "2 seconds", tail="6 seconds")]
)
def test_windows_added_begin_where_slices_are_apart(other):
    store, found = MemoryStore(), {}
    counted(Query([LONG], ["rows"]), store, range(100), found)
    counted(Query([LONG, other], ["rows"]), store, range(100, 160), found)
    assert all(count == min(160, end) - max(0, start) for (start, end), count in found.items())
    added = [start for start, end in found if end - start in (12, 18, 20, 22)]
    assert added
    if other is DAY:
        assert min(added) == 90, "of slices that end where others begin nothing is missing"


def test_a_tail_may_come_and_go():
    store, found, plain = MemoryStore(), {}, hopping("30 seconds", "1 second")
    counted(Query([plain], ["rows"]), store, range(60), found)
    counted(Query([plain, LONG], ["rows"]), store, range(60, 120), found)
    counted(Query([plain], ["rows"]), store, range(120, 170), found)
    counted(Query([LONG], ["rows"]), store, range(170, 260), found)
    assert all(count == min(260, end) - max(0, start) for (start, end), count in found.items())
    assert {end for start, end in found if end - start == 30} >= set(range(30, 165))
    assert {end for start, end in found if end - start > 30} >= {end for end in range(101, 119) if end % 6}


# --- windows that are far apart, and tails that a zone leaves out ---------------------------------------------------


DAY = 86_400 * SECOND


def test_windows_that_are_far_apart_cost_no_tails_between_them():
    """A record of the year 1 is as far as 17 million hours from one of today."""
    window, times = hopping("1 day", "10 minutes", tail="1 hour"), [-719_162 * DAY, 19_844 * DAY]
    rows = sorted((row.start, row.end, row.records) for row in bounded(window, times).rows)
    assert rows == sorted((*place, 1) for time in times for place in window.windows_of(time))
    own = tailed(window.family)
    ranges = [np.array([own.slice_at(time) + back for time in times]) for back in (0, 144)]
    assert len(own.spells(*ranges)[0]) == 2 * 25, "the windows of a record end in 24 tails, or in one more"


@pytest.mark.parametrize("seed", range(20))
def test_runs_of_windows_that_end_in_one_tail_and_start_alike(seed):
    rng = random.Random(seed)
    own = tailed(Coarse.of(rng.choice([4, 10, 11]), rng.choice([1, 2]), 4, begin=-500).window.family)
    edges = np.array(sorted(rng.sample(range(-60, 60), 6)))
    begins, ends = own.spells(edges[::2], edges[1::2])
    of = {}
    for number, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        of |= dict.fromkeys(range(begin, end), number)
        assert len({(int(own.tail_of_end(w)), int(own.first_tail(w))) for w in range(begin, end)}) == 1
    for first, end in edges.reshape(-1, 2).tolist():
        assert of.keys() >= set(range(first, end))
        for window in range(first + 1, end):
            places = [(int(own.tail_of_end(w)), int(own.first_tail(w))) for w in (window - 1, window)]
            assert (of[window - 1] == of[window]) == (places[0] == places[1])


@pytest.mark.parametrize("jump", [1, 3, 8])
def test_a_close_over_a_tail_that_a_zone_has_left_out(monkeypatch, jump):
    """Apia left out 30 December 2011; the totals of whole tails are made for a few tails at a time."""
    monkeypatch.setattr(tailed_close, "MOST_TAILS", 2)
    window, begin = hopping("10 days", "6 hours", tail="1 day", zone="Pacific/Apia"), 15_309 * DAY
    times = [begin + at * DAY // 4 for at in range(4 * 70)]
    batches, low = [times[:80], [times[80]]], times[80]
    while low < times[-1]:
        until = low + jump * DAY
        batches += [[time for time in times if low < time <= until], [min(until, times[-1])]]
        low = until
    rows, wanted = (
        {(row.start, row.end, row.records) for row in made.rows}
        for made in (
            stream(window, [*batches, [times[-1] + 200 * DAY]], 0),
            bounded(window, [time for batch in batches for time in batch]),
        )
    )
    assert wanted - rows == set()
