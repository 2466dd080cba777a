"""List the nodes of a tree that a window is combined from, by arithmetic alone; no partial is read."""

from __future__ import annotations

from typing import NamedTuple

from slicing.assembly.choice import outer_group_length
from slicing.assembly.trees.cache import TOTAL
from slicing.assembly.trees.node_keys import RUN, START, rest_from, suffix_from
from slicing.windows.families.family import RUNNING, Family, regular


class Covering(NamedTuple):
    """A node: its name in its tree, its first slice, and the slice after its last one."""

    name: str
    first: int
    end: int


def covering(family: Family, tree: str, window: int) -> list[Covering]:
    """Return the nodes of a tree that a window is combined from, in the order of time; none if it combines slices.

    `tree` is one of `assembly.choice.TREES`, or a value of `Family.assembled`.
    """
    first, end = int(family.first_slice(window)), int(family.end_slice(window))
    if tree in ("two_layer", RUNNING):
        return [Covering(TOTAL, first, end)]
    if tree != "three_layer" or family.step is None:
        return []
    length, outer = regular(family).slices_per_group, outer_group_length(regular(family))
    oldest, newest = first // length, (end - 1) // length
    if oldest == newest:
        return []
    outer_end = min(newest, ((oldest + 1) // outer + 1) * outer) if outer > 0 else newest
    found = [
        Covering(suffix_from(first).name, first, (oldest + 1) * length),
        Covering(rest_from(oldest + 1).name, (oldest + 1) * length, outer_end * length),
        Covering(START.name, outer_end * length, newest * length),
        Covering(RUN.name, newest * length, end),
    ]
    return [node for node in found if node.first < node.end]
