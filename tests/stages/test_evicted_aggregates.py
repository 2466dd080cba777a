"""Evictors before `aggregate`, against the same results of the records that are left, by brute force; without Spark."""

import numpy as np
import pytest
from processing import END, MINUTE, Play, cut, random_records
from test_process import ALL, inside, same_times_apart, shifted

import combinators as C
from slicing import (
    counting,
    early,
    group_by,
    hopping,
    keep_last,
    keep_newest,
    on_close,
    on_update,
    tumbling,
    unbounded,
    within_delta,
)
from slicing.aggregates.aggregate import EVENT_TIME, Aggregate
from slicing.aggregates.kernels import kernel
from slicing.errors import FunctionFailed, InvalidValue, TooLarge
from slicing.process import evicted

FOLD = Aggregate(lambda: 0, lambda total, v: 3 * total + v)
"""A fold that needs all records in their order, and has no `combine`."""
RESULTS = {
    "n": C.count(),
    "total": C.sum("v"),
    "middle": C.median("v"),
    "fold": FOLD.on("v"),
    "both": C.struct(least=C.min("v"), last=C.last("v")),
}


def wanted(values):
    """The results of some values in their order, in which the last one is the newest."""
    fold = 0
    for value in values:
        fold = 3 * fold + value
    none = not values
    return (
        len(values),
        None if none else sum(values),
        None if none else float(np.median(values)),
        fold,
        {"least": None if none else min(values), "last": None if none else values[-1]},
    )


def odd(records, window, context):
    return [value % 2 > 0 for value in records["v"].to_pylist()]


EVICTORS = {
    "last": ([keep_last(3)], lambda times, values: values[-3:]),
    "newest": (
        [keep_newest("90 seconds")],
        lambda times, values: [v for t, v in zip(times, values, strict=True) if t > times[-1] - 90_000_000],
    ),
    "delta": ([within_delta("v", 20)], lambda times, values: [v for v in values if abs(v - values[-1]) < 20]),
    "function": ([odd], lambda times, values: [v for v in values if v % 2]),
    "chain": ([odd, keep_last(2)], lambda times, values: [v for v in values if v % 2][-2:]),
}


def left(records, evictor, key, start, stop):
    """The values of a window that an evictor leaves, by brute force."""
    found = sorted((time, value) for time, own, value in records if own == key and start <= time < stop)
    times, values = [time for time, _ in found], inside(records, key, start, stop)
    return EVICTORS[evictor][1](times, values)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("evictor", EVICTORS)
@pytest.mark.parametrize("name", ["tumbling", "hopping", "cumulating", "several", "session", "sliding"])
def test_bounded_input(name, evictor):
    records = same_times_apart(shifted(random_records(1, 200, 40 * MINUTE)))
    rows = Play(ALL[name], RESULTS, evict=EVICTORS[evictor][0], streaming=False).bounded(records)
    assert rows
    for key, start, stop, *results, _ in rows:
        assert tuple(results) == wanted(left(records, evictor, key, start, stop))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("trigger", [on_close(), on_update(), early(records=3)], ids=str)
def test_streams_evict_at_each_firing(trigger, monkeypatch):
    """Of the records so far, a few windows at a time."""
    monkeypatch.setattr(evicted, "FOLDED", 5)
    records = same_times_apart(random_records(2, 120, 20 * MINUTE))
    play, came = Play(hopping("4 minutes", advance="2 minutes"), RESULTS, evict=[keep_last(3)], trigger=trigger), []
    rows = []
    for batch in cut(records, 2):
        came += batch
        rows += [(row, list(came)) for row in play.step(batch, 0)]
    rows += [(row, list(came)) for row in play.step([], END)]
    assert rows
    for (key, start, stop, *results, _), so_far in rows:
        assert tuple(results) == wanted(left(so_far, "last", key, start, stop))


def test_windows_of_which_nothing_is_left_have_results_of_no_records():
    def none(records, window, context):
        return [window.start_us > 0] * len(records)

    play = Play(tumbling("1 minute"), RESULTS, evict=[none], streaming=False)
    rows = play.bounded([(0, "a", 5), (MINUTE, "a", 7), (2 * MINUTE, "b", 8)])
    assert sorted((*row[:3], row[3:8]) for row in rows) == [
        ("a", 0, MINUTE, wanted([])),
        ("a", MINUTE, 2 * MINUTE, wanted([7])),
        ("b", 2 * MINUTE, 3 * MINUTE, wanted([8])),
    ]
    assert not play.bounded([])


