"""The state of a bucket: what reading, writing and combining may cost, and results that do not depend on how it is cut.

`Scenario` compares each micro-batch with the definition of its windows.
"""

from collections import Counter
from functools import cache

import numpy as np
import pytest
from oracle import CASES, Case, block_of, cases, evenly, results, seeds
from scenarios.kinds.even import Even
from scenarios.scenario import END, Scenario

from slicing.aggregates.aggregate import Aggregate
from slicing.assembly.assembling import assemble
from slicing.assembly.trees import nodes, three_layer
from slicing.assembly.trees.node_keys import NodeKey, Part
from slicing.engines.sliced import closing
from slicing.errors import FunctionFailed, InvalidType, StateMismatch
from slicing.state import pages, slice_groups
from slicing.triggers.emission import on_close

COMMUTATIVE = ("sum", "rows", "floats", "variance", "highest")
WITH_ORDER = tuple(CASES)


# Closing. A bucket of n slices per window is at window w when all windows before w have gone out.


def watermark_of(family, window):
    """The watermark, in milliseconds, at which all windows before `window` are closed."""
    return int(family.window_end(window - 1)) // 1000


def even(size, advance=1, offset=0):
    """Windows by lengths in milliseconds."""
    return Even.of(size, advance, offset)


def on_closing(kind, results_, tree=None, **options):
    """A stream whose windows fire when they close."""
    return Scenario(kind, on_close(), results=results_, tree=tree, **options)


def warm(n, results_, tree=None, keys=1, advance=1, **options):
    """A stream whose first window has just closed; every slice up to there holds a record of each key."""
    return warmed(on_closing(even(n * advance, advance), results_, tree, **options), keys)


def warmed(one, keys):
    one.step(evenly(one.family, range(one.family.per_window), keys), watermark_of(one.family, 0))
    # Apart, as a close of n windows leaves no nodes.
    one.step((), watermark_of(one.family, 1))
    return one


def close_next(one, window, records=(), keys=1, partitions=2):
    """One micro-batch in which window `window` goes out: its last slice arrives, and what else there is."""
    entering = evenly(one.family, [int(one.family.first_slice(window)) + one.family.per_window - 1], keys)
    return one.step([*records, *entering], watermark_of(one.family, window + 1), partitions=partitions)


