"""Every kind of windows under every trigger, from raw records: late records, restarts, faults and bounded input too.

A kind is one file in `scenarios/kinds`; all that is here follows from it.
"""

import random
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from oracle import ARRIVED
from scenarios.expected import Call
from scenarios.kind import CONTENTS, MIXED, PARTIALS, numbers
from scenarios.kinds import KINDS
from scenarios.scenario import Process, Scenario
from scenarios.streams import stream

from slicing.assembly import partitions
from slicing.assembly.trees import nodes, three_layer
from slicing.content import sizes
from slicing.engines.sliced import closing
from slicing.state import bucket_cache, pages, slice_groups
from slicing.triggers.emission import early, on_change, on_close, on_update
from slicing.triggers.trigger import CHANGED

TRIGGERS = {
    "close": on_close(),
    "corrections": on_close(corrections=True),
    "old": on_close(corrections=True, old=True),
    "discarding": on_close(corrections=True, discarding=True),
    "update": on_update(),
    "newest": on_update(latest_only=True),
    "change": on_change(),
    "change, drained": on_change(drained=True),
    "early by clock": early(every="20 milliseconds"),
    "early by count": early(records=3),
    "on time, late": early(on_time=True, late=True),
}


@cache
def example(kind):
    return KINDS[kind](random.Random(0))


@cache
def allows(kind, trigger):
    """Whether a query of a kind may have a trigger: several modules ask while tests are collected, in each process."""
    return example(kind).allows(trigger)


def allowed(triggers=TRIGGERS):
    """Kinds, contents and triggers that a query may have."""
    for kind in KINDS:
        for content, trigger in product(CONTENTS, triggers):
            if content in example(kind).contents and allows(kind, triggers[trigger]):
                yield pytest.param(kind, content, trigger, id=f"{kind}-{content}-{trigger}".replace(" ", "_"))


