"""Partials of many numbers of one type in a binary value of fixed length; numpy sees them as one more dimension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from combinators._common import Array, constant
from slicing.aggregates.aggregate import Aggregate, Gathered


def unpacked(partials: Array, dtype: DTypeLike) -> Array:
    """Return the numbers of partials, along a new last dimension."""
    width = partials.itemsize // np.dtype(dtype).itemsize
    numbers: Array = np.ascontiguousarray(partials).reshape(-1).view(dtype).reshape(*partials.shape, width)
    return numbers


def packed(numbers: Array) -> Array:
    """Return partials of the numbers along the last dimension."""
    *shape, width = numbers.shape
    flat = np.ascontiguousarray(numbers).reshape(-1)
    partials: Array = flat.view(f"V{width * numbers.itemsize}").reshape(shape)
    return partials


def counters(
    width: int, stored_as: str, gather: Callable[..., Array], lower: Callable[[Array], Any], returns: str
) -> Aggregate:
    """Return an aggregate of `width` counts, which add and subtract exactly; `stored_as` identifies it in the state."""
    return Aggregate(
        constant(bytes(8 * width)),
        Gathered(gather),
        Counts(np.add, stored_as),
        Counts(np.subtract, stored_as),
        lower,
        partial=f"counts binary({8 * width})",
        returns=returns,
        columns=True,
        view="limbs",
        meanings=(stored_as,),
    )


@dataclass(frozen=True)
class Counts:
    """`combine` or `invert` of counts, place by place; `stored_as` identifies them in the state."""

    ufunc: np.ufunc
    stored_as: str

    def __call__(self, a: Array, b: Array) -> Array:
        return packed(self.ufunc(unpacked(a, np.int64), unpacked(b, np.int64)))


def tallied(starts: Array, places: Array, width: int) -> Array:
    """Return partials of runs of records: the number of records per place 0 to `width` - 1; others are left out."""
    cells = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(places))))
    inside = (places >= 0) & (places < width)
    at = cells * width + places
    counts = np.bincount(at if inside.all() else at[inside], minlength=len(starts) * width)
    return packed(counts.astype(np.int64).reshape(-1, width))
