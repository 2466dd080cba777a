"""Random samples of the values of a window in an Apache DataSketches sketch, with a bounded error of the rank."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from combinators._common import Array
from slicing.errors import MissingRequirement

_FEWEST, _MOST = 8, 65_535
_LARGEST = np.finfo(np.float64).max


def check_installed(label: str) -> None:
    """Raise MissingRequirement if `datasketches` is not installed."""
    if find_spec("datasketches") is None:
        raise MissingRequirement(
            f"`{label}` needs the package `datasketches`, which is not installed. Install the extra: "
            'pip install "spark-slicing[sketches]", where Spark\'s workers run too.'
        )


def samples_for(accuracy: int) -> int:
    """Return the parameter k of a sketch with ranks within 1 / accuracy, from the error that DataSketches states."""
    return min(_MOST, max(_FEWEST, math.ceil(math.pow(2.296 * accuracy, 1 / 0.9021))))


def gathered(samples: int, starts: Array, value: Any) -> Array:
    """Return the sketches of runs of values, `object[runs]` of bytes."""
    from datasketches import kll_doubles_sketch

    values = np.ma.getdata(value).ravel().astype(np.float64)
    # A sketch takes no NaN, which is the largest value here: the largest values each move down by one.
    values = np.where(values == _LARGEST, np.nextafter(_LARGEST, 0), np.where(values == np.inf, _LARGEST, values))
    values = np.where(np.isnan(values), np.inf, values)
    made = np.empty(len(starts), object)
    for at, part in enumerate(np.split(values, starts[1:])):
        sketch = kll_doubles_sketch(samples)
        sketch.update(part)
        made[at] = sketch.serialize()
    return made


@dataclass(frozen=True)
class Merged:
    """`combine` of sketches; `stored_as` identifies them in the state."""

    stored_as: str

    def __call__(self, a: Array, b: Array) -> Array:
        from datasketches import kll_doubles_sketch

        joined = np.empty(a.shape, object)
        flat = joined.reshape(-1)
        for at, (one, other) in enumerate(zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)):
            if not (one and other):
                flat[at] = one or other
                continue
            sketch = kll_doubles_sketch.deserialize(one)
            sketch.merge(kll_doubles_sketch.deserialize(other))
            flat[at] = sketch.serialize()
        return joined


def quantiles(partials: Array, shares: tuple[float, ...], least: int = 1) -> tuple[Array, Array]:
    """Return a mask of sketches of fewer than `least` values, and for the others a column of quantiles per share."""
    from datasketches import kll_doubles_sketch

    few = np.ones(len(partials), dtype=bool)
    found = np.zeros((len(partials), len(shares)))
    for at, partial in enumerate(partials.tolist()):
        if partial and (sketch := kll_doubles_sketch.deserialize(partial)).n >= least:
            few[at] = False
            found[at] = sketch.get_quantiles(list(shares), True)
    found = np.where(np.isposinf(found), np.nan, np.where(found == _LARGEST, np.inf, found))
    return few, found
