"""Which tree assembles an aggregate's windows."""

from __future__ import annotations

import numpy as np

from slicing.aggregates.kernel import Kernel
from slicing.windows.families.family import RUNS, TAILED, Family, Regular
from slicing.windows.families.tailed import tailed

FEW_SLICES = 4
"""Up to this many slices per window recomputing is never slower than a tree."""
TREES = ("two_layer", "three_layer", "recompute")
EAGER = "eager"
EAGER_RATIO = 100
"""With more windows than this for a record, eager has to be asked for."""


def choose(kernel: Kernel, family: Family) -> str:
    """The tree of an aggregate: recompute for few slices, two-layer with an exact `invert`, else three-layer.

    Windows that differ in slices have one way, whatever the aggregate, which the family knows; of those with a coarse
    start it is the tree of their whole tails. Without `combine`, or if
    the aggregate says so, there is no tree: it is eager.
    """
    if kernel.aggregate.combine is None or kernel.aggregate.eager:
        return EAGER
    if kernel.aggregate.keeps_records:
        return RUNS
    if family.assembled == TAILED:
        return choose(kernel, tailed(family).wholes)
    if family.assembled:
        return family.assembled
    if family.longest <= few_slices(family):
        return "recompute"
    return "two_layer" if kernel.aggregate.invert is not None else "three_layer"


def few_slices(family: Family) -> int:
    """Return the number of slices per window up to which there is no tree; an advance may have several slices."""
    step = family.step or 1
    return FEW_SLICES * step if step > 2 else FEW_SLICES


def is_additive(kernel: Kernel) -> bool:
    """Whether partials are added and subtracted field by field, so that a running total can be one cumulative sum."""
    combine, invert = kernel.combine_ufuncs, kernel.invert_ufuncs
    return (
        combine is not None
        and invert is not None
        and all(ufunc is np.add for ufunc in combine)
        and all(ufunc is np.subtract for ufunc in invert)
    )


def group_length(family: Regular) -> int:
    """Stripes in a group, the top layer of the tree: the least number of whole stripes inside any window."""
    return (family.per_window - 1) // family.stripe - 1
