"""What `explain` predicts of reads and writes is what the engine counts, for every strategy, at several ratios.

Streams are steady and in order, with one micro-batch per slice. There the prediction is no estimate: it is what the
engine does, averaged over the closes after which a tree is in the same place again. So figures must be equal, but for
the rounding of an average. Elsewhere (late records, many small pages) it is a bound, and tests say which.
"""

from dataclasses import replace

import pytest

from benchmarks.comparisons.accounting import KEYS, STRATEGIES, Feed, Strategy, count, record_in_order, rows, table
from slicing.content import folding
from slicing.explain.costs import MERGING, Cost
from slicing.triggers.emission import early, on_change, on_close, on_update
from slicing.windows.families.even import Even

SECOND = 1_000_000
NAMED = {strategy.name: strategy for strategy in STRATEGIES}
BOTH = Strategy("both trees", ("two_layer", "three_layer"))


def slicing_of(size, advance=1):
    return Even(size * SECOND, advance * SECOND)


def check(strategy, family):
    counted, predicted = count(strategy, family), strategy.costs(family)
    record, window = record_in_order(predicted, strategy.held), predicted.close(strategy.held)
    print(f"{strategy.name}, {family}: counted {counted}, predicted {record} and {window}")
    assert (counted.record.reads, counted.record.writes) == pytest.approx((record.reads, record.writes), rel=1e-12)
    assert (counted.window.reads, counted.window.writes) == pytest.approx((window.reads, window.writes), rel=1e-12)
    most = predicted.record_at_most(strategy.held)
    assert counted.record.reads <= most.reads + 1e-12
    assert counted.record.writes <= most.writes + 1e-12
    return counted


#   n     group   outer   the newest slice group becomes whole
#   5     2       1       in the close in which the oldest one changes
#   7     3       1       likewise
#   12    3       2       in another
#   26    5       4       in the same
#   60    8       6       in another
#   101   10      9       in the same


@pytest.mark.one_in(4)
@pytest.mark.parametrize("strategy", [*STRATEGIES, BOTH], ids=lambda strategy: strategy.name)
@pytest.mark.parametrize("ratio", [5, 7, 12, 26, 60, pytest.param(101, marks=pytest.mark.long)])
def test_the_prediction_is_the_count(strategy, ratio):
    counted = check(strategy, slicing_of(ratio))
    open_too = strategy.emission == on_update()
    assert counted.results == (ratio if open_too else 1), "windows that go out per record"


@pytest.mark.parametrize("name", ["eager, on close", "slices, on update", "slices, on close, recompute"])
@pytest.mark.parametrize("ratio", [1, 2, 3, 4])
def test_few_slices(name, ratio):
    check(replace(NAMED[name], trees=NAMED[name].trees if "eager" in name else ("recompute",)), slicing_of(ratio))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if "three_layer" not in s.trees], ids=lambda s: s.name)
@pytest.mark.parametrize(("size", "advance"), [(5, 2), (25, 2), (31, 3)])
def test_two_slices_an_advance(strategy, size, advance):
    check(strategy, slicing_of(size, advance))


