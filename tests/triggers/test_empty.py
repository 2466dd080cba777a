"""`on_close(empty=)`: windows without records that follow the records of their key, against brute force."""

import random

import pytest
from oracle import seeds
from scenarios.kind import PARTIALS
from scenarios.kinds import KINDS as WINDOWS
from scenarios.kinds.even import Even
from scenarios.scenario import END, Process, Scenario, records_of
from scenarios.streams import stream

from slicing.errors import InvalidValue
from slicing.stages.support_of import support_of
from slicing.triggers.emission import on_close
from slicing.windows.counting import counting
from slicing.windows.session import session
from slicing.windows.sets import windows_of_call
from slicing.windows.sliding import sliding
from slicing.windows.unbounded import unbounded
from slicing.windows.window import hopping, tumbling

ALLOWED = [
    kind
    for kind in WINDOWS
    for made in [WINDOWS[kind](random.Random(0))]
    if PARTIALS in made.contents and made.allows(on_close(empty="1 millisecond"))
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", seeds(1, 6))
@pytest.mark.parametrize("kind", ALLOWED)
def test_windows_without_records_fire_as_long_as_their_key_has_had_some(kind, seed):
    rng, empty = random.Random(f"{kind} {seed}"), 0
    for _ in range(12):
        made = WINDOWS[kind](rng)
        lasting = max(1, rng.choice([made.step, 3 * made.step, 4 * made.reach]) // 1000)
        grace = rng.choice([0, 3 * made.step]) // 1000 * 1000
        one = Scenario(made, on_close(empty=f"{lasting} milliseconds"), grace, results=("sum", "highest"))
        one.process, taken = Process(rng, rng.choice(["nothing", "some", "all"])), []
        for records, watermark, now in [*stream(rng, made, batches=14), ([], END, END)]:
            taken += records
            if rng.random() < 0.1:
                one.fail(records, watermark, now, rng.choice([0, 1, 1000]))
            empty += sum(row[0] == 0 for row, _ in one.step(records, watermark, now).values())
        one.drain()
        if empty > 5:
            break
    assert empty > 5 or kind.startswith("by ")  # few windows, most with records


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ALLOWED)
def test_bounded_input_has_the_windows_of_a_stream(kind):
    rng = random.Random(f"{kind} bounded")
    made = WINDOWS[kind](rng)
    trigger = on_close(empty=f"{max(1, 2 * made.step // 1000)} milliseconds")
    one, emitted, taken = Scenario(made, trigger, 1000 * made.reach, results=("sum", "highest")), {}, []
    for records, _, now in stream(rng, made, batches=10):
        taken += [record for record in records if record[0] is None or record[0] >= 0]
        emitted |= one.step([record for record in records if record in taken], 0, now)
    emitted |= one.step([], END, END)
    bounded = Scenario(made, trigger, results=("sum", "highest"), judged=False)
    plan, got = bounded._execution_plan(may_be_late=False), {}
    for shipped in bounded.arriving(records_of(taken), 3, plan).values():
        got |= bounded.rows(plan.all_windows(shipped))
    assert got == emitted


@pytest.mark.parametrize("kind", ["tumbling", "cumulating"])
def test_windows_by_the_clock_fire_without_records_too(kind):
    rng, clock = random.Random(f"{kind} by the clock"), 0
    one = Scenario(WINDOWS[kind](rng), on_close(empty="9 milliseconds"), results=("sum",), by_clock=True)
    for _ in range(30):
        clock += rng.choice([0, 1, 4, 15])
        one.step([(1000 * clock, rng.randrange(3), 1, 0) for _ in range(rng.randrange(3))], clock, clock)
    one.drain()


def test_an_hour_without_records_counts_none_and_far_jumps_cost_no_more_than_empty():
    one = Scenario(Even.of(10, 10), on_close(empty="20 milliseconds"), results=("sum",))
    assert one.step([(1000, 1, 7)], 0) == {}
    rows = one.step([(95_000, 1, 2)], 1 << 40)
    assert sorted((start, row[1:]) for (*_, start, _), (row, _) in rows.items()) == [
        (0, (7,)),
        (10_000, (0,)),
        (20_000, (0,)),
        (90_000, (2,)),
        (100_000, (0,)),
        (110_000, (0,)),
    ]


REFUSED = {
    session("1 minute"): "records decide which windows there are",
    sliding("1 minute"): "records decide which windows there are",
    unbounded(): "records decide which windows there are",
    counting(3): "records decide which windows there are",
    hopping("10 days", advance="1 minute", tail="1 hour"): "Leave out `tail` or `empty`",
    windows_of_call((tumbling("1 hour"), tumbling("7 minutes")), {}, False): "of one kind in a call",
    windows_of_call((), {"a": tumbling("1 hour"), "b": hopping("1 day", advance="1 hour")}, False): "wide rows",
}


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("window", REFUSED, ids=str)
def test_other_windows_are_refused(window, streaming):
    with pytest.raises(InvalidValue, match=REFUSED[window]):
        support_of(window).check("auto", False, on_close(empty="1 hour"), streaming)


def test_what_does_not_go_with_it_is_refused():
    with pytest.raises(InvalidValue, match="the eager plan stores windows with records only"):
        support_of(tumbling("1 hour")).check("eager", False, on_close(empty="1 hour"), True)
    with pytest.raises(InvalidValue, match="`empty` is about windows that fire once"):
        on_close(corrections=True, empty="1 hour")
    assert str(on_close(empty="24 hours")) == "on_close(empty='1 day')"
