"""Choose the method by which the windows of a family close, by the kind of the family only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from slicing.assembly.results import Windows
from slicing.engines.sliced.closing import CloseRange, Closing, at_once
from slicing.engines.sliced.running_totals import RunningClose
from slicing.engines.sliced.tailed_close import TailedClose
from slicing.windows.families.family import RUNNING, RUNS, TAILED


class Close(Protocol):
    """The interface of one close of a bucket."""

    @property
    def leaves_nodes(self) -> bool:
        """Whether its cached nodes are those for the next window to close."""

    def windows(self) -> Iterator[Windows]:
        """Yield all windows that hold a record, in frames of bounded size."""


class FromSlices:
    """A close of windows with different numbers of slices: each is assembled from its slices, which are read once."""

    leaves_nodes = False

    def __init__(self, close_range: CloseRange):
        self.close_range = close_range

    def windows(self) -> Iterator[Windows]:
        """Yield all windows that hold a record, in frames of bounded size."""
        return (frame for frame, _ in at_once(self.close_range))


CLOSES: dict[str, type[Closing | RunningClose | FromSlices]] = {
    "": Closing,
    RUNNING: RunningClose,
    TAILED: TailedClose,
    RUNS: FromSlices,
}
"""The class of close for each way in which the windows of a family are assembled."""


def close_of(close_range: CloseRange) -> Close:
    """Return the close of a family's windows; windows of trees without nodes are assembled from slices."""
    assembled = RUNS if set(close_range.trees) <= {RUNS} else close_range.shape.family.assembled
    return CLOSES[assembled](close_range)
