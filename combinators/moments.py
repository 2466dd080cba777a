"""Variances, standard deviations, skewness and kurtosis, from n, the mean, and sums of powers of distances from it.

Partials (n, mean, m2), where m2 is the sum of squared distances, are merged as in T. F. Chan, G. H. Golub, R. J.
LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979). Third and fourth powers are
merged as in P. Pébay, "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order
statistical moments" (2008). Sums of powers of the values are not used: they lose all digits if the mean is large.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from combinators._common import AS_NUMBER, NUMBERS, Array, constant, enough, require, shown, unless_empty
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Gathered, Input

_MEANINGS = ("n", "mean", "m2", "m3", "m4")


def variance(column: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The sample variance of `column`: squared distances from the mean over n - 1.

    Fewer than two values, or than `min_samples`, give null. Returns double; NaN if one value is NaN or infinite.
    Not invertible: 4 combines a window on average, 2 sqrt(n) at worst. Raises InvalidType for a column that is not
    numeric. Reference: Spark's `var_samp`.

    >>> variance("x").resolve(("double",)).lower((np.array([2]), np.array([3.0]), np.array([8.0]))).tolist()
    [8.0]
    """
    return enough(_moment("variance", column, _variance, 1), min_samples).where(where)


def variance_pop(column: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The population variance of `column`: squared distances from the mean over n.

    Fewer than `min_samples` values give null; one value gives 0. Returns double; NaN if one value is NaN or
    infinite. Cost and errors as for `variance`. Reference: Spark's `var_pop`.

    >>> variance_pop("x").resolve(("double",)).lower((np.array([2]), np.array([3.0]), np.array([8.0]))).tolist()
    [4.0]
    """
    return enough(_moment("variance_pop", column, _variance, 0), min_samples).where(where)


def stddev(column: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The sample standard deviation of `column`: the square root of `variance`.

    Fewer than two values, or than `min_samples`, give null. Returns double; NaN if one value is NaN or infinite.
    Cost and errors as for `variance`. Reference: Spark's `stddev_samp`.

    >>> stddev("x").resolve(("double",)).lower((np.array([3]), np.array([3.0]), np.array([8.0]))).tolist()
    [2.0]
    """
    return enough(_moment("stddev", column, _stddev, 1), min_samples).where(where)


def stddev_pop(column: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The population standard deviation of `column`: the square root of `variance_pop`.

    Fewer than `min_samples` values give null; one value gives 0. Returns double; NaN if one value is NaN or
    infinite. Cost and errors as for `variance`. Reference: Spark's `stddev_pop`.

    >>> stddev_pop("x").resolve(("double",)).lower((np.array([2]), np.array([3.0]), np.array([8.0]))).tolist()
    [2.0]
    """
    return enough(_moment("stddev_pop", column, _stddev, 0), min_samples).where(where)


def skewness(column: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The skewness of `column`: the mean cube of distances from the mean, in standard deviations of the population.

    Fewer than two values, or than `min_samples`, give null, and so do values that are all equal. Returns double;
    NaN if one value is NaN or infinite. Cost and errors as for `variance`. Reference: Spark's `skewness`.

    >>> skewness("x").label
    'skewness(x)'
    """
    label = f"skewness({column})"
    return enough(Bound(partial(_powers_of, label, 3, _skewness), (column,), label), min_samples).where(where)


def kurtosis(column: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The excess kurtosis of `column`: the mean fourth power of distances over the squared variance, minus 3.

    Fewer than two values, or than `min_samples`, give null, and so do values that are all equal. Returns double;
    NaN if one value is NaN or infinite. Cost and errors as for `variance`. Reference: Spark's `kurtosis`.

    >>> kurtosis("x").label
    'kurtosis(x)'
    """
    label = f"kurtosis({column})"
    return enough(Bound(partial(_powers_of, label, 4, _kurtosis), (column,), label), min_samples).where(where)


def _moment(name: str, column: str, lower: Any, missing: int) -> Bound:
    label = f"{name}({column})"
    return Bound(partial(_moment_of, label, partial(lower, missing)), (column,), label)


def _moment_of(label: str, lower: Any, kind: str) -> Aggregate:
    require(label, NUMBERS, kind, AS_NUMBER)
    return Aggregate(
        constant((0, 0.0, 0.0)),
        Gathered(partial(_gathered, 2)),
        _merge,
        lower=lower,
        partial="n bigint, mean double, m2 double",
        returns="double",
        columns=True,
        version="combinators.moments",
        meanings=_MEANINGS[:3],
    )


def _gathered(highest: int, starts: Array, value: Array) -> Any:
    """Return the partials of runs of values: the mean from distances to the first value, then powers from the mean."""
    values = np.asarray(value).astype(np.float64)
    n = np.diff(np.append(starts, len(values)))
    with np.errstate(all="ignore"):
        first = values[starts]
        mean = first + np.add.reduceat(values - np.repeat(first, n), starts) / n
        # If there are infinities, the plain sum has their sign.
        mean = np.where(np.isfinite(mean), mean, np.add.reduceat(values, starts))
        # The distance is 0 for one number; for NaN and infinities it is NaN, as in Spark.
        distance = values - np.repeat(mean, n)
        power, powers = distance, []
        for _ in range(2, highest + 1):
            power = power * distance
            powers.append(np.add.reduceat(power, starts))
    return n, mean, *powers


def _merge(a: Any, b: Any) -> Any:
    n_a, mean_a, m2_a = a
    n_b, mean_b, m2_b = b
    n = n_a + n_b
    with np.errstate(all="ignore"):
        share = n_b / n
        delta = mean_b - mean_a
        # If one mean is infinite, the plain sum keeps its sign, in either order.
        mean = np.where(np.isfinite(delta), mean_a + delta * share, mean_a + mean_b)
        m2 = m2_a + m2_b + delta * delta * (n_a * share)
    return n, unless_empty(n_a, n_b, mean_a, mean_b, mean), unless_empty(n_a, n_b, m2_a, m2_b, m2)


def _variance(missing: int, acc: Any) -> Array:
    n, _, m2 = acc
    return shown(_quotient(missing, n, m2), n <= missing)


def _stddev(missing: int, acc: Any) -> Array:
    n, _, m2 = acc
    return shown(np.sqrt(_quotient(missing, n, m2)), n <= missing)


def _quotient(missing: int, n: Array, m2: Array) -> Array:
    divided: Array = m2 / np.maximum(n - missing, 1)
    return divided


def _powers_of(label: str, highest: int, lower: Any, kind: str) -> Aggregate:
    require(label, NUMBERS, kind, AS_NUMBER)
    powers = [f"m{power} double" for power in range(2, highest + 1)]
    return Aggregate(
        constant((0, *[0.0] * highest)),
        Gathered(partial(_gathered, highest)),
        _merge_powers,
        lower=lower,
        partial=", ".join(["n bigint", "mean double", *powers]),
        returns="double",
        columns=True,
        version="combinators.moments",
        meanings=_MEANINGS[: highest + 1],
    )


def _merge_powers(a: Any, b: Any) -> Any:
    n, mean, m2 = _merge(a[:3], b[:3])
    with np.errstate(all="ignore"):
        merged = [_cubes(a, b), *([_fourth_powers(a, b)] if len(a) > 4 else [])]
    kept = (unless_empty(a[0], b[0], x, y, new) for x, y, new in zip(a[3:], b[3:], merged, strict=True))
    return (n, mean, m2, *kept)


def _cubes(a: Any, b: Any) -> Array:
    n_a, mean_a, m2_a, m3_a = a[:4]
    n_b, mean_b, m2_b, m3_b = b[:4]
    delta, of_a, of_b = mean_b - mean_a, n_a / (n_a + n_b), n_b / (n_a + n_b)
    cubes: Array = m3_a + m3_b + delta**3 * (n_a * of_b * (of_a - of_b)) + 3 * delta * (of_a * m2_b - of_b * m2_a)
    return cubes


def _fourth_powers(a: Any, b: Any) -> Array:
    n_a, mean_a, m2_a, m3_a, m4_a = a
    n_b, mean_b, m2_b, m3_b, m4_b = b
    delta, of_a, of_b = mean_b - mean_a, n_a / (n_a + n_b), n_b / (n_a + n_b)
    powers: Array = (
        m4_a
        + m4_b
        + delta**4 * (n_a * of_b * (of_a * of_a - of_a * of_b + of_b * of_b))
        + 6 * delta * delta * (of_a * of_a * m2_b + of_b * of_b * m2_a)
        + 4 * delta * (of_a * m3_b - of_b * m3_a)
    )
    return powers


def _skewness(acc: Any) -> Array:
    n, _, m2, m3 = acc
    still = m2 == 0
    deviation = np.sqrt(np.where(still, 1.0, m2) / np.maximum(n, 1))
    return shown(m3 / np.maximum(n, 1) / deviation**3, still)


def _kurtosis(acc: Any) -> Array:
    n, _, m2, _, m4 = acc
    still = m2 == 0
    variance = np.where(still, 1.0, m2) / np.maximum(n, 1)
    return shown(m4 / np.maximum(n, 1) / (variance * variance) - 3.0, still)
