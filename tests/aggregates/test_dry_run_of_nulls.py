"""Functions that would stop a query at the first null are refused when it is built."""

from dataclasses import replace

import numpy as np
import pytest

from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.kernels import kernel
from slicing.errors import InvalidValue
from slicing.laws import dry_run


def added(a, b):
    return a[0] + b[0], a[1] + b[1]


def counted(acc, x):
    return acc[0] + 1, acc[1] + x


def checked(a):
    if not np.all(a[0]):
        raise ZeroDivisionError
    return a[1] / a[0]


MEAN = Aggregate(lambda: (0, 0), counted, added, lower=lambda a: a[1] / a[0], returns="double")
RIGHT = replace(MEAN, lower=lambda a: a[1] / a[0] if a[0] else None)
EAGER = Aggregate(lambda: (0, 0), counted, lower=lambda a: a[1] / a[0], returns="double")
COLUMNS = Aggregate(lambda: (0, 0), counted, added, lower=checked, returns="double", columns=True)
NULLS = Aggregate(lambda: 0, lambda n, x: n + x, lambda a, b: a + b, nulls=True)
TWO = Aggregate(lambda: 0, lambda n, x, y: n + x * (y or 0), lambda a, b: a + b, nulls=True)
TIMES = Aggregate(lambda: 0, lambda n, x, y: n if x is None else n + x * y, lambda a, b: a + b, nulls=True)
PARSED = Aggregate(lambda: 0, lambda n, x, y: n + int(x) + (y or 0), lambda a, b: a + b, nulls=True, laws=False)
EMPTY, NONE = (
    r"`lower` of `r` must take `init\(\)`.*ZeroDivisionError",
    "`agg` of `r` must take a null as None.*TypeError",
)


@pytest.mark.parametrize(
    ("aggregate", "kinds", "nullable", "message"),
    [
        (MEAN, ["bigint"], [True], EMPTY),
        (EAGER, ["bigint"], [True], EMPTY),
        (COLUMNS, ["bigint"], [True], EMPTY),
        (replace(MEAN, filtered=True), ["bigint"], [False], EMPTY),
        (replace(MEAN, filtered=True, nulls=True), ["bigint"], [False], EMPTY),
        (MEAN, ["bigint"], [False], None),
        (replace(MEAN, nulls=True), ["bigint"], [False], None),
        (RIGHT, ["bigint"], [True], None),
        (NULLS, ["bigint"], [True], NONE),
        (replace(NULLS, combine=None), ["bigint"], [True], NONE),
        (NULLS, ["bigint"], [False], None),
        (TWO, ["bigint", "bigint"], [True, True], NONE),
        (TWO, ["bigint", "bigint"], [True, False], NONE),
        (TWO, ["bigint", "bigint"], [False, True], None),
        (TIMES, ["bigint", "bigint"], [True, True], NONE),
        (TIMES, ["bigint", "bigint"], [True, False], None),
        (PARSED, ["string", "bigint"], [True, True], NONE),
        (replace(NULLS, agg=lambda n, x: n + (x is None)), ["bigint"], [True], None),
    ],
)
def test_functions_are_called_for_what_a_null_makes(aggregate, kinds, nullable, message):
    made = kernel("r", aggregate)
    if message is None:
        return dry_run(made, kinds, nullable)
    with pytest.raises(InvalidValue, match=message):
        dry_run(made, kinds, nullable)
    return None


def test_an_aggregate_without_columns_sees_every_record():
    """Its `lower` never gets `init()`, unless a condition leaves records out."""
    count = Aggregate(lambda: 0, lambda n: n + 1, lambda a, b: a + b, lower=lambda n: 1 // n, returns="bigint")
    dry_run(kernel("r", count), [], [])
    with pytest.raises(InvalidValue, match=EMPTY):
        dry_run(kernel("r", replace(count, filtered=True)), [], [])


def test_a_sample_that_raises_says_nothing_about_nulls():
    """Text is parsed, and the samples are no numbers; the column that may be null is taken as None."""
    parsed = replace(PARSED, agg=lambda n, x, y: n + int(x) + (y or 0))
    dry_run(kernel("r", parsed), ["binary", "bigint"], [False, True])
