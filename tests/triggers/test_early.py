"""Early triggers of several conditions against brute force over raw records, on every kind of windows.

`scenarios/due.py` says of raw records when each condition is true.
"""

import random

import pytest
from oracle import few, seeds
from scenarios.expected import Call
from scenarios.kind import CONTENTS, MIXED, PARTIALS, RECORDS
from scenarios.kinds import KINDS as WINDOWS
from scenarios.kinds.even import Even
from scenarios.kinds.several import side_by_side
from scenarios.kinds.sliding import Sliding
from scenarios.scenario import END, Process, Scenario
from scenarios.streams import stream

from slicing.stages import local_runner
from slicing.triggers.buffer import buffer
from slicing.triggers.emission import early, on_close
from slicing.triggers.trigger import EARLY_KINDS
from slicing.windows.sliding import sliding
from slicing.windows.time.slices import FOREVER
from slicing.windows.window import tumbling

WITH = {
    "count": {"records": 3, "per": "window"},
    "delay": {"after": "3 milliseconds"},
    "count, delay": {"records": 4, "after": "3 milliseconds"},
    "count, clock": {"records": 4, "every": "5 milliseconds"},
    "key": {"records": 5, "per": "key"},
    "key, clock": {"records": 5, "per": "key", "every": "5 milliseconds"},
    "all": {"records": 5, "every": "7 milliseconds", "after": "3 milliseconds"},
    "event": {"every": "5 milliseconds", "by": "event"},
    "event, count": {"records": 3, "every": "9 milliseconds", "by": "event"},
    "event delay": {"after": "3 milliseconds", "by": "event"},
    "event delay, count": {"records": 4, "after": "8 milliseconds", "by": "event"},
    "when": {"when": "marked"},
    "when, count": {"records": 6, "per": "window", "when": "marked"},
    "when, event delay, key": {"records": 9, "per": "key", "when": "marked", "after": "20 milliseconds", "by": "event"},
    "delta": {"delta": ("value", 60)},
    "delta, count": {"records": 4, "delta": ("value", 80)},
    "delta, delay": {"after": "3 milliseconds", "delta": ("value", 80)},
    "count, buffer": {"records": 5, "per": "window", "buffer": buffer(records=6)},
    "delay, key, buffer": {"records": 9, "per": "key", "after": "9 milliseconds", "buffer": buffer(records=4)},
    "event delay, buffer": {"after": "40 milliseconds", "by": "event", "buffer": buffer(records=4)},
    "end": {"on_time": True},
    "end, late": {"on_time": True, "late": True},
    "count, end": {"records": 4, "per": "window", "on_time": True},
    "delay, end, late": {"after": "5 milliseconds", "on_time": True, "late": True},
    "repeating": {"records": 5, "every": "4 milliseconds", "repeat": True},
}
KINDS = {
    "hopping": (WINDOWS["several that end together"], PARTIALS),
    "seldom and often": (WINDOWS["several, one seldom"], PARTIALS),
    "wide": (side_by_side, PARTIALS),
    "gaps": (WINDOWS["several with gaps"], PARTIALS),
    "cumulating": (WINDOWS["several, one cumulating"], PARTIALS),
    "lists": (WINDOWS["several, one by lists"], PARTIALS),
    "a zone": (WINDOWS["several, one in a zone"], PARTIALS),
    "eager": (WINDOWS["several, the longest in the middle"], RECORDS),
    "mixed": (WINDOWS["several that end together"], MIXED),
    "mixed and wide": (side_by_side, MIXED),
    "sessions": (WINDOWS["sessions"], PARTIALS),
    "sliding": (WINDOWS["sliding"], PARTIALS),
    "unbounded": (WINDOWS["unbounded"], PARTIALS),
}
EVERY_CONDITION = ("hopping", "unbounded")
DECIDED = ("sessions", "sliding")
"""Windows that records decide on."""