def by_window(one, rows):
    """Rows by their key and the number of their window, as `oracle.results` has them."""
    advance, offset = one.family.advance, one.family.offset
    return {(key, (start - offset) // advance): [*row] for (_, key, _, start, _), (row, _) in rows.items()}


def bits(rows):
    """Results with floats to the last bit."""
    return {place: [x.hex() if isinstance(x, float) else x for x in row] for place, row in rows.items()}


def sparse_records(family, count):
    """At most one record per (slice, key): slice partials are then the same however the input is cut."""
    rng = np.random.default_rng(count)
    starts = [int(family.slice_start(index)) for index in range(count)]
    return [
        (start, key, int(rng.integers(-(10**6), 10**6))) for start in starts for key in range(4) if rng.random() < 0.4
    ]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", [even(60), even(25, 2, 1)], ids=["60 slices", "25 slices, 2 an advance"])
@pytest.mark.parametrize(
    ("at_a_time", "feed"),
    [
        (1, "as it closes"),
        pytest.param(2, "at once", marks=pytest.mark.long),
        (7, "at once"),
        (24, "as it closes"),
        (50, "at once"),
        (50, "as it closes"),
        (10**6, "at once"),
    ],
)
def test_floats_do_not_depend_on_how_many_windows_close_together(kind, at_a_time, feed):
    one = on_closing(kind, ("floats", "variance"), "three_layer")
    family, trees = one.family, ["three_layer", "three_layer"]
    records = sparse_records(family, 180)
    expected = results(one.shape, assemble(one.shape, trees, block_of(one.shape, one.cases, records)))
    windows = sorted(window for _, window in expected)

    rows = one.step(records if feed == "at once" else [])
    left = [] if feed == "at once" else records
    for window in range(windows[0], windows[-1] + 1, at_a_time):
        watermark = watermark_of(family, window + at_a_time)
        arrived = [record for record in left if record[0] < watermark * 1000]
        left = left[len(arrived) :]
        rows |= one.step(arrived, watermark)
    rows |= one.step([], END)
    one.drain()
    assert bits(by_window(one, rows)) == bits(expected)


@pytest.mark.parametrize("share", [0, 2], ids=["of all keys", "of keys with records"])
def test_floats_do_not_depend_on_how_slices_are_combined(share, monkeypatch):
    monkeypatch.setattr(nodes, "FILLED_SHARE", share)
    test_floats_do_not_depend_on_how_many_windows_close_together(even(60), 7, "at once")


@pytest.mark.parametrize("chosen", [COMMUTATIVE, WITH_ORDER], ids=["commutative", "ordered"])
def test_closes_of_many_windows_and_of_few_take_turns(chosen):
    """A close over a whole slice group leaves no suffixes; the next one makes them from the slices, late ones too."""
    one, window, left = warm(60, chosen), 1, []
    for count in [1, 9, 1, 1, 20, 8, 3, 30, 2, 7, 40, 1]:
        late = late_places(one.family, window)
        entering = range(window + 59, window + count + 59)
        records = [*evenly(one.family, late.values(), keys=2), *evenly(one.family, entering)]
        one.step(records, watermark_of(one.family, window + count))
        window += count
        left.append((count, any(name.startswith("three suffix") for name in one.bucket().head.lists)))
    assert not any(suffixes for count, suffixes in left if count > one.family.slices_per_group)
    assert any(suffixes for _, suffixes in left)
    assert one.seen["late for some"] > 0
    one.drain()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", ["floats", "most", "rows"])
def test_a_close_of_almost_a_window_takes_few_calls(name, late, monkeypatch):
    """A call a slice would cost more than the cells of one key."""
    one, calls = warm(400, (name,), "three_layer", keys=1), []
    for window in (1, 2):
        close_next(one, window, evenly(one.family, [window + 300]) if late else ())
    kernel, entering = one.shape.kernels[0], evenly(one.family, range(402, 402 + 399))
    combine = type(kernel).combine
    monkeypatch.setattr(type(kernel), "combine", lambda *given: calls.append(1) or combine(*given))
    assert len(one.step(entering, watermark_of(one.family, 3 + 399))) == 399
    assert len(calls) < 12 * one.family.slices_per_group
    one.drain()


def moved(kind, chosen, seed, keys, few_keys, monkeypatch):
    """A stream with late records, in closes of one window up to almost n, and its rows to the last bit.

    Of few keys whole slice groups move together.
    """
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(three_layer, "FEW_KEYS", few_keys)
    one, window, rows = warmed(on_closing(kind, chosen, "three_layer"), keys), 1, {}
    family = one.family
    n, step = one.family.per_window, one.family.per_advance
    while window < 5 * n:
        count = int(rng.choice([1, 2, rng.integers(1, n // step), (n - 1) // step]))
        entered = one.family.entered(window)
        late = np.unique(rng.integers(entered - n + 1, entered, int(rng.choice([0, 1, 3]))))
        came = [index for index in range(entered, one.family.entered(window + count)) if rng.random() < 0.8]
        value = {index: int(rng.integers(-(10**6), 10**6)) for index in [*late.tolist(), *came]}
        records = evenly(one.family, value, keys, value=lambda index, key, value=value: value[index] + key)
        rows |= one.step(records, watermark_of(family, window + count))
        window += count
    assert one.seen["late for some"] > 0
    return one, bits(by_window(one, rows))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", [even(60), even(75, 2, 1)], ids=["60 slices", "75, 2 an advance"])
@pytest.mark.parametrize("seed", seeds(1, 40))
@pytest.mark.parametrize("names", [("floats", "variance"), ("rows", "joined")], ids="+".join)
def test_floats_do_not_depend_on_how_slice_groups_move(kind, names, seed, monkeypatch):
    """Late ones neither: the nodes, and the order in which they are combined, are the same, and so is what is left."""
    (together, rows), (_, in_turn) = (moved(kind, names, seed, 2, few, monkeypatch) for few in (1000, 0))
    assert rows == in_turn
    together.drain()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(3, 40))
def test_floats_do_not_depend_on_other_keys(seed, monkeypatch):
    """One key alone moves whole slice groups, three do not."""
    (_, alone), (_, rows) = (moved(even(60), ("floats", "variance"), seed, keys, 1, monkeypatch) for keys in (1, 3))
    assert alone == {place: rows[place] for place in rows if place[0] == 0}


def test_the_close_after_a_jump_takes_few_calls(monkeypatch):
    """It makes all nodes anew, those of all slice groups together."""
    n = 400
    one, calls = warm(n, ("most",), "three_layer", keys=2), []
    one.step(evenly(one.family, range(n, 3 * n), keys=2), watermark_of(one.family, 2 * n))
    kernel = one.shape.kernels[0]
    combine = type(kernel).combine
    monkeypatch.setattr(type(kernel), "combine", lambda *given: calls.append(1) or combine(*given))
    close_next(one, 2 * n, keys=2)
    assert len(calls) < 12 * one.family.slices_per_group
    one.drain()


@pytest.mark.parametrize("share", [0, 2], ids=["of all keys", "of keys with records"])
def test_a_failure_in_a_close_of_many_windows_names_the_key(share, monkeypatch):
    monkeypatch.setattr(nodes, "FILLED_SHARE", share)

    def combine(a, b):
        if np.any(a + b > 58):  # neither a slice, a slice group, nor what is between: parts of one window
            raise ValueError("too many")
        return a + b

    chosen = [Case(Aggregate(lambda: 0, lambda acc, v: v, combine, columns=True), sum)]
    one = on_closing(even(60), chosen, "three_layer")
    # All keys have a record in every second slice, and from the 61st on key 3 has one in every slice.
    every_second = evenly(one.family, range(0, 140, 2), keys=5, value=lambda index, key: 1)
    one.step([*every_second, *((1000 * index, 3, 1) for index in range(61, 140, 2))])

    def close_five_at_a_time():
        for window in range(1, 80, 5):
            one.step((), watermark_of(one.family, window))

    with pytest.raises(FunctionFailed, match=r"`combine` of `result0` raised ValueError: too many for key \(3,\)"):
        close_five_at_a_time()


#   n = 60, slice groups of 8: a record that is late for some windows lies in one of three places
#
#   window            [=====================================================)
#   groups     |  .  p  .  |  p+1  |  p+2  |    ...    |  q-1  |  .  q  .  .  |
#   late record       suffix             between                 run
#
# and what must follow differs: suffixes are made once, the slice groups between are joined once, the run still grows.


def late_places(family, window):
    """One slice of each place, of those that have entered before `window` and belong to it."""
    oldest, end = int(family.first_slice(window)), int(family.first_slice(window)) + family.per_window - 1
    second = (oldest // family.slices_per_group + 1) * family.slices_per_group
    newest = (end - 1) // family.slices_per_group * family.slices_per_group
    return {"suffix": second - 1, "between": (second + newest) // 2, "run": end - 1}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("every", "chosen", "place"),
    [*((1, COMMUTATIVE, place) for place in ("suffix", "between", "run", "all")), (7, WITH_ORDER, "all")],
    ids=["suffix", "between", "run", "all", "all, seldom, ordered"],
)
def test_late_records_reach_the_windows_that_are_open(chosen, every, place):
    one = warm(60, chosen)
    assert one.family.slices_per_group == 8
    for window in range(1, 110 if place == "all" else 60):  # twice around the tree, or once
        places = late_places(one.family, window)
        wanted = [index for name, index in places.items() if place in (name, "all")]
        late = evenly(one.family, wanted, keys=2, value=lambda index, key: 1000 * key + index)
        close_next(one, window, late if window % every == 0 else [])
    assert one.seen["late for some"] > 0
    one.drain()


@pytest.mark.parametrize("place", ["suffix", "between", "run"])
def test_an_ordered_aggregate_takes_late_records_in_the_order_of_slices(place):
    one = warm(60, ("joined",))
    index = late_places(one.family, 1)[place]
    out = close_next(one, 1, evenly(one.family, [index], value=lambda index, key: -1))
    expected = [str(i) for i in range(1, 61)]
    expected.insert(expected.index(str(index)) + 1, "-1")
    assert by_window(one, out)[0, 1] == [61, ",".join(expected) + ","]


#   n = 60, 20 slices in a micro-batch, and they close in the next one
#
#   window         [=====================================================)
#   micro-batch    ...  |     2     |     3     |     4     |     5     |
#   cut            ...   -----------+-----------+-----------+-----------+      all but the newest slices of each


@pytest.mark.one_in(3)
@pytest.mark.parametrize("late", [[], [3, 4, 11]], ids=["in order", "with late records"])
@pytest.mark.parametrize("chosen", [COMMUTATIVE, WITH_ORDER], ids=["commutative", "ordered"])
def test_slices_that_come_at_once_are_written_once(chosen, late, monkeypatch):
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)
    one, written = warm(60, chosen, keys=2), Counter()
    put = pages.Pages.put

    def counting_put(self, name, block, shape):
        written.update(block.index.tolist())
        put(self, name, block, shape)

    monkeypatch.setattr(pages.Pages, "put", counting_put)
    ends = range(60, 240, 20)
    for first in ends:
        came = evenly(one.family, range(first, first + 20), keys=2)
        again = evenly(one.family, [first - back for back in late], keys=2)
        one.step([*came, *again], watermark_of(one.family, first - 59))
    held_back = 1 + max(late, default=0)
    once = [index for first in ends[:-1] for index in range(first, first + 20 - held_back)]
    assert {written[index] for index in once} == {2}, "a row for each key"
    assert (one.seen["late"], one.seen["late for some"]) == (0, 2 * len(late)), (
        "only of the first micro-batch, when a window had closed"
    )
    one.drain()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("behind", [0.01, 0.2], ids=["few", "many"])
def test_records_out_of_order_are_not_written_again_and_again(behind, monkeypatch):
    """A share of the records of each micro-batch belongs to the 4 slices before it; the rest of these has come."""
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)
    put_complete, written = slice_groups.SliceGroups.put_complete, []
    for put in (put_complete, lambda self, block, first, end: block):
        monkeypatch.setattr(slice_groups.SliceGroups, "put_complete", put)
        one, rng = on_closing(even(100), ("rows", "sum"), judged=False), np.random.default_rng(0)
        rows = 0
        for first in range(0, 400, 20):
            slices = first + rng.integers(0, 20, 4000)
            slices = np.where(rng.random(4000) < behind, first - 1 - rng.integers(0, 4, 4000), slices)
            records = [(1000 * index, index % 97 * place % 100, 1) for place, index in enumerate(slices.tolist())]
            one.step(records, first - 10, partitions=1)
            rows += one.written
        written.append(rows)
    assert written[0] < 0.85 * written[1]


def test_slices_that_leave_when_they_have_entered_are_not_cut(monkeypatch):
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)
    one = warm(60, COMMUTATIVE)
    for first in range(60, 300, 60):
        one.step(evenly(one.family, range(first, first + 60)), watermark_of(one.family, first - 59))
        head = one.bucket().head
        entered = one.family.entered(head.families[0].next_to_fire)
        assert max(head.slice_groups) * one.family.slices_per_group < entered
    one.drain()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chosen", "at_a_time"), [(COMMUTATIVE, 1), (WITH_ORDER, 7), (COMMUTATIVE, 30)])
def test_slices_cut_before_they_enter_take_more_records(chosen, at_a_time, monkeypatch):
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)
    one = warm(60, chosen)
    one.step(evenly(one.family, range(60, 110), keys=2), one.watermark)
    cut = [key * 8 + cut[0] for key, group in one.bucket().head.slice_groups.items() for cut in group.cuts]
    assert max(cut) > 100 > one.family.entered(1)
    for window in range(1, 50, at_a_time):
        more = evenly(one.family, [61 + window, 100, 109], keys=3, value=lambda index, key: -key)
        one.step(more if window < 40 else [], watermark_of(one.family, window + at_a_time))
    one.drain()


def read_only(combine):
    """`combine` as a library writes it whose arrays must not be written to."""

    def combined(a, b):
        joined = np.array(combine(a, b))
        joined.flags.writeable = False
        return joined

    return combined


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "combine", [read_only(np.add), lambda a, b: a + b if np.any(a) else b], ids=["read-only", "its argument"]
)
@pytest.mark.parametrize("at_a_time", [1, 7, 24])
def test_arrays_that_a_function_returns_are_not_written_to(combine, at_a_time, monkeypatch):
    monkeypatch.setattr(nodes, "FILLED_SHARE", 0)
    monkeypatch.setattr(closing, "FRAME_ROWS", 1)
    aggregate = Aggregate(lambda: 0, lambda acc, v: acc + v, combine, columns=True)
    one = on_closing(even(60), [Case(aggregate, sum)], "three_layer")
    for first in range(0, 130, at_a_time):
        slices = range(first, first + at_a_time)
        came = evenly(one.family, slices, 2, lambda index, key: index % 7 // 6 * (index + key))
        one.step(came, first)
    one.drain()


def test_records_of_closed_windows_are_refused_and_counted():
    #   size 4 s, advance 1 s; the watermark has passed 6 s: windows up to [2, 6) are closed
    #
    #   time       0   1   2   3   4   5   6   7   8
    #   window 2           [===============)           closed
    #   window 3               [===============)       open
    #   record         all     some        none
    one = on_closing(even(4000, 1000), ("sum",))
    one.step([(5_500_000, 1, 1)], 6_000)
    one.step([(1_500_000, 1, 2), (3_500_000, 1, 4), (6_500_000, 1, 8)])
    assert (one.seen["late"], one.seen["late for some"]) == (1, 1)
    assert by_window(one, one.step([], END))[1, 3] == [3, 13]
    one.drain()


@pytest.mark.parametrize(("watermark", "closes"), [(3_999, False), (4_000, True)])
def test_a_window_takes_records_in_the_micro_batch_in_which_it_goes_out(watermark, closes):
    one = on_closing(even(4000, 1000), ("sum",))
    out = one.step([(0, 1, 5)], watermark)
    assert by_window(one, out).get((1, 0)) == ([1, 5] if closes else None)
    one.drain()


def test_times_before_1970_are_closed_from_the_beginning():
    one = on_closing(even(4000, 1000), ("sum",))
    one.step([(-1, 1, 1), (-3_000_000, 1, 2), (-3_000_001, 1, 4), (-4_000_000, 1, 8)])
    assert (one.seen["late"], one.seen["late for some"]) == (2, 2)
    one.drain()


# Cost, in combines, pages and bytes. Steady means: one window closes per step, over a whole period of the tree.


def counting(invertible):
    """A sum that counts the partials it combines or inverts."""
    calls = []

    def combine(a, b):
        calls.append(a.size)
        return a + b

    def invert(ab, a):
        calls.append(a.size)
        return ab - a

    aggregate = Aggregate(lambda: 0, lambda acc, v: v, combine, invert if invertible else None, columns=True)
    return Case(aggregate, sum), calls


def period(family):
    """Slices after which the three-layer tree is in the same place again: a group, or several short ones."""
    group = ((family.per_window - 1) // family.slices_per_group - 1) * family.slices_per_group
    return group * max(1, 300 // group)


@cache
def steady(tree, n):
    """Combines per window and key and bytes read per close, for a stream that never closed many windows at once."""
    case, calls = counting(tree == "two_layer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slice_groups, "MOST_AT_ONCE", 1)
        one = warm(n, [case], tree, keys=40, judged=False)
    first = one.family.slices_per_group + 1
    steps = period(one.family)
    for window in range(1, first):
        close_next(one, window, keys=40, partitions=1)
    calls.clear()
    one.store.forget_counts()
    windows = sum(len(close_next(one, window, keys=40, partitions=1)) for window in range(first, first + steps))
    assert windows == 40 * steps
    return sum(calls) / windows, one.store.bytes_read / steps


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [60, pytest.param(1440, marks=pytest.mark.long)])
@pytest.mark.parametrize(("tree", "most"), [("two_layer", 2.1), ("three_layer", 4.5)])
def test_combines_per_window(tree, most, n):
    combines, _ = steady(tree, n)
    assert combines <= most


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [480, pytest.param(1440, marks=pytest.mark.long)])
@pytest.mark.parametrize("tree", ["two_layer", "three_layer"])
def test_bytes_read_per_close_do_not_grow_with_the_window(tree, n):
    assert steady(tree, n)[1] <= 1.3 * steady(tree, 60)[1]


@pytest.mark.parametrize("n", [60, 1440])
def test_recompute_combines_all_slices_for_every_window(n):
    case, calls = counting(invertible=False)
    one = warm(n, [case], "recompute", keys=3, judged=False)
    calls.clear()
    windows = sum(len(close_next(one, window, keys=3)) for window in range(1, 6))
    assert sum(calls) == (n - 1) * windows


def minute_by_minute(one, minutes, batches, rng):
    """Micro-batches of 20 records, 5 % of them late by 5 slices on average; yields whether one closed a window."""
    length = one.family.advance
    for batch in range(minutes * batches):
        now = 60 * length + batch * length // batches
        times = now - np.where(rng.random(20) < 0.05, rng.exponential(5 * length, 20), 0).astype(np.int64)
        records = [(time, int(rng.integers(0, 50)), 1) for time in times.tolist()]
        watermark = now // 1000
        windows = one.step(records, watermark)
        yield bool(windows)


def test_pages_read_per_close_with_late_records_and_many_micro_batches():
    one = warm(60, ("rows", "sum"), keys=50, advance=60)
    assert set(one.execution_plan.trees) == {"two_layer"}
    one.store.forget_counts()
    closes, reads = 0, {True: 0, False: 0}
    for closed in minute_by_minute(one, 4, 60, np.random.default_rng(0)):
        reads[closed] += one.store.reads
        closes += closed
        one.store.forget_counts()
    assert closes == 3
    assert one.seen["late for some"] > 0
    assert reads[True] / closes <= 16
    merged = pages.FAN_IN / (pages.FAN_IN - 1)  # 1/1 + 1/5 + ... of the pages written
    assert reads[False] <= merged * 4 * 60, "pages are read only to be merged, a few at a time"
    one.drain()


def test_no_page_is_read_while_nothing_closes_and_nothing_is_merged():
    one = warm(60, WITH_ORDER)
    one.store.forget_counts()
    for batch in range(pages.FAN_IN - 1):
        one.step([(60_000 + batch, 1, 1), (59_000, 2, 1)], one.watermark)
        assert (one.store.reads, one.store.writes) == (0, batch + 1)
    one.drain()


def test_the_header_stays_small(monkeypatch):
    monkeypatch.setattr(slice_groups, "CUT_BYTES", 1)  # a page for every slice: the longest directory there can be
    one = warm(10_080, ("sum", "floats"), judged=False)
    sizes = []
    for window in range(1, one.family.slices_per_group + 20):
        close_next(one, window)
        sizes.append(len(one.store.text))
    assert max(sizes) <= 16 << 10


def test_check_finds_a_page_that_is_lost_or_in_two_places():
    one = warm(60, ("sum",))
    bucket = one.bucket()
    bucket.check()
    cached = bucket.head.lists["two total"]
    bucket.head.fresh.append(cached[0])
    with pytest.raises(AssertionError, match="one place"):
        bucket.check()
    bucket.head.fresh.clear()
    one.store.remove(f"p{cached[0][0]}")
    with pytest.raises(KeyError):
        bucket.check()


UNDOES_NOTHING = Case(
    Aggregate(
        lambda: (0, 0),
        lambda acc, v: (max(acc[0], v), acc[1] + 1),
        lambda a, b: (max(a[0], b[0]), a[1] + b[1]),
        lambda ab, a: (ab[0] - a[0], ab[1] - a[1]),
        laws=False,
    ),
    None,
)
BY_COLUMNS = Case(
    Aggregate(
        lambda: 0,
        lambda acc, v: v,
        lambda a, b: np.maximum(a, b),
        lambda ab, a: ab - a,
        columns=True,
        laws=False,
    ),
    None,
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "kind",
    [even(6), even(3), even(25, 10, 1), even(40)],
    ids=["6 slices", "3 slices", "25, 10 an advance", "40 slices"],
)
@pytest.mark.parametrize("seed", range(2))
def test_bounded_input_inverts_as_streams_do(kind, seed):
    """So an `invert` that undoes nothing is as wrong on bounded input as it will be on a stream."""
    rng, chosen = np.random.default_rng(seed), [UNDOES_NOTHING, BY_COLUMNS, *cases("rows", "sum")]
    one = on_closing(kind, chosen, "two_layer", judged=False)
    family, rows, records = one.family, {}, []
    one.step([], watermark_of(family, 0))
    for window in range(40):
        first = int(family.first_slice(window)) + family.per_window - family.per_advance
        slices = range(first, first + family.per_advance)
        came = [(int(family.slice_start(i)), key, int(rng.integers(-9, 9))) for i in slices for key in range(3)]
        came = [record for record in came if rng.random() < (0.5 if window % 20 < 10 else 0.05)]
        records += came
        rows |= one.step(came, watermark_of(family, window + 1))
    rows |= one.step([], watermark_of(family, 200))
    block = block_of(one.shape, chosen, records)
    assert results(one.shape, assemble(one.shape, ["two_layer"] * 4, block)) == by_window(one, rows)


@pytest.mark.parametrize("damage", [lambda t: t[: len(t) // 2], lambda t: t[:9], lambda t: "~" * len(t), lambda t: ""])
def test_a_damaged_page_is_said_with_bucket_and_page(damage):
    one = warm(60, COMMUTATIVE)
    names, text = list(one.store.pages), one.store.text
    one.store.name, read = "bucket 3", "cannot be read as state of format 8: .*damaged: restore"
    for name in names:
        one.store.pages[name] = damage(one.store.pages[name])
    with pytest.raises(StateMismatch, match=rf"page `[ps0-9.-]+` of bucket 3 {read}"):
        close_next(one, 1)
    one.store.text = damage(text)
    with pytest.raises(StateMismatch, match=f"the header of bucket 3 {read}"):
        one.bucket()


def test_an_agg_that_returns_none_leaves_the_state_as_it_was():
    """The micro-batch fails where the partial is made, and continues from the same state once `agg` is mended."""

    def summed(refuses):
        return Case(
            Aggregate(lambda: 0, lambda acc, v: None if refuses and v == 13 else acc + v, lambda a, b: a + b), sum
        )

    one, mended = (on_closing(even(10), [summed(refuses)]) for refuses in (True, False))
    one.step(records := [(0, 1, 5), (1000, 2, 4)])
    before = one.store.text, dict(one.store.pages)
    with pytest.raises(InvalidType, match=r"`agg` of `result0` .* got None for key \(2,\) in slice"):
        one.step([(1000, 2, 13)])
    assert before == (one.store.text, one.store.pages)
    mended.known(records)
    mended.stores = one.stores
    mended.step([(1000, 2, 13)])
    mended.drain()


NODE_NAMES = "run", "start", "between", "late between", "late suffix", "suffix 7", "suffix -5", "rest 0", "stripe -1"


@pytest.mark.parametrize("name", NODE_NAMES)
def test_nodes_are_stored_under_these_names(name):
    key = NodeKey.named(name)
    assert key.name == name
    assert key.at == (int(name.split()[-1]) if name[-1].isdigit() else None)
    assert key.part.value == name.rstrip("-0123456789").strip()
    assert {Part(key.part) for key in map(NodeKey.named, NODE_NAMES)} == set(Part)


def test_a_node_of_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="prefix"):
        NodeKey.named("prefix 5")