def scenario(rng, kind, content, trigger):
    """One of them, with any grace, results, trees and buckets; its process may lose what it caches."""
    kind = KINDS[kind](rng)
    grace = max(1000, rng.choice([kind.step, kind.reach]) // 1000 * 1000)
    grace = grace if trigger.fires_late else rng.choice([0, grace])
    results = rng.choice([kind.results, ("sum", "highest"), ("rows", "floats", "most", "variance"), ("most", "parity")])
    if CHANGED in trigger.asks:
        results = rng.choice([("most", "parity"), ("most", "parity"), ("most",), ("sum", "highest")])
    elif content == MIXED:  # one result goes by time, one by arrival
        results = rng.choice([("joined", "joined", "sum"), ("sum", ARRIVED), results])
    tree = rng.choice([None, None, None, "recompute", "three_layer"]) if kind.takes_trees else None
    made = Scenario(kind, trigger, grace, content, results, rng.choice([(0,), (0,), (0, 1, 2)]), tree=tree)
    made.process = Process(rng, rng.choice(["nothing", "some", "all"]))
    return made


def run(rng, made, **options):
    """Run a random stream to its end; some micro-batches fail first."""
    for records, watermark, now in stream(rng, made.kind, **options):
        if rng.random() < 0.1:
            made.fail(records, watermark, now, rng.choice([0, 1, 1000]))
        made.step(records, watermark, now, partitions=rng.choice([1, 1, 2, 3]))
    made.drain()


def of_any_size(rng, monkeypatch):
    """Pages, frames, caches, nodes and groups of slices of any size."""
    monkeypatch.setattr(slice_groups, "CUT_BYTES", rng.choice([1, 300, 2000, 16_000]))
    per_group = rng.choice([0, 1, 3, 40])  # slice groups of pages, independent of those of the trees
    if per_group:
        monkeypatch.setattr(slice_groups, "slices_per_group", lambda longest: per_group)
    monkeypatch.setattr(closing, "FRAME_ROWS", rng.choice([1, 50, 10**6]))
    monkeypatch.setattr(
        partitions, "PARTITION_BYTES", rng.choice([6000, partitions.PARTITION_BYTES, partitions.PARTITION_BYTES])
    )
    monkeypatch.setattr(nodes, "FILLED_SHARE", rng.choice([0, 0.25, 2]))
    monkeypatch.setattr(nodes, "FILLED_CELLS", rng.choice([1, 20, 10**6]))
    monkeypatch.setattr(three_layer, "FEW_KEYS", rng.choice([0, 2, 1000]))
    monkeypatch.setattr(pages, "FAN_IN", rng.choice([2, 3, 8]))
    monkeypatch.setattr(sizes, "PAGE_BYTES", rng.choice([300, 4 << 20]))
    monkeypatch.setattr(bucket_cache, "KEPT_BYTES", rng.choice([0, 3000, 1 << 30]))


def for_seeds(label, some, monkeypatch, check):
    """Call `check` with a random generator for each seed, with pages and caches of any size; errors name the seed."""
    for seed in some:
        rng = random.Random(f"{label} {seed}")
        with monkeypatch.context() as patch:
            of_any_size(rng, patch)
            try:
                check(rng)
            except Exception as error:
                error.add_note(f"with seed {seed}")
                raise


def in_turns(every):
    """Those of `allowed`: of each kind with each content every so many-th trigger, in turns; the rest are long."""
    places = defaultdict(list)
    for each in allowed():
        places[each.values[:2]].append(each)
    for number, triggers in enumerate(places.values()):
        for at, each in enumerate(triggers):
            is_chosen = (at - number) % min(every, len(triggers)) == 0
            yield each if is_chosen else pytest.param(*each.values, id=each.id, marks=pytest.mark.long)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "some", [range(1), pytest.param(range(1, 40), marks=pytest.mark.long)], ids=["first_seed", "more_seeds"]
)
@pytest.mark.parametrize(("kind", "content", "trigger"), list(in_turns(3)))
def test_rows_are_those_of_the_definition(kind, content, trigger, some, monkeypatch):
    """Of one seed, or of many: a test for each seed would be 20,000 to collect."""
    batches = 16 if content == PARTIALS else 10  # a window that has records of its own costs more
    for_seeds(
        f"{kind} {content} {trigger}",
        some,
        monkeypatch,
        lambda rng: run(rng, scenario(rng, kind, content, TRIGGERS[trigger]), batches=batches),
    )


FORGETFUL = [each for each in allowed() if "with a ttl" in each.values[0]]


@pytest.mark.parametrize("some", [range(4), pytest.param(range(4, 20), marks=pytest.mark.long)], ids=["some", "more"])
@pytest.mark.parametrize(("kind", "content", "trigger"), FORGETFUL)
def test_another_ttl_holds_from_the_next_micro_batch_on(kind, content, trigger, some):
    """Keys that are forgotten stay so, whether or not their rows are still stored; all others keep their records."""
    for seed in some:
        rng = random.Random(f"{kind} {content} {trigger} {seed} ttl")
        made = scenario(rng, kind, content, TRIGGERS[trigger])
        for records, watermark, now in stream(rng, made.kind, batches=60):
            if rng.random() < 0.2:
                ttl = rng.choice([None, 1000, 8000, 20_000, 60_000])
                made.kind.window = replace(made.kind.window, ttl=ttl)
                made.execution_plan = made._execution_plan()
            made.step(records, watermark, now)


