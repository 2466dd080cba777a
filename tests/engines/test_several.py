"""Several windows of one call: their nodes, windows side by side, and what such calls refuse.

Which rows several windows emit, each in rows of its own or side by side, is asked in `test_scenarios.py`. Streams have
disorder, records that are late for some families and not for others, gaps, and closes over many windows at once; some
families close in every micro-batch, others seldom.
"""

import random
from collections import Counter
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pytest
from oracle import CASES, FINGERPRINT, block_of, columns_of, moment, seeds, shape_of
from scenarios.kinds import KINDS
from scenarios.kinds import several as kinds
from scenarios.kinds.even import Even as EvenKind
from scenarios.scenario import Scenario
from scenarios.streams import stream as random_stream

from slicing.assembly.choice import choose
from slicing.content.block import concat
from slicing.content.folding import fold
from slicing.content.marks import of_keys
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.errors import InvalidType, InvalidValue
from slicing.grouping import group_by
from slicing.state import slice_groups
from slicing.state.lists import PageLists
from slicing.state.store import MemoryStore
from slicing.triggers.emission import early, on_change, on_close
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.cumulating import Cumulating
from slicing.windows.families.even import Even
from slicing.windows.families.several import several
from slicing.windows.families.stepped import Stepped
from slicing.windows.sets import windows_of_call
from slicing.windows.time.edges import Every, Listed
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone
from slicing.windows.window import cumulating, hopping, tumbling

MS, HOUR = 1000, 3600 * 10**6


@cache
def sets():
    """Families that are asked for together, the instant at which streams begin, and a step of theirs."""
    berlin = Zone.of("Europe/Berlin")
    return {
        "ends together": ([Even(5 * MS, MS), Even(30 * MS, MS), Even(60 * MS, MS)], 0, MS),
        "seldom beside always": ([Even(10 * MS, 2 * MS), Even(60 * MS, 60 * MS)], 0, 2 * MS),
        "longest in the middle": ([Even(12 * MS, 4 * MS), Even(40 * MS, 20 * MS), Even(2 * MS, 2 * MS)], 0, 2 * MS),
        "other edges": ([Even(7 * MS, 7 * MS), Even(30 * MS, 5 * MS)], 0, MS),
        "gaps": ([Even(2 * MS, 10 * MS), Even(3 * MS, 15 * MS, 5 * MS)], 0, MS),
        "cumulating": ([Cumulating(Every(60 * MS), Every(5 * MS)), Even(20 * MS, 5 * MS)], 0, 2 * MS),
        "lists": (
            [ByEdges(Listed([0, 30 * MS, 95 * MS]), Listed([20 * MS, 90 * MS, 300 * MS])), Even(6 * MS, 3 * MS)],
            0,
            MS,
        ),
        "a zone": ([Stepped(Local("day", 1, berlin), 1, 1), Even(6 * HOUR, HOUR)], 1_774_656_000 * 10**6, 5 * HOUR),
    }


SUBTRACTED = ("several that end together", "several, one seldom", "several, the longest in the middle")
"""Of these a family has a two-layer tree."""


class Alone:
    """One family with a bucket of its own."""

    def __init__(self, family, cases, grace, emission):
        self.family, self.cases = family, cases
        self.shape = shape_of(family, cases)
        trees = [choose(kernel, family) for kernel in self.shape.kernels]
        self.bucket = partial(SlicedBucket, self.shape, trees, grace, FINGERPRINT, MemoryStore(), emission)

    def step(self, records, watermark, now=0):
        bucket = self.bucket()
        late = bucket.accept([block_of(self.shape, self.cases, self.inside(records))])
        return rows(self.shape, bucket.close(moment(watermark, now))), late

    def inside(self, records):
        return [each for each in records if not self.family.in_gap(self.family.slice_at(each[0]))]


class Together:
    """Several families in one bucket."""

    def __init__(self, families, cases, grace, emission, wide=False):
        self.family, self.cases = several(families), cases
        self.shape = shape_of(self.family, cases)
        over = [self.shape.over(family) for family in self.family.families]
        trees = [choose(kernel, each.family) for each in over for kernel in each.kernels]
        self.bucket = partial(SlicedBucket, self.shape, trees, grace, FINGERPRINT, MemoryStore(), emission, wide)

    step, inside = Alone.step, Alone.inside


def results_of(shape, frame):
    """What a frame shows, row by row."""
    return [list(row) for row in zip(*columns_of(shape, frame), strict=True)]


