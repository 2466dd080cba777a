"""Windows that are added and removed under `on_change` and in wide rows, against the records.

Under `on_change` the first whole window of windows that are new has a row for every key with records, as the one before
is not whole. In wide rows the columns of windows that are not whole are null.
"""

import random
from copy import deepcopy
from dataclasses import replace

import pytest
from adapting import RESULTS, SECOND, Model, Query, close_to, order, stream
from oracle import seeds

from slicing import Aggregate, early, hopping, on_change, on_close, on_update, tumbling
from slicing.engines.looking import Look
from slicing.errors import StateMismatch
from slicing.stages.output import flat_windows
from slicing.state import bucket_cache
from slicing.state.format.changes import changes_of
from slicing.state.format.header import Header
from slicing.state.store import MemoryStore

FIVE, THREE, TWENTY = (hopping(f"{length} seconds", "1 second") for length in (5, 3, 20))
POOL = [FIVE, THREE, TWENTY, tumbling("1 second")]
"""Windows; one ends at each second."""
MANY = [hopping(f"{length} seconds", "1 second") for length in (1, 2, 3, 4, 5, 6, 8, 12, 20)]
"""More windows, many of them incomplete for a while, so that another change finds them lacking."""
COARSE = [
    hopping("8 seconds", "4 seconds"),
    hopping("6 seconds", "4 seconds", offset="2 seconds"),
    tumbling("4 seconds"),
]
"""Windows that end together; some have edges where others have none."""
NAMES = ["rows", "total", "most", "mean", "least"]


class Compared(Model):
    """The rows of `on_change`: those of windows that differ from the one before as it was when it closed."""

    def __init__(self):
        super().__init__()
        self.held = {}  # (length, end, key) -> start and results, of all windows that have closed

    def change(self, query):
        """Let another query go on; what is removed is forgotten."""
        super().change(query)
        lengths = set(map(length_of, query.members))
        self.held = {place: found for place, found in self.held.items() if place[0] in lengths}

    def wide(self, watermark):
        """The wide rows of windows that a watermark closes, and of the windows before these."""
        rows = {(end, key): None for _, end, key, _ in self.closed(watermark)}
        return [(end, key, self._row(end, key), self._row(end - SECOND, key)) for end, key in rows]

    def closed(self, watermark):
        """The rows of windows that a watermark closes."""
        rows = self.close(watermark)
        self.held |= {(end - start, end, key): (start, results) for start, end, key, results in rows}
        return rows

    def _row(self, end, key):
        nothing = None, dict.fromkeys(self.query.names)
        return {
            (repr(each), name): value
            for each in self.query.members
            for name, value in self.held.get((length_of(each), end, key), nothing)[1].items()
        }

    def changed(self, watermark):
        """The rows of windows that a watermark closes and that are not as the ones before."""
        closed = sorted(self.closed(watermark), key=order)
        return [
            (start, end, key, results)
            for start, end, key, results in closed
            if self.held.get((end - start, end - SECOND, key), (None, None))[1] != results
        ]


def length_of(window):
    start, end = window.windows_of(100 * SECOND)[0]
    return end - start


def compare(seed, names=NAMES, changes=3, batches=40, retain=0):
    """A chain of three changes; how many rows, and how many windows were not emitted as they are as before."""
    rng = random.Random(seed)
    store, model = MemoryStore(), Compared()
    query = Query(rng.sample(POOL, rng.choice([1, 2])), rng.sample(names, 2), on_change(), retain=retain)
    model.change(query)
    at, rows = set(rng.sample(range(5, batches), changes)), 0
    for number, (records, watermark) in enumerate(stream(rng, batches)):
        if number in at:
            query = Query(rng.sample(POOL, rng.choice([1, 2, 3])), query.names, on_change(), retain=retain)
            model.change(query)
            if rng.random() < 0.5:
                bucket_cache._entries.clear()
        model.add(records)
        found, wanted = sorted(query.step(store, records, watermark)[0], key=order), model.changed(watermark)
        assert len(found) == len(wanted), (seed, number, found, wanted)
        assert all(map(close_to, found, wanted)), (seed, number, found, wanted)
        rows += len(found)
    return rows, len(model.held) - rows


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(3, 150))
def test_chains_of_windows_that_are_compared_equal_the_records(seed):
    assert compare(seed)[0] > 20