def test_conditions_and_times():
    """`where=` counts after eviction; results may go by the time of records."""
    results = {"n": C.count(where="w"), "last": Aggregate(lambda: 0, lambda _, t: t).on(EVENT_TIME)}
    play = Play(
        tumbling("1 minute"), results, evict=[keep_last(3)], streaming=False, kinds=(("v", "bigint"), ("w", "boolean"))
    )
    records = [(at * 1000, "a", at, at % 2 == 0) for at in range(10)]
    assert [row[3:5] for row in play.bounded(records)] == [(1, 9000)]


@pytest.mark.parametrize("window", [counting(7, advance=3), unbounded()], ids=str)
def test_records_in_order_of_arrival(window):
    records = random_records(3, 60, 10 * MINUTE, keys=1)
    trigger = on_close() if window.closes else early(records=4)
    batches = [[record] for record in records]
    rows = Play(window, {"total": C.sum("v")}, evict=[keep_last(2)], trigger=trigger).stream(batches, last=False)
    ends = range(3, 61, 3) if window.closes else range(4, 61, 4)
    assert [row[3] for row in rows] == [sum(v for _, _, v in records[max(0, end - 2) : end]) for end in ends]


def test_failures_name_key_and_window():
    def failing(total, v):
        return total + 10 // v

    play = Play(tumbling("1 minute"), {"x": Aggregate(lambda: 0, failing).on("v")}, evict=[keep_last(2)])
    with pytest.raises(FunctionFailed, match=r"`agg` of `x` raised .* for key \('b',\) in window \[1970-01-01T00:01"):
        play.stream([[(0, "a", 1), (1, "a", 2), (MINUTE, "b", 1), (MINUTE + 1, "b", 0)]])

    def wrong(records, window, context):
        return [True]

    play = Play(tumbling("1 minute"), {"x": C.sum("v")}, evict=[wrong])
    with pytest.raises(InvalidValue, match=r"must return 2 booleans.* for key \('a',\) in window"):
        play.stream([[(0, "a", 1), (1, "a", 2)]])


def test_windows_that_are_too_large_say_what_to_do(monkeypatch):
    monkeypatch.setattr("slicing.assembly.partitions.WINDOW_BYTES", 1000)
    play = Play(tumbling("1 minute"), {"x": C.sum("v")}, evict=[keep_last(2)], streaming=False)
    with pytest.raises(TooLarge, match=r"of 500 records for key \('a',\) in window .* or without an evictor"):
        play.bounded([(at, "a", at) for at in range(500)])


def test_calls():
    days = group_by("user").window(tumbling("1 day"), time="ts").evict(keep_last(2))
    made = days.define(total=C.sum("v"), m=C.struct(a=C.min("v")))
    assert repr(made).endswith("total=C.sum('v'), m=C.struct(a=C.min('v')))") or "total=" in repr(made)
    with pytest.raises(InvalidValue, match="`then` gets the results of partials"):
        days.define(total=C.sum("v"), then=lambda *_: [], returns="n long")
    with pytest.raises(InvalidValue, match="nothing of them is asked for"):
        group_by("user").window(unbounded()).emit(on_update()).evict(keep_last(2)).define(n=C.count())
    with pytest.raises(InvalidValue, match="removes records from later firings"):
        days.evict(keep_last(2), after=True).define(total=C.sum("v"))


def test_functions_of_users_are_those_that_are_tried():
    own = FOLD.on("v").where("is_odd")
    results = {"n": C.count(), "own": own, "both": C.struct(newest=FOLD.on(EVENT_TIME), last=C.last("v"))}
    bound = evicted.evicted(results, "ts", tumbling("1 minute"), (keep_last(2),), ())
    kinds = {"ts": "timestamp", "v": "bigint", "is_odd": "boolean"}
    kinds = [kinds[column] for column in bound.columns]
    found = bound.tried(kernel("kept", bound.resolve(tuple(kinds))), kinds, [True] * len(kinds))
    found = {each.label: (list(of), list(nullable)) for each, of, nullable in found}
    assert found["own"] == (["bigint"], [True])
    assert found["both.newest"] == (["bigint"], [False]), "a record without a time is in no window"
    assert "both.last" not in found, "its functions are ours"
