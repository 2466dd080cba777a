"""What an engine is: one bucket over its store for the length of one micro-batch; and how its close begins.

One instance lives for one micro-batch: `add` what came, then run `close` to its end, which writes what is left. Nothing
else may be kept between the two, nor after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slicing.assembly.results import Windows
from slicing.state.format.header import Header
from slicing.state.pages import Pages
from slicing.triggers.emission import Emission, Every
from slicing.triggers.lateness import Late


@dataclass(frozen=True)
class Moment:
    """When a micro-batch is: its watermark, and the clock of its trigger where that is known; in microseconds."""

    watermark: int
    clock: int = 0


class Engine(Protocol):
    """One bucket in one micro-batch. `pages` are its state, `head` their header."""

    pages: Pages
    head: Header

    def add(self, shipped: Sequence[Any]) -> Late[Any]:
        """Judge what came, keep what open windows take, return and count what they refuse."""

    def close(self, moment: Moment) -> Iterator[Windows]:
        """Yield all that goes out in the micro-batch, then write the state that is left."""

    def extent(self) -> dict[str, int]:
        """How many open windows and slices the state spans; no page is read."""

    def check(self) -> None:
        """Assert the invariants between header and pages."""


def begin(head: Header, emission: Emission, moment: Moment) -> Moment:
    """Enter a micro-batch in the header; returns the moment to go by, as neither watermark nor clock steps back.

    But for a clock that steps back by more than an interval of `early(every=)`: it was wrong before, and ticks would
    wait for as long. A smaller step is waited for, or a tick would come twice. Where windows are by the clock the
    watermark is the greatest that was seen, and stays.
    """
    clock = max(head.clock, moment.clock)
    if isinstance(emission.when, Every) and moment.clock + emission.when.microseconds < head.clock:
        clock = moment.clock
    head.watermark, head.clock = max(head.watermark, moment.watermark), clock
    head.revision += not emission.once
    return Moment(head.watermark, clock)
