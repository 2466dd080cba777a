"""Late rows as an output: what is refused comes out, with what it met, against brute force over the records."""

import random
from collections import defaultdict
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from oracle import CASES, FINGERPRINT, Case, MixedStream, Stream, cases, columns_of, hopping, last_edge, seeds
from test_state import random_records, random_slicing

from slicing import cumulating, tumbling
from slicing import hopping as sized
from slicing.aggregates.aggregate import Aggregate
from slicing.assembly.choice import EAGER
from slicing.content.codec import decode, encode
from slicing.content.folding import fold
from slicing.content.records import Records, decode_records, encode_records
from slicing.engines.eager.bucket import EagerBucket
from slicing.stages.execution_plan import Aggregation
from slicing.stages.support_of import support_of
from slicing.state.format.header import SliceGroup
from slicing.triggers.emission import on_close
from slicing.triggers.lateness import RefusedRows
from slicing.windows.families import family
from slicing.windows.time.slices import Slicing

COMMUTATIVE = cases("sum", "rows", "floats", "variance", "highest")
SQUARES = Case(Aggregate(lambda: 0, lambda acc, v: acc + v * v), lambda values: sum(v * v for v in values))
"""Without `combine`."""


def records_of(stream, records):
    """Records as the first stage ships them when it ships records."""
    shape, family = stream.shape, stream.family
    slices = family.slice_at(np.array([time for time, _, _ in records], np.int64))
    kept = np.flatnonzero(~np.broadcast_to(family.in_gap(slices), slices.shape))
    times = np.array([records[i][0] for i in kept], np.int64)
    names = pa.table([pa.array([records[i][1] for i in kept], pa.int64())], schema=shape.key_schema)
    values = pa.array([records[i][2] for i in kept], pa.int64())
    columns = [case.argument(values) for case in stream.cases]
    return Records(slices[kept], times, names, [c.combine_chunks() if hasattr(c, "chunks") else c for c in columns])


class EagerStream(Stream):
    """The same of a bucket of the eager plan."""

    def bucket(self):
        """What the next micro-batch sees."""
        return EagerBucket(self.shape, arguments(self), self.grace, FINGERPRINT, self.store)

    def shipped(self, records):
        """What the first stage ships of some records."""
        return decode_records(self.shape, encode_records(self.shape, records_of(self, records)))

    def _check_counting_nothing(self):
        pass


def arguments(stream):
    return tuple((i,) for i in range(len(stream.cases)))


def chosen_strategy(stream):
    trees = (EAGER,) * len(stream.cases) if isinstance(stream, EagerStream) else tuple(stream.trees)
    return support_of(tumbling("1 second")).execution_plan(Aggregation(stream.shape, trees, arguments(stream)))


def rows_of(stream, block):
    """Partials by (start of the slice, key): the number of records, then what each aggregate shows."""
    block.check(stream.shape)
    columns = [block.records.tolist(), *columns_of(stream.shape, block)]
    keys = block.names["k0"].take(pa.array(block.keys)).to_pylist()
    starts = stream.family.slice_start(block.index).tolist()
    return dict(zip(zip(starts, keys, strict=True), zip(*columns, strict=True), strict=True))


