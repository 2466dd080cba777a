"""What `explain` prints and the figures behind it, for plans made without Spark."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

import combinators as C
from slicing import Aggregate, hopping, tumbling, unbounded
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.aggregates.sharing import sharing
from slicing.assembly.choice import choose
from slicing.content.block import Shape
from slicing.explain.costs import Cost, Costs
from slicing.explain.ledgers import TotalsPlan
from slicing.explain.plan import Plan
from slicing.laws import dry_run
from slicing.options import Options
from slicing.triggers.emission import early, on_update
from slicing.windows.families.family import RUNS

HOUR = hopping("1 hour", "1 minute")
ADDED = Aggregate(lambda: (0, 0), lambda acc, v: (acc[0] + 1, acc[1] + v), lambda a, b: (a[0] + b[0], a[1] + b[1]))
FOLDED = Aggregate(lambda: "", lambda acc, v: acc + v)


def plan_of(window=HOUR, streaming=True, trees=None, buckets=4, **aggregates):
    kernels = tuple(kernel(name, aggregate) for name, aggregate in aggregates.items())
    shape = Shape(window.family, (Field("user", "string"),), kernels)
    return Plan(window, shape, trees or tuple(choose(k, window.family) for k in kernels), streaming, buckets, 2)


COUNT = C.count().resolve(())
LARGEST = C.max("x").resolve(("double",))


def test_figures_of_the_windows():
    plan = plan_of(orders=COUNT)
    assert (plan.ratio, plan.slices_per_window, plan.slices_per_group) == (60, 60, 8)
    assert (plan.buckets, plan.partitions, plan.buckets_per_partition) == (4, 2, 2)


def test_ratio_need_not_be_whole():
    plan = plan_of(hopping("5 minutes", "2 minutes"), orders=COUNT)
    assert (plan.ratio, plan.slices_per_window) == (2.5, 5)
    assert "R = 2.5 windows per record" in str(plan)
    assert plan_of(hopping("1 minute", "4 minutes", gaps=True), orders=COUNT).ratio == 0.25


@pytest.mark.parametrize(
    ("window", "aggregate", "tree", "reason"),
    [
        (HOUR, COUNT, "two_layer", "exact `invert`"),
        (HOUR, LARGEST, "three_layer", "only `combine`"),
        (HOUR, ADDED, "three_layer", "only `combine`"),
        (hopping("4 minutes", "1 minute"), LARGEST, "recompute", "few slices: 4 <= 4"),
        (tumbling("1 minute"), COUNT, "recompute", "few slices: 1 <= 4"),
    ],
)
def test_the_tree_that_is_chosen_and_why(window, aggregate, tree, reason):
    (assembly,) = plan_of(window, x=aggregate).assemblies
    assert (assembly.tree, assembly.reason) == (tree, reason)


@pytest.mark.parametrize("tree", ["three_layer", "recompute"])
def test_a_tree_that_was_asked_for(tree):
    plan = plan_of(trees=(tree,), x=COUNT)
    assert plan.assemblies[0].reason == "asked for"
    assert tree.replace("_", "-") in str(plan)


def test_costs_are_those_of_the_design():
    two, three = plan_of(a=COUNT, b=LARGEST).assemblies
    assert (two.combines_per_window, two.per_window, two.nodes_kept) == (2, Cost(3, 2), 1)
    assert (three.combines_per_window, three.nodes_kept) == (4, 24)
    assert three.worst_combines == pytest.approx(2 * 60**0.5)
    assert three.per_window.reads == pytest.approx(4 + 1, rel=0.05), "the slices of a group, once per group"
    assert three.per_window.writes == pytest.approx(1 + 1 + 1, abs=5 / 8), "the slice, its suffix, the run"
    (plain,) = plan_of(trees=("recompute",), a=COUNT).assemblies
    assert (plain.combines_per_window, plain.per_window, plain.nodes_kept) == (59, Cost(60, 1), 0)


def test_a_record_costs_the_same_at_every_ratio_but_not_in_the_eager_plan():
    for window, ratio in ((HOUR, 60), (hopping("1 week", "1 minute"), 10_080)):
        plan = plan_of(window, a=COUNT, b=LARGEST)
        assert plan.per_record == Cost(0, 1)
        assert plan.eager.per_record == Cost(ratio, ratio)


def test_without_combine_the_strategy_is_eager():
    plan = plan_of(trees=("eager",), all=FOLDED)
    (assembly,) = plan.assemblies
    assert (assembly.reason, assembly.mode) == ("no `combine`", "rows")
    assert (assembly.per_record, assembly.per_window, assembly.slices_kept) == (Cost(60, 60), Cost(1, 0), 60)
    assert plan.per_record == plan.eager.per_record
    assert "60 open windows" in str(plan)


def test_state_is_that_of_slices_and_nodes():
    assert plan_of(orders=COUNT).state_bytes_per_key == 60 * (20 + 8) + 1 * (20 + 8)
    assert plan_of(largest=LARGEST).state_bytes_per_key == 60 * (20 + 16) + 24 * (20 + 16)
    assert plan_of(streaming=False, orders=COUNT).state_bytes_per_key == 0


@pytest.mark.parametrize(
    ("partial", "init", "size"),
    [("decimal(20,2)", 0, 16), ("date", 0, 4), ("a boolean, b smallint", (True, 0), 3), ("string", "", 16)],
)
def test_bytes_of_a_partial(partial, init, size):
    aggregate = Aggregate(lambda: init, lambda acc: acc, lambda a, b: a, partial=partial)
    assert plan_of(x=aggregate).assemblies[0].partial_bytes == size


def test_the_text_of_a_stream():
    text = str(plan_of(orders=COUNT, largest=LARGEST, mine=ADDED))
    for line in (
        "windows  hopping('1 hour', advance='1 minute') on a stream",
        "keys     user string",
        "ratio    R = 60 windows per record",
        "slices   n = 60 per window, 1 per advance",
        "groups   8 slices each",
        "buckets  4 over 2 shuffle partitions, 2 each",
        "orders   two-layer    exact `invert`  columns       n bigint",
        "mine     three-layer  only `combine`  traced        f0 bigint, f1 bigint",
    ):
        assert line in text.splitlines()
    assert "0 reads, 1 write " in text
    words = " ".join(text.split())
    assert "per window: orders 3 reads, 2 writes; 2 combines" in words
    assert "per window, together 7.1 reads, 4.6 writes" in words
    assert "latest slices held" not in text
    assert "60 reads, 60 writes" in text
    assert "24 cached nodes" in text


def test_windows_that_go_out_while_they_are_open_read_their_slices_unless_they_are_held():
    plan = replace(plan_of(orders=COUNT), options=Options(trigger=on_update()))
    assert plan.per_record == Cost(2 * 60 - 1, 1)
    assert plan.costs == Costs(HOUR.family, frozenset(["two_layer"]), on_update())
    assert plan.costs.record_at_most(held=True) == Cost(0, 1)
    assert plan.eager.per_record == Cost(120, 60)
    assert "latest slices held by the process" in str(plan)


def test_newest_windows_are_made_from_their_slices_when_they_move_on():
    plan = replace(plan_of(orders=COUNT, largest=LARGEST), options=Options(trigger=on_update(latest_only=True)))
    for assembly in plan.assemblies:
        assert (assembly.combines_per_window, assembly.worst_combines) == (1, 59)
    assert "orders 1 read, 1 write; 1 combine, 59 at worst" in " ".join(str(plan).split())
    assert plan.eager.assemblies[0].combines_per_window == 0
    assert replace(plan, streaming=False).assemblies[0].combines_per_window == 2


def test_the_text_of_bounded_input_has_no_state():
    text = str(plan_of(streaming=False, orders=COUNT))
    assert "on bounded input" in text
    assert "state" not in text


def test_a_plan_is_a_value():
    aggregate = kernel("orders", COUNT)
    shape = Shape(HOUR.family, (Field("user", "string"),), (aggregate,))
    first, second = (Plan(HOUR, shape, ("two_layer",), True, 4, 2) for _ in range(2))
    assert first == second
    with pytest.raises(AttributeError):
        first.buckets = 3


def test_a_plan_says_which_trigger_ticks_of_the_clock_need():
    plan = plan_of(orders=COUNT)
    ticking = replace(plan, options=Options(trigger=early(every="10 seconds")), by_clock=True)
    assert "availableNow ends only without spark.sql.streaming.noDataMicroBatches.enabled" in str(ticking)
    for other in (plan, replace(plan, options=Options(trigger=early(records=3))), replace(ticking, streaming=False)):
        assert "availableNow" not in str(other)


def test_laws_that_are_not_tried_are_said():
    text = str(plan_of(orders=COUNT, mine=replace(ADDED, laws=False)))
    assert "three-layer  only `combine`, laws not tried  traced" in text
    assert text.count("laws not tried") == 1


def test_functions_that_run_by_rows_are_said_with_the_reason():
    aggregate = replace(ADDED, agg=lambda acc, v: (acc[0] + len(str(v)), acc[1] + v), columns=None)
    made = kernel("mine", aggregate)
    dry_run(made, ("bigint",))
    text = str(Plan(HOUR, Shape(HOUR.family, (), (made,)), ("three_layer",), True, 4, 2))
    assert "only `combine`  traced in part  f0 bigint" in text
    assert "by rows: mine: `agg` since it makes text of a value" in text.splitlines()
    for columns, mode in ((None, "traced"), (False, "rows")):
        text = str(plan_of(mine=replace(ADDED, columns=columns)))
        assert f"only `combine`  {mode} " in text
        assert "by rows" not in text


def shared_plan(**results):
    """A plan of results of the bigint column `x`, or of its time too."""
    aggregates = {name: bound.resolve(("bigint",) * len(bound.columns)) for name, bound in results.items()}
    plan = plan_of(**aggregates)
    arguments = [tuple(range(len(bound.columns))) for bound in results.values()]
    return replace(plan, sharing=sharing(plan.shape.kernels, plan.trees, arguments))


def test_shared_fields_are_counted_once():
    alone, shared = shared_plan(sum=C.sum("x")), shared_plan(sum=C.sum("x"), mean=C.mean("x"), count=C.count("x"))
    assert [each.reason for each in shared.assemblies] == ["exact `invert`", "fields of sum", "fields of sum"]
    assert shared.state_bytes_per_key == alone.state_bytes_per_key
    assert shared.per_window == alone.per_window
    assert "per window: mean" not in str(shared)
    assert "mean           fields of sum\n" in str(shared)


def test_a_count_that_two_groups_have_is_counted_once():
    plan = shared_plan(sum=C.sum("x"), spread=C.stddev("x"))
    assert plan.state_bytes_per_key == replace(plan, sharing=None).state_bytes_per_key - 60 * 8


def test_a_count_has_the_tree_of_the_fields_that_it_is_read_off():
    plan = shared_plan(count=C.count("x"), spread=C.stddev("x"))
    assert [each.tree for each in plan.assemblies] == ["three_layer", "three_layer"]
    assert plan.costs == plan.assemblies[1].costs


@pytest.mark.parametrize(
    ("bound", "size"),
    [
        (C.median("x", limit=1000), "16 bytes for each different value, 1,000 at most"),
        (C.count_distinct("x"), "16 bytes for each different value"),
        (C.collect_list("x", limit=9), "24 bytes for each record, 9 at most"),
        (C.percentile_relative("x", 0.5), "16 bytes for each bin with values"),
        (C.last_n("x", 3), "32 bytes for each record, 3 at most"),
        (C.last_n("x", 3, ignore_nulls=True), "24 bytes for each record, 3 at most"),
        (C.top_k("x", 3, exact=False), "16 bytes for each different value, 1,000 at most"),
        (C.approx_count_distinct("x"), "512 bytes a partial, about"),
        (C.percentile_relative("x", 0.5, between=(1, 2)), "304 bytes a partial, about"),
    ],
)
def test_what_partials_of_many_things_take(bound, size):
    plan = shared_plan(it=bound)
    assert plan.assemblies[0].size == size
    assert size in str(plan)
    assert ("with one thing in each partial that grows" in str(plan)) == ("each" in size)


def test_text_comes_besides():
    (assembly,) = plan_of(it=C.mode("s").resolve(("string",))).assemblies
    assert assembly.size == "16 bytes and its text for each different value"
    assert assembly.partial_bytes == 32


def test_totals_are_counted_in_rows_of_a_ledger():
    window = unbounded()
    shape = Shape(window.family, (Field("user", "string"),), (kernel("orders", COUNT), kernel("largest", LARGEST)))
    plan = TotalsPlan(window, shape, (RUNS, RUNS), True, 4, 2, Options(trigger=on_update()))
    assert plan.per_record == Cost(2, 2)
    lines = str(plan).splitlines()
    assert "orders   totals  it never closes  columns       n bigint" in lines
    assert lines[-2] == "largest        2 rows         16 bytes a partial, about"
    assert "about 88 bytes per key before compression" in lines
    assert not any(word in line for word in ("slice", "groups", "per window") for line in lines)
    ticking = replace(plan, options=Options(trigger=early(records=5)))
    assert ticking.per_record == Cost(4, 4)
    assert "dirty set      2 rows         20 bytes" in str(ticking).splitlines()


def test_a_notebook_shows_some_windows_and_the_same_text():
    plan = plan_of(orders=ADDED)
    root = ET.fromstring(plan._repr_html_())
    assert root.find("pre").text == str(plan)
    drawn = root.find("div/{http://www.w3.org/2000/svg}svg/{http://www.w3.org/2000/svg}title")
    assert drawn.text == "hopping('1 hour', advance='1 minute')"
    assert "<svg" not in replace(plan, windows=unbounded())._repr_html_()


def test_windows_with_a_tail_say_what_is_kept_and_what_would_be_without():
    long = hopping("90 days", "1 minute", tail="1 hour")
    plan = plan_of(long, orders=COUNT, largest=LARGEST)
    (line,) = (line for line in str(plan).splitlines() if line.startswith("merged"))
    assert "2,159 of 1 hour, 60 of 1 minute; 2,220 partials of a key" in line
    assert "instead of 129,600 without tails" in line
    assert plan.state_bytes_per_key < 2_500 * (20 + 8 + 16)
    orders, largest = plan.assemblies
    assert (orders.tree, largest.tree) == ("two_layer", "three_layer")
    assert largest.per_window.reads < 5
    assert largest.nodes_kept == 2 + 140, "three times the square root of the tails, and two totals"
    assert orders.combines_per_tail == 59 + 2, "the slices of the tail, and its two layers"
    assert largest.combines_per_tail == pytest.approx(59 + 2 * 2160**0.5)
    assert "tails    one that ends costs up to 152 combines of a result, for each key in a window" in str(plan)
    assert not any(each.combines_per_tail for each in plan_of(orders=COUNT).assemblies)


def test_slices_of_ordered_results_are_not_merged():
    long = hopping("90 days", "1 minute", tail="1 hour")
    plan = plan_of(long, mine=replace(ADDED, ordered=True))
    assert "merged   no slices: late records of mine have a place among the others" in str(plan)
    assert plan.assemblies[0].slices_kept == 129_659
    assert "merged" not in str(plan_of(long, streaming=False, mine=ADDED))


def test_what_retained_slices_cost():
    plan = replace(plan_of(orders=COUNT), options=Options(retain=24 * 3_600_000_000))
    assert plan.slices_retained == 23 * 60
    assert plan.retained_bytes_per_key == plan.slices_retained * 28
    assert "slices for 1 day after the watermark, 1,380 slices beyond a window: at most" in str(plan)
    assert replace(plan, options=Options(retain=60_000_000)).slices_retained == 0
    assert replace(plan, streaming=False).retained_bytes_per_key == 0
