"""Windows of so many records in a bucket, against lists of all records of each key."""

import random

import pytest
from counting import World, stream

from slicing.windows.counting import counting

WINDOWS = [(1, 1), (5, 5), (6, 4), (7, 3), (10, 1), (12, 4), (40, 10)]


@pytest.mark.parametrize("held", [True, False], ids=["held", "read"])
@pytest.mark.parametrize(("size", "advance"), WINDOWS)
@pytest.mark.parametrize("names", [("sum", "joined"), ("alone", "highest")], ids=str)
def test_windows_are_those_of_the_definition(size, advance, names, held):
    rows = 0
    for seed in range(3):
        rng, world = random.Random(f"{size} {advance} {seed}"), World(counting(size, advance), names, held)
        for records in stream(rng, 50):
            rows += len(world.step(records, partitions=rng.choice([1, 2, 5])))
            assert world.stored() <= 2 * len(world.last) * (world.strategy.content.family.longest + 2)
    assert rows > 3 * 50 * 4 * 6 // 4 // 5 // advance
