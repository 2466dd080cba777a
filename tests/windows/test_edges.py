"""Edges against their definition: `edge(count(t)) <= t < edge(count(t) + 1)`, at the ends of int64 too."""

import json
import math
import pickle
import random

import numpy as np
import pytest

from slicing.errors import FunctionFailed, InvalidType, InvalidValue, SlicingError
from slicing.windows.specs import from_spec
from slicing.windows.time.edges import AFTER, BEFORE, YEAR_1, YEAR_9999, Every, Listed, Own

HOUR = 3_600_000_000
FAR = [BEFORE, BEFORE + 1, BEFORE + HOUR, -(1 << 62), YEAR_1, -1, 0, 1, YEAR_9999, 1 << 62, AFTER - HOUR, AFTER - 1]
EVERY = [Every(1), Every(2, 5), Every(7, -3), Every(7, 700), Every(HOUR, -1), Every(1 << 61, 12), Every(1 << 62, -9)]


class Squares:
    """Edges at i * |i| hours: ever further apart, away from 1970."""

    def __repr__(self):
        return "Squares()"

    def edge(self, number):
        return number * abs(number) * HOUR

    def count(self, time):
        if isinstance(time, np.ndarray):
            return np.array([self.count(one) for one in time.ravel().tolist()], np.int64).reshape(time.shape)
        hours = time // HOUR
        return math.isqrt(hours) if hours >= 0 else -math.isqrt(-hours - 1) - 1

    def spec(self):
        return ["squares", 1]


def holds(edges, time):
    number = edges.count(time)
    assert isinstance(number, int)
    return edges.edge(number) <= time and (time < edges.edge(number + 1) or time == AFTER)


@pytest.mark.parametrize("edges", [*EVERY, Listed([-5, 0, 0, 3, 3, 3, 10]), Own(Squares())], ids=str)
def test_the_last_edge_at_or_before_an_instant_is_counted(edges):
    rng = random.Random(1)
    times = [*FAR, AFTER, *range(-30, 30), *(rng.randint(-(1 << 63), 1 << 62) for _ in range(200))]
    assert [time for time in times if not holds(edges, time)] == []
    many = np.array(times)
    counts = edges.count(many)
    assert counts.dtype == np.int64
    assert counts.tolist() == [edges.count(time) for time in times]
    for numbers in (counts, counts - 1, np.array([BEFORE, -(1 << 62), -1, 0, 1 << 62, AFTER])):
        assert edges.edge(numbers).dtype == np.int64
        assert edges.edge(numbers).tolist() == [edges.edge(number) for number in numbers.tolist()]


@pytest.mark.parametrize("edges", EVERY, ids=str)
def test_every_is_offset_plus_multiples(edges):
    for number in [*range(-20, 20), 12_345_678]:
        instant = edges.offset + number * edges.length
        assert edges.edge(number) == min(max(instant, BEFORE), AFTER)


def test_edges_ascend_to_where_int64_ends():
    for edges in (*EVERY, Listed([1, 2]), Own(Squares())):
        numbers = np.unique(np.add.outer(edges.count(np.array(FAR)), np.arange(-2, 3)).ravel())
        assert np.all(np.diff(edges.edge(numbers).astype(object)) >= 0)
        assert (edges.edge(-(1 << 80)), edges.edge(1 << 80)) == (BEFORE, AFTER)


def test_numbers_that_int64_cannot_hold_do_not_wrap():
    edges = Every(1, 5)
    assert [edges.count(time) for time in (BEFORE, BEFORE + 5, BEFORE + 6, AFTER)] == [
        BEFORE,
        BEFORE,
        BEFORE + 1,
        AFTER - 5,
    ]


def test_equal_edges_keep_their_numbers():
    #   number   0      1 2      3
    #   edge     -5     0 0      7
    edges = Listed([-5, 0, 0, 7])
    assert [edges.count(time) for time in (-6, -5, -1, 0, 6, 7)] == [-1, 0, 0, 2, 2, 3]
    assert [edges.edge(number) for number in range(-1, 5)] == [BEFORE, -5, 0, 0, 7, AFTER]


def test_arrays_may_be_empty_and_of_any_shape():
    for edges in (Every(3, 1), Listed([1, 2]), Own(Squares())):
        assert edges.count(np.array([], np.int64)).size == edges.edge(np.array([], np.int64)).size == 0
        grid = np.arange(-6, 6).reshape(3, 4)
        assert edges.count(grid).tolist() == [[edges.count(time) for time in row] for row in grid.tolist()]


@pytest.mark.parametrize("edges", [Every(60, -30), Listed([3, 5, 5]), Own(Squares())], ids=str)
def test_specs_are_json_and_make_the_edges_again(edges):
    spec = json.loads(json.dumps(edges.spec()))
    made = from_spec(spec, own=[Own(Squares())])
    assert made == edges
    assert hash(made) == hash(edges)
    assert pickle.loads(pickle.dumps(edges)) == edges


