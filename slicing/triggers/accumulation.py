"""Accumulation modes: what a firing says of the firings of its window before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from slicing.triggers.panes import Panes


class Accumulation(Protocol):
    """One mode: whether rows carry the result that they replace, or that of new records alone."""

    retracts: bool
    discards: bool
    option: str  # of the public call

    def rows(self, panes: Panes) -> Iterator[Any]:
        """The windows of some pairs as this mode has them."""

    def note(self, before: Callable[[], Any], alone: Callable[[], Any]) -> None:
        """Note what rows of a window need of late records: what it held before them, or what they make alone."""


class Accumulating:
    """The result of all records of a window so far."""

    retracts, discards, option = False, False, ""

    def rows(self, panes: Panes) -> Iterator[Any]:
        """The results now."""
        return panes.results()

    def note(self, before: Callable[[], Any], alone: Callable[[], Any]) -> None:
        """Nothing."""


class Retracting:
    """The result of all records so far, together with the result that it replaces."""

    retracts, discards, option = True, False, "old"

    def rows(self, panes: Panes) -> Iterator[Any]:
        """The results now, with those of before."""
        return panes.replacing()

    def note(self, before: Callable[[], Any], alone: Callable[[], Any]) -> None:
        """What the window held before."""
        before()


class Discarding:
    """The result of the new records alone."""

    retracts, discards, option = False, True, "discarding"

    def rows(self, panes: Panes) -> Iterator[Any]:
        """The results of the new records."""
        return panes.alone()

    def note(self, before: Callable[[], Any], alone: Callable[[], Any]) -> None:
        """What the late records make alone."""
        alone()


ACCUMULATING, RETRACTING, DISCARDING = Accumulating(), Retracting(), Discarding()
