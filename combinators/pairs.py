"""How two columns vary together, from (n, means, co-moment, squared distances) of the records that have both values.

Partials are merged as in P. Pébay, "Formulas for robust, one-pass parallel computation of covariances and
arbitrary-order statistical moments" (2008). Sums of products are not used: they lose all digits if means are large.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from combinators._common import AS_NUMBER, NUMBERS, Array, constant, enough, require, shown, unless_empty
from slicing.aggregates.aggregate import Aggregate, Bound, Condition, Input

_FIELDS = ("n bigint", "mean_x double", "mean_y double", "together double", "m2_x double", "m2_y double")


def covar_samp(x: Input, y: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The sample covariance of two columns: products of distances from the means over n - 1.

    Records in which one value is null are left out; fewer than two records, or than `min_samples`, give null.
    Returns double; NaN if one value is NaN or infinite. Not invertible: 4 combines a window on average, 2 sqrt(n)
    at worst. Raises InvalidType for a column that is not numeric. Reference: Spark's `covar_samp`.

    >>> covar_samp("x", "y").label
    'covar_samp(x, y)'
    """
    return enough(_pair("covar_samp", x, y, partial(_covariance, 1)), min_samples).where(where)


def covar_pop(x: Input, y: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The population covariance of two columns: products of distances from the means over n.

    Fewer than `min_samples` records with both values give null; one such record gives 0. Returns double. Cost and
    errors as for `covar_samp`. Reference: Spark's `covar_pop`.

    >>> covar_pop("x", "y").label
    'covar_pop(x, y)'
    """
    return enough(_pair("covar_pop", x, y, partial(_covariance, 0)), min_samples).where(where)


def corr(x: Input, y: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The Pearson correlation coefficient of two columns: -1 to 1.

    A column that does not vary gives null, and so do fewer than two records with both values, or than
    `min_samples`. Returns double. Cost and errors as for `covar_samp`. Reference: Spark's `corr`.

    >>> corr("x", "y").label
    'corr(x, y)'
    """
    return enough(_pair("corr", x, y, _correlation), min_samples).where(where)


def regr_slope(y: Input, x: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The slope of the least-squares line through the records (x, y); the first column is the dependent one.

    An `x` that does not vary gives null, and so do fewer than `min_samples` records. Returns double. Cost and
    errors as for `covar_samp`. Reference: Spark's `regr_slope`.

    >>> regr_slope("y", "x").label
    'regr_slope(y, x)'
    """
    return enough(_pair("regr_slope", y, x, _slope), min_samples).where(where)


def regr_intercept(y: Input, x: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The intercept of the least-squares line through the records (x, y); the first column is the dependent one.

    An `x` that does not vary gives null, and so do fewer than `min_samples` records. Returns double. Cost and
    errors as for `covar_samp`. Reference: Spark's `regr_intercept`.

    >>> regr_intercept("y", "x").label
    'regr_intercept(y, x)'
    """
    return enough(_pair("regr_intercept", y, x, _intercept), min_samples).where(where)


def regr_r2(y: Input, x: Input, *, min_samples: int = 1, where: Condition = None) -> Bound:
    """The share of the variance of `y` that the least-squares line explains: the square of `corr`.

    An `x` that does not vary gives null, and so do fewer than `min_samples` records; otherwise a `y` that does not
    vary gives 1. Returns double. Cost and errors as for `covar_samp`. Reference: Spark's `regr_r2`.

    >>> regr_r2("y", "x").label
    'regr_r2(y, x)'
    """
    return enough(_pair("regr_r2", y, x, _explained), min_samples).where(where)


def _pair(name: str, first: str, second: str, lower: Callable[[Any], Array]) -> Bound:
    label = f"{name}({first}, {second})"
    return Bound(partial(_pair_of, label, lower), (first, second), label)


def _pair_of(label: str, lower: Callable[[Any], Array], first: str, second: str) -> Aggregate:
    for kind in (first, second):
        require(label, NUMBERS, kind, AS_NUMBER)
    return Aggregate(
        constant((0, 0.0, 0.0, 0.0, 0.0, 0.0)),
        _add,
        _merge,
        lower=lower,
        partial=", ".join(_FIELDS),
        returns="double",
        columns=True,
        version="combinators.pair",
        meanings=tuple(_FIELDS),
    )


def _add(acc: Any, first: Array, second: Array) -> Any:
    x, y = (np.asarray(value).astype(np.float64) for value in (first, second))
    with np.errstate(invalid="ignore"):
        # The distance is 0 for numbers; for NaN and infinities it is NaN, as in Spark.
        alone_x, alone_y = x - x, y - y
    return _merge(acc, (np.ones(x.shape, np.int64), x, y, alone_x * alone_y, alone_x, alone_y))


def _merge(a: Any, b: Any) -> Any:
    n_a, x_a, y_a, together_a, m2x_a, m2y_a = a
    n_b, x_b, y_b, together_b, m2x_b, m2y_b = b
    n = n_a + n_b
    with np.errstate(all="ignore"):
        share = n_b / n
        dx, dy, weight = x_b - x_a, y_b - y_a, n_a * share
        merged = (
            # If one mean is infinite, the plain sum keeps its sign, in either order.
            np.where(np.isfinite(dx), x_a + dx * share, x_a + x_b),
            np.where(np.isfinite(dy), y_a + dy * share, y_a + y_b),
            together_a + together_b + dx * dy * weight,
            m2x_a + m2x_b + dx * dx * weight,
            m2y_a + m2y_b + dy * dy * weight,
        )
    kept = (unless_empty(n_a, n_b, left, right, new) for left, right, new in zip(a[1:], b[1:], merged, strict=True))
    return (n, *kept)


def _covariance(missing: int, acc: Any) -> Array:
    n, _, _, together, _, _ = acc
    return shown(together / np.maximum(n - missing, 1), n <= missing)


def _correlation(acc: Any) -> Array:
    n, _, _, together, m2_first, m2_second = acc
    spread = np.sqrt(m2_first) * np.sqrt(m2_second)
    still = (n < 2) | (spread == 0)
    return shown(together / np.where(still, 1.0, spread), still)


def _slope(acc: Any) -> Array:
    _, _, _, together, _, m2_x = acc
    return shown(together / np.where(m2_x == 0, 1.0, m2_x), m2_x == 0)


def _intercept(acc: Any) -> Array:
    _, mean_y, mean_x, together, _, m2_x = acc
    return shown(mean_y - together / np.where(m2_x == 0, 1.0, m2_x) * mean_x, m2_x == 0)


def _explained(acc: Any) -> Array:
    _, _, _, together, m2_y, m2_x = acc
    scaled = together / np.where(m2_x == 0, 1.0, m2_x) * (together / np.where(m2_y == 0, 1.0, m2_y))
    return shown(np.where(m2_y == 0, 1.0, scaled), m2_x == 0)
