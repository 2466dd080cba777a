"""Another early trigger on a live checkpoint: what is stored is used for what it means, or begins anew."""

import random

import pytest
from oracle import seeds
from scenarios.kind import PARTIALS, RECORDS
from scenarios.kinds import KINDS
from scenarios.kinds.several import side_by_side
from scenarios.scenario import END, Process, Scenario
from scenarios.streams import stream

from slicing.stages.local_runner import _Run
from slicing.state.format.header import Header
from slicing.triggers.buffer import buffer
from slicing.triggers.emission import early, on_change, on_close, on_update
from slicing.windows.session import session
from slicing.windows.window import tumbling

MINUTE = 60_000_000
START = 1_700_006_400_000_000
"""A whole hour. It is a time of records and of clocks."""


TUMBLING = tumbling("2 hours")


class Changing:
    """The only window of two hours, micro-batch by micro-batch: times are minutes after its start."""

    def __init__(self, trigger, by_clock=False, window=TUMBLING):
        self.run, self.number, self.by_clock, self.window = _Run(window, trigger, 0), 0, by_clock, window

    def change(self, trigger):
        store, self.run = self.run.store, _Run(self.window, trigger, 0)
        self.run.store = store

    def step(self, now, *records):
        """Return how many records each emitted row has; `now` is the watermark and the clock, or the clock alone."""
        rows, self.number, now = [], self.number + 1, START + now * MINUTE
        self.run.step([START + each * MINUTE for each in records], 0 if self.by_clock else now, now, self.number, rows)
        return [row.records for row in rows]


@pytest.mark.parametrize("after", ["10 seconds", "1 hour"])
def test_a_multiple_of_another_interval_by_event_time_fires(after):
    often, then = (early(every=each, by="event", final=False) for each in ("10 seconds", after))
    one = Changing(often)
    assert one.step(0) == []
    assert one.step(40, 10, 30) == [2]
    one.change(then)
    assert one.step(61, 50) == [3]
    assert one.step(125) == []


@pytest.mark.parametrize("final", [False, True], ids=["not final", "final"])
@pytest.mark.parametrize(
    ("before", "after", "nows"), [("10 seconds", "1 hour", (59, 61)), ("1 hour", "10 seconds", (1.1, 1.2))]
)
def test_a_multiple_of_another_interval_by_the_clock_fires(before, after, nows, final):
    for first, rows in ((nows[0], [[], [2]]), (nows[1], [[2], []])):
        one = Changing(early(every=before, final=final), by_clock=True)
        assert one.step(1, 10) == []
        one.change(early(every=after, final=final))
        assert [one.step(first, 20), one.step(nows[1])] == rows


@pytest.mark.parametrize(
    "before", [early(records=9, after="5 hours", by="event"), early(records=9, per="window")], ids=str
)
def test_another_trigger_fires_at_the_next_multiple(before):
    one = Changing(before)
    assert one.step(10, 10) == []
    one.change(early(every="1 hour", by="event"))
    assert one.step(50) == []
    assert one.step(61) == [1]


@pytest.mark.parametrize(
    "before",
    [
        early(records=9, per="window"),
        early(records=9, every="5 hours", by="event"),
        early(records=9, delta=("speed", 5.0)),
    ],
    ids=str,
)
def test_windows_wait_for_a_delay_by_event_time_from_the_watermark_of_the_change_on(before):
    one = Changing(before)
    assert one.step(0) == []
    assert one.step(10, 10) == []
    one.change(early(after="15 minutes", by="event"))
    assert [one.step(now) for now in (12, 20, 26)] == [[], [], []]
    assert one.step(27) == [1]


@pytest.mark.parametrize("before", [on_close(), early(records=9), early(every="5 hours", by="event")], ids=str)
def test_a_window_waits_from_the_change_on_after_a_trigger_that_does_not_count(before):
    one = Changing(before)
    assert one.step(0) == []
    assert one.step(10, 10) == []
    one.change(early(after="15 minutes", by="event"))
    rows = [one.step(now, *records) for now, *records in ((12,), (26,), (27,), (31, 40), (54,), (55,))]
    assert rows == [[], [], [1], [], [], [2]]


@pytest.mark.parametrize(
    ("window", "rows"), [(TUMBLING, [[], [6]]), (session("2 hours"), [[5], [0, 6]])], ids=["", "sessions"]
)
def test_records_from_before_the_change_count(window, rows):
    """Windows have fired at their multiples; of sessions, remembered one by one, they are due. 0: one is withdrawn."""
    one = Changing(on_close(), window=window)
    assert one.step(0) == []
    assert one.step(1, 10, 11, 12, 13) == []
    one.change(early(records=3, per="window"))
    assert [one.step(2, 14), one.step(3, 15)] == rows


@pytest.mark.parametrize("more", [{}, {"buffer": buffer(records=100)}], ids=["", "with a buffer"])
def test_records_that_have_fired_do_not_fire_again(more):
    """The trigger before did not store that they have fired: they are counted from its last multiple."""
    one = Changing(early(records=2, per="window"))
    assert one.step(0) == []
    assert one.step(1, 10, 20) == [2]
    one.change(early(records=2, after="5 hours", by="event", **more))
    assert one.step(2) == []
    assert [one.step(now, 30 + now) for now in (3, 4)] == [[], [4]]


def test_what_waits_is_emitted_at_the_close_under_another_delay():
    one = Changing(early(every="5 hours", by="event", final=False))
    assert one.step(0) == []
    assert one.step(10, 10) == []
    one.change(early(after="5 hours", by="event", final=False))
    assert one.step(119) == []
    assert one.step(120) == [1]