def by_row(rows):
    return sorted(rows, key=lambda row: (row[0], repr(row[1])))


def wide_rows(seed, changes=3, batches=40, pool=POOL, beside=0.7, looks=False, first=()):
    """A chain of changes of windows side by side; how many rows, and how many of their columns were null.

    They are side by side after so many of the changes, and have rows of their own after the others.
    """
    rng = random.Random(seed)
    store, model = MemoryStore(), Compared()
    names, grace = rng.sample(NAMES, 2), rng.choice([0, 0, 4 * SECOND])
    query, is_wide = Query(first or rng.sample(pool, 2), names, grace=grace, wide=True), True
    model.change(query)
    at, rows, nulls = set(rng.sample(range(5, batches), changes)), 0, 0
    for number, (records, watermark) in enumerate(stream(rng, batches)):
        if number in at:
            is_wide = rng.random() < beside
            query = Query(rng.sample(pool, rng.choice([2, 3])), names, grace=grace, wide=is_wide)
            model.change(query)
            if rng.random() < 0.5:
                bucket_cache._entries.clear()
        model.add(records)
        if not is_wide:
            found, wanted = query.step(store, records, watermark)[0], model.closed(watermark)
            found, wanted = sorted(found, key=order), sorted(wanted, key=order)
            assert len(found) == len(wanted), (seed, number, found, wanted)
            assert all(map(close_to, found, wanted)), (seed, number, found, wanted)
            continue
        found, wanted = by_row(query.wide_step(store, records, watermark)), by_row(model.wide(watermark))
        assert [row[:2] for row in found] == [row[:2] for row in wanted], (seed, number)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours[2] == pytest.approx(theirs[2]), (seed, number, ours, theirs)
        rows += len(found)
        nulls += sum(value is None for row in found for value in row[2].values())
        if looks:
            compare_lookups(query, store, watermark, seed)
    return rows, nulls


def compare_lookups(query, store, watermark, seed):
    """Open wide rows that a lookup finds are those that would be emitted if no more records came.

    All of them are found, unless stored slices have coarser edges than the windows.
    """
    found = {row[:2]: row[2] for row in looked_up(query, store) if row[0] + query.grace > watermark}
    wanted = {row[:2]: row[2] for row in query.wide_step(deepcopy(store), [], 2_000_000 * SECOND)}
    if store.text is not None and Header.from_text(store.text).cut_since is None:
        assert found.keys() == wanted.keys(), (seed, watermark)
    for place, results in found.items():
        assert results == pytest.approx(wanted[place]), (seed, watermark, place)


def looked_up(query, store, **asked):
    """The wide rows that a lookup finds."""
    if store.text is None:
        return []
    bucket = query.bucket(deepcopy(store))
    shape = replace(query.shape, since=bucket.coverage.results)
    names = [(repr(each), name) for each in query.members for name in query.names]
    rows = [row for frame in bucket.look(Look(**asked)) for row in flat_windows(shape, frame, wide=True).to_pylist()]
    return [(row["start"], row["k0"], {at: row[f"r{i}"] for i, at in enumerate(names)}) for row in rows]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(6, 60))
def test_lookups_find_the_wide_rows_that_would_be_emitted(seed):
    wide_rows(seed + 500, changes=6, looks=True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(6, 60))
def test_lookups_of_slices_with_coarser_edges_take_no_part_for_the_whole(seed):
    wide_rows(seed + 700, changes=6, pool=COARSE, looks=True, batches=60, first=COARSE[:2])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", seeds(2, 120))
