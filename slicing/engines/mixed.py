"""Sliced and eager aggregates in one bucket: slices decide when windows fire, eager aggregates have a page per window.

The sliced bucket decides lateness, advances the progress, and yields frames of windows with the partials of its trees.
The partials of the eager aggregates are added to each frame from the pages of its windows. Both share one store and
one header::

    new records     partials of slices               records
    stored          slices, nodes                    a page for each window
    a frame         windows, keys, partials    +     partials of the same windows and keys
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from slicing.assembly.choice import EAGER
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.records import Records
from slicing.engines.eager.bucket import late_records
from slicing.engines.eager.window_pages import PAGE, PageOf, WindowPages
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.engines.sliced.family_windows import FamilyWindows
from slicing.engines.sliced.lookups import SliceLookup
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import WINDOW
from slicing.state.store import Store
from slicing.triggers.emission import ON_CLOSE
from slicing.triggers.lateness import Late, RefusedRows
from slicing.triggers.panes import Panes
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

    def join(self, frame: Windows, filled: Windows) -> Windows:
        """Return the windows with all aggregates: `frame` has the sliced ones, `filled` the eager ones."""
        return replace(
            frame,
            partials=self._in_order(frame.partials, filled.partials),
            dictionaries=self._in_order(frame.dictionaries, filled.dictionaries),
        )

    def _in_order(self, sliced: Sequence[Item], eager: Sequence[Item]) -> list[Item]:
        at: Mapping[int, Item] = dict(zip(self.sliced, sliced, strict=True)) | dict(zip(self.eager, eager, strict=True))
        return [at[i] for i in range(len(at))]


def joined(
    split: Split, frame: Windows, pages: WindowPages, aligned: Sequence[WindowPages] = (), page_of: PageOf = PAGE
) -> Windows:
    """Return a frame of the sliced aggregates with the partials of the eager ones, from the pages of its family.

    `aligned` has the pages of the aligned families.
    """
    filled = pages.filled(frame, lambda window: page_of(pages, window))
    old = frame.old and joined(split, frame.old, pages, aligned, WindowPages.before)
    sides = zip(frame.aligned, aligned, strict=True)
    return replace(
        split.join(frame, filled), old=old, aligned=tuple(joined(split, *side, page_of=page_of) for side in sides)
    )


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
        for each in self.families:
            each.compared, each.whole = shape.over(each.family), partial(self._whole, each)

    @of_stage(ASSEMBLE)
    def accept(self, shipped: Sequence[Block | Records]) -> Late[list[Records]]:  # type: ignore[override]
        """Keep the new records of open windows; return and count the late ones. Lateness is decided per slice."""
        late = super().accept([each for each in shipped if isinstance(each, Block)])
        batches = [each for each in shipped if isinstance(each, Records)]
        for each, pages in zip(self.families, self.windows, strict=True):
            for records in batches:
                pages.add(records, each.state.first_accepting, each.state.next_to_fire)
        return Late(
            late.all,
            late.some,
            tuple(
                RefusedRows(
                    late_records(each.family, batches, refused.first_accepting),
                    refused.first_accepting,
                    self.head.watermark,
                )
                for each, refused in zip(self.families, late.refused, strict=True)
            ),
            late.first_ends,
        )

    def take_history(self, shipped: Sequence[Block | Records], until: int) -> None:
        """Store the slices, and fold the records into the windows that are open."""
        super().take_history([each for each in shipped if isinstance(each, Block)], until)
        for each, pages in zip(self.families, self.windows, strict=True):
            for records in shipped:
                if isinstance(records, Records):
                    pages.add(records, each.state.retained_from, each.state.retained_from)

    def touched(self) -> Panes:
        """Return the open windows that hold a new row, with all aggregates."""
        return super().touched().mapped(self._joined)

    def newest(self) -> Panes:
        """Return the latest windows, with all aggregates."""
        return super().newest().mapped(self._joined)

    def closing(self) -> Panes:
        """Return the windows that close, with all aggregates."""
        return super().closing().mapped(self._joined)

    def late(self) -> Panes:
        """Return the windows that have fired and hold a new row, with all aggregates."""
        late = super().late()
        return Panes(
            late.mapped(self._joined).results,
            late.mapped(self._joined).replacing,
            late.mapped(lambda frames: self._joined(frames, WindowPages.alone)).alone,
        )

    def _looked_up(self, at: SliceLookup) -> Iterator[Windows]:
        return self._joined(super()._looked_up(at))

    @property
    def _looked_up_from(self) -> list[int]:
        """The first accepting window of each family: the pages of earlier windows lack later records."""
        return [each.state.first_accepting for each in self.families]

    def _waiting(self, marks: Block) -> Panes:
        return super()._waiting(marks).mapped(self._joined)

    def _panes_of(self, each: FamilyWindows) -> Callable[[Block], Panes]:
        panes = super()._panes_of(each)
        return lambda marks: panes(marks).mapped(self._joined)

    # `on_change` compares all results, so frames are joined before they are compared.

    def _whole(self, progress: FamilyWindows, frame: Windows, rows: Block) -> Windows:
        """Return a frame and its aligned ones with the partials of all aggregates."""
        return self._join(progress, progress.complete(frame, rows), PAGE)

    def _joined(self, frames: Iterator[Windows], page_of: PageOf = PAGE) -> Iterator[Windows]:
        return (self._join(self.families[frame.family], frame, page_of) for frame in frames)

    def _join(self, progress: FamilyWindows, frame: Windows, page_of: PageOf) -> Windows:
        aligned = [self.windows[each.number] for each in progress.aligned_families]
        return joined(self.split, frame, self.windows[progress.number], aligned, page_of)

    def _forget_other_triggers(self) -> None:
        for each, pages in zip(self.families, self.windows, strict=True):
            pages.remove_before(each.state.retained_from)
        super()._forget_other_triggers()

    def check(self) -> None:
        """Assert the invariants between header and pages, of slices and of windows."""
        super().check()
        for each, pages in zip(self.families, self.windows, strict=True):
            assert all(window >= each.state.retained_from for window in pages.held()), "expired windows are removed"
