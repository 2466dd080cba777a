"""A cut against `Even`, index for index, and against a list of all edges."""

import json
import pickle
import random
from bisect import bisect_left

import numpy as np
import pytest

from slicing.errors import InvalidValue
from slicing.windows.families.even import Even
from slicing.windows.specs import from_spec
from slicing.windows.time.cut import Cut
from slicing.windows.time.edges import AFTER, BEFORE, YEAR_1, YEAR_9999, Every, Listed, Own
from slicing.windows.time.local import Local
from slicing.windows.time.zones import Zone

HOUR = 3_600_000_000
DAY = 24 * HOUR
FAR = [BEFORE, BEFORE + 1, -(1 << 62), YEAR_1, YEAR_9999, 1 << 62, AFTER - 1, AFTER]


def even_cut(family):
    """The edges of one hopping window: starts, and ends so numbered that slices are."""
    rest = family.size % family.advance
    starts, ends = (Every(family.advance, family.offset + shift) for shift in (0, rest - family.advance))
    return Cut([starts, ends] if rest else [starts])


def random_slicing(rng):
    unit = rng.choice([1, 1000, 60_000_000, 7_000_003])
    size, advance = (unit * rng.randint(1, 100) + rng.choice([0, 0, 1]) for _ in range(2))
    return Even(size, advance, rng.randint(-3 * advance, 3 * advance))


@pytest.mark.parametrize("seed", range(10))
def test_slices_are_those_of_slicing(seed):
    rng = random.Random(seed)
    for _ in range(100):
        family = random_slicing(rng)
        cut = even_cut(family)
        times = [rng.randint(-100 * family.size, 100 * family.size) for _ in range(20)]
        times += [rng.randrange(YEAR_1, YEAR_9999) for _ in range(5)]
        indices = [family.slice_at(time) for time in times]
        assert [cut.slice_at(time) for time in times] == indices
        assert cut.slice_at(np.array(times)).tolist() == indices
        near = [index + shift for index in indices for shift in (-1, 0, 1, 2)]
        starts = [family.slice_start(index) for index in near]
        assert [cut.slice_start(index) for index in near[:8]] == starts[:8]
        assert cut.slice_start(np.array(near)).tolist() == starts