MODES = [on_update(latest_only=True), on_change(), on_change(drained=True), on_close(corrections=True)]
MODES.append(early(every="1 second"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("held", [True, False], ids=["held", "read"])
@pytest.mark.parametrize("emission", MODES, ids=str)
@pytest.mark.parametrize("ratio", [1, 12, 60])
def test_every_emission(emission, held, ratio):
    tree = "two_layer" if ratio > 4 else "recompute"
    grace = 3 * SECOND if emission.fires_late else 0
    check(Strategy(str(emission), (tree,), emission, held, grace=grace), slicing_of(ratio))


@pytest.mark.parametrize("held", [True, False], ids=["held", "read"])
@pytest.mark.parametrize(("size", "advance"), [(5, 2), (25, 2)])
def test_newest_windows_of_two_slices_an_advance(held, size, advance):
    strategy = Strategy("newest", ("two_layer" if size > 5 else "recompute",), on_update(latest_only=True), held)
    check(strategy, slicing_of(size, advance))


@pytest.mark.parametrize("held", [True, False], ids=["held", "read"])
@pytest.mark.parametrize("ratio", [12, 60])
def test_combines_of_newest_windows(held, ratio, monkeypatch):
    """One record of a key in the newest slice, which has one already; then one in the slice after it."""
    family, strategy = slicing_of(ratio), Strategy("newest", ("recompute",), on_update(latest_only=True), held)
    feed, counted = Feed(strategy, family, 10), []

    def regroup(shape, block):
        grouped = folding.regroup(shape, block)
        counted.append((len(block) - len(grouped)) / feed.keys)
        return grouped

    monkeypatch.setattr("slicing.engines.sliced.latest.regroup", regroup)
    feed.step(range(ratio), 0)
    for index, total in ((ratio - 1, held), (ratio, False)):
        counted.clear()
        feed.step([index], 0)
        assert [count for count in counted if count] == [strategy.costs(family).newest(total)] * 2, "once on a copy"


@pytest.mark.parametrize("held", [True, False], ids=["held", "read"])
@pytest.mark.parametrize("records", [1, 3, 50])
def test_marks_of_what_waits_for_records_cost_at_most_what_it_says(records, held):
    strategy = Strategy("early", ("two_layer",), early(records=records), held)
    counted, most = count(strategy, slicing_of(12)), strategy.costs(slicing_of(12)).record_at_most(held)
    assert counted.record.writes <= most.writes
    assert counted.record.reads <= most.reads + (MERGING.reads if records > 1 else 0)


def test_on_change_of_the_eager_strategy():
    check(Strategy("eager, on change", ("eager",), on_change()), slicing_of(12))


# Bounds: what depends on how the input comes.


def test_a_late_record_of_an_open_window_reads_2n_less_one_slices(monkeypatch):
    #   n = 12    i-22           i-11            i
    #   windows   [-------- first --------)             the first and the last window of the record,
    #                           [------ last ------)    all open, and all slices of both are there
    monkeypatch.setattr("slicing.state.pages.FAN_IN", 1 << 30)  # a page for each slice
    family, strategy = slicing_of(12), NAMED["slices, on update"]
    feed = Feed(strategy, family)
    for index in range(40):
        feed.step([index], family.slice_start(index - 12))
    feed.forget()
    feed.step([39 - 11], family.slice_start(39 - 12))
    assert feed.record == Cost(KEYS * (2 * 12 - 1), KEYS)
    assert strategy.costs(family).record_at_most() == Cost(2 * 12 - 1, 1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("per_slice", [2, 5, 13, pytest.param(60, marks=pytest.mark.long)])
def test_merging_small_pages_costs_at_most_what_it_says(per_slice):
    """Each page is read once, merged or not; rows of the next slice may share a page, and are then written back."""
    family, strategy, keys = slicing_of(60), NAMED["slices, on close, two-layer"], 400
    feed = Feed(strategy, family, keys)
    count_from, slices = 30, 30
    for index in range(count_from + slices):
        if index == count_from:
            feed.forget()
        for micro_batch in range(per_slice):
            feed.step([index], family.slice_start(index - (micro_batch == 0)))
    closes, more = slices * keys, per_slice - 1
    costs = strategy.costs(family)
    once = record_in_order(costs) + costs.close()
    reads = (feed.record.reads + feed.window.reads) / closes
    writes = (feed.record.writes + feed.window.writes) / closes
    # No window is full here, so none loses a slice: one read less.
    assert once.reads - 1 + more <= reads <= once.reads + more * MERGING.reads + 1
    assert once.writes + more <= writes <= once.writes + more * (1 + MERGING.writes) + 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize("ratio", [12, 60, 360])
def test_slices_that_share_a_page_read_at_most_a_slice_group_more(ratio):
    family = slicing_of(ratio)
    counted, predicted = count(BOTH, family, keys=3), BOTH.costs(family).close()
    levels = 2  # a slice group of at most 24 slices, in pages of 1, then 5; then it is cut
    assert predicted.reads < counted.window.reads <= predicted.reads + family.slices_per_group + levels
    assert predicted.writes < counted.window.writes <= predicted.writes + levels


def test_the_price_does_not_depend_on_the_ratio_unless_open_windows_go_out():
    two, three = (NAMED[f"slices, on close, {tree}-layer"] for tree in ("two", "three"))
    assert two.costs(slicing_of(60)).close() == two.costs(slicing_of(10_080)).close() == Cost(3, 2)
    far, near = (three.costs(slicing_of(ratio)).close() for ratio in (10_080, 60))
    assert far.reads < near.reads < 5.3
    assert far.writes < near.writes < 3.7


def test_the_table_has_a_line_for_each_strategy_and_says_what_was_counted():
    found, text = rows([5]), table([5])
    assert [row.strategy for row in found] == list(NAMED)
    assert "| slices, on close, two-layer | 5 | 1 / 1 | 0 / 1 | 0 / 1 | 3 / 2 | 3 / 2 | 3 / 3 |" in text.splitlines()