def rows(shape, frames):
    """Rows by (family, kind, key, start, end): results, and those they replace; what is beside counts as its own."""
    found = {}
    for frame in frames:
        others = [number for number in range(len(shape.family.families)) if number != frame.family]
        sides = [(frame.family, frame), *zip(others, frame.aligned, strict=False)]
        for number, side in sides:
            old = frame.old
            if old is not None and number != frame.family:
                old = old.aligned[others.index(number)]
            own = shape.over(shape.family.families[number])
            start, end = own.family.window_start(side.windows), own.family.window_end(side.windows)
            keys = side.names["k0"].take(pa.array(side.keys)).to_pylist()
            assert frame is side or np.array_equal(end, shape.family.families[frame.family].window_end(frame.windows))
            before = results_of(own, old) if old is not None else [None] * len(side)
            for at, result in enumerate(results_of(own, side)):
                place = number, frame.kind, keys[at], int(start[at]), int(end[at])
                assert place not in found, "a window goes out once in a micro-batch"
                if side.records[at] or frame.kind == "drained":
                    found[place] = result, before[at] if old is not None and old.records[at] else None
    return found


def stream(rng, begin, step, late=True):
    """Micro-batches: records, the watermark and the clock in milliseconds."""
    now = begin
    watermark = 0
    clock = begin // 1000
    for _ in range(25):
        spread = 60 * step if late and rng.random() < 0.3 else 6 * step
        count = rng.choice([0, 1, 5, 20])
        yield (
            [
                (max(0, now + rng.randrange(-spread, 2 * step)), rng.randrange(3), rng.randrange(-50, 100))
                for _ in range(count)
            ],
            watermark := max(watermark, (now - rng.randrange(7 * step, 9 * step)) // 1000),
            clock,
        )
        now += rng.choice([0, step // 4, step, 4 * step, 80 * step if rng.random() < 0.1 else 0])
        clock += rng.randrange(30)
    yield [], 1 << 43, clock


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
        for records, watermark, now in random_stream(rng, kind, batches=40):
            made.emit(records, watermark, now)
            seen += check(made)
        if seen > 10:
            break
    assert seen > 10


@pytest.mark.parametrize("sizes", [(3, 8), (2, 30)])
@pytest.mark.parametrize("cut_bytes", [1, 64, 16_000])
def test_windows_side_by_side_that_close_many_at_once(sizes, cut_bytes, monkeypatch):
    """Slices that lie in stripes before they enter are read once, into however many frames windows go out."""
    monkeypatch.setattr(slice_groups, "CUT_BYTES", cut_bytes)
    kind = kinds.several(*(EvenKind.of(size, 1) for size in sizes), wide=True)
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
    for records, watermark, now in random_stream(rng, kind, batches=25, late=False):
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
    made = Scenario(kinds.several(EvenKind.of(2, 2), EvenKind.of(10, 10)), on_close(), results=("sum",))
    made.step([(25 * MS, 1, 1)], 24)
    made.step([(5 * MS, 1, 2), (21 * MS, 1, 4), (25 * MS, 1, 8)], 24)
    (late,) = made.late
    assert (late.all, late.some) == (1, 1)
    assert [refused.rows.records.sum() for refused in late.refused] == [2, 1]


def test_what_windows_of_one_call_must_be():
    hour, day = hopping("1 hour", "1 minute"), hopping("1 day", "1 minute")
    assert windows_of_call([hour], {}, False) is hour
    assert repr(windows_of_call([hour, day], {}, False)) == f"{hour}, {day}"
    assert repr(windows_of_call([], {"a": hour, "b": day}, False)) == f"a={hour}, b={day}"
    for given, named, long, words in [
        ([], {}, False, "at least one window"),
        ([hour], {"b": day}, False, "all by name or all without"),
        ([hour, day], {}, True, "for windows with names"),
        ([tumbling("1 day"), cumulating("1 day", "1 minute")], {}, False, "same interval"),
        ([hour, hour], {}, False, "same interval"),
        ([], {"a": hour, "b": hour}, False, "are the same window twice"),
        ([], {"a": hour, "b": tumbling("1 day")}, False, "must end together"),
        # The first windows after 1970 are far apart, or are the same for 48 years.
        ([], {"a": hour, "b": cumulating("1 month", "1 day", zone="Europe/Berlin")}, False, "must end together"),
        ([], {"a": tumbling("1 day"), "b": tumbling("1 day", zone="Africa/Sao_Tome")}, False, "must end together"),
        ([], {"a": hour, "b": hopping("61 seconds", "1 minute")}, False, "must end together"),
    ]:
        with pytest.raises(InvalidValue, match=words):
            windows_of_call(given, named, long)
    with pytest.raises(InvalidType, match="must be made with"):
        windows_of_call(["1 hour", day], {}, False)
    with pytest.raises(InvalidType, match=r"`long` says .* Call that window something else"):
        group_by(None, "k").window(short=hour, long=day, time="ts")
    assert windows_of_call([], {"a": tumbling("1 day"), "b": cumulating("1 day", "1 hour")}, True).names == ("a", "b")


def test_what_is_of_keys_only_is_not_of_others():
    """A block beside another goes by its names, however these are numbered."""
    shape = shape_of(Even(MS, MS), [CASES["sum"]])
    one, other = (block_of(shape, [CASES["sum"]], [(0, key, 1) for key in keys]) for keys in ((1, 2), (2, 3)))
    assert len(of_keys(concat(shape, [one]), other)) == 1
