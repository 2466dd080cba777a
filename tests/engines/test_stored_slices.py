"""The slices of a bucket are looked up and loaded into a new bucket, which continues as the old one does.

Slices are compared with the records so far, and the rows of the new bucket with those of the old one, by micro-batch::

    old     0 1 2 3 4 5 6 | 7 8 9 ...
                          | its slices, and `until`: its watermark less grace
    new                   | 7 8 9 ...
"""

import json
import random
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from adapting import Query
from golden.every_kind import COMBINED, EAGER, MIXED, SCENARIOS, SECOND, WINDOWS
from oracle import seeds
from test_look import KEYS, TIMED, Truth, batches
from test_retain import retaining
from test_warm import Bucket, shown

from slicing import hopping, tumbling
from slicing.aggregates.kernels import kernel
from slicing.aggregates.record_count import RECORD_COUNT
from slicing.engines.looking import Look
from slicing.engines.sliced import merging
from slicing.errors import InvalidValue
from slicing.stages.looking import KNOWN, LookupFlat
from slicing.stages.looking_slices import LookUpSlices
from slicing.stages.of_partials import OfPartials
from slicing.stages.support_of import support_of
from slicing.state.store import MemoryStore
from slicing.triggers.trigger import MicroBatchTime

LONG = "hopping with a tail"
NAMES = [
    name
    for name, (_, results, emission) in SCENARIOS.items()
    if (name in TIMED or name.startswith("side by")) and not name.startswith("gaps")
    if results not in (EAGER, MIXED) and emission in ("on close", "on update", "on change")
]


@pytest.fixture(params=[*NAMES, LONG])
def name(request, monkeypatch):
    """A scenario of windows that share slices."""
    monkeypatch.setitem(WINDOWS, LONG, (hopping("12 seconds", "1 second", tail="4 seconds"), SECOND))
    monkeypatch.setitem(SCENARIOS, LONG, (LONG, COMBINED, "on close"))
    monkeypatch.setattr(merging, "AT_ONCE", 2)
    return request.param


def looked_up(line, store, look=None):
    """The stored slices of a bucket: key, start, stop, the start of the first whole slice, records, partials."""
    plan = line.execution_plan
    plain = [kernel(each.label, replace(each.aggregate, lower=None, returns=None)) for each in plan.shape.kernels]
    shape = replace(plan.shape, kernels=(kernel("records", RECORD_COUNT), *plain))
    kinds = tuple(field.kind for each in shape.kernels for field in each.results)
    flat = LookupFlat(("bigint",), kinds, None, True, False, False, False, False, False)
    texts = {0: store.text}
    ask = LookUpSlices(
        plan, line.fingerprint, line.emission, line.grace, shape, False, False, flat, look or Look(), texts
    )
    pages = pa.table({"bucket": [0] * len(store.pages), "page": [*store.pages], "text": [*store.pages.values()]})
    found = pa.Table.from_batches(ask(pages.to_batches()), flat.completed(pa.table({})).schema)
    return found.filter(pc.is_null(found["cause"]))


def of_table(line, found, first):
    """What the first stage ships of looked-up slices, in any order."""
    plan = line.execution_plan
    columns = iter(found[each] for each in found.column_names if each[0] == "r" and each[1:].isdigit())
    records = next(columns)
    fields = [[next(columns) for _ in each.fields] for each in plan.shape.kernels]
    stored = fields if plan.sharing is None else plan.sharing.select(tuple(fields))
    values = {f"v{at}": each for at, each in enumerate(column for some in stored for column in some)}
    rows = {"time": found["start"], "stop": found["stop"], "k0": found["k0"], "records": records, **values}
    order = list(range(len(found)))
    random.Random(1).shuffle(order)
    stage = OfPartials(plan.shipping, (), (0,), first=first)
    return plan.shipped(pa.Table.from_batches(stage(pa.table(rows).take(order).to_batches())).to_pydict())


