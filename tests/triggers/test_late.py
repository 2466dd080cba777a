"""Late rows as an output: partials and records that are refused, with what they met; and the size of the state.

`Scenario` compares the numbers and the partials of late records with the definition in each micro-batch.
"""

import random
from collections import defaultdict
from datetime import UTC, datetime
from itertools import product

import numpy as np
import pytest
from oracle import ARRIVED, CASES, few
from scenarios.kind import MIXED, PARTIALS, RECORDS
from scenarios.kinds import KINDS
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario
from scenarios.streams import stream

from slicing import cumulating
from slicing import hopping as sized
from slicing.content.codec import decode, encode
from slicing.content.folding import fold
from slicing.state.format.header import SliceGroup
from slicing.triggers.emission import on_close
from slicing.triggers.lateness import RefusedRows
from slicing.windows.families import family

COMMUTATIVE = ("sum", "rows", "floats", "variance", "highest")
RESULTS = {RECORDS: ("sum", "rows", ARRIVED), MIXED: ("sum", ARRIVED, "variance", "highest")}


def scenario(content, seed):
    """Any windows of one length; some results depend on the order of records."""
    rng = random.Random(f"late {content} {seed}")
    results = RESULTS.get(content, tuple(CASES) if seed % 4 == 0 else COMMUTATIVE)
    return rng, Scenario(KINDS["hopping, any"](rng), on_close(), rng.choice([0, 0, 3000, 7000]), content, results)


def refused(made):
    """What the last micro-batch had to refuse, each record with the windows that accept it and those that hold it."""
    return [each for each in made.call.verdicts[0] if len(each[1]) < len(each[2])]


def check_records(made, records):
    """Exactly the records that are refused come out, with what they met."""
    wanted = [
        (record[:3], (len(places) - len(is_open), is_open[0].start if is_open else None))
        for record, is_open, places in refused(made)
    ]
    assert sorted(*made.late_records(records), key=repr) == sorted(wanted, key=repr)


def partials(made):
    """What the last micro-batch puts out of its late records, as it is written and read again."""
    block = made.execution_plan.late_partials(made.late[0].refused[0])
    block.check(made.shape)
    return decode(made.shape, encode(made.shape, block))


def check_together(made, blocks, late):
    """The partials of all micro-batches combine to those of all late records."""
    held = defaultdict(list)
    for record in late:
        held[record.key, int(made.family.slice_start(made.family.slice_at(record.time)))].append(record)
    rows = made.by_slice(made.family, fold(made.shape, blocks))
    assert rows.keys() == held.keys()
    for place, records in held.items():
        made.assert_row(rows[place], records, place)


SEEDS = [*product([PARTIALS], range(100)), *product([RECORDS, MIXED], range(30))]


@pytest.mark.parametrize(("content", "seed"), few([(PARTIALS, 0), (PARTIALS, 1), (RECORDS, 0), (MIXED, 0)], SEEDS))
def test_what_random_streams_refuse(content, seed):
    (rng, made), blocks, late = scenario(content, seed), [], []
    for records, watermark, now in stream(rng, made.kind):
        made.step(records, watermark, now)
        check_records(made, records)
        blocks.append(partials(made))
        late += [record for record, *_ in refused(made)]
    if content == PARTIALS:
        check_together(made, blocks, late)
    made.drain()


def test_random_streams_refuse_something():
    found = []
    for content in (PARTIALS, RECORDS, MIXED):
        rng, made = scenario(content, 0)
        for each in stream(rng, made.kind):
            made.known(*each)
            found += made.call.late()
    assert min(sum(by_all for _, by_all in found), sum(not by_all for _, by_all in found)) > 5


def test_what_refused_slices_met():
    #   size 4 s, advance 1 s; the watermark has passed 6 s: windows up to [2, 6) are closed
    #
    #   time       0   1   2   3   4   5   6   7   8
    #   window 2           [===============)           closed
    #   window 3               [===============)       open
    #   record         all     some        none
    one = Scenario(Even.of(4000, 1000), on_close(), results=("sum",))
    one.step([(5_500_000, 1, 1)], 6_500)
    one.step([(1_500_000, 1, 2), (3_500_000, 1, 4), (6_500_000, 1, 8)])
    (late,) = one.late[0].refused
    assert late.watermark == 6_500_000
    # 1.5 s is in windows -2 .. 1, all closed; 3.5 s in windows 0 .. 3; window 3 is open.
    assert one.refused(one.family, late) == {
        (1, 1_000_000): ((1, 2), 4, None),
        (1, 3_000_000): ((1, 4), 3, 3_000_000),
    }


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
    quiet, noisy = (Scenario(Even.of(4000, 1000), on_close(), results=("sum",)) for _ in range(2))
    for one in (quiet, noisy):
        one.step([(5_500_000, 1, 1)], 20_000)
        one.step([(25_000_000, 1, 1)], 20_000)
    noisy.store.forget_counts()
    noisy.step([(1_500_000, 1, 2), (3_500_000, 1, 4)])
    quiet.step([])
    assert (noisy.store.pages, noisy.store.text) == (quiet.store.pages, quiet.store.text)
    assert (noisy.store.reads, noisy.store.writes) == (0, 0)


# The size of the state, by the header.


def test_extent_counts_open_windows_and_slices():
    one = Scenario(Even.of(4000, 1000), on_close(), results=("sum",))
    assert one.bucket().extent() == {"open_windows": 0, "slices": 0}
    one.step([(10_000_000, 1, 1), (12_500_000, 1, 1)])
    # A page of slices 10 to 12, of windows 7 to 12.
    assert one.bucket().extent() == {"open_windows": 6, "slices": 3}
    one.step([(11_000_000, 2, 1), (30_000_000, 2, 1)], 13_000)
    # Windows up to 9 are closed, of 10 to 12 and 27 to 30 those hold records; the second page spans 11 to 30.
    assert one.bucket().extent()["open_windows"] == 21
    one.step([], 33_000)
    assert one.bucket().extent() == {"open_windows": 1, "slices": 1}
    one.drain()
    assert one.bucket().extent() == {"open_windows": 0, "slices": 0}


def test_extent_reads_no_page():
    one = Scenario(Even.of(60, 1), on_close(), results=COMMUTATIVE)
    one.step([(time * 1000, time % 5, time) for time in range(200)], 100)
    one.store.forget_counts()
    extent = one.bucket().extent()
    assert one.store.reads == 0
    assert extent == {"open_windows": 200 - (100 - 60) - 1, "slices": 200 - 41}


def test_extent_of_the_eager_strategy_is_exact():
    one = Scenario(Even.of(4000, 1000), on_close(), content=RECORDS, results=("rows",))
    one.step([(10_000_000, 1, 1), (30_000_000, 1, 1)])
    assert one.bucket().extent() == {"open_windows": 8, "slices": 0}


@pytest.mark.parametrize("seed", range(20))
def test_extent_of_any_header_is_that_of_the_slices_in_its_pages(seed):
    """Pages overlap, lie apart, and have slices whose windows have all been emitted."""
    rng = np.random.default_rng(seed)
    bucket = Scenario(Even.of(30, 1), on_close(), results=("sum",)).bucket()
    head, length = bucket.head, bucket.slices.slice_groups.length
    head.families[0].next_to_fire = int(rng.integers(0, 200))

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
    slices = {i for i in slices if i >= head.families[0].next_to_fire}
    windows = {w for i in slices for w in range(i - 29, i + 1) if w >= head.families[0].next_to_fire}
    opened = max(windows) - min(windows) + 1 if windows else 0
    assert bucket.extent() == {"open_windows": opened, "slices": len(slices)}
