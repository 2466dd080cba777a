"""Time zone data that change between two starts: what slices that are there were cut by must be the same, no more."""

import logging
import random

import numpy as np
import pytest
from oracle import CASES, FINGERPRINT, block_of, moment, shape_of
from test_several import rows

from slicing.assembly.choice import choose
from slicing.engines.sliced.bucket import Bucket
from slicing.errors import StateMismatch
from slicing.state.format.fingerprint import fingerprint_of
from slicing.state.format.header import Header
from slicing.state.format.zone_tables import MARGIN, difference, part
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_close
from slicing.windows.families.stepped import Stepped
from slicing.windows.time.local import Local
from slicing.windows.time.zones import SECOND, Zone

HOUR, DAY = 3600, 86_400
NOW = 1_790_000_000  # September 2026
SUMMER = [NOW + number * 182 * DAY for number in range(-20, 60)]


def zone(*, before=(), moved=None, by=HOUR):
    """A zone with summer times; more rows before 1970, and one change that is moved."""
    changes = [second + (by if second == moved else 0) for second in SUMMER]
    offsets = [7200 if at % 2 else 3600 for at in range(len(changes) + 1)]
    early = [-(40 - number) * 365 * DAY for number in range(len(before))]
    return Zone("Europe/Somewhere", (*early, *changes), (*before, *offsets))


def bucket(of, store, each="day"):
    family = Stepped(Local(each, 1, of), 1, 1)
    shape = shape_of(family, [CASES["sum"]])
    prints = fingerprint_of(shape, ["partials"], [["v"]], "1")
    return family, shape, Bucket(shape, [choose(shape.kernels[0], family)], 0, prints, store, on_close())


def run(of, store, seconds, watermark, each="day"):
    """One micro-batch; the rows by start and end."""
    _, shape, live = bucket(of, store, each)
    late = live.add([block_of(shape, [CASES["sum"]], [(second * SECOND, 1, 1) for second in seconds])])
    found = rows(shape, live.close(moment(watermark * 1000)))
    live.check()
    return {(start // SECOND, end // SECOND): row[0] for (_, _, _, start, end), (row, _) in found.items()}, late.all


@pytest.mark.parametrize("early", [(1172,), (1172, 0), (1200, 1172, 0, 3600)])
def test_rows_before_1970_that_a_package_leaves_out_do_not_matter(early, caplog):
    """As of Amsterdam, Oslo, Stockholm, Copenhagen and Reykjavik, which packages keep or leave out."""
    store = MemoryStore()
    run(zone(before=early), store, [NOW + 100, NOW + 5 * DAY], NOW)
    with caplog.at_level(logging.WARNING, "slicing"):
        found, late = run(zone(), store, [NOW + 200], NOW + 9 * DAY)
    assert not late
    assert sum(found.values()) == 3
    assert "time zone data of Europe/Somewhere have changed" in caplog.text
    with caplog.at_level(logging.WARNING, "slicing"):
        caplog.clear()
        run(zone(), store, [NOW + 10 * DAY], NOW + 9 * DAY)
    assert not caplog.text, "it is said once"


def test_the_rule_of_a_later_year_is_taken_over():
    """A change that no slice has reached is moved by an hour: the day that it is in is longer by that much."""
    store, moved = MemoryStore(), SUMMER[24]
    run(zone(), store, [moved - 3 * DAY], moved - 3 * DAY)
    after = zone(moved=moved, by=2 * DAY)
    found, _ = run(after, store, [moved - DAY + 100, moved + DAY], moved + 9 * DAY)
    family, _, _ = bucket(after, MemoryStore())
    wanted = {}
    for second in (moved - 3 * DAY, moved - DAY + 100, moved + DAY):
        index = family.slice_at(second * SECOND)
        place = family.window_start(index) // SECOND, family.window_end(index) // SECOND
        wanted[place] = wanted.get(place, 0) + 1
    assert found == wanted


def test_other_edges_of_slices_that_are_there_are_refused():
    store, moved = MemoryStore(), SUMMER[20]
    run(zone(), store, [moved - DAY, moved + DAY], moved - 2 * DAY)
    with pytest.raises(
        StateMismatch, match="time zone data of Europe/Somewhere have changed for times that the checkpoint holds"
    ):
        bucket(zone(moved=moved), store)
    run(zone(), store, [], moved + 3 * DAY)  # these windows have closed
    found, _ = run(zone(moved=moved), store, [moved + 9 * DAY], moved + 20 * DAY)
    assert list(found.values()) == [1]


@pytest.mark.parametrize("seed", range(30))
def test_random_changes_of_the_data_are_told_by_the_edges(seed):
    """Refused if and only if a slice that is there would have another edge; else rows are those of one table."""
    rng = random.Random(seed)
    store, first = MemoryStore(), NOW + rng.randrange(300) * DAY
    seconds = sorted(first + rng.randrange(40 * DAY) for _ in range(30))
    each = rng.choice(["day", "hour", "month"])
    run(zone(), store, seconds, seconds[0], each)
    after = zone(
        moved=rng.choice(SUMMER[15:30]), by=rng.choice([HOUR, -HOUR, 3 * DAY]), before=rng.choice([(), (7, 8)])
    )
    spans = Header.from_text(store.text).spans()
    family = bucket(zone(), MemoryStore(), each)[0]
    other = bucket(after, MemoryStore(), each)[0]
    indices = np.arange(int(spans[:, 0].min()), int(spans[:, 1].max()) + 1)
    same = np.array_equal(family.slice_start(indices), other.slice_start(indices))
    try:
        found, _ = run(after, store, [], seconds[-1] + 400 * DAY, each)
    except StateMismatch:
        (low, high, *_) = Header.from_text(store.text).zones["Europe/Somewhere"]
        assert not same or difference(after, part(zone(), (low + MARGIN) * SECOND, high * SECOND))
        return
    assert same
    assert sum(found.values()) == len(seconds)


def test_a_header_without_a_table_is_as_it_was():
    """Of windows without a zone, and of checkpoints from before: those are compared by their digests."""
    store = MemoryStore()
    run(zone(), store, [NOW], NOW - DAY)
    head = Header.from_text(store.text)
    assert set(head.zones) == {"Europe/Somewhere"}
    head.zones = {}
    store.put_header(head.to_text())
    assert Header.from_text(store.text).zones == {}
    with pytest.raises(StateMismatch, match="Different: "):
        bucket(zone(before=(7,)), store)
    assert FINGERPRINT.header([]).zones == {}
