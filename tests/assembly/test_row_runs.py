"""Any runs of rows against the same rows joined one by one, and what a run may not depend on."""

import math

import numpy as np
import pytest
from oracle import CASES, assert_row, block_of, hopping, results, shape_of

from slicing.aggregates.aggregate import Aggregate, fieldwise
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import is_additive
from slicing.assembly.ranges.range_aggregates import range_aggregates
from slicing.assembly.results import Windows
from slicing.errors import FunctionFailed


def joined(kernel_, columns, low, high):
    """Rows from the oldest on, one by one."""
    out = [column[low : low + 1] for column in columns]
    for row in range(low + 1, high):
        out = kernel_.combine(out, [column[row : row + 1] for column in columns])
    return [column[0] for column in out]


def runs_of(rng, rows, count):
    low = rng.integers(0, rows, count)
    return low, low + 1 + rng.integers(0, rows - low)


@pytest.mark.parametrize("name", CASES)
def test_runs_are_their_rows(name):
    case, rng = CASES[name], np.random.default_rng(len(name))
    shape = shape_of(hopping(10, 1), [case])
    for rows in (1, 2, 3, 17, 100):
        values = rng.integers(-50, 100, rows).tolist()
        block = block_of(shape, [case], [(time, 0, value) for time, value in enumerate(values)])
        low, high = runs_of(rng, rows, 60)
        partials = range_aggregates(shape.kernels[0], block.partials[0], low, high, str)
        frame = Windows(np.arange(60), block.keys[low], block.names, high - low, [partials], block.dictionaries)
        for run, row in enumerate(results(shape, [frame]).values()):
            assert_row(row, values[low[run] : high[run]], [case], (name, run))


def test_bits_depend_on_the_rows_of_a_run_alone():
    """Runs of the same rows have the same floats, whatever is before and after, and whatever other runs there are."""
    rng, case = np.random.default_rng(5), CASES["variance"]
    shape = shape_of(hopping(10, 1), [case])
    one = shape.kernels[0]
    values = rng.integers(-(10**6), 10**6, 300).tolist()
    columns = block_of(shape, [case], [(time, 0, value) for time, value in enumerate(values)]).partials[0]
    low, high = runs_of(rng, 300, 50)
    together = range_aggregates(one, columns, low, high, str)
    for run in range(50):
        alone = range_aggregates(
            one, [c[low[run] : high[run]] for c in columns], np.array([0]), high[[run]] - low[[run]], str
        )
        assert [column[run] for column in together] == [column[0] for column in alone]
    plain = joined(one, columns, low[0], high[0])
    assert math.isclose(together[2][0], plain[2], rel_tol=1e-9)


def test_few_combines_and_none_across_runs():
    """A row is joined log2(m) times, a run as often at most; rows that no run has together are never joined."""
    seen = []

    def combine(a, b):
        seen.append(len(a[0]))
        assert np.all(a[1] == b[1]), "rows of two keys"
        return a[0] + b[0], a[1]

    counted = Aggregate(lambda: (0, 0), lambda acc, v, k: (v, k), combine, columns=True, laws=False)
    one = kernel("counted", counted)
    assert not is_additive(one)
    for length in (1, 2, 3, 7, 15, 31, 100):
        rows, keys = 400 - 400 % length, np.arange(400 - 400 % length) // length
        low = np.arange(rows)
        high = (keys + 1) * length
        seen.clear()
        found, _ = range_aggregates(one, [np.ones(rows, np.int64), keys], low, high, str)
        assert np.array_equal(found, high - low)
        assert sum(seen) <= rows * 2 * math.sqrt(length)
        assert sum(seen) <= rows * 2 * math.floor(math.log2(length))


def test_a_function_that_fails_says_where():
    def combine(a, b):
        if 7 in (a, b):
            raise ValueError("seven")
        return a + b

    one = kernel("fails", Aggregate(lambda: 0, lambda acc, v: acc + v, combine, laws=False))
    columns = [np.array([1, 2, 7, 3])]
    with pytest.raises(FunctionFailed, match=r"for row [12]"):
        range_aggregates(one, columns, np.array([0]), np.array([4]), lambda row: f"row {row}")
    assert range_aggregates(one, columns, np.array([0, 2]), np.array([2, 3]), str)[0].tolist() == [3, 7]


def test_additive_partials_are_differences():
    """No call of `combine` at all, and sums that wrap come out right."""
    one = kernel("sum", Aggregate(lambda: 0, lambda acc, v: v, fieldwise(np.add), fieldwise(np.subtract), columns=True))
    big = np.array([1 << 62, 1 << 62, 5, -(1 << 62)])
    one.combine = None
    assert range_aggregates(one, [big], np.array([0, 1, 2]), np.array([1, 4, 3]), str)[0].tolist() == [1 << 62, 5, 5]
