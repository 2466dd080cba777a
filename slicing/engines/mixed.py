"""Sliced and eager aggregates in one bucket: slices decide when windows fire, eager aggregates have a page per window.

The sliced bucket decides lateness, advances the progress, and yields frames of windows with the partials of its trees.
The partials of the eager aggregates are added to each frame from the pages of its windows. Both share one store and
one header::

    new records     partials of slices               records
    stored          slices, nodes                    a page for each window
    a frame         windows, keys, partials    +     partials of the same windows and keys
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from slicing.assembly.choice import EAGER
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.records import Records
from slicing.engines.eager.bucket import refused_records
from slicing.engines.eager.window_pages import WindowPages
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.engines.sliced.lookups import SliceLookup
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import WINDOW
from slicing.state.store import Store
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import Late
from slicing.triggers.panes import ALL
from slicing.triggers.trigger import Trigger

Item = TypeVar("Item")


@dataclass(frozen=True)
class Split:
    """The aggregates of a call by their plan: sliced or eager."""

    trees: tuple[str, ...]

    @property
    def sliced(self) -> tuple[int, ...]:
        """The positions of the aggregates that are assembled from slices."""
        return tuple(i for i, tree in enumerate(self.trees) if tree != EAGER)

    @property
    def eager(self) -> tuple[int, ...]:
        """The positions of the aggregates that follow the eager plan."""
        return tuple(i for i, tree in enumerate(self.trees) if tree == EAGER)

    def joined(self, frame: Windows, pages: WindowPages, seen: str = ALL) -> Windows:
        """Return a frame of the sliced aggregates with those of the eager ones, from the pages of its family."""
        filled = pages.filled(frame, partial(pages.read, seen=seen))
        return replace(
            frame,
            partials=self._in_order(frame.partials, filled.partials),
            dictionaries=self._in_order(frame.dictionaries, filled.dictionaries),
        )

    def _in_order(self, sliced: Sequence[Item], eager: Sequence[Item]) -> list[Item]:
        at: Mapping[int, Item] = dict(zip(self.sliced, sliced, strict=True)) | dict(zip(self.eager, eager, strict=True))
        return [at[i] for i in range(len(at))]


class MixedBucket(SlicedBucket):
    """One bucket of a call in which some aggregates are eager.

    `trees` has one tree per aggregate, EAGER for eager ones, for one family after another. `arguments` has, for each
    aggregate, the positions of its columns among the values.
    """

    def __init__(
        self,
        shape: Shape,
        trees: Sequence[str],
        arguments: Sequence[Sequence[int]],
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        trigger: Trigger = ON_CLOSE,
        wide: bool = False,
    ):
        count = len(shape.kernels)
        self.split = split = Split(tuple(trees[:count]))
        sliced = [tree for tree in trees if tree != EAGER]
        super().__init__(shape.select(split.sliced), sliced, grace, fingerprint, store, trigger, wide)
        shape = self.known(shape)
        eager, chosen = [arguments[i] for i in split.eager], shape.select(split.eager)
        self.windows = [
            WindowPages(chosen.over(each.family), eager, self.pages, each.prefix, trigger.accumulation)
            for each in self.families
        ]
        self.others = tuple(f"{each.prefix}{WINDOW} " for each in self.families)
        for each, pages in zip(self.families, self.windows, strict=True):
            each.compared, each.join = shape.over(each.family), partial(self._joined, pages)

    @of_stage(ASSEMBLE)
    def accept(self, shipped: Sequence[Block | Records]) -> Late[list[Records]]:  # type: ignore[override]
        """Keep the new records of open windows; return and count the late ones. Lateness is decided per slice."""
        late = super().accept([each for each in shipped if isinstance(each, Block)])
        batches = [each for each in shipped if isinstance(each, Records)]
        for each, pages in zip(self.families, self.windows, strict=True):
            for records in batches:
                pages.add(records, each.state.first_accepting, each.state.next_to_fire)
        refused = refused_records(self.families, batches, self.head.watermark)
        return Late(late.all, late.some, refused, late.first_ends)

    def take_history(self, shipped: Sequence[Block | Records], until: int) -> None:
        """Store the slices, and fold the records into the windows that are open."""
        super().take_history([each for each in shipped if isinstance(each, Block)], until)
        for each, pages in zip(self.families, self.windows, strict=True):
            for records in shipped:
                if isinstance(records, Records):
                    pages.add(records, each.state.retained_from, each.state.retained_from)

    def _joined(self, pages: WindowPages, frame: Windows, seen: str) -> Windows:
        return self.split.joined(frame, pages, seen)

    def _looked_up(self, at: SliceLookup) -> Iterator[Windows]:
        return (self.families[frame.family].joined(frame) for frame in super()._looked_up(at))

    @property
    def _looked_up_from(self) -> list[int]:
        """The first accepting window of each family: the pages of earlier windows lack later records."""
        return [each.state.first_accepting for each in self.families]

    def _forget_other_triggers(self) -> None:
        for each, pages in zip(self.families, self.windows, strict=True):
            pages.remove_before(each.state.retained_from)
        super()._forget_other_triggers()

    def check(self) -> None:
        """Assert the invariants between header and pages, of slices and of windows."""
        super().check()
        for each, pages in zip(self.families, self.windows, strict=True):
            assert all(window >= each.state.retained_from for window in pages.held()), "expired windows are removed"
