"""Results that share fields in every kind of window: several of a call, cumulating, never closing, by the clock.

The truth is the same query in which each result keeps fields of its own, micro-batch by micro-batch: its rows, what it
refuses as late, and what it continues with in another process.
"""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from golden.sharing import KINDS, Line, five, micro_batches
from oracle import moment
from test_sharing import EVERYTHING, stores_groups

import combinators as C
from slicing import cumulating, hopping, sliding, tumbling, unbounded
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import EAGER, choose
from slicing.content.block import Shape
from slicing.content.codec import encode
from slicing.content.records import Records
from slicing.errors import StateMismatch
from slicing.explain.ledgers import SlidingPlan
from slicing.explain.plan import Plan
from slicing.stages.execution_plan import Aggregation, Mixed, not_before
from slicing.stages.output import flat_late_partials, flat_windows
from slicing.stages.sliding import SlidingExecutionPlan
from slicing.stages.support_of import support_of
from slicing.stages.unbounded import Totals
from slicing.state import bucket_cache as memory
from slicing.state.format.fingerprint import PARTIALS, fingerprint_of
from slicing.state.store import MemoryStore
from slicing.triggers.emission import early, on_change, on_close, on_update
from slicing.windows.sets import windows_of_call

SHORT, LONG = hopping("3 seconds", "1 second"), hopping("20 seconds", "1 second")
WINDOWS = {
    "long rows": windows_of_call([SHORT, LONG, tumbling("6 seconds")], {}, False),
    "wide rows": windows_of_call([], {"short": SHORT, "long": LONG}, False),
    "long rows by name": windows_of_call([], {"a": tumbling("6 seconds"), "b": LONG}, True),
    "cumulating": cumulating("12 seconds", step="2 seconds"),
    "cumulating beside": windows_of_call([cumulating("12 seconds", step="2 seconds"), LONG], {}, False),
    "two slices an advance": hopping("7 seconds", "2 seconds"),
}
FEW = ("close", "update", "corrections")
"""Emissions of windows that are tried with others in all of them."""
EMISSIONS = {
    "close": on_close(),
    "update": on_update(),
    "newest": on_update(latest_only=True),
    "corrections": on_close(corrections=True, old=True),
    "discarding": on_close(corrections=True, discarding=True),
    "changes": on_change(),
    "drained": on_change(drained=True),
    "ticks": early(every="3 seconds"),
    "counted": early(records=3),
}
GRACE = 4_000_000


class Windowed(Line):
    """A `Line` over any windows, whose late rows are rows too."""

    def __init__(self, results, windows, emission=None, plain=False, store=None, grace=0):
        names = list(KINDS)
        kernels = tuple(
            kernel(name, bound.resolve(tuple(KINDS.get(column, "bigint") for column in bound.columns)))
            for name, bound in results.items()
        )
        arguments = tuple(
            tuple(names.index(column) if column in names else -1 for column in bound.inputs)
            for bound in results.values()
        )
        shape = Shape(windows.family, (Field("key", "bigint"),), kernels)
        trees = tuple(choose(each, family) for family in windows.family.families for each in kernels)
        made = support_of(windows).execution_plan(Aggregation(shape, trees, arguments))
        if plain and not isinstance(made, Totals):
            made = replace(made, shares=False)
        columns = [list(bound.inputs) for bound in results.values()]
        self.results, self.execution_plan, self.emission, self.grace = results, made, emission or on_close(), grace
        self.fingerprint = fingerprint_of(shape, [PARTIALS] * len(kernels), columns, "1 over 1 shuffle partitions")
        self.store = store or MemoryStore()

    def bucket(self):
        return self.execution_plan.bucket(self.grace, self.fingerprint, self.store, self.emission)

    def step(self, records, watermark, now=0):
        bucket = self.bucket()
        late = bucket.accept(self.blocks(records) if records else [])
        rows = [row for windows in bucket.close(moment(watermark, now)) for row in self.rows(windows)]
        bucket.check()
        return sorted(rows), [*self._late(late)], (late.all, late.some)

    def rows(self, windows):
        return shown(flat_windows(self.execution_plan.shape, windows, self.emission, 0, self.execution_plan.wide))

    def _late(self, late):
        for number, refused in enumerate(late.refused):
            own = self.execution_plan.shape.over(self.execution_plan.shape.family.families[number])
            partials = self.execution_plan.late_partials(refused)
            yield from shown(flat_late_partials(own, refused, partials, number, self.execution_plan.wide))


