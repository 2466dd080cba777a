"""Results that share fields: the same rows as each has alone, from fewer fields, also from state of before."""

import json
import lzma
import math

import pytest
from golden.sharing import HERE, KINDS, SECOND, SEED, SEEN, Line, five, micro_batches, run

import combinators as C
from slicing import Aggregate
from slicing.aggregates.kernels import kernel
from slicing.aggregates.sharing import sharing
from slicing.engines.shared import SharedFields
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.errors import StateMismatch
from slicing.triggers.emission import early, on_change, on_close, on_update

EVERYTHING = {
    **five(),
    "kurtosis": C.kurtosis("x"),
    "skewness": C.skewness("x"),
    "paid_sum": C.sum("x", where="paid"),
    "paid_count": C.count("x", where="paid"),
    "all": C.count(),
    "long_sum": C.sum("n", overflow="null"),
    "long_mean": C.mean("n"),
    "long_deviation": C.stddev("n"),
    "longs": C.count("n"),
    "top": C.max("s"),
    "texts": C.count("s"),
    "true": C.count_if("paid"),
    "every": C.bool_and("paid"),
    "slope": C.regr_slope("x", "n"),
    "corr": C.corr("x", "n"),
    "median": C.percentile_relative("x", 0.5, 0.01),
    "high": C.percentile_relative("x", [0.9, 0.99], 0.01),
    "distinct": C.approx_count_distinct("s"),
}


def stores_groups(line):
    """Whether the bucket keeps groups of fields; else it keeps all fields of each result."""
    bucket = line.bucket()
    assert isinstance(bucket, SharedFields)
    return bucket.of_groups


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("emission", "slices"),
    [
        (on_close(), 20),
        (on_update(), 1),
        (on_update(latest_only=True), 20),
        (on_change(drained=True), 1),
        (early(every="3 seconds"), 20),
    ],
    ids=str,
)
def test_rows_are_those_of_results_with_fields_of_their_own(emission, slices):
    batches = micro_batches(5, 16)
    shared, plain = (Line(EVERYTHING, slices, emission, plain=alone) for alone in (False, True))
    assert shared.execution_plan.grouped is not None
    found = run(shared, batches)
    assert found == run(plain, batches)
    assert sum(map(len, found)) > 20
    assert stores_groups(shared)


def test_on_change_sees_a_change_of_any_result():
    """The mean of a window stays while its sum changes: two records of the same value after one."""
    line = Line({"mean": C.mean("x"), "sum": C.sum("x")}, 1, on_change())
    value = dict.fromkeys(KINDS) | {"x": 2.0}
    line.step([[100 * SECOND, 1, value], [101 * SECOND, 1, value], [101 * SECOND, 1, value]], 0)
    assert len(line.step([], 110_000)) == 2


def stored(results):
    line = Line(results)
    shape = line.execution_plan.first_stage((0,)).shape
    return [", ".join(field.name for field in each.fields) for each in shape.kernels]


@pytest.mark.parametrize(
    ("results", "fields"),
    [
        (five(), ["total, n", "n, mean, m2"]),
        (five("n"), ["high, low, n", "n, mean, m2"]),
        ({"count": C.count("x"), "mean": C.mean("x")}, ["total, n"]),
        ({"variance": C.variance("x"), "kurtosis": C.kurtosis("x"), "skewness": C.skewness("x")},
         ["n, mean, m2, m3, m4"]),
        ({"count": C.count("x"), "variance": C.variance("x")}, ["n, mean, m2"]),
        ({"sum": C.sum("x"), "paid": C.sum("x", where="paid"), "other": C.sum("n")},
         ["total, n", "total, n", "high, low, n"]),
        ({"all": C.count(), "some": C.count("x")}, ["n", "n"]),
        ({"true": C.count_if("paid"), "any": C.bool_or("paid")}, ["true, false"]),
        ({"p50": C.percentile_relative("x", 0.5, 0.01), "p99": C.percentile_relative("x", 0.99, 0.02)}, ["bins"] * 2),
        ({"median": C.median("x", limit=9), "mode": C.mode("x", limit=9), "top": C.top_k("x", 2, limit=8)},
         ["counted"] * 2),
    ],
)  # fmt: skip
def test_what_is_stored(results, fields):
    assert stored(results) == fields


def test_an_exact_sum_keeps_its_tree_beside_moments():
    line = Line(five("n"))
    grouped = line.execution_plan.grouped
    assert grouped.stored_trees == ("two_layer", "three_layer")
    of = {
        name: grouped.stored_trees[view.group] for name, view in zip(line.results, grouped.sharing.views, strict=True)
    }
    assert of["count"] == of["sum"] == of["mean"] == "two_layer"


