"""Lookups between the micro-batches of every kind of windows under every trigger, against the records so far."""

import random
from collections import Counter
from itertools import product

import pytest
from scenarios.kind import PARTIALS
from scenarios.lookups import Lookups
from scenarios.streams import stream
from test_scenarios import TRIGGERS, for_seeds, in_turns, scenario


@pytest.mark.one_in(4)
@pytest.mark.parametrize("some", [range(1), pytest.param(range(1, 20), marks=pytest.mark.long)], ids=["one", "more"])
@pytest.mark.parametrize(("kind", "content", "trigger"), list(in_turns(3)))
def test_lookups_are_those_of_the_records_so_far(kind, content, trigger, some, monkeypatch):
    batches = 14 if content == PARTIALS else 8
    for_seeds(
        f"lookups {kind} {content} {trigger}",
        some,
        monkeypatch,
        lambda rng: run(rng, scenario(rng, kind, content, TRIGGERS[trigger]), batches=batches),
    )


def run(rng, made, **options):
    """A random stream with lookups between its micro-batches, which change nothing for those that follow."""
    lookups = Lookups(made)
    for records, watermark, now in stream(rng, made.kind, **options):
        made.step(records, watermark, now, partitions=rng.choice([1, 2]))
        if rng.random() < 0.5:
            lookups.check(rng)
    made.drain()


def test_lookups_find_what_they_are_for():
    """Open windows and closed ones, windows that the query does not have, and some that are not whole.

    Slices are removed and merged, so that the law of coverage is asked of windows of both sorts.
    """
    seen = Counter()
    for kind, trigger in product(("hopping", "tail, any", "sessions"), ("close", "update")):
        rng = random.Random(f"{kind} {trigger}")
        made = scenario(rng, kind, PARTIALS, TRIGGERS[trigger])
        run(rng, made)
        seen += made.seen
    wanted = ("looked up", "looked up, closed", "looked up, other", "looked up, in part", "whole", "not whole")
    assert min(seen[each] for each in wanted) > 50