def shown(table):
    """Rows as texts."""
    return sorted(map(repr, table.to_pylist()))


def run(line, batches, held=True):
    """What each micro-batch puts out; with `held=False` each runs in a process of its own."""
    found = []
    for batch in batches:
        if not held:
            memory._entries.clear()
        found.append(line.step(*batch))
    return found


def late(batches):
    """Micro-batches with records that are late for some windows, and for all, and a last one that closes all."""
    found = [[[*records], watermark, now] for records, watermark, now in batches]
    for number, (records, _, _) in enumerate(found[4:]):
        records += [[time - 9_000_000 - 1_000_000 * number, *rest] for time, *rest in records[:2]]
    return [*found, [[], 1 << 40, 1 << 30]]


def allowed(name, emission):
    """Whether the windows may go out so, which `resolve` refuses of the others, and are to be tried."""
    if name in ("long rows by name", "cumulating beside", "two slices an advance"):
        return emission in FEW
    return name != "long rows" or emission not in ("changes", "drained")


PAIRS = [
    (name, emission)
    for number, name in enumerate(WINDOWS)
    for at, emission in enumerate(each for each in EMISSIONS if allowed(name, each))
    if at % 3 == number % 3
]
"""All windows, each under every third of its emissions, in turns."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "emission"), PAIRS)
def test_rows_and_late_rows_are_those_of_results_with_fields_of_their_own(name, emission):
    batches = late(micro_batches(7, 12))
    shared, plain = (
        Windowed(EVERYTHING, WINDOWS[name], EMISSIONS[emission], alone, grace=GRACE) for alone in (False, True)
    )
    assert shared.execution_plan.grouped is not None
    # What a process has kept may be folded in another order, which shows in the last bits of floats.
    held = "closing" in EMISSIONS[emission].asks
    found = run(shared, batches, held)
    assert found == run(plain, batches, held)
    assert stores_groups(shared)
    assert sum(len(rows) for rows, _, _ in found) > 20
    assert sum(len(refused) for _, refused, _ in found) > 5
    assert sum(some for _, _, (_, some) in found) > 0
    assert not shared.store.pages or emission in ("ticks", "counted")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("emission", ["close", "update", "newest", "corrections", "discarding"])
def test_sliding_windows_share_fields_too(emission):
    """Their rows, late rows and what another process continues with; and the plan says what is shared."""
    batches, window = late(micro_batches(7, 12)), sliding("3 seconds", unit="1 second")
    shared, plain = (Windowed(EVERYTHING, window, EMISSIONS[emission], alone, grace=GRACE) for alone in (False, True))
    assert shared.execution_plan.grouped is not None
    assert isinstance(shared.execution_plan, SlidingExecutionPlan)
    assert stores_groups(shared)
    found = run(shared, batches, held=False)
    assert found == run(plain, batches, held=False)
    assert sum(len(rows) for rows, _, _ in found) > 20
    assert sum(len(refused) for _, refused, _ in found) > 5
    assert not shared.store.pages
    shape, trees = shared.execution_plan.shape, shared.execution_plan.trees
    plans = [
        SlidingPlan(window, shape, trees, True, 1, 1, sharing=each.sharing)
        for each in (shared.execution_plan, plain.execution_plan)
    ]
    assert plans[0].state_bytes_per_key < plans[1].state_bytes_per_key
    assert "fields of" in str(plans[0])
    assert "fields of" not in str(plans[1])


@pytest.mark.parametrize("emission", ["update", "newest", "ticks", "counted"])
def test_totals_that_never_close_are_those_of_one_long_window(emission):
    """Totals share no fields; the truth shares them."""
    batches = [*micro_batches(7), [[], 1 << 40, 1 << 30]]
    line = Windowed(EVERYTHING, unbounded(), EMISSIONS[emission])
    assert isinstance(line.execution_plan, Totals)
    found, came = {}, []
    truth = Windowed(EVERYTHING, tumbling("1 hour"))
    for number, (records, watermark, now) in enumerate(batches):
        memory._entries.clear()
        rows, refused, counts = line.step(records, watermark, now)
        assert (refused, counts) == ([], (0, 0))
        found |= {row["k0"]: row for row in map(parsed, rows)}
        came += records
        if number % 8 == 0 and rows:
            wanted = {row["k0"]: row for row in map(parsed, bounded(truth, came))}
            for row in map(parsed, rows):
                assert near(row, wanted[row["k0"]])
    if emission == "update":
        wanted = {row["k0"]: row for row in map(parsed, bounded(truth, came))}
        assert all(near(found[key], row) for key, row in wanted.items())
    assert len(found) == 3


def parsed(row):
    return eval(row, {"nan": math.nan, "inf": math.inf})


def near(found, wanted):
    """Whether the results are equal, floats but for what another order of additions leaves."""
    results = [name for name in wanted if name.startswith("r")]
    return all(repr(found[n]) == repr(wanted[n]) or found[n] == pytest.approx(wanted[n], rel=1e-6) for n in results)


def bounded(line, records, cut=60):
    """The rows of bounded input, of two input partitions."""
    parts = [part for part in (records[:cut], records[cut:]) if part]
    windows = line.execution_plan.all_windows([block for part in parts for block in line.blocks(part)])
    return sorted(row for some in windows for row in line.rows(some))


@pytest.mark.parametrize("name", WINDOWS)
def test_bounded_input_has_the_rows_of_results_with_fields_of_their_own(name):
    records = [record for batch, _, _ in micro_batches(8) for record in batch]
    shared, plain = (Windowed(EVERYTHING, WINDOWS[name], plain=alone) for alone in (False, True))
    found, wanted = (bounded(line, records) for line in (shared, plain))
    assert found == wanted
    assert len(found) >= 3


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", WINDOWS)
def test_an_unshared_checkpoint_goes_on(name):
    batches = late(micro_batches(9, 12))
    old = Windowed(EVERYTHING, WINDOWS[name], plain=True, grace=GRACE)
    run(old, batches[:7])
    new = Windowed(EVERYTHING, WINDOWS[name], store=old.store, grace=GRACE)
    assert not stores_groups(new)
    assert run(new, batches[7:]) == run(Windowed(EVERYTHING, WINDOWS[name], grace=GRACE), batches)[7:]
    with pytest.raises(StateMismatch):
        Windowed(five("n"), WINDOWS[name], store=old.store).bucket()


def test_an_unshared_checkpoint_of_sliding_windows_goes_on():
    batches, window = late(micro_batches(7, 12)), sliding("3 seconds", unit="1 second")
    old = Windowed(EVERYTHING, window, plain=True, grace=GRACE)
    run(old, batches[:7], held=False)
    new = Windowed(EVERYTHING, window, store=old.store, grace=GRACE)
    assert not stores_groups(new)
    assert run(new, batches[7:], held=False) == run(Windowed(EVERYTHING, window, grace=GRACE), batches, held=False)[7:]
    with pytest.raises(StateMismatch):
        Windowed(five("n"), window, store=old.store).bucket()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", WINDOWS)
def test_results_that_need_no_further_field_join_a_running_query(name):
    batches = micro_batches(3)
    line = Windowed({"mean": C.mean("x")}, WINDOWS[name])
    run(line, batches[:15])
    more = Windowed({"mean": C.mean("x"), "sum": C.sum("x"), "count": C.count("x")}, WINDOWS[name], store=line.store)
    assert run(more, batches[15:]) == run(Windowed(dict(more.results), WINDOWS[name]), batches)[15:]


def test_each_family_has_the_tree_of_its_length():
    line = Windowed(five("n"), WINDOWS["long rows"])
    assert line.execution_plan.grouped.stored_trees == (
        *("recompute",) * 2,
        "two_layer",
        "three_layer",
        *("recompute",) * 2,
    )
    names = {name: view.leader for name, view in zip(line.results, line.execution_plan.sharing.views, strict=True)}
    assert names == {"mean": 0, "sum": 0, "count": 0, "variance": 1, "stddev": 1}


@pytest.mark.parametrize("name", ["two slices an advance", "long rows", "wide rows"])
def test_a_clock_that_steps_back_moves_shared_fields(name):
    """By the clock of the trigger, records come to the slice of the greatest clock that the bucket has seen."""
    came, clock = [records for records, _, _ in micro_batches(5, 6) if records], 105_000_000
    found = []
    for alone in (False, True):
        line = Windowed(EVERYTHING, WINDOWS[name], plain=alone)
        moved = [not_before(line.execution_plan.shipping, block, clock) for each in came for block in line.blocks(each)]
        bucket = line.bucket()
        bucket.accept(moved)
        windows = [*bucket.close(moment(1 << 40))]
        found.append([row for some in windows for row in line.rows(some)])
    assert found[0] == found[1]
    assert len(found[0]) > 3


def test_a_plan_says_for_each_window_what_is_shared():
    line = Windowed(five("n"), WINDOWS["wide rows"])
    shape, trees = line.execution_plan.shape, line.execution_plan.trees
    shared, plain = (
        Plan(WINDOWS["wide rows"], shape, trees, True, 2, 2, sharing=sharing)
        for sharing in (line.execution_plan.sharing, None)
    )
    hosts = {each.name: each.host for each in shared.assemblies if each.host}
    assert hosts == {
        f"{name}, {window}": host
        for window in ("short", "long")
        for name, host in (("sum", "mean"), ("count", "mean"), ("stddev", "variance"))
    }
    assert [each.name for each in shared.stored] == ["mean, short", "variance, short", "mean, long", "variance, long"]
    # Of 20 slices: 24 and 24 bytes, 8 of them once, and 20 beside; 1 and 14 nodes of 24 and 20 bytes.
    assert shared.state_bytes_per_key == 20 * (24 + 24 - 8 + 20) + 15 * (24 + 20)
    assert plain.state_bytes_per_key > 2 * shared.state_bytes_per_key - 15 * 44
    assert "fields of mean" in str(shared)


def test_blocks_beside_eager_results_are_moved_in_the_shape_in_which_they_were_shipped():
    line = Windowed({"sum": C.sum("n"), "longest": C.max("n")}, LONG)
    shape = line.execution_plan.shape
    mixed = Mixed(shape, ("two_layer", EAGER), ((1,), (1,)))
    stage = mixed.first_stage((0,))
    times = np.array([98, 99, 100]) * 1_000_000
    values = [
        pa.array([1, 2, 4], arrow_type(kind)) if kind == "bigint" else pa.nulls(3, arrow_type(kind))
        for kind in KINDS.values()
    ]
    records = Records(shape.family.slice_at(times), times, pa.table({"k0": [7, 7, 7]}), values)
    block = mixed.sliced.decode(encode(stage.shape, stage._block(records)))
    moved = not_before(mixed.shipping, block, 105_000_000)
    assert moved.index.tolist() == [105]
    assert [column.tolist() for column in moved.partials[0]] == [[0], [7], [3]]
    assert not_before(mixed.shipping, records, 105_000_000).index.tolist() == [105] * 3
