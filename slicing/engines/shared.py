"""Results that share fields: a bucket keeps groups of fields, and what it yields has the partials of each result.

what came     groups of fields
kept          groups; or, where a checkpoint has them so, all fields of each result
a frame       the fields of each result, those of one group being the same arrays
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from slicing.aggregates.sharing import Sharing
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.engines.engine import Moment
from slicing.engines.sliced.bucket import Bucket
from slicing.engines.sliding.bucket import SlidingBucket
from slicing.errors import StateMismatch
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.header import SAME
from slicing.state.store import Store
from slicing.triggers.emission import Emission
from slicing.triggers.lateness import Late


@dataclass(frozen=True)
class FieldGroups:
    """The shape and trees of results, and how they share fields."""

    shape: Shape
    trees: tuple[str, ...]
    sharing: Sharing

    @cached_property
    def stored(self) -> Shape:
        """The shape of what is kept: a kernel for each group."""
        kernels = self.sharing.kernels(self.shape.kernels)
        return replace(self.shape, kernels=kernels, same=self.sharing.same)

    @property
    def stored_trees(self) -> tuple[str, ...]:
        """The tree of each group, of family after family."""
        count = len(self.shape.kernels)
        families = (self.trees[start : start + count] for start in range(0, len(self.trees), count))
        return tuple(tree for trees in families for tree in self.sharing.select(trees))

    def fingerprint(self, of_results: Fingerprint) -> Fingerprint:
        """That of a query whose results are the leaders alone: what is stored is the same."""
        results = [dict(result) for result in self.sharing.select(of_results.identity["results"])]
        for (group, field), (other, _) in self.sharing.same.items():
            results[group]["partial"] = [*results[group]["partial"]]
            results[group]["partial"][field] += f"{SAME}{other + 1}"
        return replace(of_results, identity={**of_results.identity, "results": results})

    def block(self, block: Block) -> Block:
        """A block of groups as one of results."""
        dictionaries = self._dictionaries(block.dictionaries)
        return replace(block, partials=self.sharing.partials(block.partials), dictionaries=dictionaries)

    def late(self, late: Late[Block]) -> Late[Block]:
        """What was refused of groups, as of results."""
        return replace(late, refused=tuple(replace(each, rows=self.block(each.rows)) for each in late.refused))

    def windows(self, windows: Windows) -> Windows:
        """Windows of groups as windows of results."""
        return replace(
            windows,
            partials=self.sharing.partials(windows.partials),
            dictionaries=self._dictionaries(windows.dictionaries),
            old=windows.old and self.windows(windows.old),
            beside=tuple(map(self.windows, windows.beside)),
        )

    def _dictionaries(self, of_groups: Sequence[object]) -> list[object]:
        pairs = zip(self.sharing.views, self.shape.kernels, strict=True)
        return [None if own.no_dictionary is None else of_groups[view.group] for view, own in pairs]


class SharedBucket(Bucket):
    """A bucket of groups of fields, used as `Bucket` is; windows and late rows have those of each result."""

    def __init__(self, grouped: FieldGroups, grace: int, fingerprint: Fingerprint, *more: Any):
        super().__init__(grouped.stored, grouped.stored_trees, grace, grouped.fingerprint(fingerprint), *more)
        self.grouped = grouped

    def add(self, blocks: Sequence[Block]) -> Late[Block]:
        """`Bucket.add` of blocks of groups."""
        return self.grouped.late(super().add(blocks))

    def close(self, moment: Moment) -> Iterator[Windows]:
        """`Bucket.close`."""
        return map(self.grouped.windows, super().close(moment))


class SharedSlidingBucket(SlidingBucket):
    """The same of sliding windows."""

    def __init__(self, grouped: FieldGroups, grace: int, fingerprint: Fingerprint, store: Store, emission: Emission):
        super().__init__(grouped.stored, grace, grouped.fingerprint(fingerprint), store, emission)
        self.grouped = grouped

    def add(self, blocks: Sequence[Block]) -> Late[Block]:
        """`SlidingBucket.add` of blocks of groups."""
        return self.grouped.late(super().add(blocks))

    def close(self, moment: Moment) -> Iterator[Windows]:
        """`SlidingBucket.close`."""
        return map(self.grouped.windows, super().close(moment))


class UnsharedBucket(Bucket):
    """The same for a checkpoint in which each result has fields of its own, as before they were shared."""

    def __init__(self, grouped: FieldGroups, grace: int, fingerprint: Fingerprint, *more: Any):
        super().__init__(grouped.shape, grouped.trees, grace, fingerprint, *more)
        self.grouped = grouped

    def add(self, blocks: Sequence[Block]) -> Late[Block]:
        """`Bucket.add` of blocks of groups."""
        return super().add([self.grouped.block(block) for block in blocks])


def shared_bucket(
    grouped: FieldGroups, grace: int, fingerprint: Fingerprint, store: Store, emission: Emission, wide: bool = False
) -> SharedBucket | UnsharedBucket:
    """The bucket in the layout that its checkpoint has. Raises StateMismatch, which names what a new one would have."""
    try:
        return SharedBucket(grouped, grace, fingerprint, store, emission, wide)
    except StateMismatch as mismatch:
        try:
            return UnsharedBucket(grouped, grace, fingerprint, store, emission, wide)
        except StateMismatch:
            raise mismatch from None
