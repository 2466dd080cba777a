"""`early(...)`: open windows of keys that got records since they went out, at ticks or after so many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from slicing.assembly.results import Windows
from slicing.content.block import Block
from slicing.engines.dirty_set import pending
from slicing.engines.sliced.emitting import Emitting
from slicing.engines.sliced.family_windows import Walker
from slicing.engines.sliced.slices import Slices
from slicing.state.format.list_names import EARLY, PENDING
from slicing.state.lists import PageLists
from slicing.triggers.emission import Emission


class Early(Emitting):
    """Windows go out while they are open, and when they close as under `on_close()`."""

    own = (f"{EARLY} ",)

    def __init__(self, emission: Emission, walkers: Sequence[Walker], slices: Slices):
        super().__init__(emission, walkers, slices)
        marks = PageLists(slices.pages, EARLY, slices.shape.select(()))
        self.pending = pending(emission, slices.head, marks, slices.recent.beside.get(PENDING))

    def after(self, came: Block, now: int) -> Iterator[Windows]:
        """Open windows that got a record since they went out last, if it is time."""
        assert self.pending is not None
        due = self.pending.due(came, min(walker.oldest for walker in self.walkers), now)
        if len(due):
            for walker in self.walkers:
                for frame in walker.shown(walker.touched(due, walker.walk.done)):
                    yield replace(frame, kind="early")

    def kept(self) -> Mapping[str, Block]:
        """The marks."""
        assert self.pending is not None
        return {PENDING: self.pending.kept} if self.pending.kept else {}
