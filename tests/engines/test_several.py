"""Several windows of one call: their nodes, windows side by side, and what such calls refuse.

Which rows several windows emit, each in rows of its own or side by side, is asked in `test_scenarios.py`. Streams have
disorder, records that are late for some families and not for others, gaps, and closes over many windows at once; some
families close in every micro-batch, others seldom.
"""

import random
from collections import Counter

import pyarrow as pa
import pytest
from oracle import CASES, block_of, seeds, shape_of
from scenarios.kinds import KINDS
from scenarios.kinds import several as kinds
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario
from scenarios.streams import stream

from slicing.content.block import concat
from slicing.content.folding import fold
from slicing.content.marks import of_keys
from slicing.errors import InvalidType, InvalidValue
from slicing.grouping import group_by
from slicing.state import slice_groups
from slicing.state.lists import PageLists
from slicing.triggers.emission import early, on_change, on_close
from slicing.windows.sets import windows_of_call
from slicing.windows.window import by_edges, cumulating, hopping, tumbling

MS = 1000
SUBTRACTED = ("several that end together", "several, one seldom", "several, the longest in the middle")
"""Of these a family has a two-layer tree."""


def check(made):
    """What two-layer nodes hold, with what waits for them, is a fold of the slices they are of."""
    bucket = made.bucket()
    bucket.check()
    seen = 0
    for walker in bucket.families:
        chosen = [i for i, tree in enumerate(walker.trees) if tree == "two_layer"]
        if not chosen or walker.state.nodes is None:
            continue
        shape = walker.shape.select(chosen)
        first, end = walker.family.first_slice(walker.state.nodes), walker.family.entered(walker.state.nodes)
        node = walker.cache("two", shape).load("total")
        waits = [
            part.between(first, end)
            for part in PageLists(bucket.pages, f"{walker.prefix}late", walker.shape).read("rows")
        ]
        stored = fold(walker.shape, list(bucket.slices.slice_groups.read(first, end)))
        wanted = records_by_key([stored])
        wanted.subtract(records_by_key(waits))
        assert +wanted == records_by_key([node] if node is not None else []), (walker.number, walker.state)
        seen += node is not None
    return seen


def records_by_key(blocks):
    found = Counter()
    for block in blocks:
        keys = block.names["k0"].take(pa.array(block.keys)).to_pylist()
        for key, count in zip(keys, block.records.tolist(), strict=True):
            found[key] += count
    return +found


TRIGGERS = {"close": on_close(), "corrections": on_close(corrections=True), "ticks": early(every="20 milliseconds")}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("name", SUBTRACTED)
def test_two_layer_nodes_hold_the_slices_that_they_are_of(name, trigger):
    """Late ones that wait for them apart; rows are compared with raw records in `test_scenarios.py`."""
    rng, seen = random.Random(f"{name} {trigger}"), 0
    for _ in range(4):  # streams, until nodes have been looked at often enough
        kind = KINDS[name](rng)
        made = Scenario(kind, TRIGGERS[trigger], 5 * kind.step, results=("sum", "highest"))
        for records, watermark, now in stream(rng, kind, batches=40):
            made.emit(records, watermark, now)
            seen += check(made)
        if seen > 10:
            break
    assert seen > 10


@pytest.mark.parametrize("sizes", [(3, 8), (2, 30)])
@pytest.mark.parametrize("cut_bytes", [1, 64, 16_000])
def test_windows_side_by_side_that_close_many_at_once(sizes, cut_bytes, monkeypatch):
    """Slices that are in slice groups before they enter are read once, however many frames the windows fill."""
    monkeypatch.setattr(slice_groups, "CUT_BYTES", cut_bytes)
    kind = kinds.several(*(Even.of(size, 1) for size in sizes), wide=True)
    made = Scenario(kind, on_close(), results=("sum", "highest"))
    for watermark, slices in ((0, range(6)), (2, range(6, 12)), (4, []), (9, range(12, 20)), (19, []), (60, [40])):
        made.step([(index * MS, key, key + index) for index in slices for key in range(40)], watermark)
    assert made.seen["final"] > 1000


@pytest.mark.parametrize("seed", seeds(1, 6))
@pytest.mark.parametrize("drained", [False, True])
def test_changes_side_by_side_are_of_all_columns_together(drained, seed):
    rng = random.Random(seed)
    kind = kinds.side_by_side(rng)
    wide, closed = (Scenario(kind, trigger, results=("sum", "rows")) for trigger in (on_change(drained), on_close()))
    last, seen = {}, 0
    for records, watermark, now in stream(rng, kind, batches=25, late=False):
        changed = by_end(wide.emit(records, watermark, now))
        wanted = {}
        for (key, end), row in sorted(
            by_end(closed.step(records, watermark, now)).items(), key=lambda each: each[0][1]
        ):
            if last.get(key, (end - MS, None)) != (end - MS, row):
                wanted[key, end] = row
            last[key] = end, row
        assert changed == wanted
        seen += len(wanted)
    assert seen > 30


def by_end(found):
    """The results side by side, by key and end; tombstones have none."""
    rows_ = {}
    for (kind, key, part, _, end), (row, _) in found.items():
        if kind != "drained":
            rows_.setdefault((key, end), {})[part] = row[1:]
    return rows_