ONCE = list({(kind, content): each for each in allowed() for kind, content, _ in [each.values]}.values())
"""Each kind of windows with each content, under one of the triggers that it allows."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "content", "_"), ONCE)
def test_bounded_input_is_that_of_the_definition(kind, content, _):
    """And that of a stream in which nothing is late."""
    rng = random.Random(f"{kind} {content}")
    kind = KINDS[kind](rng)
    trigger = on_close() if kind.allows(on_close()) else on_update()
    made, emitted, taken = Scenario(kind, trigger, 1000 * kind.reach, content), {}, []
    streamed = kind.window.closes and kind.window.by_time and content == PARTIALS
    for records, watermark, now in stream(rng, kind, batches=12):
        taken += [(*record[:2], record[2] or 0, *record[3:]) for record in records]
        emitted |= made.step(taken[len(taken) - len(records) :], watermark, now) if streamed else {}
    rows = made.bounded(taken)
    if streamed:
        emitted |= made.step([], 1 << 43)
        assert not made.seen["late"]
        # On a stream the order of values in a session is also that of micro-batches.
        shown = slice(-1) if kind.grows else slice(None)
        assert {place: row[shown] for place, (row, _) in rows.items()} == {
            place: row[shown] for place, (row, _) in emitted.items()
        }


CLOCKED = ("tumbling", "hopping, not a multiple", "cumulating", "sessions", "sliding")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("trigger", ["close", "update", "early by clock"])
@pytest.mark.parametrize("kind", CLOCKED)
def test_windows_by_the_clock_hold_what_has_come_by_then(kind, trigger):
    """A clock that steps back counts as the greatest that a bucket has seen, and makes nothing late."""
    rng, clock, back = random.Random(f"by the clock {kind} {trigger}"), 0, 0
    made = Scenario(KINDS[kind](rng), TRIGGERS[trigger], by_clock=True)
    made.process = Process(rng, "some")
    for _ in range(40):
        clock = max(0, clock + rng.choice([0, 1, 4, 15, -3]))
        back += clock < made.watermark
        records = [(1000 * clock, rng.randrange(3), rng.randrange(100), 0) for _ in range(rng.randrange(4))]
        made.step(records, clock, clock)
    made.drain()
    assert made.seen["late"] == made.seen["late for some"] == 0
    assert min(back, made.seen["update"] + made.seen["final"]) > 2


def test_streams_of_sliding_windows_have_what_they_are_for():
    """Windows that fire early because of a record behind which they begin; late records that another window accepts.

    That one begins behind an earlier time, or ends with a later one; some intervals are of both sorts.
    """
    seen = Counter()
    for seed, trigger in product(range(12), (early(records=3), on_close())):
        rng = random.Random(seed)
        kind = KINDS["sliding"](rng)
        unit, difference, call = kind.window.unit, kind.window.difference, Call(kind, trigger)
        (expected,) = call.parts
        for records, watermark, now in stream(rng, kind):
            made = call.made(records)
            rows, new = call.step(made, watermark, now), {each.number for each in made}
            seen["behind"] += sum(place[0] == "early" and not new & numbers(held) for place, (held, _) in rows.items())
            times = {(key, kind.floored(each)) for key, held in expected.held.items() for each in held}
            for record, is_open, places in call.verdicts[0]:
                if 0 < len(is_open) < len(places):
                    begins = (record.key, is_open[0].start - unit) in times
                    seen["late, accepted by one that begins" if begins else "late, accepted by one that ends"] += 1
            seen["both"] += sum((key, time + difference + unit) in times for key, time in times)
    assert min(seen.values()) > 5, seen
    assert len(seen) == 4


RICH = (
    "hopping",
    "sliding",
    "sessions",
    "several with gaps",
    "cumulating",
    "counting, with a ttl",
    "unbounded, with a ttl",
)


def test_streams_have_what_they_are_for():
    """Each thing that a trigger says is said often, and records are late, for all and for some windows."""
    seen = Counter()
    for kind, content, trigger in (each.values for each in allowed()):
        if content == PARTIALS and kind in RICH:
            rng = random.Random(f"{kind} {trigger}")
            made = scenario(rng, kind, content, TRIGGERS[trigger])
            for records, watermark, now in stream(rng, made.kind):
                rows = made.known(records, watermark, now)
                seen.update(place[0] for place in rows)
                seen["replaced"] += sum(old is not None for _, old in rows.values())
                seen.update("late" if by_all else "late for some" for _, by_all in made.call.late())
            seen += made.call.parts[0].seen
    wanted = ("final", "update", "early", "correction", "drained", "merged", "replaced", "late", "late for some")
    wanted += ("begun anew", "unchanged")
    assert min(seen[each] for each in wanted) > 5, seen
