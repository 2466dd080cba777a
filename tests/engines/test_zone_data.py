"""Time zone data that change between two starts: what slices that are there were cut by must be the same, no more."""

import logging
import random
from bisect import bisect_right
from collections import Counter

import numpy as np
import pytest
from oracle import ARRIVED, FINGERPRINT, CountingStore
from scenarios.kind import CONTENTS, MIXED, PARTIALS, RECORDS, Kind
from scenarios.scenario import Scenario

from slicing.errors import StateMismatch
from slicing.state.format.fingerprint import fingerprint_of
from slicing.state.format.header import Header
from slicing.state.format.zone_tables import MARGIN, difference, part
from slicing.triggers.emission import on_change, on_close, on_update
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.even import Even
from slicing.windows.families.several import several
from slicing.windows.families.stepped import Stepped
from slicing.windows.sliding import Sliding
from slicing.windows.time.back import Back
from slicing.windows.time.clocks import SECOND
from slicing.windows.time.edges import Listed
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone
from slicing.windows.window import Timed

HOUR, DAY = 3600, 86_400
NOW = 1_840_000_000  # April 2028, after the instant from which hours are numbered
SEEDS, ENOUGH = 30, 3
SUMMER = [NOW + number * 182 * DAY for number in range(-20, 60)]


def zone(*, before=(), moved=None, by=HOUR):
    """A zone with summer times; more rows before 1970, and one change that is moved."""
    changes = [second + (by if second == moved else 0) for second in SUMMER]
    offsets = [7200 if at % 2 else 3600 for at in range(len(changes) + 1)]
    early = [-(40 - number) * 365 * DAY for number in range(len(before))]
    return Zone("Europe/Somewhere", (*early, *changes), (*before, *offsets))


def bucket(of, store, each="days"):
    family = FAMILIES[each](of)
    return family, Trial(family, PARTIALS, "close").bucket(store)