def met(stream, late, slices):
    (late,) = late.refused
    """What each slice met: the watermark, the first window that took it or None, how many did not."""
    missed = late.missed(stream.family, slices)
    taken = [None if none else first for first, none in zip(missed.taken.tolist(), missed.by_all, strict=True)]
    return [(late.watermark // 1000, first, count) for first, count in zip(taken, missed.windows.tolist(), strict=True)]


def assert_values(stream, got, values):
    """Partials hold these values, no other places do."""
    assert got.keys() == values.keys()
    for place, held in values.items():
        count, *found = got[place]
        assert count == len(held), place
        for case, result in zip(stream.cases, found, strict=True):
            truth, tolerance = case.truth(held), case.tolerance(held)
            assert result == truth or (tolerance and abs(result - truth) <= tolerance), (place, result, truth)


def by_place(stream, refused):
    """Refused records by the start of their slice and their key."""
    held = defaultdict(list)
    for record in refused:
        held[last_edge(stream.family, record[0][0]), record[0][1]].append(record)
    return held


def check_partials(stream):
    """Every micro-batch put out exactly the partials of what it refused, and those of all of them re-combine."""
    blocks = []
    for late, refused in zip(stream.refused, stream.true_refused, strict=True):
        block = chosen_strategy(stream).late_partials(late.refused[0])
        blocks.append(decode(stream.shape, encode(stream.shape, block)))
        places = by_place(stream, refused)
        got = rows_of(stream, block)
        assert_values(stream, got, {place: [record[2] for record, *_ in held] for place, held in places.items()})
        for place, seen in zip(got, met(stream, late, block.index), strict=True):
            assert {tuple(what) for _, *what in places[place]} == {seen}
        by_all = late.refused[0].missed(stream.family, block.index).by_all
        assert (late.all, late.some) == (block.records[by_all].sum(), block.records[~by_all].sum())
    together = by_place(stream, [each for refused in stream.true_refused for each in refused])
    values = {place: [record[2] for record, *_ in held] for place, held in together.items()}
    if EAGER not in chosen_strategy(stream).trees:
        assert_values(stream, rows_of(stream, fold(stream.shape, blocks)), values)
    return len(values)


def check_records(stream, batches):
    """Every micro-batch put out exactly the records that it refused, in their order."""
    for late, refused, batch in zip(stream.refused, stream.true_refused, batches, strict=True):
        beside = [encode_records(stream.shape, records_of(stream, part)) for part in (batch[::2], batch[1::2])]
        found = []
        for records in chosen_strategy(stream).late_records(stream.family, late.refused[0], beside):
            values = zip(records.times.tolist(), records.names["k0"].to_pylist(), records.values[0], strict=True)
            rows = [(time, key, value.as_py()) for time, key, value in values]
            found += zip(rows, met(stream, late, records.index), strict=True)
        key = repr
        assert sorted(found, key=key) == sorted(((row, tuple(what)) for row, *what in refused), key=key)


def run_random_stream(seed, made):
    rng = np.random.default_rng(seed)
    stream = made(rng)
    records, delay, watermark = random_records(rng), int(rng.integers(0, 8)), 0
    most = max(2, len(records) // 20)
    batches = []
    while records:
        count = int(rng.integers(1, most))
        batch, records = records[:count], records[count:]
        batches.append(batch)
        stream.step(batch, watermark)
        watermark = max(watermark, max(time for time, _, _ in batch) // 1000 - delay)
    found = check_partials(stream)
    check_records(stream, batches)
    stream.drain()
    return found


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_what_random_streams_refuse(seed):
    def made(rng):
        chosen = cases(*CASES) if seed % 4 == 0 else COMMUTATIVE
        return Stream(random_slicing(rng, seed), chosen, grace=int(rng.choice([0, 0, 7000])))

    run_random_stream(seed, made)


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_what_random_streams_refuse_with_the_eager_strategy(seed):
    chosen = [*cases("sum", "rows"), SQUARES]
    run_random_stream(seed, lambda rng: EagerStream(random_slicing(rng, seed), chosen, grace=3000))


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_what_random_streams_refuse_with_both_strategies_in_one_call(seed):
    chosen = [*cases("sum"), SQUARES, *cases("variance", "highest")]
    run_random_stream(seed, lambda rng: MixedStream(random_slicing(rng, seed), chosen, on_close(), grace=3000))


def test_random_streams_refuse_something():
    assert sum(run_random_stream(seed, lambda rng: Stream(hopping(10), COMMUTATIVE)) for seed in range(3)) > 20


def test_what_refused_slices_met():
    #   size 4 s, advance 1 s; the watermark has passed 6 s: windows up to [2, 6) are closed
    #
    #   time       0   1   2   3   4   5   6   7   8
    #   window 2           [===============)           closed
    #   window 3               [===============)       open
    #   record         all     some        none
    stream = Stream(Slicing(4_000_000, 1_000_000), cases("sum"))
    stream.step([(5_500_000, 1, 1)], 6_500)
    stream.step([(1_500_000, 1, 2), (3_500_000, 1, 4), (6_500_000, 1, 8)])
    late = stream.refused[-1]
    assert rows_of(stream, late.refused[0].rows) == {(1_000_000, 1): (1, 2), (3_000_000, 1): (1, 4)}
    # 1.5 s is in windows -2 .. 1, all closed; 3.5 s in windows 0 .. 3, of which 3 is open.
    assert met(stream, late, late.refused[0].rows.index) == [(6_500, None, 4), (6_500, 3, 3)]


IN_ZONES = {
    "cumulating": (cumulating("1 day", "1 hour", zone="Europe/Berlin"), datetime(2026, 3, 29, 1, tzinfo=UTC)),
    "half an hour": (
        cumulating("1 day", "30 minutes", zone="Australia/Lord_Howe"),
        datetime(2025, 10, 4, 15, 30, tzinfo=UTC),
    ),
    "a day left out": (sized("7 days", "1 day", zone="Pacific/Apia"), datetime(2011, 12, 30, 10, tzinfo=UTC)),
    "month to date": (cumulating("1 month", "1 day", zone="Pacific/Apia"), datetime(2011, 12, 30, 10, tzinfo=UTC)),
    "tail": (sized("2 days", "1 hour", tail="1 day", zone="Europe/Berlin"), datetime(2026, 3, 29, 1, tzinfo=UTC)),
    "without a zone": (sized("5 hours", "2 hours"), datetime(2026, 3, 29, 1, tzinfo=UTC)),
}


@pytest.mark.parametrize("at_once", [50, 1 << 16])
@pytest.mark.parametrize("name", IN_ZONES)
def test_late_records_miss_each_window_once(name, at_once, monkeypatch):
    """Windows that a change of the clock makes equal are one window."""
    monkeypatch.setattr(family, "_WINDOWS_AT_ONCE", at_once)
    (window, change), rng = IN_ZONES[name], random.Random(name)
    own, at, hour = window.family, int(change.timestamp()) * 10**6, 3600 * 10**6
    times = [at + shift * hour + rng.randrange(hour) for shift in range(-40, 40)]
    times = np.array(rng.sample(times, len(times)))
    for watermark in (at, at + 3 * hour, at + 50 * hour, at + 1000 * hour):
        late = RefusedRows(None, own.first_open(watermark), watermark)
        some = own.slice_at(times)
        some = some[own.first_window(some) < late.first_accepting]
        held = [window.windows_of(start) for start in own.slice_start(some).tolist()]
        closed = [sum(end <= watermark for _, end in windows) for windows in held]
        assert late.missed(own, some).windows.tolist() == closed
    assert len(some) == len(times)
    assert late.missed(own, some[:0]).windows.tolist() == []


def test_late_partials_cost_nothing_in_the_state():
    """The state after a micro-batch of late records is that of one without them."""
    quiet, noisy = (Stream(Slicing(4_000_000, 1_000_000), cases("sum")) for _ in range(2))
    for stream in (quiet, noisy):
        stream.step([(5_500_000, 1, 1)], 20_000)
        stream.step([(25_000_000, 1, 1)], 20_000)
    noisy.store.forget_counts()
    noisy.step([(1_500_000, 1, 2), (3_500_000, 1, 4)])
    quiet.step([])
    assert (noisy.store.pages, noisy.store.text) == (quiet.store.pages, quiet.store.text)
    assert (noisy.store.reads, noisy.store.writes) == (0, 0)


# The size of the state, by the header.


def test_extent_counts_open_windows_and_slices():
    stream = Stream(Slicing(4_000_000, 1_000_000), cases("sum"))
    assert stream.bucket().extent() == {"open_windows": 0, "slices": 0}
    stream.step([(10_000_000, 1, 1), (12_500_000, 1, 1)])
    # A page of slices 10 to 12, of windows 7 to 12.
    assert stream.bucket().extent() == {"open_windows": 6, "slices": 3}
    stream.step([(11_000_000, 2, 1), (30_000_000, 2, 1)], 13_000)
    # Windows up to 9 are closed, of 10 to 12 and 27 to 30 those hold records; the second page spans 11 to 30.
    assert stream.bucket().extent()["open_windows"] == 21
    stream.step([], 33_000)
    assert stream.bucket().extent() == {"open_windows": 1, "slices": 1}
    stream.drain()
    assert stream.bucket().extent() == {"open_windows": 0, "slices": 0}


def test_extent_reads_no_page():
    stream = Stream(hopping(60), COMMUTATIVE)
    stream.step([(time * 1000, time % 5, time) for time in range(200)], 100)
    stream.store.forget_counts()
    extent = stream.bucket().extent()
    assert stream.store.reads == 0
    assert extent == {"open_windows": 200 - (100 - 60) - 1, "slices": 200 - 41}


def test_extent_of_the_eager_strategy_is_exact():
    stream = EagerStream(Slicing(4_000_000, 1_000_000), cases("rows"))
    stream.step([(10_000_000, 1, 1), (30_000_000, 1, 1)])
    assert stream.bucket().extent() == {"open_windows": 8, "slices": 0}


@pytest.mark.parametrize("seed", range(20))
def test_extent_of_any_header_is_that_of_the_slices_in_its_pages(seed):
    """Pages overlap, lie apart, and have slices of which all windows have gone out."""
    rng = np.random.default_rng(seed)
    bucket = Stream(hopping(30), cases("sum")).bucket()
    head, length = bucket.head, bucket.slices.slice_groups.length
    head.next_to_fire = int(rng.integers(0, 200))

    def spans(low, high, count):
        firsts = sorted(rng.integers(low, high, count).tolist())
        return [(first, int(rng.integers(first, high)) + 1) for first in firsts]

    pages = {kind: spans(0, 300, int(rng.integers(0, 4))) for kind in ("fresh", "late")}
    for kind, some in pages.items():
        setattr(head, kind, [[0, *span, 0, 0] for span in some])
    slices = {i for some in pages.values() for span in some for i in range(*span)}
    for key in rng.choice(60, int(rng.integers(0, 6)), replace=False).tolist():
        cuts, loose = spans(0, length, int(rng.integers(0, 3))), spans(0, length, int(rng.integers(0, 2)))
        whole = [(key * length + first, key * length + end) for first, end in (*cuts, *loose)]
        head.slice_groups[key] = SliceGroup(
            [[*cut, 1, 0] for cut in cuts], [[0, *span, 0, 0] for span in whole[len(cuts) :]]
        )
        slices |= {i for span in whole for i in range(*span)}
    slices = {i for i in slices if i >= head.next_to_fire}
    windows = {w for i in slices for w in range(i - 29, i + 1) if w >= head.next_to_fire}
    opened = max(windows) - min(windows) + 1 if windows else 0
    assert bucket.extent() == {"open_windows": opened, "slices": len(slices)}
