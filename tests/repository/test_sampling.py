"""The cases of a test that are quick are enough to see each value of its parameters."""

from itertools import product

import pytest
from sampling import mark_slow


class Item:
    """What `mark_slow` needs of a case of a test."""

    def __init__(self, name, marks=(), **params):
        self.nodeid, self.params = f"{name}[{'-'.join(map(str, params.values()))}]", params
        self.callspec, self.marks = self, {mark.name: mark for mark in marks}

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, mark):
        self.marks[mark.name] = mark.mark


def quick(items):
    mark_slow(items)
    return [item for item in items if "slow" not in item.marks]


ONE_IN = {share: pytest.mark.one_in(share).mark for share in (3, 4)}


def test_one_in_so_many_is_quick():
    items = [Item("test", [ONE_IN[4]], seed=seed) for seed in range(41)]
    assert len(quick(items)) == 11


def test_each_value_is_quick_with_some_other():
    kinds, triggers = list("abcdef"), [[1], [2], [3]]  # lists have no hash
    items = [Item("test", [ONE_IN[3]], kind=kind, trigger=trigger) for kind, trigger in product(kinds, triggers)]
    found = quick(items)
    assert len(found) == 6
    assert {item.params["kind"] for item in found} == set(kinds)
    assert [trigger for trigger in triggers if trigger in [item.params["trigger"] for item in found]] == triggers


def test_the_order_of_the_cases_does_not_matter():
    grid = list(product(range(5), range(4)))
    both = [quick([Item("test", [ONE_IN[4]], a=a, b=b) for a, b in cases]) for cases in (grid, grid[::-1])]
    assert len({frozenset(item.nodeid for item in found) for found in both}) == 1


def test_others_stay_as_they_are():
    long = Item("test", [ONE_IN[3], pytest.mark.long.mark], seed=1)
    one = Item("test", [ONE_IN[3]], seed=2)
    other = [Item("other", seed=seed) for seed in range(9)]
    assert quick([long, one, *other]) == [long, one, *other]
