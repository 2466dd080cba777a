"""`early(on_time=True, late=True)`: firings at and after the end of windows, against brute force over raw records."""

import random
from collections import Counter

import pytest
from oracle import seeds
from scenarios.kind import PARTIALS, RECORDS
from scenarios.kinds import KINDS as WINDOWS
from scenarios.kinds.even import Even
from scenarios.kinds.sessions import Sessions
from scenarios.scenario import END, Process, Scenario
from scenarios.streams import stream

from slicing.errors import InvalidType, InvalidValue
from slicing.stages import local_runner
from slicing.stages.support_of import support_of
from slicing.triggers.emission import early, on_close
from slicing.triggers.trigger import EARLY_KINDS
from slicing.windows.counting import counting
from slicing.windows.session import session
from slicing.windows.unbounded import unbounded
from slicing.windows.window import tumbling

BOTH = {"on_time": True, "late": True}
CONDITIONS = {
    "alone": BOTH,
    "without late": {"on_time": True},
    "count": {"records": 3, "per": "window", **BOTH},
    "key, clock": {"records": 5, "per": "key", "every": "5 milliseconds", **BOTH},
    "delay, repeating": {"after": "3 milliseconds", "every": "9 milliseconds", "by": "event", "repeat": True, **BOTH},
}
OPTIONS = {"": {}, "not final": {"final": False}, "purge": {"purge": True}}
OPTIONS["not final, purge"] = OPTIONS["not final"] | OPTIONS["purge"]
TRIGGERS = {
    (conditions, option): early(**CONDITIONS[conditions], **OPTIONS[option])
    for conditions in CONDITIONS
    for option in OPTIONS
    if not (CONDITIONS[conditions].get("repeat") and "purge" in option)
}
TRIED = [
    pytest.param(kind, content, name, id=f"{kind}-{content}-{'-'.join(name)}".replace(" ", "_"))
    for at, kind in enumerate(WINDOWS)
    for content in WINDOWS[kind](random.Random(0)).contents
    for number, name in enumerate(TRIGGERS)
    if (at + number) % (4 if content == PARTIALS else 9) == 0
    if WINDOWS[kind](random.Random(0)).allows(TRIGGERS[name])
    if "purge" not in name[1] or content == RECORDS or WINDOWS[kind](random.Random(0)).grows
    # All records of a session whose start has moved count anew, and the oracle follows records, not sessions.
    if "greatest" not in kind or name[0].startswith(("without", "alone"))
]


