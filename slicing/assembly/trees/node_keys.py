"""Keys of the nodes of the three-layer tree, and their names in the state."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Part(Enum):
    """The part of the tree that a node covers; the value is its name in stored state and must not change."""

    SUFFIX = "suffix"
    """The slices of the oldest slice group from slice `NodeKey.at` on."""
    REST = "rest"
    """The slice groups of the oldest outer group from slice group `NodeKey.at` on."""
    GROUP = "stripe"
    """The whole slice group `NodeKey.at`; its outer group is not the oldest yet."""
    START = "start"
    """The whole slice groups of the newest outer group."""
    RUN = "run"
    """The slices of the newest slice group that have entered."""
    BETWEEN = "between"
    """All whole slice groups of the window."""
    LATE_SUFFIX = "late suffix"
    """Late records of the oldest slice group, one row per slice."""
    LATE_BETWEEN = "late between"
    """Late records of the whole slice groups, one row per slice group."""


class NodeKey(NamedTuple):
    """A node: its part of the tree; also the number of its slice or slice group if the part has several nodes."""

    part: Part
    at: int | None = None

    @property
    def name(self) -> str:
        """The name of the node in the state.

        >>> NodeKey(Part.SUFFIX, -5).name, NodeKey(Part.LATE_SUFFIX).name
        ('suffix -5', 'late suffix')
        """
        return self.part.value if self.at is None else f"{self.part.value} {self.at}"

    @classmethod
    def named(cls, name: str) -> NodeKey:
        """Return the key of a node from its name in the state. Raises ValueError for an unknown name.

        >>> NodeKey.named("suffix -5").at, NodeKey.named("late suffix").at
        (-5, None)
        """
        part, _, at = name.rpartition(" ")
        return cls(_NUMBERED[part], int(at)) if part in _NUMBERED else cls(Part(name))


_NUMBERED = {part.value: part for part in (Part.SUFFIX, Part.REST, Part.GROUP)}

START, RUN, BETWEEN = NodeKey(Part.START), NodeKey(Part.RUN), NodeKey(Part.BETWEEN)
LATE_SUFFIX, LATE_BETWEEN = NodeKey(Part.LATE_SUFFIX), NodeKey(Part.LATE_BETWEEN)


def suffix_from(index: int) -> NodeKey:
    """Return the key of the node for the oldest slice group from slice `index` on."""
    return NodeKey(Part.SUFFIX, index)


def rest_from(group: int) -> NodeKey:
    """Return the key of the node for the oldest outer group from a slice group on."""
    return NodeKey(Part.REST, group)


def total_of(group: int) -> NodeKey:
    """Return the key of the node for a whole slice group."""
    return NodeKey(Part.GROUP, group)