def run(of, store, seconds, watermark, each="days"):
    """One micro-batch; the rows by start and end."""
    trial = Trial(FAMILIES[each](of), PARTIALS, "close")
    found, late, _ = trial.step(store, seconds, watermark)
    return {(start // SECOND, end // SECOND): row[0] for (*_, start, end), (row, _) in found.items()}, late


@pytest.mark.parametrize("each", ["days", "days from six"])
@pytest.mark.parametrize("early", [(1172,), (1172, 0), (1200, 1172, 0, 3600)])
def test_rows_before_1970_that_a_package_leaves_out_do_not_matter(early, each, caplog):
    """As of Amsterdam, Oslo, Stockholm, Copenhagen and Reykjavik, which packages keep or leave out."""
    store = CountingStore()
    run(zone(before=early), store, [NOW + 100, NOW + 5 * DAY], NOW, each)
    with caplog.at_level(logging.WARNING, "slicing"):
        found, late = run(zone(), store, [NOW + 200], NOW + 9 * DAY, each)
    assert not late
    assert sum(found.values()) == 3
    assert "time zone data of Europe/Somewhere have changed" in caplog.text
    with caplog.at_level(logging.WARNING, "slicing"):
        caplog.clear()
        run(zone(), store, [NOW + 10 * DAY], NOW + 9 * DAY, each)
    assert not caplog.text, "it is said once"


def test_the_rule_of_a_later_year_is_taken_over():
    """A change that no slice has reached is moved by an hour: the day that it is in is longer by that much."""
    store, moved = CountingStore(), SUMMER[24]
    run(zone(), store, [moved - 3 * DAY], moved - 3 * DAY)
    after = zone(moved=moved, by=2 * DAY)
    found, _ = run(after, store, [moved - DAY + 100, moved + DAY], moved + 9 * DAY)
    family, _ = bucket(after, CountingStore())
    wanted = {}
    for second in (moved - 3 * DAY, moved - DAY + 100, moved + DAY):
        index = family.slice_at(second * SECOND)
        place = family.window_start(index) // SECOND, family.window_end(index) // SECOND
        wanted[place] = wanted.get(place, 0) + 1
    assert found == wanted


def test_windows_that_go_back_by_the_clock_have_its_data(caplog):
    """A month back from the records that are stored, and from those to come."""

    def opened(of, seconds, watermark):
        made = Scenario(Kind(Sliding(1, 1, right=False, back=Back("month", 1, of))), on_close(), results=("sum",))
        made.fingerprint = fingerprint_of(made.shape, ["partials"], [["v"]], "1")
        made.stores[0] = store
        found = made.emit([(second * SECOND, 1, 1) for second in seconds], watermark * 1000)
        return {(end - 1) // SECOND: row[0] for (*_, end), (row, _) in found.items()}

    store, moved = CountingStore(), SUMMER[20]
    assert opened(zone(), [moved + 10 * DAY, moved + 31 * DAY], moved) == {}
    with pytest.raises(StateMismatch, match="time zone data of Europe/Somewhere have changed for windows"):
        opened(Zone("Europe/Somewhere", (), (0,)), [], moved)
    with caplog.at_level(logging.WARNING, "slicing"):
        found = opened(zone(before=(1172,)), [moved + 43 * DAY], moved + 50 * DAY)
    assert found == {moved + 10 * DAY: 1, moved + 31 * DAY: 2, moved + 43 * DAY: 2}
    assert "time zone data of Europe/Somewhere have changed" in caplog.text


def test_other_edges_of_slices_that_are_there_are_refused():
    store, moved = CountingStore(), SUMMER[20]
    run(zone(), store, [moved - DAY, moved + DAY], moved - 2 * DAY)
    with pytest.raises(
        StateMismatch, match="time zone data of Europe/Somewhere have changed for windows that the checkpoint holds"
    ):
        bucket(zone(moved=moved), store)
    run(zone(), store, [], moved + 3 * DAY)  # these windows have closed
    found, _ = run(zone(moved=moved), store, [moved + 9 * DAY], moved + 20 * DAY)
    assert list(found.values()) == [1]


@pytest.mark.parametrize("seed", range(30))
def test_random_changes_of_the_data_are_told_by_the_edges(seed):
    """Refused if and only if a slice that is there would have another edge; else rows are those of one table."""
    rng = random.Random(seed)
    store, first = CountingStore(), NOW + rng.randrange(300) * DAY
    seconds = sorted(first + rng.randrange(40 * DAY) for _ in range(30))
    each = rng.choice(["days", "hours", "months", "days from six", "months from the third"])
    run(zone(), store, seconds, seconds[0], each)
    after = zone(
        moved=rng.choice(SUMMER[15:30]), by=rng.choice([HOUR, -HOUR, 3 * DAY]), before=rng.choice([(), (7, 8)])
    )
    spans = Header.from_text(store.text).spans()
    family = bucket(zone(), CountingStore(), each)[0]
    other = bucket(after, CountingStore(), each)[0]
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


FAMILIES = {
    "hours": lambda of: Stepped(Local("hour", 1, of), 1, 1),
    "days": lambda of: Stepped(Local("day", 1, of), 1, 1),
    "days from six": lambda of: Stepped(Local("day", 1, of, offset=6 * HOUR * SECOND), 1, 1),
    "months from the third": lambda of: Stepped(Local("month", 1, of, offset=2 * DAY * SECOND), 1, 1),
    "seven days": lambda of: Stepped(Local("day", 1, of), 1, 7),
    "months": lambda of: Stepped(Local("month", 1, of), 1, 1),
    "month to date": lambda of: Cumulating(Local("month", 1, of), Local("day", 1, of)),
    "several": lambda of: several([Stepped(Local("day", 1, of), 1, 2), Even(6 * HOUR * SECOND, 6 * HOUR * SECOND)]),
}
EMISSIONS = {
    "close": (on_close(), 0),
    "grace": (on_close(), 2 * DAY),
    "corrections": (on_close(corrections=True), 2 * DAY),
    "update": (on_update(), 0),
    "change": (on_change(), 0),
}


class Trial:
    """A bucket by some data of its zone, and what it emits."""

    def __init__(self, family, content, emission):
        trigger, grace = EMISSIONS[emission]
        results = ("sum", ARRIVED) if content == MIXED else ("sum",)
        self.made = Scenario(Kind(Timed(family, "")), trigger, grace * SECOND, content, results)
        contents = {PARTIALS: ["partials"], RECORDS: ["windows"], MIXED: ["partials", "windows"]}[content]
        self.made.fingerprint = fingerprint_of(self.made.shape, contents, [["v"]] * len(results), "1")

    def bucket(self, store):
        self.made.stores[0] = store
        return self.made.bucket()

    def step(self, store, seconds, watermark):
        """The rows of a micro-batch, and how many records were late for all windows, and for some."""
        self.made.stores[0] = store
        found = self.made.emit([(second * SECOND, 1, second % 97) for second in seconds], watermark * 1000)
        (late,) = self.made.late
        return found, late.all, late.some


def changed_data(rng, near):
    """Data as `zone` has them, but for one to three changes; some of them near a time, some far away."""
    changes, offsets = list(SUMMER), list(zone().offsets)
    for _ in range(rng.choice([1, 1, 2, 3])):
        at = min(range(len(SUMMER)), key=lambda i: abs(SUMMER[i] - near)) + rng.choice([0, 0, 0, 1, -1, 9])
        kind = rng.choice(["moved", "moved", "left out", "other offset"])
        if kind == "moved":
            low, high = (changes[at - 1], changes[at + 1]) if at + 1 < len(changes) else (0, 0)
            changes[at] = min(max(near + rng.randrange(-9 * DAY, 20 * DAY), low + 1), high - 1)
        elif kind == "left out":
            del changes[at], offsets[at + 1]
        else:
            offsets[at + 1] += rng.choice([1800, -3600, 7200])
    return Zone("Europe/Somewhere", tuple(changes), tuple(offsets))


def refusal(trial, store):
    """The message of the error with which a start is refused, empty if it is not."""
    try:
        trial.bucket(store)
    except StateMismatch as mismatch:
        return str(mismatch)
    return ""


def compared(name, content, seed):
    """Rows and late records after a start with other data, beside those of a stream that had these all along.

    Returns whether the start was refused, and how many rows there were.
    """
    rng = random.Random(f"{name} {content} {seed}")
    emission = rng.choice(list(EMISSIONS))
    first = SUMMER[20] + rng.randrange(-12 * DAY, 4 * DAY)
    old, new = (Trial(FAMILIES[name](of), content, emission) for of in (zone(), changed_data(rng, first + 4 * DAY)))
    restart, store, alone, count = rng.randrange(1, 4), CountingStore(), CountingStore(), 0
    for step in range(6):
        now = first + step * rng.choice([DAY // 2, DAY, 2 * DAY])
        seconds = [now + rng.randrange(-3 * DAY, rng.choice([DAY, 5 * DAY])) for _ in range(rng.choice([0, 1, 6, 20]))]
        watermark = now - rng.randrange(DAY) if step < 5 else now + 80 * DAY
        wanted = new.step(alone, seconds, watermark)
        if step == restart and (refused := refusal(new, store)):
            assert "time zone data of Europe/Somewhere have changed" in refused
            old.step(store, [], watermark + 1200 * DAY)
            refused = refusal(new, store)  # later windows have closed, as the message says
            assert not refused or (name == "hours" and "changed by a part of a window" in refused)
            return True, 0
        found = (old if step < restart else new).step(store, seconds, watermark)
        if step >= restart:
            assert found == wanted
            count += len(wanted[0])
    return False, count


CASES = [(name, content) for name in FAMILIES for content in CONTENTS if name != "several" or content == PARTIALS]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "content"), CASES)
def test_what_is_emitted_after_a_change_is_what_the_new_data_say(name, content):
    """Each row and each count of late records after the start is that of the new data all along, or it is refused.

    Rows of before the start are by the old data, as they had been emitted.
    """
    seen = Counter()
    for seed in range(SEEDS):
        refused, count = compared(name, content, seed)
        seen["refused" if refused else "emitted"] += refused or bool(count)
        if min(seen["refused"], seen["emitted"]) == ENOUGH:
            return
    pytest.fail(f"too few of either sort: {seen}")


@pytest.mark.parametrize("name", ["Amsterdam", "Oslo", "Stockholm", "Copenhagen", "Reykjavik"])
def test_real_zones_without_their_rows_before_1970(name):
    whole = Zone.of(f"{'Atlantic' if name == 'Reykjavik' else 'Europe'}/{name}")
    since = bisect_right(whole.transitions, 0)
    short = Zone(whole.name, whole.transitions[since:], whole.offsets[since:])
    full = Zone(whole.name, (-3_000_000_000, *short.transitions), (1172, *short.offsets))
    for old, new in ((full, short), (short, full)):
        store = CountingStore()
        run(old, store, [NOW + 100, NOW + 5 * DAY], NOW)
        found, late = run(new, store, [NOW + 200], NOW + 9 * DAY)
        assert (late, sum(found.values())) == (0, 3)


@pytest.mark.parametrize("by", [HOUR, 4 * HOUR])
def test_the_end_of_the_last_window_that_went_out_is_held_too(by):
    """Nothing is left of the day, but its end tells which records are late: by other data it is another instant."""
    store = CountingStore()
    moved = SUMMER[21]
    family, _ = bucket(zone(), CountingStore())
    end = family.window_end(family.slice_at(moved * SECOND)) // SECOND
    found, _ = run(zone(), store, [end - 100], end + 60)
    assert sum(found.values()) == 1
    assert not len(Header.from_text(store.text).spans())
    with pytest.raises(StateMismatch, match="windows that the checkpoint holds or that have closed last: at second"):
        bucket(zone(moved=moved, by=by * 7), store)
    run(zone(), store, [], end + 9 * DAY)
    found, late = run(zone(moved=moved, by=by * 7), store, [end + 9 * DAY], end + 20 * DAY)
    assert (late, sum(found.values())) == (0, 1)


def listed_beside(of, length=5 * HOUR):
    """Windows of two kinds over so many edges that a layout has a digest of their cut only."""
    edges = [(NOW + number * length) * SECOND for number in range(200)]
    return several([ByEdges(Listed(edges[:-1]), Listed(edges[1:])), Stepped(Local("day", 1, of), 1, 1)])


def test_a_cut_that_is_stored_as_a_digest_goes_on_too():
    """Of many edges a layout has a digest, which other data of a zone change as well."""
    old, early, moved = (
        Trial(listed_beside(of), PARTIALS, "close")
        for of in (zone(), zone(before=(7,)), zone(moved=SUMMER[20], by=2 * DAY))
    )
    store = CountingStore()
    old.step(store, [NOW + 100, NOW + 3 * DAY], NOW)
    assert Header.from_text(store.text).layout["cut"][1] == "digest"
    with pytest.raises(StateMismatch, match="time zone data of Europe/Somewhere have changed for windows"):
        moved.bucket(store)
    found, *_ = early.step(store, [NOW + 4 * DAY], NOW + 9 * DAY)
    assert sorted(part for _, _, part, *_ in found) == [0, 0, 0, 1, 1, 1]
    early.step(store, [NOW + 10 * DAY], NOW + 9 * DAY)
    with pytest.raises(StateMismatch, match=r"written by another query. Different: slices: "):
        Trial(listed_beside(zone(), length=6 * HOUR), PARTIALS, "close").bucket(store)


def test_the_part_that_is_kept_is_short():
    """Two changes a year; a record of the far future has all there are up to the year from which tables repeat."""
    berlin, store = Zone.of("Europe/Berlin"), CountingStore()
    run(berlin, store, [NOW, NOW + 400 * DAY], NOW - DAY)
    assert len(Header.from_text(store.text).zones["Europe/Berlin"][2]) <= 4
    without = len(store.text)
    far = CountingStore()
    run(berlin, far, [NOW, NOW + 7_900 * 365 * DAY], NOW - DAY)
    assert len(far.text) - without < 8_000


def test_a_header_without_a_table_is_as_it_was():
    """Of windows without a zone, and of checkpoints from before: those are compared by their digests."""
    store = CountingStore()
    run(zone(), store, [NOW], NOW - DAY)
    head = Header.from_text(store.text)
    assert set(head.zones) == {"Europe/Somewhere"}
    head.zones = {}
    store.put_header(head.to_text())
    assert Header.from_text(store.text).zones == {}
    bucket(zone(), store)
    with pytest.raises(StateMismatch, match="data of Europe/Somewhere have changed since the checkpoint was written"):
        bucket(zone(before=(7,)), store)
    assert FINGERPRINT.header([]).zones == {}
