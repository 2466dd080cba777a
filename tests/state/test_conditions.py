"""Results that only a condition, or the meaning of a count, tells apart are not taken for each other."""

from dataclasses import replace

import pytest
from oracle import hopping

import combinators as C
from combinators.catalogue import CATALOGUE, MORE, sample_kinds
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.content.block import Shape
from slicing.errors import StateMismatch
from slicing.state.format.adapting import opened
from slicing.state.format.changes import COUNT, OTHER_COUNTS, changes_of
from slicing.state.format.fingerprint import ALLOW, PARTIALS, fingerprint_of
from slicing.state.format.header import Header

GIVEN, PAID, IF_PAID = C.count("paid"), C.count(where="paid"), C.count_if("paid")
MEAN = C.mean("n")


def query(*bounds, adapt="refuse"):
    kinds = {"paid": "boolean", "n": "bigint"}
    aggregates = [bound.resolve([kinds[each] for each in bound.inputs]) for bound in bounds]
    kernels = tuple(kernel(f"r{at}", aggregate) for at, aggregate in enumerate(aggregates))
    shape = Shape(hopping(4), (Field("key0", "bigint"),), kernels)
    columns = [list(bound.inputs) for bound in bounds]
    return fingerprint_of(shape, [PARTIALS] * len(bounds), columns, "1 over 1 shuffle partitions", adapt=adapt)


def stored(*bounds, older=False):
    head = query(*bounds).header([0])
    for result in head.results if older else ():
        result.filtered = None
    return Header.from_text(head.to_text())


def ids(head):
    return [result.id for result in head.current]


def test_results_of_one_column_and_of_its_condition_change_places():
    head = opened(query(PAID, GIVEN), stored(GIVEN, PAID))
    assert ids(head) == [2, 1]
    assert [result.filtered for result in head.current] == [True, False]
    assert not changes_of([stored(GIVEN, PAID)], query(PAID, GIVEN))
    assert ids(opened(query(GIVEN, PAID), stored(GIVEN, PAID))) == [1, 2]


@pytest.mark.parametrize(("before", "after"), [(GIVEN, PAID), (PAID, GIVEN), (GIVEN, IF_PAID), (IF_PAID, GIVEN)])
def test_another_count_of_a_column_is_another_result(before, after):
    found = changes_of([stored(before)], query(after))
    assert [change.what for change in found] == ["result added", "result removed"]
    with pytest.raises(StateMismatch, match=" is new: null in windows"):
        opened(query(after), stored(before))
    head = opened(query(after, adapt=ALLOW), stored(before))
    assert head.current[0].origin == [None]


def test_the_difference_is_named():
    with pytest.raises(StateMismatch, match=r"count of records where paid\) is new: .*; count of paid is gone: "):
        opened(query(MEAN, PAID), stored(MEAN, GIVEN))
    added, removed = changes_of([stored(GIVEN)], query(PAID))
    assert "(count of records where paid)" in added.wanted
    assert removed.stored == "count of paid"


@pytest.mark.parametrize("of", [PAID, GIVEN])
def test_a_count_that_is_added_does_not_take_its_history_from_another(of):
    (other,) = {PAID, GIVEN} - {of}
    head = opened(query(of, other, adapt=ALLOW), stored(of))
    assert [result.origin for result in head.current] == [[], [None]]


@pytest.mark.parametrize("bound", [PAID, GIVEN])
def test_headers_of_older_code_do_not_tell_and_learn_it(bound):
    held = stored(bound, older=True)
    assert held.results[0].filtered is None
    head = opened(query(bound), held)
    assert (ids(head), head.results[0].filtered) == ([1], bound is PAID)
    assert Header.from_text(head.to_text()) == head


def test_means_and_moments_still_have_the_number_of_values():
    (change,) = changes_of([stored(C.mean("n"))], query(C.count("n")))
    assert change.what == "result removed"
    (change,) = changes_of([stored(C.mean("n"))], query(C.mean("n"), C.count("n", where="paid"), adapt=ALLOW))
    assert change.what == "result added"


@pytest.mark.parametrize("entry", [*CATALOGUE, *MORE], ids=lambda entry: entry.name)
def test_the_field_of_counts_is_the_number_of_values(entry):
    for kind in sample_kinds(entry):
        aggregate = entry.resolved(kind)
        meanings = dict(zip((field.name for field in aggregate.fields), aggregate.meanings or (), strict=False))
        means = meanings.get(COUNT, COUNT).partition(" ")[0]
        assert means == COUNT or aggregate.version in OTHER_COUNTS


def test_a_fingerprint_without_conditions_compares_none():
    plain = replace(query(GIVEN), filtered=())
    assert plain.results[0].filtered is None
    assert ids(opened(plain, stored(GIVEN))) == [1]
