"""Windows that share a partial: its result is found once, and an error names the first window that has it."""

import random
import re

import numpy as np
import pytest

from slicing import Aggregate
from slicing.aggregates.arrays import object_array, shared_objects
from slicing.aggregates.kernels import kernel
from slicing.errors import FunctionFailed
from slicing.stages.output import _results

ONE, TWO, BAD = "one", "two", "bad"


def column_of(items):
    return object_array(items, (len(items),))


def lowered(partials):
    """The results, and how often `lower` was called."""
    calls = []

    def lower(partial):
        calls.append(partial)
        if partial == BAD:
            raise ValueError("no")
        return f"{partial}!"

    longer = Aggregate(lambda: "", lambda acc, v: acc + v, lambda a, b: a + b, lower=lower, returns="string")
    of = kernel("text", longer)
    (found,) = _results(of, [column_of(partials)], None, lambda row: f"row {row}")
    return found.to_pylist(), len(calls)


def test_a_result_is_found_once_for_windows_that_share_a_partial():
    assert lowered([ONE, TWO, ONE, ONE, TWO]) == (["one!", "two!", "one!", "one!", "two!"], 2)


def test_windows_that_share_few_partials_are_taken_as_they_are():
    assert lowered([ONE, TWO, ONE]) == (["one!", "two!", "one!"], 3)
    assert lowered([]) == ([], 0)


@pytest.mark.parametrize(("partials", "row"), [([ONE, TWO, BAD, ONE, TWO, BAD, BAD], 2), ([ONE, BAD], 1)])
def test_an_error_names_the_first_row(partials, row):
    with pytest.raises(FunctionFailed, match=re.escape(f"row {row}.")):
        lowered(partials)


@pytest.mark.parametrize("seed", range(20))
def test_rows_and_numbers_give_the_objects_back(seed):
    rng = random.Random(seed)
    objects = [object() for _ in range(rng.choice([1, 5, 40]))]
    column = column_of([rng.choice(objects) for _ in range(rng.choice([1, 10, 300]))])
    shared = shared_objects([column])
    if 2 * len({*map(id, column)}) > len(column):
        assert shared is None
        return
    rows, numbers = shared
    assert all(found is expected for found, expected in zip(column[rows][numbers], column, strict=True))
    assert np.all(np.diff(rows) > 0)
    assert len(rows) == len({*map(id, column)})


def test_numbers_and_several_fields_are_not_shared():
    assert shared_objects([np.zeros(8)]) is None
    assert shared_objects([column_of([ONE] * 8), np.zeros(8)]) is None