def test_a_row_that_no_family_takes_is_late_for_all():
    made = Scenario(kinds.several(Even.of(2, 2), Even.of(10, 10)), on_close(), results=("sum",))
    made.step([(25 * MS, 1, 1)], 24)
    made.step([(5 * MS, 1, 2), (21 * MS, 1, 4), (25 * MS, 1, 8)], 24)
    (late,) = made.late
    assert (late.all, late.some) == (1, 1)
    assert [refused.rows.records.sum() for refused in late.refused] == [2, 1]


WEEK = hopping("7 days", "1 hour")


def test_what_windows_of_one_call_must_be():
    hour, day = hopping("1 hour", "1 minute"), hopping("1 day", "1 minute")
    assert windows_of_call([hour], {}, False) is hour
    assert repr(windows_of_call([hour, day], {}, False)) == f"{hour}, {day}"
    assert repr(windows_of_call([], {"a": hour, "b": day}, False)) == f"a={hour}, b={day}"
    for given, named, long, words in [
        ([], {}, False, "at least one window"),
        ([hour], {"b": day}, False, "all by name or all without"),
        ([hour, day], {}, True, "for windows with names"),
        ([hour], {}, True, "for windows with names"),
        ([tumbling("1 day"), cumulating("1 day", "1 minute")], {}, False, "same interval"),
        ([hour, hour], {}, False, "same interval"),
        ([], {"a": hour, "b": hour}, False, "are the same window twice"),
        ([], {"a": tumbling("1 day"), "b": cumulating("1 day", "1 day")}, False, "are the same window twice"),
        ([], {"a": by_edges([0, 6], [10, 10])}, False, "`a` has windows that end together and start apart"),
        ([], {"a": hour, "b": tumbling("1 day")}, False, "must end together"),
        # The first windows after 1970 are far apart, or are the same for 48 years.
        ([], {"a": hour, "b": cumulating("1 month", "1 day", zone="Europe/Berlin")}, False, "must end together"),
        ([], {"a": tumbling("1 day"), "b": tumbling("1 day", zone="Africa/Sao_Tome")}, False, "must end together"),
        ([], {"a": hour, "b": hopping("61 seconds", "1 minute")}, False, "must end together"),
        # Twice a year the clock changes by half an hour.
        ([], {"a": cumulating("1 day", "1 hour", zone="Australia/Lord_Howe"), "b": WEEK}, False, "must end together"),
        (
            [tumbling("40 minutes", zone="Europe/Berlin"), hopping("100 minutes", "20 minutes")],
            {},
            False,
            "same interval",
        ),
    ]:
        with pytest.raises(InvalidValue, match=words):
            windows_of_call(given, named, long)
    for zone in ("Asia/Tokyo", "Europe/Berlin"):
        assert windows_of_call([], {"a": cumulating("1 day", "1 hour", zone=zone), "b": WEEK}, False).wide
    with pytest.raises(InvalidType, match="must be made with"):
        windows_of_call(["1 hour", day], {}, False)
    with pytest.raises(InvalidType, match=r"`long` says .* Call that window something else"):
        group_by(None, "k").window(short=hour, long=day, time="ts")
    assert windows_of_call([], {"a": tumbling("1 day"), "b": cumulating("1 day", "1 hour")}, True).names == ("a", "b")
    sides = {
        "hour": tumbling("1 hour"),
        "day": cumulating("1 day", "1 hour"),
        "month": cumulating("1 month", "1 hour", zone="UTC"),
    }
    assert windows_of_call([], {"a": by_edges([0, 0, 9, 9], [9, 9, 9, 12])}, False).wide, "one window of its own, twice"
    assert windows_of_call([], sides, False).wide, "they are the same in the first hour, and have columns of their own"


HOUR = 3_600_000 * MS


def trading(days, whole=()):
    """From 9 to 17 o'clock on each day, but from midnight to midnight on some."""
    hours = [(24 * day, 24 * day + 24) if day in whole else (24 * day + 9, 24 * day + 17) for day in days]
    return by_edges([start * HOUR for start, _ in hours], [end * HOUR for _, end in hours])


@pytest.mark.parametrize("days", [range(8000), range(-300, -100)], ids=["many", "before 1970"])
def test_every_window_of_a_list_is_compared_with_those_of_others(days):
    day = tumbling("1 day")
    windows_of_call([trading(days), day], {}, False)
    for whole in (days[102], days[-2]):
        for given in ([trading(days, {whole}), day], [trading(days, {whole}), trading([whole], {whole})]):
            for pair in (given, given[::-1]):
                with pytest.raises(InvalidValue, match="same interval"):
                    windows_of_call(pair, {}, False)


def test_windows_of_lists_with_equal_ends_are_compared():
    windows_of_call([by_edges([0, 6], [10, 10]), by_edges([2, 5], [10, 10])], {}, False)
    with pytest.raises(InvalidValue, match="same interval"):
        windows_of_call([by_edges([0, 5], [10, 10]), by_edges([2, 5], [10, 10])], {}, False)


def test_what_is_of_keys_only_is_not_of_others():
    """A block beside another goes by its names, however these are numbered."""
    shape = shape_of(tumbling("1 millisecond").family, [CASES["sum"]])
    one, other = (block_of(shape, [CASES["sum"]], [(0, key, 1) for key in keys]) for keys in ((1, 2), (2, 3)))
    assert len(of_keys(concat(shape, [one]), other)) == 1
