"""Accumulation modes: what a firing says of the firings of its window before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from slicing.triggers.panes import Panes


class Accumulation(Protocol):
    """One mode; `retracts` says whether rows carry the result that they replace."""

    retracts: bool
    option: str  # of the public call

    def rows(self, panes: Panes) -> Iterator[Any]:
        """The windows of some pairs as this mode has them."""


class Accumulating:
    """The result of all records of a window so far."""

    retracts, option = False, ""

    def rows(self, panes: Panes) -> Iterator[Any]:
        """The results now."""
        return panes.results()


class Retracting:
    """The result of all records so far, together with the result that it replaces."""

    retracts, option = True, "old"

    def rows(self, panes: Panes) -> Iterator[Any]:
        """The results now, with those of before."""
        return panes.replacing()


class Discarding:
    """The result of the new records alone."""

    retracts, option = False, "discarding"

    def rows(self, panes: Panes) -> Iterator[Any]:
        """The results of the new records."""
        return panes.alone()


ACCUMULATING, RETRACTING, DISCARDING = Accumulating(), Retracting(), Discarding()
