"""Accumulation modes: how the row of a firing relates to the earlier firings of its window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from slicing.triggers.panes import Panes


class Accumulation(Protocol):
    """One accumulation mode."""

    retracts: bool  # whether rows also have the result that they replace
    option: str  # the argument of `on_close` that selects the mode

    def rows(self, panes: Panes) -> Iterator[Any]:
        """Yield the windows of some pairs with the results of this mode."""

    def note(self, before: Callable[[], Any], alone: Callable[[], Any]) -> None:
        """Store the data that late firings need, by calling `before`, `alone`, or neither.

        `before` stores the window without its delayed records, `alone` the partials of the delayed records only.
        """


class Accumulating:
    """The result of all records of a window so far."""

    retracts, option = False, ""

    def rows(self, panes: Panes) -> Iterator[Any]:
        """Yield the current results."""
        return panes.results()

    def note(self, before: Callable[[], Any], alone: Callable[[], Any]) -> None:
        """Store nothing."""


class Retracting:
    """The result of all records so far, together with the result that it replaces."""

    retracts, option = True, "old"

    def rows(self, panes: Panes) -> Iterator[Any]:
        """Yield the current results together with those that they replace."""
        return panes.replacing()

    def note(self, before: Callable[[], Any], alone: Callable[[], Any]) -> None:
        """Store the window without its delayed records."""
        before()


class Discarding:
    """The result of the new records alone."""

    retracts, option = False, "discarding"

    def rows(self, panes: Panes) -> Iterator[Any]:
        """Yield the results of the new records."""
        return panes.alone()

    def note(self, before: Callable[[], Any], alone: Callable[[], Any]) -> None:
        """Store the partials of the delayed records."""
        alone()


ACCUMULATING, RETRACTING, DISCARDING = Accumulating(), Retracting(), Discarding()