def delayed(rng, kind, content, trigger, **options):
    """Windows with a grace, so that they end before they close."""
    made = WINDOWS[kind](rng)
    grace = max(1000, rng.choice([made.step, made.reach]) // 1000 * 1000)
    one = Scenario(made, trigger, grace, content, ("sum", "highest"), **options)
    one.process = Process(rng, rng.choice(["nothing", "some", "all"]))
    return one


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize(("kind", "content", "name"), TRIED)
def test_firings_are_those_of_raw_records(kind, content, name, seed):
    rng, kinds = random.Random(f"{kind} {content} {name} {seed}"), Counter()
    for _ in range(6):
        made = delayed(rng, kind, content, TRIGGERS[name])
        for records, watermark, now in [*stream(rng, made.kind, batches=12), ([], END, END)]:
            if rng.random() < 0.1:
                made.fail(records, watermark, now, rng.choice([0, 1, 1000]))
            kinds.update(place[0] for place in made.step(records, watermark, now, partitions=rng.choice([1, 2])))
        made.drain()
        if kinds["on_time"] > 3 and kinds["late"]:
            break
    assert kinds["on_time"] > 3
    assert kinds["late"] or name[0] == "without late" or content != PARTIALS


@pytest.mark.parametrize("kind", [kind for kind in WINDOWS if "greatest" in kind])
@pytest.mark.parametrize("option", [option for option in OPTIONS if "purge" not in option])
def test_sessions_of_a_greatest_length_count_records_that_come_in_order(kind, option):
    """No start of a session moves then."""
    rng, kinds = random.Random(f"{kind} {option}"), Counter()
    for _ in range(2):
        made = delayed(rng, kind, PARTIALS, TRIGGERS["count", option])
        batches = [*stream(rng, made.kind, batches=16, most=12)]
        times = iter(sorted(record[0] for records, *_ in batches for record in records if record[0] is not None))
        for records, watermark, now in [*batches, ([], END, END)]:
            ordered = [each if each[0] is None else (next(times), *each[1:]) for each in records]
            kinds.update(place[0] for place in made.step(ordered, watermark, now))
    assert kinds["on_time"] > 3
    assert kinds["early"] > 1


def named(rows, merges):
    """The results of rows, by the kinds that corrections have, which sessions that merge confuse."""
    names = {"on_time": "final", "late": "correction"}
    names |= {"late": "final", "correction": "final"} if merges else {}
    return {(names.get(kind, kind), *place): row and row[1:] for (kind, *place), (row, _) in rows.items()}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", [kind for kind in WINDOWS if WINDOWS[kind](random.Random(0)).allows(early(**BOTH))])
def test_without_a_final_firing_they_are_the_firings_of_corrections(kind):
    """Those at the end are final there, and late ones are corrections; of sessions also those that are new."""
    for seed in range(3):
        rng = random.Random(f"{kind} {seed}")
        one = delayed(rng, kind, PARTIALS, early(**BOTH, final=False), judged=False)
        other = Scenario(one.kind, on_close(corrections=True), one.grace, PARTIALS, ("sum", "highest"), judged=False)
        for records, watermark, now in [*stream(rng, one.kind, batches=20), ([], END, END)]:
            rows, wanted = (named(each.emit(records, watermark, now), one.kind.grows) for each in (one, other))
            assert rows == wanted


def test_a_window_that_ends_and_closes_at_once_fires_once():
    window = tumbling("1 second")
    batches = [[100_000], [1_500_000], [900_000], [9_000_000]]
    for more, kinds in (({}, ["final", "final"]), ({"final": False}, ["on_time", "on_time"])):
        rows = local_runner.stream(window, batches, 0, early(**BOTH, **more)).rows
        assert [row.emission for row in rows if row.start < 9_000_000] == kinds


def fired(one, *batches):
    """The kind, the start, the end and the number of records of each row, by micro-batch."""
    return [
        [(kind, start, end, row and row[1]) for (kind, _, _, start, end), (row, _) in one.emit(*batch).items()]
        for batch in batches
    ]


def test_a_window_fires_before_at_and_after_its_end_as_beam_says_of_its_panes():
    one = Scenario(Even.of(10, 10), early(records=2, per="window", **BOTH), 8000, results=("sum",))
    found = fired(
        one,
        ([(1000, 1, 1), (2000, 1, 1)], 0),  # early
        ([(3000, 1, 1)], 10),  # its end
        ([], 12),
        ([(4000, 1, 1)], 12),  # late
        ([(5000, 1, 1), (6000, 2, 1)], 13),  # late, and the first record of a window, which comes after its end
        ([], 18),
    )
    assert found == [
        [("early", 0, 10_000, 2)],
        [("on_time", 0, 10_000, 3)],
        [],
        [("late", 0, 10_000, 4)],
        [("late", 0, 10_000, 5), ("late", 0, 10_000, 1)],
        [("final", 0, 10_000, 5), ("final", 0, 10_000, 1)],
    ]


def test_a_window_without_news_fires_at_its_end_unless_its_records_are_purged():
    records = [(1000, 1, 1), (2000, 1, 1)]
    for purge in (False, True):
        trigger = early(records=2, per="window", on_time=True, purge=purge)
        one = Scenario(Even.of(10, 10), trigger, 8000, RECORDS, results=("sum",))
        found = fired(one, (records, 0), ([], 10))
        assert found == [[("early", 0, 10_000, 2)], [] if purge else [("on_time", 0, 10_000, 2)]]


def test_a_session_whose_end_moves_fires_at_each_of_its_ends():
    """A late record that lets it end after the watermark makes it open again."""
    one = Scenario(Sessions(session("5 milliseconds")), early(**BOTH), 20_000, results=("sum",))
    found = fired(one, ([(1000, 1, 1)], 7), ([(5000, 1, 1)], 8), ([], 11), ([(2000, 1, 1)], 11))
    assert found == [
        [("on_time", 1000, 6000, 1)],
        [],
        [("merged", 1000, 6000, None), ("on_time", 1000, 10_000, 2)],
        [("late", 1000, 10_000, 3)],
    ]


def test_what_has_no_end_in_event_time_is_refused():
    for window, message in ((unbounded(), 'leave out `by="event"` and `on_time=True`'), (counting(5), "fires once")):
        with pytest.raises(InvalidValue, match=message):
            support_of(window).check("auto", False, early(**BOTH, final=window.closes), True)


def test_late_firings_need_one_at_the_end():
    with pytest.raises(InvalidValue, match=r"at which `on_time` fires them. Write early\(on_time=True, late=True\)"):
        early(records=3, late=True)
    for name in BOTH:
        with pytest.raises(InvalidType, match=f"`{name}` says whether windows fire"):
            early(**BOTH | {name: 1})
    assert str(early(records=3, **BOTH)) == "early(records=3, per='window', on_time=True, late=True)"
    assert str(early(on_time=True, final=False)) == "early(on_time=True, final=False)"
    assert [kind for kind in (*EARLY_KINDS, "final", "merged") if early(**BOTH, purge=True).drops(kind)] == [
        *EARLY_KINDS
    ]
