"""Which close a family has: the kind of the family decides, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from slicing.assembly.portions import InOrder
from slicing.assembly.results import Windows
from slicing.blocks.block import Shape
from slicing.engines.closing import Closing, at_once
from slicing.engines.running import RunningClose
from slicing.state.pages import Pages
from slicing.state.stripes import Stripes
from slicing.windows.family import RUNNING, RUNS


class Close(Protocol):
    """One close of a bucket."""

    @property
    def leaves_nodes(self) -> bool:
        """Whether what it caches is that of the next window to close."""

    def windows(self) -> Iterator[Windows]:
        """All windows that hold a record, in frames of bounded size."""


class FromSlices:
    """The close of windows that differ in slices: each is made of its slices, which are read once."""

    leaves_nodes = False

    def __init__(
        self,
        shape: Shape,
        trees: Sequence[str],
        pages: Pages,
        stripes: Stripes,
        fresh: InOrder,
        windows: tuple[int, int, int],
        cached: bool,
    ):
        self.shape, self.trees, self.stripes, self.fresh = shape, trees, stripes, fresh
        self.first, self.until, _ = windows

    def windows(self) -> Iterator[Windows]:
        """All windows that hold a record, in frames of bounded size."""
        for frame, _ in at_once(self.shape, self.trees, self.stripes, self.fresh, self.first, self.until):
            yield frame


CLOSES: dict[str, type[Closing | RunningClose | FromSlices]] = {"": Closing, RUNNING: RunningClose, RUNS: FromSlices}
"""By the way in which the windows of a family are assembled."""


def closing_of(
    shape: Shape,
    trees: Sequence[str],
    pages: Pages,
    stripes: Stripes,
    fresh: InOrder,
    windows: tuple[int, int, int],
    cached: bool,
) -> Close:
    """The close of a family's windows; for the arguments see `slicing.engines.closing.Closing`."""
    return CLOSES[shape.slicing.assembled](shape, trees, pages, stripes, fresh, windows, cached)