def test_the_memory_of_an_older_version_goes_on():
    """Its header does not tell the fields of the memory."""
    one = Changing(early(after="15 minutes", by="event"))
    assert one.step(5, 10) == []
    head = Header.from_text(one.run.store.header())
    assert head.trigger == ["early()", "fired bigint", "counted bigint", "since event time bigint"]
    head.trigger = []
    one.run.store.put_header(head.to_text())
    assert [one.step(now) for now in (24, 25, 26)] == [[], [1], []]


def test_the_next_value_of_another_column_is_what_later_ones_are_compared_with():
    speed, slower, warmth = (early(delta=each, final=False) for each in (("v", 5.0), ("v", 2.0), ("w", 5.0)))
    one = Scenario(KINDS["unbounded"](random.Random(0)), speed, results=("sum",), judged=False)

    def step(*some):
        one.number = getattr(one, "number", 0) + 1
        return len(one.emit([(1000 * one.number, 1, value) for value in some], 0, one.number))

    assert step(100) == 0
    one.change(slower)
    assert step(102) == 0
    assert step(103) == 1
    one.change(warmth)
    assert step(20) == 0
    assert step(22) == 0
    assert step(26) == 1


def test_a_column_is_the_same_in_another_process():
    """Spark numbers the variables of lambdas by a counter of the process."""
    texts = [f"aggregate(items, 0, (x_{at}, y_{at}) -> +(x_{at}, y_{at}))" for at in (3, 7)]
    one, other = (early(delta=(text, 5.0)).stored for text in texts)
    assert one == other
    assert one[-1] == "newest of aggregate(items, 0, (x#1, y#2) -> +(x#1, y#2)) double"


def test_a_window_that_has_fired_does_not_fire_again_when_delta_is_added():
    one = Changing(early(records=1, every="5 hours", by="event"))
    assert one.step(0) == []
    assert one.step(1, 10) == [1]
    with_delta = early(every="1 hour", by="event", delta=("speed", 5.0))
    assert with_delta.stored[3:] == ["since bigint", "reference of speed double", "newest of speed double"]
    one.change(with_delta)
    assert one.step(61) == []


ONE_AFTER_ANOTHER = [
    {"after": "20 milliseconds", "by": "event"},
    {"after": "3 milliseconds"},
    {"every": "5 milliseconds"},
    {"every": "9 milliseconds", "by": "event"},
    {"every": "30 milliseconds", "by": "event"},
    {"delta": ("value", 60)},
    {"delta": ("other", 60)},
]
OF = {
    "hopping": KINDS["several that end together"],
    "wide": side_by_side,
    "sessions": KINDS["sessions"],
    "sliding": KINDS["sliding"],
    "unbounded": KINDS["unbounded"],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(2, 8))
@pytest.mark.parametrize("final", [True, False], ids=["final", "not final"])
@pytest.mark.parametrize("name", OF)
def test_conditions_change_at_any_micro_batch(name, final, seed):
    """Each continues with what it has in common with the one before: `Conditions.change` says what of raw records."""
    rng, seen = random.Random(f"{name} {final} {seed}"), 0
    for most in (12, 24, 48, 96):
        kind = OF[name](rng)
        tried = [early(**each, records=4, per="window", final=final) for each in ONE_AFTER_ANOTHER]
        tried = [each for each in tried if kind.allows(each)]
        one = Scenario(kind, rng.choice(tried), results=("sum", "highest"))
        one.process = Process(rng, rng.choice(["nothing", "some", "all"]))
        for records, watermark, now in [*stream(rng, kind, batches=30, most=most), ([], END, END)]:
            if rng.random() < 0.3:
                one.change(rng.choice(tried))
            one.step(records, watermark, now, partitions=rng.choice([1, 2]))
        seen += one.seen["early"]
        if seen > 5:
            break
    assert seen > 5


NOT_COUNTING = on_close(), on_change(), on_update(), early(records=4)
COUNTING = {
    "count": {"records": 3, "per": "window"},
    "count, not final": {"records": 3, "per": "window", "final": False},
    "count, delay": {"records": 3, "per": "window", "after": "20 milliseconds", "by": "event"},
    "count, tick": {"records": 3, "per": "window", "every": "9 milliseconds", "by": "event"},
    "count of keys, tick": {"records": 5, "per": "key", "every": "9 milliseconds", "by": "event"},
    "count, delay, not final": {
        "records": 3,
        "per": "window",
        "after": "5 milliseconds",
        "by": "event",
        "final": False,
    },
}
COUNTED = {name: (of, PARTIALS) for name, of in OF.items() if name != "sessions"}
COUNTED |= {"tail": (KINDS["tail"], PARTIALS), "records": (KINDS["cumulating"], RECORDS)}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("trigger", COUNTING)
@pytest.mark.parametrize("name", COUNTED)
def test_counting_begins_with_the_records_of_open_windows(name, trigger, seed):
    """After a trigger that has counted none of them."""
    rng, counting, seen = random.Random(f"{name} {trigger} {seed}"), early(**COUNTING[trigger]), 0
    of, content = COUNTED[name]
    for most in (6, 12, 24, 48):
        kind = of(rng)
        others = [each for each in NOT_COUNTING if kind.allows(each)]
        if not kind.allows(counting):
            pytest.skip("refused")
        one = Scenario(kind, rng.choice(others), 0, content, results=("sum", "highest"))
        one.process = Process(rng, rng.choice(["nothing", "some", "all"]))
        for records, watermark, now in [*stream(rng, kind, batches=16, most=most), ([], END, END)]:
            if rng.random() < 0.3:
                one.change(rng.choice(others) if one.trigger is counting else counting)
            rows = one.step(records, watermark, now, partitions=rng.choice([1, 2]))
            seen += one.trigger is counting and any(place[0] == "early" for place in rows)
        if seen > 2:
            break
    assert seen > 2