def test_chains_of_windows_side_by_side_equal_the_records(seed):
    rows, nulls = wide_rows(seed)
    assert rows > 10
    assert nulls


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(6, 120))
def test_chains_of_many_changes_of_windows_side_by_side_equal_the_records(seed):
    """Most changes find windows that still lack records; streams have late records, and some have grace."""
    assert wide_rows(seed, changes=12, pool=MANY, beside=0.9)[1]


def of_seconds(*lengths, grace=0, wide=True):
    """A query that counts in windows of some seconds; one ends at each second."""
    windows = [hopping(f"{length} seconds", "1 second") for length in lengths]
    return Query(windows, ["rows"], grace=grace * SECOND, wide=wide)


def fed(query, store, seconds):
    """The counts by end of wide rows, of a record in each second; the watermark is at its beginning."""
    found = [row for second in seconds for row in query.wide_step(store, [at(second)], second * SECOND)]
    return {end // SECOND: list(results.values()) for end, _, results in found}


def at(second):
    """A record."""
    return second * SECOND, 1, 1, "a"


def test_rows_go_on_where_added_windows_are_whole_within_the_grace():
    """The first whole windows of 6 seconds end at 38, but rows have gone out up to 35 only."""
    store = MemoryStore()
    assert max(fed(of_seconds(1, 4, grace=4), store, range(40))) == 35
    assert fed(of_seconds(6, 4, grace=4), store, range(40, 46)) == {
        **{end: [None, 4] for end in (36, 37)},
        **{end: [6, 4] for end in range(38, 42)},
    }


def test_rows_go_on_where_added_windows_had_rows_of_their_own():
    store = MemoryStore()
    fed(of_seconds(1, 4, grace=4), store, range(40))
    of_seconds(6, 4, grace=4, wide=False).step(store, [at(40)], 39 * SECOND)
    assert fed(of_seconds(6, 4, grace=4), store, range(41, 44)) == {
        **{end: [None, 4] for end in (36, 37)},
        **{end: [6, 4] for end in (38, 39)},
    }


@pytest.mark.parametrize("wide", [True, False])
def test_windows_are_whole_from_the_slices_that_are_stored(wide):
    """Windows of 20 seconds lack records, and from 34 on slices are stored: the first 12 seconds end at 46."""
    store = MemoryStore()
    fed(of_seconds(5, 6), store, range(40))
    fed(of_seconds(20, 5), store, range(40, 42))
    if not wide:  # for a micro-batch, windows have rows of their own
        of_seconds(12, 5, wide=False).step(store, [], 41 * SECOND)
    assert fed(of_seconds(12, 5), store, range(42, 54)) == {
        **{end: [None, 5] for end in range(42, 46)},
        **{end: [12, 5] for end in range(46, 54)},
    }


def test_rows_of_windows_that_are_added_later_begin_before_those_that_lack_records():
    """All windows are replaced. Those of 6 seconds are whole from 42 on, and rows have gone out up to 39 only."""
    store = MemoryStore()
    assert max(fed(of_seconds(3, 4), store, range(40))) == 39
    assert not of_seconds(6, 20).wide_step(store, [], 39 * SECOND)
    assert fed(of_seconds(6, 2), store, range(40, 44)) == {40: [None, 2], 41: [None, 2], 42: [6, 2], 43: [6, 2]}


def test_no_row_goes_out_again_where_windows_are_added_with_more_grace():
    """Rows have gone out up to 39; by the grace, windows that end at 36 are still open."""
    store = MemoryStore()
    assert max(fed(of_seconds(20, 4), store, range(40))) == 39
    assert fed(of_seconds(8, 4, grace=4), store, range(40, 46)) == {40: [8, 4], 41: [8, 4]}


def test_windows_that_were_added_before_go_out_when_there_is_less_grace():
    """The first 20 seconds that are whole end at 52. Those that end after 56 close only as the grace is left out."""
    store = MemoryStore()
    fed(of_seconds(1, 4, grace=4), store, range(40))
    query = of_seconds(20, 4, grace=4, wide=False)
    found = query.step(store, [at(second) for second in range(40, 60)], 60 * SECOND)[0]
    found += of_seconds(20, 4, wide=False).step(store, [], 60 * SECOND)[0]
    ends = [[end // SECOND for start, end, *_ in found if end - start == length * SECOND] for length in (20, 4)]
    assert ends == [[*range(52, 61)], [*range(36, 61)]]


def of_always(seed, retain, batches=40):
    """Add windows where slices are retained, against a stream that always had them; how many columns had values."""
    rng = random.Random(seed)
    store, always, values = MemoryStore(), Compared(), 0
    names, windows = rng.sample(NAMES, 2), rng.sample(POOL, 3)
    always.change(Query(POOL, names))
    change = rng.randrange(12, 34)
    for number, (records, watermark) in enumerate(stream(rng, batches)):
        always.add(records)
        wanted = {row[:2]: row[2] for row in always.wide(watermark)}
        query = Query(windows[: 2 if number < change else 3], names, retain=retain, wide=True)
        for end, key, found in query.wide_step(store, records, watermark):
            known = {place: value for place, value in found.items() if value is not None}
            assert known == pytest.approx({place: wanted[end, key][place] for place in known}), (seed, number)
            values += sum(window == repr(windows[2]) for window, _ in known)
    return values


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", seeds(2, 120))
def test_what_wide_rows_show_of_added_windows_is_of_all_records(seed):
    assert of_always(seed, retain=30 * SECOND)


TEXT = Aggregate(lambda: "", lambda acc, s: acc + s, lambda a, b: a + b, ordered=True)


def test_records_of_a_slice_stay_in_order_when_windows_with_rows_of_their_own_become_wide_rows(monkeypatch):
    """Windows of 12 seconds skip to their first whole one. Slices until then have entered, and do so in wide rows."""
    monkeypatch.setitem(RESULTS, "text", (TEXT.on("s"), None))
    store, three, twelve = MemoryStore(), hopping("3 seconds", "1 second"), hopping("12 seconds", "1 second")
    separate, wide = (Query([three, twelve], ["text"], wide=each) for each in (False, True))

    def records(second):
        """One of this second, which is the later one, and one of the next second."""
        return [(second * SECOND, 1, 1, f" {second}"), ((second + 1) * SECOND, 1, 1, f" ({second + 1})")]

    for second in range(10, 20):
        Query([three], ["text"], wide=True).step(store, records(second), (second - 1) * SECOND)
    for second in range(20, 23):
        separate.step(store, records(second), (second - 1) * SECOND)
    for second in range(23, 30):
        for end, _, results in wide.wide_step(store, records(second), (second - 1) * SECOND):
            slices = range(end // SECOND - 3, end // SECOND)
            assert results[repr(three), "text"] == "".join(f" ({each}) {each}" for each in slices)


def test_lookups_of_wide_rows_find_the_windows_that_were_there_while_added_ones_lack_records():
    """The windows of 20 seconds are whole from 15 on: the first whole one ends at 35."""
    store, new = MemoryStore(), of_seconds(5, 3, 20)
    fed(of_seconds(5, 3), store, range(10, 20))
    fed(new, store, [20])
    whole = {end: [None, None, min(6, 41 - end)] for end in range(35, 41)}
    there = {end: [26 - end, 24 - end if end < 24 else None, None] for end in range(21, 26)}

    def counts(**asked):
        return {end // SECOND: list(results.values()) for end, _, results in looked_up(new, store, **asked)}

    assert counts() == there | whole
    assert counts(latest=True) == {21: [5, 3, None]}
    assert counts(incomplete=True).keys() >= there.keys() | whole.keys()
    emitted = fed(new, store, [60])
    assert {end: row for end, row in emitted.items() if end in there} == there


FIVE_MINUTES, HOUR = tumbling("5 minutes"), hopping("1 hour", "5 minutes")


def test_windows_that_lack_records_leave_no_nodes_behind():
    """A record of slice 11:50 is refused, so that windows are whole from 11:55 on, and the slice leaves before them."""
    minute, noon = 60 * SECOND, 720
    old, new = (
        Query(windows, ["rows"], retain=15 * minute, wide=True) for windows in ([FIVE_MINUTES], [FIVE_MINUTES, HOUR])
    )
    store, times = MemoryStore(), [noon - 10, noon - 4]
    old.step(store, [(each * minute, 1, 1, "a") for each in times], 0)
    old.step(store, [], (noon + 6) * minute)
    old.step(store, [((noon - 9) * minute, 1, 1, "a")], (noon + 6) * minute)
    found = {}
    for at in range(noon + 8, noon + 90, 5):
        times.append(at)
        for end, _, results in new.wide_step(store, [(at * minute, 1, 1, "a")], (at - 1) * minute):
            found[end // minute] = results[repr(HOUR), "rows"]
    assert Header.from_text(store.text).families[1].whole is None
    assert found == {
        end: sum(end - 60 <= each < end for each in times) if end >= noon + 55 else None
        for end in range(noon + 10, noon + 90, 5)
    }


OTHERS = [
    on_update(),
    on_update(latest_only=True),
    on_change(),
    on_close(corrections=True),
    on_close(corrections=True, old=True),
    early(every="1 minute"),
]


@pytest.mark.parametrize("emission", OTHERS, ids=str)
def test_other_windows_of_wide_rows_are_refused_where_rows_are_not_fired_once(emission):
    store = MemoryStore()
    Query([FIVE, TWENTY], ["rows"], emission, wide=True).step(store, [(9 * SECOND, 1, 1, "a")], 0)
    for windows in ([FIVE, TWENTY, THREE], [FIVE, THREE]):
        query = Query(windows, ["rows"], emission, wide=True)
        found = changes_of([Header.from_text(store.text)], query.fingerprint)
        assert any("windows that are added lack records" in change.effect for change in found)
        assert not found.allowed
        with pytest.raises(StateMismatch, match=r"Change them with on_close\(\)"):
            query.bucket(store)


@pytest.mark.parametrize("names", [["last"], ["rows", "last"]])
def test_other_windows_of_wide_rows_are_refused_where_results_do_not_combine(names):
    store = MemoryStore()
    Query([FIVE, TWENTY], names, wide=True).step(store, [(9 * SECOND, 1, 1, "a")], 0)
    with pytest.raises(StateMismatch, match="wide rows of results that do not combine are kept by window"):
        Query([FIVE, TWENTY, THREE], names, wide=True).bucket(store)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("names", "emission"),
    [*((["rows"], each) for each in OTHERS), (["rows", "last"], on_close())],
    ids=lambda each: str(each),
)
def test_wide_rows_stay_as_they_are_until_their_windows_are_whole(names, emission):
    """Another trigger, or a result that does not combine, has to wait."""
    store = MemoryStore()
    for second in range(10, 15):
        Query([FIVE, THREE], ["rows"], wide=True).step(store, [(second * SECOND, 1, 1, "a")], (second - 2) * SECOND)
    for second in range(15, 40):
        query = Query([FIVE, THREE, TWENTY], ["rows"], wide=True)
        query.wide_step(store, [(second * SECOND, 1, 1, "a")], (second - 2) * SECOND)
        is_whole = Header.from_text(store.text).families[2].whole is None
        other = Query([FIVE, THREE, TWENTY], names, emission, wide=True)
        found = changes_of([Header.from_text(store.text)], other.fingerprint)
        assert found.allowed == is_whole
        assert ("wide rows" in [change.what for change in found]) != is_whole
        if is_whole:
            other.bucket(deepcopy(store))
        else:
            with pytest.raises(StateMismatch, match="added that do not hold all their records yet"):
                other.bucket(deepcopy(store))
    assert is_whole