def scenario(rng, name, trigger, grace=None):
    """Windows of `KINDS`, with any grace; their process may lose what it caches."""
    made, content = KINDS[name]
    kind = made(rng)
    grace = rng.choice([0, kind.step, 3 * kind.step]) // 1000 * 1000 if grace is None else grace
    made = Scenario(kind, trigger, grace, content, ("sum", "highest"))
    made.process = Process(rng, rng.choice(["nothing", "some", "all"]))
    return made


def stepped(rng, made, batches=16, fails=0.1, most=12):
    """Yield the rows of each micro-batch of a random stream; some micro-batches fail first, and run again."""
    for records, watermark, now in [*stream(rng, made.kind, batches=batches, most=most), ([], END, END)]:
        if rng.random() < fails:
            made.fail(records, watermark, now, rng.choice([0, 1, 1000]))
        yield made.step(records, watermark, now, partitions=rng.choice([1, 1, 2, 3]))


def fired(name, of, trigger, **options):
    """How often windows have fired early, in streams with more and more records until it is often enough."""
    rng, seen = random.Random(f"{name} {of}"), 0
    for most in (12, 12, 24, 48, 96):
        made = scenario(rng, name, trigger)
        for _ in stepped(rng, made, 8 if made.content == MIXED else 16, most=most, **options):
            pass
        made.drain()
        seen += sum(made.seen[kind] for kind in EARLY_KINDS)
        if seen > 5:
            break
    return seen


TRIED = [
    (kind, conditions)
    for at, kind in enumerate(KINDS)
    for number, conditions in enumerate(WITH)
    # Other kinds have every fifth condition, each one others, so that all of them have each twice; those with windows
    # that take ten times as long have fewer, and those that records decide on have more.
    if kind in EVERY_CONDITION or (number + at) % (12 if "mixed" in kind else 2 if kind in DECIDED else 5) == 0
    if KINDS[kind][0](random.Random(0)).allows(early(**WITH[conditions]))
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize(("kind", "conditions"), TRIED)
def test_firings_are_those_of_raw_records(kind, conditions, seed):
    assert fired(kind, f"{conditions} {seed}", early(**WITH[conditions])) > 5


RUN_AGAIN = [(("hopping", "cumulating")[at % 2], name) for at, name in enumerate(WITH)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "conditions"), few(RUN_AGAIN[::3], RUN_AGAIN))
def test_a_micro_batch_that_runs_again_fires_the_same_pairs(kind, conditions):
    """The store is as it was before; the process may have kept what it had then, or nothing."""
    assert fired(kind, f"{conditions} again", early(**WITH[conditions]), fails=1) > 5


