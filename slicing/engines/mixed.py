"""Both strategies in one bucket: slices decide when windows go out, and for some aggregates pages of windows are there.

The bucket of slices judges lateness, keeps time, and yields frames of windows with the partials of its trees. To each
frame the partials of the eager aggregates are added, from the pages of its windows, so that both are of the same
windows. All is in one store under one header::

    what came       partials of slices               records
    kept            slices, nodes                    a page for each window
    a frame         windows, keys, partials    +     partials of the same windows and keys
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from slicing.assembly.choice import EAGER
from slicing.assembly.results import Windows
from slicing.content.block import Block, Shape
from slicing.content.records import Records
from slicing.engines.eager.bucket import late_records
from slicing.engines.eager.window_pages import WindowPages
from slicing.engines.engine import Moment
from slicing.engines.sliced.bucket import Bucket
from slicing.profiling import ASSEMBLE, of_stage
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.format.list_names import WINDOW
from slicing.state.store import Store
from slicing.triggers.emission import CHANGED, ON_CLOSE, Emission
from slicing.triggers.lateness import Late, Refused

Item = TypeVar("Item")


@dataclass(frozen=True)
class Split:
    """The aggregates of a call by their strategy."""

    trees: tuple[str, ...]

    @property
    def sliced(self) -> tuple[int, ...]:
        """Positions of those that are assembled from slices."""
        return tuple(i for i, tree in enumerate(self.trees) if tree != EAGER)

    @property
    def eager(self) -> tuple[int, ...]:
        """Positions of those that every record is folded into."""
        return tuple(i for i, tree in enumerate(self.trees) if tree == EAGER)

    def join(self, frame: Windows, filled: Windows) -> Windows:
        """The windows of a frame of the sliced aggregates, with all: `filled` has the same ones of the eager ones."""
        return replace(
            frame,
            partials=self._in_order(frame.partials, filled.partials),
            dictionaries=self._in_order(frame.dictionaries, filled.dictionaries),
            old=frame.old and filled.old and self.join(frame.old, filled.old),
        )

    def _in_order(self, sliced: Sequence[Item], eager: Sequence[Item]) -> list[Item]:
        at: Mapping[int, Item] = dict(zip(self.sliced, sliced, strict=True)) | dict(zip(self.eager, eager, strict=True))
        return [at[i] for i in range(len(at))]


def join_all(split: Split, frames: Iterable[Windows], pages: WindowPages) -> Iterator[Windows]:
    """The frames of the sliced aggregates with the partials of the eager ones, one at a time."""
    return (split.join(frame, pages.fill(frame)) for frame in frames)


class MixedBucket(Bucket):
    """One bucket of a call of which some aggregates are eager, used as `sliced.bucket.Bucket` is.

    `trees` has EAGER for those, and `arguments` of each aggregate the positions of its columns among the values.
    """

    others = (f"{WINDOW} ",)

    def __init__(
        self,
        shape: Shape,
        trees: Sequence[str],
        arguments: Sequence[Sequence[int]],
        grace: int,
        fingerprint: Fingerprint,
        store: Store,
        emission: Emission = ON_CLOSE,
    ):
        split = Split(tuple(trees))
        sliced = [trees[i] for i in split.sliced]
        super().__init__(shape.select(split.sliced), sliced, grace, fingerprint, store, emission)
        self.split = split
        eager = [arguments[i] for i in split.eager]
        self.windows = WindowPages(shape.select(split.eager), eager, self.pages, emission)
        walker = self.walkers[0]
        walker.compared, walker.whole = shape, self._whole

    @of_stage(ASSEMBLE)
    def add(self, shipped: Sequence[Block | Records]) -> Late[list[Records]]:  # type: ignore[override]
        """Judge what came by its slices, keep what is of open windows, return and count the records refused."""
        late = super().add([each for each in shipped if isinstance(each, Block)])
        batches = [each for each in shipped if isinstance(each, Records)]
        for records in batches:
            self.windows.add(records, self.head.taking, self.head.done)
        rows = late_records(self.slicing, batches, late.refused[0].taking)
        return Late(late.all, late.some, (Refused(rows, late.refused[0].taking, self.head.watermark),))

    @of_stage(ASSEMBLE)
    def close(self, moment: Moment) -> Iterator[Windows]:
        """Yield all that goes out in a micro-batch, with all aggregates, then write the state that is left."""
        frames = super().close(moment)
        # Changes are of all results, so their frames were joined before they were compared.
        yield from frames if self.emission.which == CHANGED else join_all(self.split, frames, self.windows)

    def _whole(self, frame: Windows, rows: Block) -> Windows:
        """A frame with the partials of all aggregates."""
        return self.split.join(frame, self.windows.fill(frame))

    def _forget_other_emissions(self) -> None:
        self.windows.remove_before(self.head.kept)
        super()._forget_other_emissions()

    def check(self) -> None:
        """Assert the invariants between header and pages, of slices and of windows."""
        super().check()
        assert all(window >= self.head.kept for window in self.windows.held()), "expired windows are removed"