class Left(Bucket):
    """A bucket whose slices are looked up, or which starts from them."""

    @property
    def until(self):
        """The end of the windows that have closed, in microseconds."""
        return max(1000, self.bucket().head.watermark - self.grace)

    def goes_on(self, found, until):
        """Start from the slices of another bucket."""
        support = support_of(self.window)
        first = tuple(
            support.first_window(family, until, self.emission) for family in self.execution_plan.shape.family.families
        )
        self.bucket().load(of_table(self, found, first), MicroBatchTime(until, 0))
        self.bucket().check()


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_a_new_bucket_goes_on_as_the_old_one_does(name, seed):
    """Windows and late records are those of the old bucket, and so are the slices that both have later.

    The first windows lack changes by late records of before: slices do not tell that a window closed without them.
    """
    told, rows = batches(SCENARIOS[name][0], seed), 0
    cut = 6 + seed % 3
    old, new = Left(name), Left(name)
    for each in told[:cut]:
        old.step(*each)
    until = old.until
    new.goes_on(looked_up(old, old.store), until)
    for number, (records, watermark, clock) in enumerate([*told[cut:], ([], told[-1][1] + 10**9, 0)]):
        ours, theirs = (shown(each.step(records, watermark, clock), until) for each in (new, old))
        if name.endswith("on change") and not rows:
            theirs = without_late_changes(ours, theirs)
        assert ours == theirs, number
        assert (new.late.all, new.late.some) == (old.late.all, old.late.some)
        rows += len(ours)
        if number == 3:
            ours, theirs = (in_order(looked_up(each, each.store)) for each in (new, old))
            assert ours == theirs
    assert rows > 5


def without_late_changes(ours, theirs):
    """The rows of the old bucket without those that the new one lacks, which are of the first windows only."""
    starts, first = {row: (made["family"], made["start"]) for row in theirs if (made := json.loads(row))}, {}
    for family, start in starts.values():
        first[family] = min(start, first.get(family, start))
    lacking = [row for row in theirs if row not in ours]
    assert all(starts[row] in first.items() for row in lacking)
    return [row for row in theirs if row not in lacking]


def in_order(found):
    return sorted(repr({name: each for name, each in row.items() if name != KNOWN}) for row in found.to_pylist())


@pytest.mark.one_in(8)
@pytest.mark.parametrize("steps", [0, 30])
def test_slices_have_the_records_so_far(name, steps):
    """A slice is there if one of its records was not late, from the first whole one on, and no two overlap."""
    if name == LONG and steps:
        pytest.skip("slices that are merged cannot be retained")
    line, lengths, dropped = retaining(name, steps), set(), 0
    truth = Truth(line, SCENARIOS[name][1])
    for each in batches(SCENARIOS[name][0], 5):
        truth.add(*each)
        line.step(*each)
        if line.store.text is None:
            continue
        found = looked_up(line, line.store).to_pylist()
        since = max((row[KNOWN] for row in found), default=0)
        counted = {(row["k0"], row["start"], row["stop"]): row["r0"] for row in found}
        assert counted == {place: held for place in counted if (held := count(truth, *place))}
        if found:
            kept = {key: [r for r in held if r[0] >= since] for key, held in truth.records.items()}
            assert sum(counted.values()) == sum(map(len, kept.values()))
            dropped += sum(map(len, truth.records.values())) - sum(counted.values())
        lengths |= {stop - start for _, start, stop in counted}
    assert dropped or steps or SCENARIOS[name][0].startswith("by edges")
    assert max(lengths) == 4 * SECOND or name != LONG
    of_key = {row["k0"] for row in looked_up(line, line.store, Look(keys=KEYS)).to_pylist()}
    assert of_key <= {2}


def count(truth, key, start, stop):
    return sum(start <= record[0] < stop for record in truth.records[key])