class Ramp:
    """Edges at 0, 1, 3, 6, 10 .. hours and at the same distances before."""

    def edge(self, number):
        return (abs(number) * (abs(number) + 1) // 2) * (2 * (number > 0) - 1) * HOUR

    def count(self, time):
        if isinstance(time, np.ndarray):
            return np.array([self.count(one) for one in time.ravel().tolist()], np.int64).reshape(time.shape)
        low, high = -(1 << 20), 1 << 20
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.edge(middle) <= time else (low, middle)
        return low

    def spec(self):
        return ["ramp"]


BERLIN, APIA = Zone.of("Europe/Berlin"), Zone.of("Pacific/Apia")
APIA_2011 = 1_325_239_200_000_000
CUTS = {
    "periods that meet again soon": (Cut([Every(7 * HOUR, 3), Every(5 * HOUR), Every(2 * HOUR, -9)]), 0),
    "periods that never meet": (Cut([Every(HOUR + 1), Every(HOUR + 7, 5), Every(HOUR // 2 + 3)]), 10**15),
    "two that are equal every day": (Cut([Every(HOUR), Local("day", 1, BERLIN)]), 1_743_296_400_000_000),
    "days and weeks and 90 minutes": (
        Cut([Local("week", 1, APIA), Local("day", 1, APIA), Every(HOUR * 3 // 2)]),
        APIA_2011,
    ),
    "a day left out": (Cut([Local("day", 1, APIA)]), APIA_2011),
    "a list": (Cut([Listed([-5 * DAY, 0, 0, HOUR, HOUR, DAY]), Listed([0, 3 * HOUR, DAY])]), 0),
    "a list and days": (Cut([Listed([5 * HOUR, 5 * HOUR, DAY]), Every(DAY)]), 0),
    "a user's": (Cut([Own(Ramp()), Every(10 * HOUR)]), 0),
}


def edges_around(cut, at):
    """All edges within ten days."""
    near = []
    for edges in cut.sequences:
        number = edges.count(at - 10 * DAY) + 1
        while (instant := edges.edge(number)) <= at + 10 * DAY:
            near.append(instant)
            number += 1
    return sorted(near)


@pytest.mark.parametrize("name", CUTS)
def test_slices_lie_between_all_edges_one_after_the_other(name):
    cut, at = CUTS[name]
    edges = edges_around(cut, at)
    base = cut.slice_at(at - 10 * DAY)
    rng = random.Random(3)
    times = [rng.randint(at - 10 * DAY, at + 10 * DAY) for _ in range(100)]
    times = sorted(
        {*times, *(t for edge in edges[:300] for t in (edge - 1, edge, edge + 1) if abs(t - at) <= 10 * DAY)}
    )
    indices = [base + bisect_left(edges, time + 1) for time in times]
    assert cut.slice_at(np.array(times)).tolist() == indices
    assert [cut.slice_at(time) for time in times[:30]] == indices[:30]
    slices = np.arange(base + 1, base + 1 + len(edges))
    assert cut.slice_start(slices).tolist() == edges
    assert [cut.slice_start(index) for index in slices[:20].tolist()] == edges[:20]


@pytest.mark.parametrize("name", CUTS)
def test_the_start_of_a_slice_is_the_least_instant_that_has_reached_it(name):
    cut, at = CUTS[name]
    here = cut.slice_at(at)
    apart = [here - 10**5, here - 7, here, here + 1, here + 12_345, here + 10**6]
    for index in (np.array(apart), np.array([apart, apart[::-1]]), np.array([here] * 5), np.array([here - 1])):
        starts = cut.slice_start(index)
        assert starts.shape == index.shape
        assert np.all((cut.slice_at(starts) >= index) | (starts == AFTER))
        assert np.all((cut.slice_at(np.maximum(starts, BEFORE + 1) - 1) < index) | (starts == BEFORE))


@pytest.mark.parametrize("name", CUTS)
def test_the_ends_of_int64(name):
    cut, _ = CUTS[name]
    indices = cut.slice_at(np.array(FAR))
    assert np.all(np.diff(indices) >= 0)
    assert indices.tolist() == [cut.slice_at(time) for time in FAR]
    starts, ends = cut.slice_start(indices), cut.slice_start(indices + 1)
    assert np.all(starts <= FAR)
    assert np.all((FAR < ends) | (ends == AFTER))
    beyond = np.array([BEFORE, -(1 << 62), 1 << 62, AFTER])
    assert cut.slice_start(beyond).tolist() == [BEFORE, BEFORE, AFTER, AFTER]
    assert [cut.slice_start(index) for index in beyond.tolist()] == [BEFORE, BEFORE, AFTER, AFTER]


def test_where_two_sequences_have_an_edge_there_is_an_empty_slice():
    #   hours    0   1   2   3   4   5   6
    #   by 2     |-------|-------|-------|
    #   by 3     |-----------|-----------|
    #   slice    |---0---|-1-|-2-|---3---|5     slices -1 and 4 are empty
    cut = Cut([Every(2 * HOUR), Every(3 * HOUR)])
    assert [cut.slice_at(hour * HOUR) for hour in range(7)] == [0, 0, 1, 2, 3, 3, 5]
    assert [cut.slice_start(index) // HOUR for index in range(-1, 6)] == [0, 0, 2, 3, 4, 6, 6]


def test_equal_sequences_count_once_in_any_order():
    cut = Cut([Every(60), Every(60, 60), Local("day", 1, BERLIN), Local("hour", 24, BERLIN), Every(60)])
    assert cut.sequences == (Every(60), Local("day", 1, BERLIN))
    assert cut == Cut([Local("day", 1, BERLIN), Every(60)])
    assert hash(cut) == hash(Cut([Local("day", 1, BERLIN), Every(60)]))


@pytest.mark.parametrize("name", CUTS)
def test_cuts_are_made_again_from_their_specs(name):
    cut, at = CUTS[name]
    made = from_spec(json.loads(json.dumps(cut.spec())), own=[Own(Ramp())])
    assert made == cut
    assert made.slice_at(at) == cut.slice_at(at)
    cut.slice_start(np.arange(5))  # tables that are made on first use do not travel
    assert pickle.loads(pickle.dumps(cut)) == cut
    assert len(pickle.dumps(cut)) < 20_000


def test_a_cut_needs_edges():
    with pytest.raises(InvalidValue, match="at least one sequence"):
        Cut([])
