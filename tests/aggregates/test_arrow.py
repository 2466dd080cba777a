"""Python objects as Arrow arrays: what fits a field, and what is said of an item that does not."""

import numpy as np
import pytest

from slicing.aggregates.arrow import objects_to_arrow
from slicing.aggregates.fields import Field
from slicing.errors import RowFailure


def converted(items, kind):
    column = np.empty(len(items), object)
    column[:] = items
    return objects_to_arrow(column, Field("hit", kind), "first").to_pylist()


@pytest.mark.parametrize("items", [[True, 0, None, 7], [0, True], [True, False], [False, 2**62]])
def test_booleans_are_integers_whatever_is_beside_them(items):
    found = converted(items, "bigint")
    assert found == items
    assert {type(item) for item in found} <= {int, type(None)}


@pytest.mark.parametrize("items", [[1, "2"], [True, "2"], [1, 2.5], [1, 2**63]])
def test_what_is_no_integer_is_named(items):
    with pytest.raises(RowFailure) as found:
        converted(items, "bigint")
    assert found.value.index == 1
