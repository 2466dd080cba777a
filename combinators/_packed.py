"""Partials of many equal numbers in one binary value of fixed length, seen by numpy as one more dimension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from combinators._common import Array, constant
from slicing.aggregates.aggregate import Aggregate, Gathered


def unpacked(partials: Array, dtype: DTypeLike) -> Array:
    """The numbers of partials, along a new last dimension."""
    width = partials.itemsize // np.dtype(dtype).itemsize
    numbers: Array = np.ascontiguousarray(partials).reshape(-1).view(dtype).reshape(*partials.shape, width)
    return numbers


def packed(numbers: Array) -> Array:
    """Partials of the numbers along the last dimension."""
    *shape, width = numbers.shape
    flat = np.ascontiguousarray(numbers).reshape(-1)
    partials: Array = flat.view(f"V{width * numbers.itemsize}").reshape(shape)
    return partials


def counters(
    width: int, stored_as: str, gather: Callable[..., Array], lower: Callable[[Array], Any], returns: str
) -> Aggregate:
    """An aggregate of `width` counts, which add and subtract exactly; `stored_as` is what the state depends on."""
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
    """`combine` of counts, or `invert`, place by place; `stored_as` is what the state depends on."""

    ufunc: np.ufunc
    stored_as: str

    def __call__(self, a: Array, b: Array) -> Array:
        return packed(self.ufunc(unpacked(a, np.int64), unpacked(b, np.int64)))


def tallied(starts: Array, places: Array, width: int) -> Array:
    """Partials of runs of records: how many have each place, from 0 to `width` - 1; other places are left out."""
    cells = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(places))))
    inside = (places >= 0) & (places < width)
    at = cells * width + places
    counts = np.bincount(at if inside.all() else at[inside], minlength=len(starts) * width)
    return packed(counts.astype(np.int64).reshape(-1, width))