OUTLASTING = [
    (kind, conditions, least)
    for kind in KINDS
    for conditions, least in [("event delay", 6), ("event delay, count", 1), ("event delay, buffer", 0)]
    if conditions == "event delay" or kind in ("hopping", *DECIDED)
    if kind != "unbounded"
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize(("kind", "conditions", "least"), OUTLASTING)
def test_the_last_state_of_a_window_is_emitted_without_a_final_firing(kind, conditions, least, seed):
    rng, closed = random.Random(f"{kind} {conditions} {seed}"), 0
    for _ in range(4):
        made = scenario(rng, kind, early(**WITH[conditions], final=False))
        closing, last = Call(made.kind, on_close(), made.grace), {}
        for records, watermark, now in [*stream(rng, made.kind, batches=12), ([], END, END)]:
            rows = made.step(records, watermark, now)
            last |= {place: row for (_, *place), (row, _) in rows.items() for place in [tuple(place)]}
            for (_, *place), (held, _) in closing.step(closing.made(records), watermark, now).items():
                made.assert_row(last[tuple(place)], held, ("early", *place))
                closed += ("early", *place) in rows
        if closed >= least:
            break
    assert closed >= least


WITHOUT_FINAL = [
    (kind, conditions)
    for at, kind in enumerate(KINDS)
    for number, conditions in enumerate(("count", "when, count", "delta, count"))
    if kind in ("hopping", *DECIDED) or at % 3 == number
    if KINDS[kind][0](random.Random(0)).allows(early(**WITH[conditions], final=False))
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize(("kind", "conditions"), WITHOUT_FINAL)
def test_without_a_final_firing_records_fire_the_windows_that_their_micro_batch_closes(kind, conditions, seed):
    assert fired(kind, f"{conditions} not final {seed}", early(**WITH[conditions], final=False), fails=0.2) > 5


@pytest.mark.parametrize("kind", ["sliding", "sliding, left", "sliding, any"])
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_a_marked_record_fires_only_the_sliding_windows_that_hold_it(kind, seed):
    """A micro-batch has records of windows that close in it and of later ones: no mark counts for a row beside it."""
    rng = random.Random(f"{kind} marked {seed}")
    made = Scenario(WINDOWS[kind](rng), early(when="marked", final=False), content=PARTIALS, results=("sum", "highest"))
    for _ in stepped(rng, made):
        pass
    made.drain()


@pytest.mark.parametrize("condition", [{"every": "1 second"}, {"records": 3, "per": "key"}], ids=str)
def test_conditions_that_no_record_of_a_closing_window_makes_true_do_not_read_its_state(condition):
    assert list(early(**condition, final=False).on_records(None, None)) == []


@pytest.mark.parametrize("content", CONTENTS)
def test_without_a_final_firing_nothing_is_emitted_at_the_close(content):
    rng = random.Random(f"not at the close {content}")
    kind = WINDOWS["several that end together"](rng)
    made = Scenario(kind, early(records=3, per="window", final=False), content=content, results=("sum", "highest"))
    for _ in stepped(rng, made, 8):
        pass
    made.drain()
    assert made.seen["early"] > 5
    assert made.seen["final"] == 0


def test_sliding_windows_wait_since_the_unit_of_a_record_whether_they_are_new_or_not():
    """In units of 2 ms a record of 11 ms is at 10: [6 .. 12) begins with it, [8 .. 14) was there before."""
    window, grace = sliding("4 milliseconds", unit="2 milliseconds", right=False), 100_000
    trigger = early(records=2, per="window", after="20 milliseconds", by="event")
    one = Scenario(Sliding(window), trigger, grace, results=("sum",))
    batches = [([(12_000, 1, 1)] * 2, 0), ([(11_000, 1, 5)], 0), ([], 29), ([], 30), ([], 31)]
    fired = [sorted(place[-2:] for place in one.step(records, watermark)) for records, watermark in batches]
    assert fired == [[(8000, 14_000)], [], [], [(6000, 12_000), (8000, 14_000)], []]


def test_without_a_clock_micro_batches_follow_one_another():
    times, trigger = [[5000], [3000], [1000]], early(records=5, per="window", buffer=buffer(records=1))
    replay = local_runner.stream(tumbling("1 millisecond"), times, [None], trigger)
    assert [(row.batch, row.start) for row in replay.rows] == [(1, 5000), (2, 3000)]


@pytest.mark.parametrize("ratio", [1, 60])
def test_a_count_trigger_keeps_a_number_for_each_slice_and_key_whatever_the_overlap(ratio):
    kind = Even.of(60, 60 // ratio)
    one, rng, seen = Scenario(kind, early(records=4, per="window"), results=("sum", "highest")), random.Random(1), set()
    (family,) = one.families
    fired = 0
    for _ in range(20):
        records = [(rng.randrange(60_000), rng.randrange(5), 1) for _ in range(30)]
        seen |= {(family.slice_at(time), key) for time, key, _ in records}
        fired += len(one.emit(records))
    assert fired > 90
    bucket = one.bucket()
    assert {name for name in bucket.head.lists if "early" in name} == {"early counts"}
    rows = bucket.all_pairs(None, False)._counts.rows(-FOREVER)
    assert len(rows) == len(seen) == (5 if ratio == 1 else len(seen))