def test_a_further_result_changes_no_field_that_is_stored():
    before = Line({"count": C.count("x")}), Line({"count": C.count("x"), "mean": C.mean("x")}), Line(five())
    fields = [
        {str(field) for each in line.execution_plan.first_stage((0,)).shape.kernels for field in each.fields}
        for line in before
    ]
    assert fields[0] < fields[1] < fields[2]


def test_results_that_need_no_further_field_join_a_running_query():
    batches = micro_batches(3)
    line = Line({"mean": C.mean("x")})
    run(line, batches[:15])
    more = Line({"mean": C.mean("x"), "sum": C.sum("x"), "count": C.count("x")}, store=line.store)
    assert run(more, batches[15:]) == run(Line(dict(more.results)), batches)[15:]


def test_an_unshared_checkpoint_goes_on_and_another_query_is_refused():
    batches = micro_batches(4)
    old = Line(EVERYTHING, plain=True)
    run(old, batches[:15])
    new = Line(EVERYTHING, store=old.store)
    assert not stores_groups(new)
    assert run(new, batches[15:]) == run(Line(EVERYTHING), batches)[15:]
    with pytest.raises(
        StateMismatch,
        match=r"sum or mean of x is gone: .*variance, stddev.* of x is gone: ",
    ):
        Line(five("n"), store=old.store).bucket()


def parsed(row):
    return eval(row, {"nan": math.nan})


@pytest.mark.parametrize(("name", "layout"), [("unshared", False), ("shared", True)])
def test_state_of_either_layout_goes_on(name, layout):
    """As `golden/sharing.py` says, one was written before fields were shared."""
    stored = json.loads(lzma.decompress((HERE / f"{name}.json.xz").read_bytes()))
    line = Line(five())
    line.store.text, line.store.pages = stored["header"], stored["pages"]
    assert stores_groups(line) is layout
    found, expected = run(line, stored["batches"]), run(Line(five()), micro_batches(SEED))[SEEN:]
    assert sum(map(len, found)) > 20
    for got, wanted in zip(found, expected, strict=True):
        # How records are folded into moments may change in the last bits.
        assert [parsed(row) for row in got] == [pytest.approx(parsed(row), rel=1e-9, nan_ok=True) for row in wanted]


def test_a_bucket_of_shared_results_is_one_of_groups():
    line = Line(five())
    bucket = line.bucket()
    assert isinstance(bucket, SharedFields)
    assert isinstance(bucket.engine, SlicedBucket)
    assert [each.width for each in bucket.engine.shape.kernels] == [2, 3]


def test_a_count_of_two_groups_is_encoded_once():
    line = Line(five("n"))
    shape = line.execution_plan.first_stage((0,)).shape
    assert shape.slots == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
    assert len(shape.row_schema) == 3 + 5
    value = dict.fromkeys(KINDS) | {"n": 3}
    (block,) = line.blocks([[100 * SECOND, 1, value], [100 * SECOND, 1, dict.fromkeys(KINDS)]])
    assert [columns[at].tolist() for columns, at in zip(block.partials, (2, 0), strict=True)] == [[1], [1]]
    assert shape.select([1]).slots == [(0, 0), (0, 1), (0, 2)], "nodes of one tree have all of its fields"
    assert shape.select([1, 0]).same == {(0, 0): (1, 2)}


def test_sums_of_floats_are_not_taken_for_each_other():
    """A total and a mean are of other meanings; what is the same is exact."""
    line = Line({"sum": C.sum("x"), "variance": C.variance("x"), "top": C.max("x"), "first": C.min("x")})
    assert line.execution_plan.grouped.sharing.same == {(1, 0): (0, 1), (2, 1): (0, 1), (3, 1): (0, 1)}


def test_the_identity_says_what_is_stored_once():
    line = Line(five("n"))
    line.step([], 0)
    assert [each["partial"] for each in line.bucket().head.identity["results"]] == [
        ["high bigint", "low bigint", "n bigint"],
        ["n bigint of result 1", "mean double", "m2 double"],
    ]


def test_own_aggregates_are_not_shared():
    own = Aggregate(lambda: 0, lambda n, x: n + 1, lambda a, b: a + b)
    kernels = [kernel("a", own), kernel("b", own)]
    assert not sharing(kernels, ["three_layer"] * 2, [(0,), (0,)]).is_any
