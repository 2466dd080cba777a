"""Numbers of slices: their type, their most, and the slices in a group. No clocks, no keys, no Spark."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Index = TypeVar("Index", int, NDArray[np.int64])
FOREVER = 1 << 62


def group_size(slices: int) -> int:
    """Return the number of slices in a slice group: the square root of the slices per window, at least 1."""
    return max(1, round(math.sqrt(slices)))
