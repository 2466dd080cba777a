"""Sessions in a bucket against sessions by definition, under both rules of lateness and every emission."""

import random

import pytest
from sessions import World, stream

from slicing.emission.emission import early, on_close, on_update
from slicing.windows.session import session

EMISSIONS = [
    on_close(),
    on_close(corrections=True),
    on_update(),
    on_update(latest_only=True),
    early(records=3),
    early(every="10 milliseconds"),
]
MS = 1000


@pytest.mark.parametrize("held", [True, False], ids=["held", "read"])
@pytest.mark.parametrize("late_by", ["record", "session"])
@pytest.mark.parametrize("emission", EMISSIONS, ids=str)
def test_sessions_are_those_of_the_definition(emission, late_by, held):
    seen = {"merged": 0, "late": 0, "rows": 0}
    for seed in range(3):
        rng = random.Random(seed)
        grace = rng.choice([0, 15 * MS, 40 * MS])
        world = World(session("10 milliseconds", late_by=late_by), emission=emission, grace=grace, held=held)
        now = 0
        for records, watermark in stream(rng, 40):
            now += rng.choice([1, 5, 12])
            got = world.step(records, watermark, now)
            seen["merged"] += sum(kind == "merged" for kind, *_ in got)
            seen["rows"] += len(got)
        seen["late"] += world.late
        world.drain()
    assert seen["rows"] > 100
    assert seen["late"] > 20
    assert (seen["merged"] > 3) is (not emission.once)
