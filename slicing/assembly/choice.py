"""Choose the tree that assembles the windows of an aggregate."""

from __future__ import annotations

import numpy as np

from slicing.aggregates.kernel import Kernel
from slicing.windows.families.family import RUNS, TAILED, Family, Regular
from slicing.windows.families.tailed import tailed

FEW_SLICES = 4
"""Up to this number of slices per window, recomputing is never slower than a tree."""
TREES = ("two_layer", "three_layer", "recompute")
EAGER = "eager"
EAGER_RATIO = 100
"""With more windows per record than this, the eager plan is used only on request."""


def choose(kernel: Kernel, family: Family) -> str:
    """Return the assembly method of an aggregate: one of `TREES`, `EAGER`, or a value of `Family.assembled`.

    The method is recompute for few slices, two-layer with an exact `invert`, otherwise three-layer. It is eager without
    `combine`, or if the aggregate asks for it. If windows differ in their number of slices, the family determines the
    method; windows with a tail use the tree of their whole tails. Aggregates that keep records use `RUNS`.
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
    """Return the largest number of slices per window for which no tree is used; an advance may have several slices."""
    step = family.step or 1
    return FEW_SLICES * step if step > 2 else FEW_SLICES


def is_additive(kernel: Kernel) -> bool:
    """Return whether `combine` is `np.add` and `invert` is `np.subtract` in every field of the partial.

    A running total is then a single cumulative sum.
    """
    combine, invert = kernel.combine_ufuncs, kernel.invert_ufuncs
    return (
        combine is not None
        and invert is not None
        and all(ufunc is np.add for ufunc in combine)
        and all(ufunc is np.subtract for ufunc in invert)
    )


def outer_group_length(family: Regular) -> int:
    """Return the number of slice groups in an outer group (the top layer): the fewest whole ones inside any window."""
    return (family.per_window - 1) // family.slices_per_group - 1
