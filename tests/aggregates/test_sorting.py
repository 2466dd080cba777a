"""Rows sorted by integers, against sorted lists and np.lexsort."""

import numpy as np
import pytest

from slicing.aggregates import sorting
from slicing.aggregates.sorting import argsorted, heads, order, sorted_rows


@pytest.mark.parametrize("spread", [1, 10**6, 1 << 58, 1 << 61])
def test_rows_are_ordered_also_where_they_do_not_fit_into_64_bits(spread):
    rng = np.random.default_rng(spread)
    slices = rng.integers(-3, 4, 200) * spread
    keys = rng.integers(0, 5, 200)
    rows, starts = order(slices, keys)
    places = list(zip(slices.tolist(), keys.tolist(), strict=True))
    expected = sorted(range(200), key=places.__getitem__)
    assert rows.tolist() == expected
    begins = [i for i, row in enumerate(expected) if i == 0 or places[row] != places[expected[i - 1]]]
    assert starts.tolist() == begins


@pytest.mark.parametrize("last", [3000, 5])
def test_rows_that_come_in_order_stay_and_a_last_one_that_does_not_is_sorted(last):
    slices, keys = np.append(np.arange(3000) // 2, last), np.zeros(3001, np.int64)
    rows, starts = order(slices, keys)
    assert rows.tolist() == sorted(range(3001), key=lambda row: (slices[row], row))
    assert slices[rows][starts].tolist() == sorted({*slices.tolist()})


@pytest.mark.parametrize("least", [0, -7, -(1 << 62)])
@pytest.mark.parametrize("most", [0, 255, 256, 65_535, 65_536, 1 << 20, (1 << 32) - 1, 1 << 32, 1 << 33, 1 << 62])
def test_rows_are_sorted_by_integers_of_any_width_and_keep_their_order(least, most):
    values = np.random.default_rng(most).integers(least, least + most, 2_000, endpoint=True)
    for each in (np.append(values, [least + most, least, least + most]), np.sort(values), values[:1], values[:0]):
        assert argsorted(each).tolist() == sorted(range(len(each)), key=each.__getitem__)


@pytest.mark.parametrize("disorder", [0, 2, 10**5, 10**9, 10**13])
@pytest.mark.parametrize("apart", [1, 10**9])
def test_rows_are_sorted_by_two_columns_however_far_they_are_from_that_order(disorder, apart):
    """Rows that are equal keep their order, whether sorted runs are merged or not."""
    random = np.random.default_rng(disorder)
    for count, groups, span in ((0, 1, 1), (1, 1, 1), (2_000, 40, 10**9), (2_000, 40, 30), (3_000, 300, 10**14)):
        first = random.integers(0, groups, count) * apart
        then = np.sort(random.integers(0, span, count)) + random.integers(0, disorder, count, endpoint=True)
        assert sorted_rows(first, then).tolist() == np.lexsort((then, first)).tolist()


def test_narrow_integers_are_sorted_as_others():
    for values in (np.array([2_000_000_000, -1, 2_000_000_000, 5], np.int32), np.array([127, -128, 127, 5], np.int8)):
        assert argsorted(values).tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize("rows", [1_000, 3_000])
@pytest.mark.parametrize(("slices", "keys"), [(10, 20), (256, 256), (300, 250), (70_000, 900), (70_000, 70_000)])
def test_rows_are_ordered_in_one_pass_in_two_and_as_whole_numbers(slices, keys, rows, monkeypatch):
    """Of more than 2,000 rows two digits are one number, as of more than half a million otherwise."""
    monkeypatch.setattr(sorting, "_TWO_DIGIT_ROWS", 2_000)
    random = np.random.default_rng(keys)
    for first in (random.integers(-3, slices - 3, rows), random.choice([0, slices], rows)):
        then = random.integers(7, 7 + keys, rows)
        found, starts = order(first, then)
        assert found.tolist() == np.lexsort((then, first)).tolist()
        assert starts.tolist() == heads(first[found], then[found]).tolist()
        assert starts.tolist() == np.unique([first[found], then[found]], axis=1, return_index=True)[1].tolist()