def test_specs_hold_plain_integers():
    assert json.dumps(Every(np.int64(60), np.int64(5)).spec()) == '["every", 60, 5]'
    assert json.dumps(Listed(np.array([3, 5])).spec()) == '["listed", [3, 5]]'
    assert Listed(np.array([3, 5])) == Listed([3, 5])


def test_one_grid_refines_another():
    assert Every(60, 30).refines(Every(120, -90))
    assert not Every(60).refines(Every(120, 30))
    assert not Every(60).refines(Every(90))
    assert not Every(60).refines(Listed([0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Every(0), "`length` of edges must be positive"),
        (lambda: Every(1 << 63), "below 146,000 years"),
        (lambda: Every(5, 1 << 63), "`offset` of edges"),
        (lambda: Listed([]), "empty"),
        (lambda: Listed([1, 3, 2]), "got 2 after 3 at place 2"),
        (lambda: Listed([1.5]), "microseconds since the epoch as integers"),
        (lambda: Listed([1 << 70]), "microseconds since the epoch as integers"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(SlicingError, match=message):
        make()


# --- a user's class -------------------------------------------------------------------------------------------------


def test_a_users_edges_are_those_of_its_class_in_the_years_it_must_know():
    edges, plain = Own(Squares()), Squares()
    for time in (*range(-10 * HOUR, 10 * HOUR, HOUR // 3), YEAR_1, YEAR_9999):
        assert edges.count(time) == plain.count(time)
        assert edges.edge(edges.count(time) + 1) == plain.edge(plain.count(time) + 1) or time == YEAR_9999


def test_a_users_edges_are_not_asked_beyond_what_they_know():
    class Table:
        """Three edges, and no others."""

        def edge(self, number):
            return np.array([-HOUR, 0, HOUR])[number - 1] if isinstance(number, np.ndarray) else (number - 2) * HOUR

        def count(self, time):
            found = np.searchsorted(np.array([-HOUR, 0, HOUR]), time, "right")
            return found if isinstance(time, np.ndarray) else int(found)

        def spec(self):
            return ["table"]

    edges = Own(Table())
    assert [edges.edge(number) for number in (-7, 0, 1, 2, 3, 4, 99)] == [BEFORE, BEFORE, -HOUR, 0, HOUR, AFTER, AFTER]
    assert [edges.count(time) for time in (BEFORE, -1, 0, AFTER)] == [0, 1, 2, 3]


class Broken(Squares):
    """Edges with a fault."""

    def __init__(self, **methods):
        for name, method in methods.items():
            setattr(self, name, method)


PLAIN = Squares()
FAULTS = {
    "no method": ({"count": None}, InvalidType, "has no `count`"),
    "raises": ({"edge": lambda number: 1 // 0}, FunctionFailed, "`edge` of `Broken` failed"),
    "raises on arrays": ({"count": lambda time: PLAIN.count(int(time))}, FunctionFailed, "failed on an int64 array"),
    "a float": ({"count": lambda time: PLAIN.count(time) * 1.0}, InvalidType, "must give an int for an int"),
    "an int of an array": ({"edge": lambda number: 5}, InvalidType, "must give an int64 array of the shape"),
    "int32": (
        {"count": lambda t: PLAIN.count(t).astype(np.int32) if isinstance(t, np.ndarray) else PLAIN.count(t)},
        InvalidType,
        "got int32",
    ),
    "arrays differ": (
        {"edge": lambda number: PLAIN.edge(number) + isinstance(number, np.ndarray)},
        InvalidValue,
        "must give the same for arrays and integers",
    ),
    "edges step back": (
        {"edge": lambda number: -PLAIN.edge(number)},
        InvalidValue,
        "`edge` of `Broken` must never step",
    ),
    "count steps back": (
        {"count": lambda time: PLAIN.count(time) - 2 * (time > 0)},
        InvalidValue,
        "must be the last edge at or before|`count` of `Broken` must never step back",
    ),
    "an edge late": ({"count": lambda time: PLAIN.count(time - 1)}, InvalidValue, "must be the last edge at or before"),
    "a spec that is no list": ({"spec": lambda: "squares"}, InvalidType, "list of plain JSON data"),
    "a spec without a name": ({"spec": lambda: [1]}, InvalidType, "begins with a name"),
    "a spec of tuples": ({"spec": lambda: ["squares", (1, 2)]}, InvalidType, "plain JSON data"),
    "a spec that is no JSON": ({"spec": lambda: ["squares", {1}]}, InvalidType, "it raised"),
    "a spec of ours": ({"spec": lambda: ["every", 1, 2]}, InvalidValue, "name taken here"),
    "a spec of our hours": ({"spec": lambda: ["local hours", 1]}, InvalidValue, "name taken here"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_users_edges_are_tried(name):
    methods, error, message = FAULTS[name]
    with pytest.raises(error, match=message):
        Own(Broken(**methods))
