"""The edges between stored slices that no merge has crossed: no stored row has records of both sides."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slicing.aggregates.arrays import Array
from slicing.windows.families.family import Family
from slicing.windows.time.slices import FOREVER


def start_before(family: Family, index: Array) -> Array:
    """Return for each slice the first slice of the last window that begins at or before it."""
    found: Array = family.first_slice(family.last_window(index))
    return found


def last_start(families: Iterable[tuple[Family, int | None]], index: Array) -> Array:
    """Return for each slice the last start of a window at or before it that no merge has crossed; -FOREVER without one.

    Each family has its `FamilyState.merged`: its earlier starts may have been crossed.
    """
    found = np.full(len(index), -FOREVER)
    for family, merged in families:
        start = start_before(family, index)
        found = np.where(start >= (-FOREVER if merged is None else merged), np.maximum(found, start), found)
    return found