def test_slices_from_before_a_result_was_added_are_left_out():
    """Ten records a second; `most` is added after second 10, so that no earlier slice has it."""
    store, window = MemoryStore(), hopping("12 seconds", "4 seconds")
    before, after = Query([window], ["total"]), Query([window], ["total", "most"])
    for second in range(20):
        query = before if second < 10 else after
        query.step(store, [(second * SECOND + 1, 1, 5, "a")] * 10, max(0, second - 3) * SECOND)
    new = looked_up(after, store)
    starts = sorted(new["start"].to_pylist())
    assert starts == [12 * SECOND, 16 * SECOND], "of [8 s, 12 s) `most` has some records only"


def test_the_first_whole_slice_is_after_the_merged_one_in_which_a_result_was_added(monkeypatch):
    """A record a second; `most` is added after second 10, and [8 s, 12 s) becomes one slice later."""
    monkeypatch.setattr(merging, "AT_ONCE", 2)
    store, window, known = MemoryStore(), hopping("12 seconds", "1 second", tail="4 seconds"), []
    before, after = Query([window], ["total"]), Query([window], ["total", "most"])
    for second in range(23):
        query = before if second < 10 else after
        query.step(store, [(second * SECOND + 1, 1, 5, "a")], max(0, second - 3) * SECOND)
        if second > 10:
            found = looked_up(after, store).sort_by("start")
            starts, stops = found["start"].to_pylist(), found["stop"].to_pylist()
            known += set(found[KNOWN].to_pylist())
            assert starts == [known[-1], *stops[:-1]], "all slices from the first whole one on"
    assert {known[0], known[-1]} == {10 * SECOND, 12 * SECOND}


TAILED = hopping("12 seconds", "2 seconds", tail="4 seconds")
DROPPED = {
    "tumbling": ([tumbling("1 second")], [tumbling("4 seconds")]),
    "hopping": ([hopping("6 seconds", "1 second")], [hopping("12 seconds", "4 seconds", offset="2 seconds")]),
    "one of several": ([tumbling("3 seconds"), tumbling("4 seconds")], [tumbling("4 seconds")]),
    "beside a tail": ([TAILED, tumbling("1 second")], [TAILED]),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("together", [1, 2, 8])
@pytest.mark.parametrize("retain", [0, 9 * SECOND])
@pytest.mark.parametrize("windows", DROPPED)
def test_slices_are_those_of_the_query_after_finer_windows_were_dropped(windows, retain, together, monkeypatch):
    """A record each half second, up to two seconds late; the finer windows are dropped after second 15."""
    monkeypatch.setattr(merging, "AT_ONCE", together)
    before, after = (Query(some, ["rows"], retain=retain) for some in DROPPED[windows])
    rng, store, times, slices = random.Random(together), MemoryStore(), [], 0
    for second in range(1, 40):
        new = [second * SECOND + at - rng.randrange(4) * SECOND // 2 for at in (0, SECOND // 2)]
        times += new
        query = before if second < 15 else after
        query.step(store, [(time, 1, 1, "a") for time in new], max(0, second - 3) * SECOND)
        found = looked_up(after, store).sort_by("start").to_pylist() if second >= 15 else []
        for row in found:
            assert row["r0"] == sum(row["start"] <= time < row["stop"] for time in times), (second, row)
            assert row["start"] >= row[KNOWN]
        assert all(one["stop"] <= other["start"] for one, other in pairwise(found)), second
        assert not found or sum(row["r0"] for row in found) == sum(time >= found[0][KNOWN] for time in times)
        edges = {int(after.family.slice_start(after.family.slice_at(row["start"]))) for row in found}
        assert edges == {row["start"] for row in found}
        slices += len(found)
        if second == 16:
            with pytest.raises(InvalidValue, match="is cut at"):
                of_table(before, looked_up(after, store), None)
    assert slices > 30
    assert (after.bucket(store).head.merged is not None) == (windows == "beside a tail")
