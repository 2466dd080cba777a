"""Every kind of windows under every trigger, from raw records: late records, restarts, faults and bounded input too.

A kind is one file in `scenarios/kinds`; all that is here follows from it.
"""

import random
from collections import Counter
from itertools import product

import pytest
from oracle import seeds
from scenarios.kind import CONTENTS, PARTIALS
from scenarios.kinds import KINDS
from scenarios.scenario import Process, Scenario
from scenarios.streams import stream

from slicing.content import sizes
from slicing.state import bucket_cache, pages, slice_groups
from slicing.triggers.emission import early, on_change, on_close, on_update

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
}


def allowed(triggers=TRIGGERS):
    """Kinds, contents and triggers of which a query may be made."""
    for kind, made in KINDS.items():
        one = made(random.Random(0))
        for content, trigger in product(CONTENTS, triggers):
            if content in one.contents and one.allows(triggers[trigger]):
                yield pytest.param(kind, content, trigger, id=f"{kind}-{content}-{trigger}".replace(" ", "_"))


def scenario(rng, kind, content, trigger):
    """One of them, with any grace, results and buckets; its process may lose what it caches."""
    kind = KINDS[kind](rng)
    grace = max(1000, rng.choice([kind.step, kind.reach]) // 1000 * 1000)
    grace = grace if trigger.fires_late else rng.choice([0, grace])
    results = rng.choice([kind.results, ("sum", "highest"), ("rows", "floats", "most")])
    made = Scenario(kind, trigger, grace, content, results, rng.choice([(0,), (0,), (0, 1, 2)]))
    made.process = Process(rng, rng.choice(["nothing", "some", "all"]))
    return made


def run(rng, made, **options):
    """Run a random stream to its end; some micro-batches fail first."""
    for records, watermark, now in stream(rng, made.kind, **options):
        if rng.random() < 0.1:
            made.fail(records, watermark, now, rng.choice([0, 1, 1000]))
        made.step(records, watermark, now, partitions=rng.choice([1, 2, 3]))
    made.drain()


def of_any_size(rng, monkeypatch):
    """Pages, caches and groups of slices of any size."""
    monkeypatch.setattr(slice_groups, "CUT_BYTES", rng.choice([1, 300, 16_000]))
    monkeypatch.setattr(pages, "FAN_IN", rng.choice([2, 3, 8]))
    monkeypatch.setattr(sizes, "PAGE_BYTES", rng.choice([300, 4 << 20]))
    monkeypatch.setattr(bucket_cache, "KEPT_BYTES", rng.choice([0, 3000, 1 << 30]))


@pytest.mark.parametrize("seed", seeds(1, 40))
@pytest.mark.parametrize(("kind", "content", "trigger"), list(allowed()))
def test_rows_are_those_of_the_definition(kind, content, trigger, seed, monkeypatch):
    rng = random.Random(f"{kind} {content} {trigger} {seed}")
    of_any_size(rng, monkeypatch)
    run(rng, scenario(rng, kind, content, TRIGGERS[trigger]))


@pytest.mark.parametrize(("kind", "content", "_"), list(allowed({"any": early(records=1)})))
def test_bounded_input_is_that_of_the_definition_and_of_its_stream(kind, content, _):
    rng = random.Random(f"{kind} {content}")
    kind = KINDS[kind](rng)
    trigger = on_close() if kind.allows(on_close()) else on_update()
    made, emitted, taken = Scenario(kind, trigger, 1000 * kind.reach, content, ("sum", "highest")), {}, []
    for records, watermark, now in stream(rng, kind):
        taken += [(*record[:2], record[2] or 0, *record[3:]) for record in records]
        emitted |= made.step(taken[len(taken) - len(records) :], watermark, now)
    emitted |= made.step([], 1 << 43)
    if kind.window.counts:
        return  # bounded input has an order of its own
    rows = made.bounded(taken)
    if kind.window.closes:
        assert not made.seen["late"]
        assert rows == emitted


def test_streams_have_what_they_are_for():
    """Each thing that a trigger says is said often, and records are late, for all and for some windows."""
    seen = Counter()
    for kind, content, trigger in (each.values for each in allowed()):
        if content == PARTIALS and kind in ("hopping", "sliding", "sessions", "several with gaps", "cumulating"):
            rng = random.Random(f"{kind} {trigger}")
            run(rng, made := scenario(rng, kind, content, TRIGGERS[trigger]))
            seen += made.seen
    wanted = ("final", "update", "early", "correction", "drained", "merged", "replaced", "late", "late for some")
    assert min(seen[each] for each in wanted) > 10, seen
